//! The page of a report made by hand: well-formed, self-contained, and deaf to what names say.

use serde_json::Value;

use super::{Excerpt, Html};
use crate::sample::{in_order, report};
use crate::timeline::read::Reader;
use crate::timeline::write::Writer;
use crate::timeline::{Code, Header, Instruction, Late, NO_PORT, TimelineError, Uop};
use crate::{Style, View, view};

fn page(report: &mcad_report::Report) -> String {
    let mut out = Vec::new();
    view("html")
        .unwrap()
        .write(report, Style::plain(), &mut out)
        .unwrap();
    String::from_utf8(out).unwrap()
}

/// Names of all tags in order; `/name` closes.
fn tags(page: &str) -> Vec<String> {
    let mut tags = Vec::new();
    let mut rest = page;
    while let Some(start) = rest.find('<') {
        let tag = &rest[start + 1..];
        let end = tag.find('>').expect("every tag ends");
        let name = tag[..end].split([' ', '\n']).next().unwrap_or("");
        tags.push(name.to_owned());
        if tag[..end].ends_with('/') {
            tags.push(format!("/{name}"));
        }
        rest = &tag[end + 1..];
        // What is in these is no markup.
        if name == "script" || name == "style" {
            rest = &rest[rest.find(&format!("</{name}")).expect("it ends")..];
        }
    }
    tags
}

