//! Programs bound by memory, by wrong predictions, by fetch and by nothing are told apart by the
//! first lines of the report, and by its page.

#![allow(clippy::unwrap_used)] // Helpers of tests fail tests.

use mcad_report::Report;
use mcad_tests::{inputs, mcad_run};

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
            .args([&json, std::path::Path::new("--"), &program])
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
