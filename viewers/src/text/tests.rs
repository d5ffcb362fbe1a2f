//! Golden summaries of a report made by hand.

use mcad_report::{Interval, Load, Measured, Report};

use crate::sample::{in_order, report};
use crate::{Style, view, views};

fn render(report: &Report, name: &str, style: Style) -> String {
    let mut out = Vec::new();
    view(name).unwrap().write(report, style, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn summary_of_two_cpus() {
    insta::assert_snapshot!(render(&report(), "text", Style::plain()));
}

/// What bounds an in-order core is said cause by cause, also where parts are not modelled.
#[test]
fn an_in_order_core_has_a_cause_for_every_lost_slot() {
    let mut report = report();
    report.cpus = vec![in_order(1_000_000)];
    let text = render(&report, "text", Style::plain());
    for line in [
        "  bound by      not known; of what is modelled load-use 25 %",
        "        lost for load-use 25.0 %, pairing 12.5 %, write-back in order 12.5 %",
    ] {
        assert!(
            text.lines().any(|l| l.starts_with(line)),
            "{line} in {text}"
        );
    }
    let page = render(&report, "html", Style::plain());
    for what in [
        "<b>not known; of what is modelled load-use 25&nbsp;%</b>",
        "Lost for load-use 25.0 %, pairing 12.5 %, write-back in order 12.5 %",
    ] {
        assert!(page.contains(what), "{what} in {page}");
    }
}

#[test]
fn predictions_beside_a_measurement() {
    let charged_with = |charged: Option<&str>, model: Option<&str>, cpus: usize| {
        let mut report = report();
        report.cpus.truncate(cpus);
        report.run.measured = Some(Measured {
            host: "Some\u{1b}[2J CPU".into(),
            model: model.map(str::to_owned),
            source: "performance counter".into(),
            runs: 10,
            rejected: 1,
            cycles: 1_250_000,
            low: 1_240_000,
            high: 1_265_000,
            min: 1_230_000,
            interval: Some(Interval {
                low: 1_180_000,
                high: 1_340_000,
                percent: 95.0,
                mostly: "ticks".into(),
                asked_percent: 2.0,
            }),
            load: Some(Load {
                others: 2.94,
                cpus: 4,
                busy: true,
            }),
            not_from_exec: charged.map(str::to_owned),
            core_mhz: 3700.4,
        });
        let text = render(&report, "text", Style::plain());
        let start = text.find("Predicted and measured").unwrap();
        let end = text.find("\nWhere issue slots").unwrap();
        text[start..end].to_owned()
    };
    let with = |model, cpus| charged_with(None, model, cpus);
    insta::assert_snapshot!(with(None, 2));
    assert!(charged_with(Some("no such clock"), None, 2).contains("before it begins"));
    assert!(with(Some("skl"), 1).ends_with("  skl is the model of this CPU\n"));
    assert!(with(Some("glc"), 2).contains("glc is the model of this CPU; the other ratios"));
    assert!(with(Some("icl"), 2).contains("(--cpu icl is its model)"));
}

#[test]
fn incomplete_traces_say_so_first() {
    let mut report = report();
    report.program.complete = false;
    report.program.end = "emulator killed by signal 9".into();
    report.trace.lost_records = 5;
    report.trace.lost_reasons = vec!["a chunk is damaged".into()];
    report.cpus.clear();
    insta::assert_snapshot!(render(&report, "text", Style::plain()));
}

#[test]
fn lines_keep_to_the_width_and_hostile_names_are_harmless() {
    for width in [60, 80, 120, 200] {
        let style = Style {
            width,
            colour: false,
            functions: 12,
        };
        let text = render(&report(), "text", style);
        for table_line in text.lines().filter(|line| line.contains("libstdc++")) {
            assert!(table_line.chars().count() <= width, "{table_line}");
        }
        assert!(!text.contains('\x1b') && !text.contains('\u{202e}'));
    }
}

#[test]
fn json_reads_back_as_the_same_report() {
    let text = render(&report(), "json", Style::plain());
    let back: Report = serde_json::from_str(&text).unwrap();
    assert_eq!(back, report());
}

#[test]
fn every_view_has_its_own_name() {
    for view in views() {
        let same = views().iter().filter(|other| other.name() == view.name());
        assert_eq!(same.count(), 1);
    }
}
