//! The command lines as scripts and people see them.

#![allow(clippy::unwrap_used, clippy::panic)] // Helpers of tests fail tests.

use mcad_tests::{mcad, mcad_run, report};

#[test]
fn help_texts() {
    insta::assert_snapshot!("mcad", mcad(["--help"]).run().expect(0).text());
    insta::assert_snapshot!("mcad-run", mcad_run(["-h"]).run().expect(0).text());
    insta::assert_snapshot!("mcad-replay", mcad(["replay", "-h"]).run().expect(0).text());
    insta::assert_snapshot!("mcad-daemon", mcad(["daemon", "-h"]).run().expect(0).text());
}

#[test]
fn versions_are_printed() {
    assert!(
        mcad(["--version"])
            .run()
            .expect(0)
            .text()
            .starts_with("mcad ")
    );
    assert!(
        mcad_run(["--version"])
            .run()
            .expect(0)
            .text()
            .starts_with("mcad-run ")
    );
}

#[test]
fn cpus_are_listed_and_every_listed_one_works() {
    let table = mcad(["cpus"]).run().expect(0).text();
    assert!(
        table.contains("skl") && table.contains("skylake"),
        "{table}"
    );
    let all = mcad(["cpus", "--names"]).run().expect(0).text();
    let names = mcad(["cpus", "--names", "--arch", "x86_64"]);
    let names = names.run().expect(0).text();
    assert!(names.lines().count() >= 2 && all.lines().count() > names.lines().count());
    let mut arguments = vec!["-q"];
    for name in names.lines() {
        arguments.extend(["--cpu", name]);
    }
    arguments.extend(["--", "true"]);
    mcad_run(arguments).run().expect(0);
}

#[test]
fn the_doctor_finds_everything_here() {
    let found = mcad(["doctor"]).run();
    assert_eq!(found.code(), 0, "{}", found.text());
    for what in ["QEMU", "plugin", "qemu broker", "replay broker"] {
        assert!(found.text().contains(what), "{}", found.text());
    }
    let missing = mcad(["doctor", "--qemu", "/no/such/qemu"])
        .run()
        .expect(1)
        .text();
    assert!(missing.contains("MISSING") && missing.contains("apt-get install qemu-user"));
}

#[test]
fn completions_and_man_pages_are_made() {
    for shell in ["bash", "zsh", "fish"] {
        for command in ["mcad", "mcad-run"] {
            let script = mcad(["completions", shell, "--command", command])
                .run()
                .expect(0)
                .text();
            assert!(script.contains(command), "{shell} {command}");
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let pages = directory.path().join("man");
    mcad(["man", pages.to_str().unwrap()]).run().expect(0);
    for page in ["mcad.1", "mcad-run.1", "mcad-replay.1", "mcad-daemon.1"] {
        let text = std::fs::read_to_string(pages.join(page)).expect(page);
        assert!(text.contains(".TH"), "{page}");
    }
}

#[test]
fn reports_are_shown_and_others_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("r.json");
    let live = mcad_run(["--json", file.to_str().unwrap(), "--", "true"])
        .run()
        .expect(0);
    let shown = mcad(["view", file.to_str().unwrap()])
        .run()
        .expect(0)
        .text();
    assert!(
        shown == live.stderr,
        "{shown}\nis not what the run showed:\n{}",
        live.stderr
    );
    let json = mcad(["view", file.to_str().unwrap(), "--format", "json"])
        .run()
        .expect(0)
        .text();
    assert!(
        json == std::fs::read_to_string(&file).unwrap(),
        "the JSON changed"
    );
    for (text, says) in [
        ("{", "no JSON report"),
        ("{}", "schema_version"),
        (r#"{"schema_version": 999}"#, "999"),
        (r#"{"schema_version": 1}"#, "damaged"),
    ] {
        std::fs::write(&file, text).unwrap();
        mcad(["view", file.to_str().unwrap()])
            .run()
            .expect(2)
            .says(says)
            .says("r.json");
    }
}

#[test]
fn json_on_stdout_and_the_summary_in_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let summary = directory.path().join("summary.txt");
    let run = mcad_run(["--json", "-", "-o", summary.to_str().unwrap(), "--", "true"])
        .run()
        .expect(0);
    let report: mcad_report::Report = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(report.program.end, "exited 0");
    assert_eq!(run.stderr, "");
    assert!(
        std::fs::read_to_string(&summary)
            .unwrap()
            .contains("cycles")
    );
}

#[test]
fn symbols_lines_and_regions_of_a_program_with_debug_information() {
    let directory = tempfile::tempdir().unwrap();
    let source = r#"
        #include <stdint.h>
        __attribute__((noinline)) uint64_t chain(uint64_t n) {
            uint64_t x = 1;
            for (uint64_t i = 0; i < n; i++) x = x * 3 + 1;
            return x;
        }
        int main(void) {
            uint64_t sum = 0;
            for (int i = 0; i < 50; i++) sum += chain(10000 + i % 2);
            return sum == 0;
        }"#;
    let program = mcad_tests::inputs::compile(directory.path(), "chain", source);
    let json = directory.path().join("r.json");
    mcad_run([
        "-q",
        "--region",
        "chain",
        "--json",
        json.to_str().unwrap(),
        "--",
    ])
    .args([&program])
    .run()
    .expect(0);
    let report = report::read(&json);
    let cpu = &report.cpus[0];
    let function = &cpu.functions[0];
    assert_eq!(
        (function.name.as_str(), function.module.as_str()),
        ("chain", "chain")
    );
    let block = &cpu.blocks[0];
    assert!(block.symbol.starts_with("chain"), "{block:?}");
    let line = block.line.as_deref().expect("a line");
    assert!(line.ends_with("chain.c:5"), "{line}");
    let region = &cpu.regions[0];
    assert_eq!((region.name.as_str(), region.count), ("chain", 50));
    // lea of x + 2x + 1 or imul and add: one to four cycles an iteration.
    assert!((10_000..50_000).contains(&region.median), "{region:?}");
    assert!(region.min <= region.median && region.median <= region.max);
    // And without memory records nothing but the dependencies through memory goes.
    let run = mcad_run(["-q", "--no-memory", "--json", "-", "--"])
        .args([&program])
        .run()
        .expect(0);
    let without: mcad_report::Report = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(without.trace.memory_accesses, 0);
    assert!(without.trace.instructions > 1_000_000);
}

#[test]
fn a_filter_of_logs_that_is_none_is_told() {
    let said = |filter: &str| mcad(["cpus"]).env("MCAD_LOG", filter).run().expect(0);
    said("mcad_daemon=loud").says("MCAD_LOG=\"mcad_daemon=loud\" is no filter of logs");
    assert_eq!(said("warn,mcad_daemon=debug").stderr, "");
}