#[test]
fn every_element_is_closed() {
    let void = ["meta", "link", "!doctype"];
    let mut open: Vec<String> = Vec::new();
    for tag in tags(&page(&report())) {
        match tag.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop().as_deref(), Some(name)),
            None if void.contains(&tag.as_str()) => {}
            None => open.push(tag),
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn names_are_text_and_nothing_else() {
    let plain = tags(&page(&report()));
    let mut hostile = report();
    let evil = "</script></td><img src=x onerror=alert(1)>\"'><script>alert(1)</script>\x1b";
    hostile.program.command = vec![evil.into()];
    hostile.program.end = evil.into();
    hostile.notes = vec![evil.into()];
    hostile.tool.version = evil.into();
    hostile.run.sources[0].path = evil.into();
    hostile.run.sources[0].lines = [(42, evil.into())].into();
    for cpu in &mut hostile.cpus {
        cpu.name = evil.into();
        cpu.functions[0].name = evil.into();
        cpu.functions[0].module = evil.into();
        cpu.blocks[0].symbol = evil.into();
        cpu.blocks[0].line = Some(evil.into());
        cpu.blocks[0].code = vec![evil.into(); 2];
        cpu.blocks[0].module = evil.into();
        cpu.blocks[0].listing[0].line = Some(format!("{evil}:42"));
        cpu.blocks[0].listing[0].address = evil.into();
        cpu.blocks[0].listing[0].ports = evil.into();
        cpu.lines[0].line = format!("{evil}:42");
        cpu.lines[0].function = evil.into();
        cpu.regions[0].name = evil.into();
        let memory = cpu.memory.as_mut().unwrap();
        memory.functions[0].name = evil.into();
        memory.functions[0].module = evil.into();
        memory.lines[0].name = format!("{evil}:42");
        let branches = cpu.branches.as_mut().unwrap();
        branches.functions[0].name = evil.into();
        branches.lines[0].name = evil.into();
        branches.branches[0].place = Some(evil.into());
        branches.branches[0].line = Some(evil.into());
        cpu.ports[0].port = evil.into();
    }
    hostile.unknown_instructions.forms[0].form = evil.into();
    hostile.unknown_instructions.forms[0].treatment = evil.into();
    let page = page(&hostile);
    assert_eq!(tags(&page), plain, "no name adds an element");
    assert!(!page.contains('\x1b'));
}

#[test]
fn the_page_needs_nothing_from_elsewhere() {
    let page = page(&report());
    for outside in ["http://", "https://", "src=", "url(", "@import", "//cdn"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.contains("default-src 'none'") && !page.contains("unsafe-inline"));
    assert!(
        !page.contains(" style=\""),
        "the policy allows no styles of single elements"
    );
    assert!(page.contains("prefers-color-scheme: dark") && page.contains("viewport"));
}

#[test]
fn every_figure_can_be_sorted() {
    let page = page(&report());
    assert!(page.matches("<td class=\"n\"").count() > 20);
    let figures = page.split("<td class=\"n").skip(1);
    for cell in figures.filter(|cell| !cell.starts_with("ame")) {
        let head = cell.split('>').next().unwrap();
        assert!(head.contains("\" data-v=\""), "{head}");
    }
    for part in page.split("data-v=\"").skip(1) {
        let value = part.split('"').next().unwrap();
        assert!(value.parse::<f64>().unwrap().is_finite(), "{value}");
    }
}

/// A timeline of `count` instructions of one µop each, in a run of `cycles`.
fn timeline(count: u64, cycles: u64) -> (Vec<Instruction>, Vec<u8>) {
    let header = Header {
        cpu: "skl".into(),
        window: "hottest".into(),
        ..Header::default()
    };
    let mut writer = Writer::new(Vec::new(), &header).unwrap();
    let code = Code {
        address: 0x40_0000_1000,
        text: "</script><b>".into(),
        function: "f\x1b".into(),
        module: String::new(),
    };
    writer.code(7, &code).unwrap();
    let instruction = |n: u64| {
        let base = 5000 + n / 2;
        let uop = Uop {
            port: if n.is_multiple_of(3) {
                NO_PORT
            } else {
                (n % 8) as u8
            },
            delivered: base,
            issued: base + 2,
            ready: base + 5 + n % 4,
            dispatched: base + 10 + n % 5,
            executed: base + 15 + n % 5,
            retired: base + 30,
            ..Uop::default()
        };
        Instruction {
            number: 100 + n,
            code: 7,
            retired: [base + 30; 2],
            uops: vec![uop],
            ..Instruction::default()
        }
    };
    let instructions: Vec<Instruction> = (0..count).map(instruction).collect();
    for instruction in &instructions {
        writer.instruction(instruction).unwrap();
    }
    (instructions, writer.finish(cycles, 0).unwrap())
}

fn excerpt(file: &[u8]) -> Result<Excerpt, TimelineError> {
    Excerpt::read(&mut Reader::new(file).unwrap(), &report())
}

#[test]
fn the_page_has_the_stamps_of_the_file() {
    let (instructions, file) = timeline(3000, report().cpus[0].cycles);
    let mut page = Vec::new();
    Html::with(excerpt(&file).unwrap())
        .write(&report(), Style::plain(), &mut page)
        .unwrap();
    let page = String::from_utf8(page).unwrap();
    let data = page.split("class=\"timeline-data\">").nth(1).unwrap();
    let data = data.split("</script>").next().unwrap();
    assert!(!data.contains('<'), "nothing ends the element");
    let data: Value = serde_json::from_str(data).unwrap();
    assert_eq!(data["codes"][0][1], "</script><b>");
    assert_eq!(data["codes"][0][2], "f\\u{1b}");
    assert_eq!(data["codes"][0][3], true, "of the hottest block");
    let base = data["base"].as_u64().unwrap();
    let rows = data["rows"].as_array().unwrap();
    assert_eq!(rows.len(), instructions.len());
    for (row, i) in rows.iter().zip(&instructions) {
        let uop = &i.uops[0];
        assert_eq!(row[0], i.number);
        let port = if uop.port == NO_PORT {
            -1
        } else {
            uop.port.into()
        };
        assert_eq!(row[3], port);
        let mut cycle = base;
        let steps = row[4].as_array().unwrap().iter();
        let stamps: Vec<u64> = steps
            .map(|step| {
                cycle += step.as_u64().unwrap();
                cycle
            })
            .collect();
        let expected = [
            uop.delivered,
            uop.issued,
            uop.ready,
            uop.dispatched,
            uop.executed,
            uop.retired,
        ];
        assert_eq!(stamps, expected);
    }
}

/// What an in-order core waits for stands in the legend and in the rows by itself.
#[test]
fn the_timeline_of_an_in_order_core_has_causes() {
    let header = Header {
        cpu: "atom".into(),
        in_order: true,
        ..Header::default()
    };
    let mut writer = Writer::new(Vec::new(), &header).unwrap();
    writer.code(0, &Code::default()).unwrap();
    let late = [Late::Load, Late::Redirect, Late::Unit, Late::No];
    for (n, late) in (0..).zip(late) {
        // From the issue of the one before on; a redirect comes that late.
        let begin = 10 * n;
        let waits = late.is_front_end();
        let uop = Uop {
            late,
            port: 0,
            delivered: begin + if waits { 4 } else { 0 },
            issued: begin + if waits { 4 } else { 0 },
            ready: begin + if late == Late::Load { 10 } else { 4 },
            dispatched: begin + 10,
            executed: begin + 12,
            retired: begin + 14,
            ..Uop::default()
        };
        let instruction = Instruction {
            number: n,
            retired: [uop.retired; 2],
            uops: vec![uop],
            ..Instruction::default()
        };
        writer.instruction(&instruction).unwrap();
    }
    let mut report = report();
    report.cpus = vec![in_order(1_000_000)];
    let file = writer.finish(1_000_000, 0).unwrap();
    let excerpt = Excerpt::read(&mut Reader::new(&file[..]).unwrap(), &report).unwrap();
    let mut page = Vec::new();
    (Html::with(excerpt).write(&report, Style::plain(), &mut page)).unwrap();
    let page = String::from_utf8(page).unwrap();
    for item in [
        "<li><i class=\"s2\">l</i><span>waited for a loaded value</span>",
        "<li><i class=\"s0\">m</i><span>redirect: fetched after a wrong path</span>",
        "<li><i class=\"s3\">p</i><span>waiting for a unit</span>",
        "<li><i class=\"s2\">=</i><span>kept from issuing by something else</span>",
    ] {
        assert!(page.contains(item), "{item} in {page}");
    }
    assert!(!page.contains("waiting for the front end</span>"), "{page}");
}

#[test]
fn long_timelines_are_cut_and_foreign_ones_refused() {
    let cycles = report().cpus[0].cycles;
    let (_, long) = timeline(30_000, cycles);
    let mut page = Vec::new();
    Html::with(excerpt(&long).unwrap())
        .write(&report(), Style::plain(), &mut page)
        .unwrap();
    assert!(page.len() < 2 << 20, "{} bytes", page.len());
    let page = String::from_utf8(page).unwrap();
    assert!(page.contains("10,000 more instructions"));
    let (_, other) = timeline(10, cycles + 1);
    let refused = excerpt(&other).unwrap_err();
    assert!(refused.to_string().contains("of another run"), "{refused}");
    let mut elsewhere = report();
    elsewhere.cpus.remove(0);
    let refused = Excerpt::read(&mut Reader::new(&other[..]).unwrap(), &elsewhere).unwrap_err();
    assert!(refused.to_string().contains("'skl'"), "{refused}");
}

#[test]
fn the_page_tells_misses_and_gains_and_says_things_once() {
    let mut report = report();
    let mut ideal = report.cpus[0].clone();
    (ideal.cpu, ideal.name) = (
        "skl+l1d".into(),
        "Model skl, all data in the first level".into(),
    );
    ideal.cycles = 900_000;
    report.cpus.push(ideal);
    let page = page(&report);
    assert!(page.contains("What it would gain") && page.contains("100,000"));
    assert!(page.contains("compress+0x13") && page.contains("Branches predicted wrongly"));
    // Two CPUs and not three, and their figures in the cards alone.
    assert_eq!(page.matches("<a class=\"card\"").count(), 2);
    assert!(!page.contains("<th scope=\"col\" class=\"\">model</th>"));
    assert!(!page.contains("If that limit went away"));
}

#[test]
fn measurements_processes_and_threads_have_tables() {
    use mcad_report::{Interval, Load, Measured, ProcessCycles, ProcessReport, ThreadReport};

    let mut report = report();
    let process = |process, parent, command: &str| ProcessReport {
        process,
        parent,
        command: vec![command.into()],
        end: "exited 0".into(),
        instructions: 1000,
        threads: 2,
    };
    report.processes = vec![process(0, None, "sh"), process(1, Some(0), "<b>gzip</b>")];
    for cpu in &mut report.cpus {
        let process = |process, cycles| ProcessCycles {
            process,
            instructions: 1000,
            cycles,
        };
        cpu.processes = vec![process(0, 1234), process(1, 4321)];
        let thread = |thread| ThreadReport {
            thread,
            process: thread / 2,
            instructions: 500,
            cycles: 777,
        };
        cpu.threads = (0..4).map(thread).collect();
    }
    report.run.measured = Some(Measured {
        host: "a <CPU>".into(),
        runs: 11,
        cycles: 1_500_000,
        interval: Some(Interval {
            low: 1_000_000,
            high: 2_000_000,
            percent: 95.0,
            mostly: "runs".into(),
            asked_percent: 2.0,
        }),
        load: Some(Load {
            others: 1.5,
            cpus: 4,
            busy: true,
        }),
        ..Measured::default()
    });
    let page = page(&report);
    for wanted in [
        "all together",
        "&emsp;&lt;b&gt;gzip&lt;/b&gt;",
        "4,321",
        "777",
        "1,500,000",
        "a &lt;CPU&gt;",
        "1,000,000 to 2,000,000 with 95 % confidence, wider than the 2 %",
        "the machine was busy",
        "href=\"#processes\"",
        "href=\"#threads\"",
        "href=\"#measured\"",
    ] {
        assert!(page.contains(wanted), "no {wanted:?}");
    }
}
