//! Comparisons of reports made by hand.

mod options;

use proptest::prelude::*;

use mcad_report::{FunctionReport, LINES, LineReport, RegionReport, Report, SourceFile};

use super::*;
use crate::Style;
use crate::escape::escape;
use crate::sample::{in_order, report};

fn function(name: &str, module: &str, cycles: u64, fingerprint: &[&str]) -> FunctionReport {
    FunctionReport {
        name: name.into(),
        module: module.into(),
        cycles,
        instructions: cycles * 2,
        uops: cycles * 2,
        slots: None,
        near: None,
        fingerprint: fingerprint.iter().map(|hash| (*hash).to_owned()).collect(),
    }
}

/// A report of one CPU whose functions have all cycles but `rest`.
fn version(label: &str, functions: Vec<FunctionReport>, rest: u64) -> Version {
    let mut report: Report = report();
    report.cpus.truncate(1);
    let cpu = &mut report.cpus[0];
    cpu.cycles = functions.iter().map(|f| f.cycles).sum::<u64>() + rest;
    cpu.functions = functions;
    cpu.regions.clear();
    cpu.blocks.clear();
    cpu.lines.clear();
    report.run.sources.clear();
    Version {
        label: label.into(),
        report,
    }
}

fn check_sum(cpu: &CpuDiff) {
    let listed: i128 = cpu.functions.iter().map(|f| f.cycles.delta).sum();
    assert_eq!(listed + cpu.unattributed.delta, cpu.cycles.delta);
}

