//! Programs bound by memory, by wrong predictions, by fetch and by nothing are told apart by the
//! first lines of the report, and by its page; where a model takes for granted what is not so, the
//! report says that.

#![allow(clippy::unwrap_used)] // Helpers of tests fail tests.

use std::path::Path;

use mcad_report::Report;
use mcad_tests::{inputs, mcad, mcad_run};

/// What the program is told to do, what bounds it, and which function has the cycles.
const PROGRAMS: [(&str, &str, &str); 4] = [
    ("chase", "memory", "chase"),
    ("sort", "bad speculation", "sort"),
    ("code", "front end", "code"),
    ("sums", "retiring", "sums"),
];

#[test]
fn what_bounds_a_program_is_seen_at_first_sight() {
    let directory = tempfile::tempdir().unwrap();
    let source = include_str!("../programs/bounds.c");
    let program = inputs::compile(directory.path(), "bounds", source);
    for (what, bound, function) in PROGRAMS {
        let json = directory.path().join(format!("{what}.json"));
        let run = mcad_run(["--cpu", "glc", "--json"])
            .args([&json, Path::new("--"), &program])
            .args([what])
            .within(directory.path())
            .run()
            .expect(0);
        let text = &run.stderr;
        let verdict = text.lines().find(|l| l.trim().starts_with("bound by"));
        let verdict = verdict.unwrap_or_else(|| panic!("no verdict in\n{text}"));
        assert!(verdict.contains(bound), "{what}: {verdict}");
        let report: Report = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
        let cpu = &report.cpus[0];
        let f = cpu.functions.iter().find(|f| f.name == function).unwrap();
        let s = f.slots.unwrap();
        let share = |slots: u64| slots as f64 / s.sum() as f64;
        // The function says the same of itself, with what it was in detail.
        match what {
            "chase" => {
                let memory = s.l2 + s.l3 + s.dram + s.translation;
                assert!(share(memory) > 0.8, "{s:?}");
                let misses = &cpu.memory.as_ref().unwrap().functions[0];
                assert_eq!(misses.name, "chase");
                // Nearly each of its 60 000 loads.
                assert!(misses.l2 > 50_000, "{misses:?}");
            }
            "sort" => {
                assert!(share(s.bad_speculation) > 0.6, "{s:?}");
                let branches = cpu.branches.as_ref().unwrap();
                assert_eq!(branches.functions[0].name, "sort");
                let place = branches.branches[0].place.as_deref().unwrap();
                assert!(place.starts_with("sort+0x"), "{place}");
                let line = branches.branches[0].line.as_deref().unwrap();
                assert!(line.contains("bounds.c:"), "{line}");
            }
            "code" => assert!(share(s.frontend) > 0.7, "{s:?}"),
            _ => assert!(share(s.retiring) > 0.6, "{s:?}"),
        }
    }
}

#[test]
fn what_does_not_hold_of_what_is_taken_for_granted_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let source = include_str!("../programs/bounds.c");
    let program = inputs::compile(directory.path(), "bounds", source);
    // An Atom without what it has in whole programs alone.
    let atom = include_str!("../../daemon/isa/src/machine/models/atom.toml");
    let whole =
        atom.find("[in_order.predictor]").unwrap()..atom.find("[[in_order.units]]").unwrap();
    let bare = atom.replace(&atom[whole], "");
    let bare = bare.replace("name = \"atom\"", "name = \"bare\"");
    let bare: Vec<&str> = (bare.lines())
        .filter(|line| !line.starts_with("aliases"))
        .collect();
    let cpu = directory.path().join("bare.toml");
    std::fs::write(&cpu, bare.join("\n")).unwrap();
    let json = |what: &str| directory.path().join(format!("{what}.json"));
    let run = |what: &str, options: &[&str]| {
        let run = mcad_run(options.iter().copied()).args([Path::new("--cpu"), &cpu]);
        let run = run.args(["--cpu", "skl", "--json"]);
        let run = run.args([&json(what), Path::new("--"), &program]);
        run.args([what]).run().expect(0).stderr
    };
    let report = |what: &str| -> Report {
        serde_json::from_slice(&std::fs::read(json(what)).unwrap()).unwrap()
    };
    let bound = |text: &str| {
        let line = text
            .lines()
            .find(|line| line.trim().starts_with("bound by"));
        line.unwrap_or_default().to_owned()
    };
    // Its loads all hit, and its branches are all predicted.
    for (what, doubt) in [
        ("chase", "do not all hit"),
        ("sort", "are not all predicted"),
    ] {
        let text = run(what, &[]);
        assert!(
            text.contains(doubt) && text.contains("cycles are too few"),
            "{text}"
        );
        // Nor is what bounds it known; the other CPU has caches and predictors, and says.
        assert!(bound(&text).contains("not known"), "{text}");
        let report = report(what);
        assert!(report.cpus[0].doubts.iter().any(|d| d.contains(doubt)));
        assert!(
            report.cpus[1].doubts.is_empty(),
            "{:?}",
            report.cpus[1].doubts
        );
        let page = mcad(["view", "--format", "html"])
            .args([json(what)])
            .run()
            .expect(0);
        assert!(page.text().contains(doubt));
        let diff = mcad(["diff"])
            .args([json(what), json(what)])
            .run()
            .expect(0);
        assert!(diff.text().contains(doubt), "{}", diff.text());
    }
    // Sums over 16 KiB hit, and their loop is foreseen.
    let text = run("sums", &[]);
    assert!(
        !text.contains("too few") && !text.contains("not known"),
        "{text}"
    );
    // Block by block nothing of it is modelled on any CPU.
    run("chase", &["--analysis", "block"]);
    assert!(
        report("chase")
            .cpus
            .iter()
            .all(|cpu| !cpu.doubts.is_empty())
    );
}

/// A program that reads 4 MiB again and again: from the third level where it has that much to itself, else from memory.
#[test]
fn what_waits_for_memory_depends_on_the_share_of_the_last_level() {
    let directory = tempfile::tempdir().unwrap();
    let source = "#include <stdlib.h>\n\
        int main(void) {\n\
          enum { LINES = 1 << 16 };\n\
          struct { unsigned next; char rest[60]; } *line = calloc(LINES, 64);\n\
          for (unsigned n = 0; n < LINES; n++) line[n].next = (n * 40509u + 7) % LINES;\n\
          unsigned at = 0;\n\
          for (int n = 0; n < 3 * LINES; n++) at = line[at].next;\n\
          return at == LINES;\n\
        }\n";
    let program = inputs::compile(directory.path(), "rounds", source);
    let run = |share: &[&str]| {
        let json = directory.path().join("rounds.json");
        let run = mcad_run(["-q", "--cpu", "zen4"])
            .args(share)
            .args([Path::new("--json"), &json, Path::new("--"), &program])
            .run();
        run.expect(0);
        let report: Report = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
        let cpu = report.cpus.into_iter().next().unwrap();
        (cpu.memory.unwrap().loads.dram, cpu.cycles, cpu.name)
    };
    let (dram, cycles, _) = run(&[]);
    let (more_dram, more_cycles, name) = run(&["--last-level", "1024"]);
    assert!(dram < 80_000, "{dram}");
    // Two of three rounds find less than half of their lines.
    assert!(more_dram > dram + 65_000, "{dram}, {more_dram}");
    assert!(more_cycles > cycles + 20_000_000, "{cycles}, {more_cycles}");
    assert!(name.contains("1024 KiB of the third level"), "{name}");
    mcad_run(["-q", "--cpu", "atom", "--last-level", "1024", "--"])
        .args([&program])
        .run()
        .expect(125)
        .says("no third level");
}