fn text(diff: &Diff) -> String {
    let mut out = Vec::new();
    text::write(diff, Style::plain(), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// On an in-order core the change is told cause by cause.
#[test]
fn in_order_cores_are_compared_by_cause() {
    let versions = [1_000_000, 1_200_000].map(|cycles| {
        let mut report = report();
        report.cpus = vec![in_order(1_000_000)];
        let cpu = &mut report.cpus[0];
        let more = cycles - cpu.cycles;
        cpu.cycles = cycles;
        cpu.topdown.slots += 2 * more;
        cpu.topdown.backend_core += 2 * more;
        cpu.slots.as_mut().unwrap().pairing += 2 * more;
        Version {
            label: format!("{cycles}.json"),
            report,
        }
    });
    let diff = compare(&versions).unwrap();
    let cpu = &diff.overall.cpus[0];
    assert_eq!(cpu.mostly(), Some(("pairing", 200_000)));
    let text = text(&diff);
    for row in ["pairing", "load-use", "write-back in order"] {
        let of_row = |line: &&str| line.trim_start().starts_with(row);
        assert!(text.lines().any(|line| of_row(&line)), "{row} in {text}");
    }
    assert!(text.contains("the change is mostly pairing"), "{text}");
    assert!(!text.contains("memory"), "{text}");
}

fn before() -> Version {
    version(
        "old.json",
        vec![
            function("parse", "prog", 500, &[]),
            function("emit.constprop.0", "prog", 200, &[]),
            function("same", "libc.so.6", 100, &[]),
            function("prog+0x1100", "prog", 90, &["a", "b", "c"]),
            function("prog+0x1900", "prog", 80, &["x"]),
            function("gone", "prog", 40, &[]),
            function("[libx.so.1]", "libx.so.1", 10, &[]),
        ],
        7,
    )
}

fn after() -> Version {
    version(
        "new.json",
        vec![
            function("parse", "prog2", 450, &[]),
            function("emit", "prog2", 300, &[]),
            function("same", "libc.so.6", 100, &[]),
            function("prog2+0x2200", "prog2", 120, &["a", "b", "d"]),
            function("prog2+0x2900", "prog2", 70, &["y"]),
            function("fresh<script>", "prog2", 60, &[]),
            function("[libx.so.2]", "libx.so.2", 15, &[]),
        ],
        3,
    )
}

#[test]
fn functions_are_found_again_and_deltas_add_up() {
    let diff = compare(&[before(), after()]).unwrap();
    let cpu = &diff.overall.cpus[0];
    check_sum(cpu);
    let by = |name: &str| cpu.functions.iter().find(|f| f.name == name).unwrap();
    assert_eq!(by("parse").matched_by, MatchedBy::Name);
    assert_eq!(by("emit").matched_by, MatchedBy::Clone);
    assert_eq!(by("prog2+0x2200").matched_by, MatchedBy::Code);
    assert_eq!(
        by("prog2+0x2200").previous_name.as_deref(),
        Some("prog+0x1100")
    );
    assert_eq!(by("[libx.so.2]").cycles.delta, 5);
    // One of 80 cycles before and one of 70 after: nobody knows what became of the first.
    let left = "[prog2: functions without names that were not matched, 1 before, 1 after]";
    assert_eq!(by(left).matched_by, MatchedBy::Nothing);
    assert_eq!((by(left).cycles.before, by(left).cycles.after), (80, 70));
    let [before, after] = cpu.matched;
    assert!((before - 900.0 / 1027.0).abs() < 1e-12);
    assert!((after - 985.0 / 1118.0).abs() < 1e-12);
    assert_eq!(by("gone").status, Status::Removed);
    assert_eq!(by("fresh<script>").status, Status::Added);
    assert!(cpu.functions.iter().all(|f| f.name != "same"));
    let sizes: Vec<i128> = cpu.functions.iter().map(|f| f.cycles.delta.abs()).collect();
    assert!(sizes.is_sorted_by(|a, b| a >= b), "{sizes:?}");
    let ratio = cpu.differential_throughput.unwrap();
    assert!((ratio - 1027.0 / 1118.0).abs() < 1e-12);
    insta::assert_snapshot!(text(&diff));
}

#[test]
fn what_changed_is_named() {
    let mut before = before();
    let cpu = &mut before.report.cpus[0];
    cpu.cycles = cpu.topdown.slots / 4;
    let mut after = before.clone();
    after.label = "new.json".into();
    let cpu = &mut after.report.cpus[0];
    cpu.cycles += 5_000;
    cpu.topdown.slots += 20_000;
    cpu.topdown.bad_speculation += 16_000;
    cpu.topdown.frontend += 4_000;
    cpu.branches.as_mut().unwrap().wrong_directions += 250;
    cpu.memory.as_mut().unwrap().loads.dram += 1;
    let diff = compare(&[before, after]).unwrap();
    let cpu = &diff.overall.cpus[0];
    assert_eq!(cpu.mostly(), Some(("bad_speculation", 4_000)));
    let of = |kind: &str| cpu.causes.iter().find(|c| c.kind == kind).unwrap();
    assert_eq!(of("mispredictions").counts.delta, 250);
    // A line from memory missed in each level before.
    for kind in ["l1d_misses", "l2_misses", "l3_misses"] {
        assert_eq!(of(kind).counts.delta, 1, "{kind}");
    }
    assert!(!of("instructions").counts.changed());
    let text = text(&diff);
    assert!(
        text.contains("mostly bad speculation: +4,000 cycles"),
        "{text}"
    );
    assert!(text.contains("mispredictions"), "{text}");
    let mut page = Vec::new();
    markdown::write(&diff, &mut page).unwrap();
    let page = String::from_utf8(page).unwrap();
    assert!(page.contains("| mispredictions |") && page.contains("| L3 misses |"));
    assert!(
        serde_json::to_string(&diff)
            .unwrap()
            .contains("\"l3_misses\"")
    );
}

#[test]
fn neighbours_and_overloads_are_found_again() {
    let near = |name: &str, module: &str, cycles, fingerprint: &[&str], near: &str| {
        let mut function = function(name, module, cycles, fingerprint);
        function.near = Some(near.to_owned());
        function
    };
    let (old, new) = ("liba.so.14", "liba.so.19.1");
    let versions = [
        version(
            "14",
            vec![
                function("a::find(a::key)", old, 900, &[]),
                // Little in common, but after the same exported function.
                near(
                    "liba.so.14+0x10",
                    old,
                    100,
                    &["1", "2", "3", "4"],
                    "a::f(int)",
                ),
                // Nothing in common, and the only one left there.
                near("liba.so.14+0x20", old, 50, &["5"], "a::f(int)"),
                // As little in common as the first, after another function.
                near("liba.so.14+0x30", old, 30, &["11", "12", "13"], "a::g()"),
            ],
            0,
        ),
        version(
            "19",
            vec![
                function("a::find(a::key, unsigned)", new, 800, &[]),
                near(
                    "liba.so.19.1+0x99",
                    new,
                    120,
                    &["1", "6", "7", "8"],
                    "a::f(long)",
                ),
                near("liba.so.19.1+0xaa", new, 60, &["9"], "a::f(long)"),
                near("liba.so.19.1+0xbb", new, 20, &["11", "14", "15"], "a::h()"),
            ],
            0,
        ),
    ];
    let diff = compare(&versions).unwrap();
    let cpu = &diff.overall.cpus[0];
    check_sum(cpu);
    let by = |name: &str| {
        let f = cpu.functions.iter().find(|f| f.name == name).unwrap();
        (f.matched_by, f.cycles.before)
    };
    assert_eq!(by("a::find(a::key, unsigned)"), (MatchedBy::Overload, 900));
    assert_eq!(by("liba.so.19.1+0x99"), (MatchedBy::Code, 100));
    assert_eq!(by("liba.so.19.1+0xaa"), (MatchedBy::Neighbour, 50));
    let left = "[liba.so.19.1: functions without names that were not matched, 1 before, 1 after]";
    assert_eq!(by(left), (MatchedBy::Nothing, 30));
    assert!(text(&diff).contains("97.2 % of the cycles before and 98.0 % after are in functions"));
}

/// A stripped program of which nothing has similar code: what calls what tells its functions apart.
#[test]
fn functions_are_found_by_who_calls_them() {
    let build = |label: &str, base: u64, cycles: u64| {
        let place = |n: u64| format!("prog+{:#x}", base + n * 0x100);
        let names = [place(0), place(1), place(2), place(3), place(4), place(5)];
        let mut functions = vec![function("write", "libc.so.6", 10, &[])];
        functions.push(function("main", "prog", 10, &[]));
        for (n, name) in names.iter().enumerate() {
            functions.push(function(name, "prog", cycles + n as u64, &[label]));
        }
        let mut version = version(label, functions, 0);
        let call = |caller, function: &str| mcad_report::CallReport {
            caller,
            function: function.into(),
            module: if function == "write" {
                "libc.so.6"
            } else {
                "prog"
            }
            .into(),
            cycles: 1,
        };
        version.report.cpus[0].calls = vec![
            call(None, "main"),
            // The one that writes, and what it calls in turn.
            call(Some(0), &names[0]),
            call(Some(1), "write"),
            call(Some(1), &names[1]),
            call(Some(3), &names[2]),
            // Two that nothing tells apart.
            call(Some(0), &names[3]),
            call(Some(0), &names[4]),
        ];
        version
    };
    let diff = compare(&[build("old", 0x1000, 100), build("new", 0x7000, 200)]).unwrap();
    let cpu = &diff.overall.cpus[0];
    check_sum(cpu);
    let found: Vec<(&str, Option<&str>)> = cpu
        .functions
        .iter()
        .filter(|f| f.matched_by == MatchedBy::Calls)
        .map(|f| (f.name.as_str(), f.previous_name.as_deref()))
        .collect();
    let expected = [
        ("prog+0x7000", Some("prog+0x1000")),
        ("prog+0x7100", Some("prog+0x1100")),
        ("prog+0x7200", Some("prog+0x1200")),
    ];
    assert_eq!(found, expected);
    let left = &cpu
        .functions
        .iter()
        .find(|f| f.name.starts_with('['))
        .unwrap();
    assert!(left.name.contains("3 before, 3 after"), "{}", left.name);
}

#[test]
fn places_say_something_within_one_build() {
    let functions = |cycles: u64, hot: &'static str| {
        let mut functions: Vec<FunctionReport> = ["a", "b", "c", "d", "e"]
            .iter()
            .enumerate()
            .map(|(n, hash)| function(&format!("prog+0x1{n}00"), "prog", 50, &[hash]))
            .collect();
        functions.push(function("prog+0x9000", "prog", cycles, &[hot]));
        functions
    };
    let versions = [
        version("fast", functions(100, "x"), 0),
        version("slow", functions(900, "y"), 0),
    ];
    let diff = compare(&versions).unwrap();
    let changed = &diff.overall.cpus[0].functions;
    assert_eq!(changed.len(), 1, "{changed:?}");
    assert_eq!(changed[0].matched_by, MatchedBy::Place);
    // The same places with other code are another build.
    let mut other = versions[1].clone();
    for f in &mut other.report.cpus[0].functions {
        f.fingerprint = vec![format!("other {}", f.name)];
    }
    let diff = compare(&[versions[0].clone(), other]).unwrap();
    let changed = &diff.overall.cpus[0].functions;
    assert_eq!(changed.len(), 1, "{changed:?}");
    assert!(changed[0].name.contains("not matched, 6 before, 6 after"));
    check_sum(&diff.overall.cpus[0]);
}

#[test]
fn equal_versions_have_no_difference() {
    let mut other = before();
    other.report.run.seconds = 99.0;
    let diff = compare(&[before(), other]).unwrap();
    assert!(diff.is_empty());
    assert!(text(&diff).starts_with("no difference"));
    assert_eq!(diff.overall.cpus[0].differential_throughput, Some(1.0));
    let versions = [before(), before()];
    assert_eq!(diff.regressions(0.0, &[], &versions).unwrap(), []);
}

#[test]
fn sums_hold_even_where_functions_exceed_the_total() {
    let mut broken = after();
    broken.report.cpus[0].cycles = 1;
    let diff = compare(&[before(), broken]).unwrap();
    check_sum(&diff.overall.cpus[0]);
}

#[test]
fn several_versions_are_compared_in_a_row_and_as_a_whole() {
    let versions = [before(), after(), before()];
    let diff = compare(&versions).unwrap();
    assert_eq!(diff.steps.len(), 2);
    assert!(diff.overall.cpus[0].is_empty() && !diff.is_empty());
    for step in &diff.steps {
        check_sum(&step.cpus[0]);
    }
    assert_eq!(diff.series[0].totals.len(), 3);
    let mut svg = Vec::new();
    svg::write(&diff, &mut svg).unwrap();
    let svg = String::from_utf8(svg).unwrap();
    assert_eq!(svg.matches("<circle").count(), 3);
}

#[test]
fn regressions_look_at_totals_regions_and_what_is_watched() {
    let (mut a, mut b) = (before(), after());
    let region = |cycles| RegionReport {
        name: "hot".into(),
        count: 1,
        cycles,
        instructions: 5,
        min: cycles,
        median: cycles,
        max: cycles,
    };
    a.report.cpus[0].regions = vec![region(100)];
    b.report.cpus[0].regions = vec![region(120)];
    let versions = [a, b];
    let diff = compare(&versions).unwrap();
    let names = |threshold: f64, watch: &[&str]| -> Vec<String> {
        let watch: Vec<String> = watch.iter().map(|name| (*name).to_owned()).collect();
        let found = diff.regressions(threshold, &watch, &versions).unwrap();
        found.into_iter().map(|r| r.what).collect()
    };
    assert_eq!(names(0.05, &[]), ["total", "hot"]);
    assert_eq!(names(0.10, &[]), ["hot"]);
    assert_eq!(names(0.20, &[]), Vec::<String>::new());
    assert_eq!(names(0.0, &["parse", "same"]), Vec::<String>::new());
    assert_eq!(names(0.0, &["emit"]), ["emit"]);
    let unknown = diff.regressions(0.0, &["nobody".into()], &versions);
    assert!(matches!(unknown, Err(DiffError::NothingToWatch { .. })));
}

#[test]
fn reports_of_different_cpus_are_refused_by_name() {
    let mut other = after();
    other.report.cpus[0].cpu = "zen3".into();
    let message = compare(&[before(), other]).unwrap_err().to_string();
    assert!(message.contains("skl/pipeline") && message.contains("zen3/pipeline"));
    assert!(matches!(compare(&[before()]), Err(DiffError::TooFew)));
}

#[test]
fn what_does_not_compare_is_told() {
    let mut other = after();
    other.report.program.complete = false;
    other.report.tool.version = "9.9.9".into();
    other.report.cpus[0].regions = vec![RegionReport {
        name: "lonely".into(),
        count: 1,
        cycles: 9,
        instructions: 9,
        min: 9,
        median: 9,
        max: 9,
    }];
    other.report.cpus[0].parameters = serde_json::json!({"ports": 99});
    let diff = compare(&[before(), other]).unwrap();
    assert!(diff.overall.cpus[0].regions.is_empty());
    for part in ["incomplete", "9.9.9", "parameters", "region 'lonely'"] {
        assert!(diff.warnings.iter().any(|w| w.contains(part)), "{part}");
    }
}

fn line(line: &str, cycles: u64) -> LineReport {
    LineReport {
        line: line.into(),
        function: "parse".into(),
        cycles,
    }
}

fn source(path: &str, text: &str) -> SourceFile {
    SourceFile {
        path: path.into(),
        lines: (1..).zip(text.lines().map(str::to_owned)).collect(),
    }
}

fn lines(before: &Version, after: &Version) -> Vec<(String, Option<String>, i128)> {
    let diff = compare(&[before.clone(), after.clone()]).unwrap();
    let lines = diff.overall.cpus[0].lines.iter();
    lines
        .map(|l| (l.line.clone(), l.previous_line.clone(), l.cycles.delta))
        .collect()
}

#[test]
fn lines_are_compared_by_number_where_nothing_else_is_known() {
    let (mut a, mut b) = (before(), after());
    a.report.cpus[0].lines = vec![line("p.c:1", 15), line("p.c:2", 9), line("q.c:7", 4)];
    b.report.cpus[0].lines = vec![line("p.c:1", 40), line("p.c:2", 9)];
    let expected = |line: &str, delta| (line.to_owned(), None, delta);
    assert_eq!(
        lines(&a, &b),
        [expected("p.c:1", 25), expected("q.c:7", -4)]
    );
    // A full list leaves out what is below its last one.
    let cold = (0..LINES).map(|n| line(&format!("z.c:{n}"), 5));
    b.report.cpus[0].lines.extend(cold.clone());
    a.report.cpus[0].lines.extend(cold);
    assert_eq!(lines(&a, &b), [expected("p.c:1", 25)]);
}

#[test]
fn lines_are_found_again_in_another_checkout_and_below_what_was_inserted() {
    let (mut a, mut b) = (before(), after());
    a.report.run.sources = vec![source(
        "/old/src/p.c",
        "int f(void) {\n  a();\n  b(1);\n}\n",
    )];
    b.report.run.sources = vec![source(
        "/new/src/p.c",
        "int g(void);\n\nint f(void) {\n    a();\n    b(2);\n}\n",
    )];
    let at = |n: u32, cycles| line(&format!("/old/src/p.c:{n}"), cycles);
    // Line 90 is too cold to have a text; another file of that name is another file.
    a.report.cpus[0].lines = vec![at(3, 50), at(2, 20), at(90, 5), line("/old/x/p.c:3", 3)];
    let at = |n: u32, cycles| line(&format!("/new/src/p.c:{n}"), cycles);
    b.report.cpus[0].lines = vec![at(5, 80), at(4, 20), at(92, 6), line("/new/x/p.c:3", 3)];
    let expected = |new: &str, old: &str, delta| (new.to_owned(), Some(old.to_owned()), delta);
    assert_eq!(
        lines(&a, &b),
        [
            expected("/new/src/p.c:5", "/old/src/p.c:3", 30),
            expected("/new/src/p.c:92", "/old/src/p.c:90", 1),
        ]
    );
}

/// Names that anyone may have written, and counts that no run gives.
fn hostile() -> impl Strategy<Value = Version> {
    let name = prop_oneof![
        "(?s).{0,12}",
        Just("x\x1b[2J|<img src=x>`\n@team\u{9b}31m\u{202e}".to_owned()),
        Just("same".to_owned()),
        Just("m+0x10".to_owned()),
    ];
    let named = (name, any::<u64>(), any::<u64>());
    (
        prop::collection::vec(named, 1..8),
        any::<u64>(),
        any::<[u64; 4]>(),
    )
        .prop_map(|(names, total, counts)| {
            let (label, ..) = names[0].clone();
            let mut v = version(&label, Vec::new(), total);
            let cpu = &mut v.report.cpus[0];
            cpu.name = label.clone();
            cpu.instructions = counts[0];
            cpu.uops = counts[1];
            for (name, cycles, instructions) in names {
                cpu.functions.push(FunctionReport {
                    instructions,
                    near: Some(label.clone()),
                    cycles,
                    ..function(&name, "m", 0, &[&label])
                });
                cpu.regions.push(RegionReport {
                    name: name.clone(),
                    count: counts[2],
                    cycles,
                    instructions,
                    min: counts[3],
                    median: cycles,
                    max: total,
                });
                v.report.run.sources.push(source(&label, &name));
                cpu.lines.push(LineReport {
                    line: format!("{label}:{}", cycles % 9),
                    function: name,
                    cycles,
                });
            }
            v.report.program.end = label;
            v
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn hostile_reports_are_compared_and_stay_text_in_every_form(
        versions in prop::collection::vec(hostile(), 2..4)
    ) {
        let diff = compare(&versions).unwrap();
        for cpu in std::iter::once(&diff.overall).chain(&diff.steps).flat_map(|c| &c.cpus) {
            let listed: i128 = cpu.functions.iter().map(|f| f.cycles.delta).sum();
            prop_assert_eq!(listed + cpu.unattributed.delta, cpu.cycles.delta);
        }
        type Form<'a> = &'a dyn Fn(&mut Vec<u8>) -> std::io::Result<()>;
        let forms: [Form<'_>; 5] = [
            &|out| text::write(&diff, Style::plain(), out),
            &|out| markdown::write(&diff, out),
            &|out| svg::write(&diff, out),
            &|out| json::write(&diff, out),
            &|out| benchmark::write(&diff, &versions, out),
        ];
        for (n, form) in forms.iter().enumerate() {
            let mut out = Vec::new();
            form(&mut out).unwrap();
            let out = String::from_utf8(out).unwrap();
            for line in out.lines() {
                prop_assert_eq!(escape(line), line, "form {}", n);
            }
            match n {
                1 => prop_assert!(!out.contains("<img") && !out.contains("@team"), "{out}"),
                2 => prop_assert!(!out.contains("<img"), "{out}"),
                3 | 4 => drop(serde_json::from_str::<serde_json::Value>(&out).unwrap()),
                _ => {}
            }
        }
    }
}

#[test]
fn hostile_names_stay_text_in_every_form() {
    let hostile = "x\x1b[2J|<img src=x>`\n@team";
    let mut b = after();
    b.report.cpus[0].functions[0].name = hostile.into();
    b.label = hostile.into();
    let versions = [before(), b.clone(), b];
    let diff = compare(&versions).unwrap();
    assert!(!text(&diff).contains('\x1b'));
    let mut out = Vec::new();
    markdown::write(&diff, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(!text.contains("<img") && !text.contains('@') && !text.contains('\x1b'));
    for row in text.lines().filter(|line| line.contains("img")) {
        assert!(row.starts_with(['|', '#']), "{row}");
    }
    let mut out = Vec::new();
    svg::write(&diff, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(!text.contains("<img") && !text.contains('\x1b'));
    let mut out = Vec::new();
    json::write(&diff, &mut out).unwrap();
    serde_json::from_slice::<serde_json::Value>(&out).unwrap();
    let mut out = Vec::new();
    benchmark::write(&diff, &versions, &mut out).unwrap();
    let entries: serde_json::Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(entries[0]["unit"], "cycles");
    assert_eq!(entries[0]["value"], diff.series[0].totals[2].cycles);
}
