//! Programs run to their end under mcad-run with the output and status that they have without.

#![allow(clippy::unwrap_used, clippy::panic)] // Helpers of tests fail tests.

use std::path::Path;
use std::process::Command;

use mcad_report::Report;
use mcad_tests::{FAST, inputs, mcad_run, report};

/// Natively and traced the same: one program, simulated at a believable rate.
fn same(directory: &Path, command: &[&str], input: &[u8]) -> Report {
    same_with(&[], directory, command, input)
}

fn same_with(options: &[&str], directory: &Path, command: &[&str], input: &[u8]) -> Report {
    let report = mcad_tests::same_with(options, directory, command, input);
    assert_eq!(report.program.command, command);
    let cpu = &report.cpus[0];
    assert_eq!(cpu.instructions, report.trace.instructions);
    assert!(
        cpu.cycles > cpu.instructions / 8,
        "{command:?}: {} cycles",
        cpu.cycles
    );
    report
}

#[test]
fn gzip_compresses_the_same_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let report = same(directory.path(), &["gzip", "-c"], &inputs::text(300_000));
    assert!(report.trace.instructions > 1_000_000);
    assert_eq!(report.trace.threads, 1);
}

#[test]
fn sqlite_answers_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let script = "create table t(a integer, b text);\
        with recursive n(i) as (select 1 union all select i + 1 from n where i < 2000) \
        insert into t select i, 'row ' || i from n;\
        select count(*), sum(a), max(b) from t where a % 7 = 3;";
    let report = same(directory.path(), &["sqlite3", ":memory:", script], b"");
    assert!(report.trace.memory_accesses > 100_000);
}

#[test]
fn python_computes_the_same_and_keeps_its_status() {
    let directory = tempfile::tempdir().unwrap();
    let python = inputs::python();
    let command = "import sys; print(sum(i * i for i in range(5000))); sys.exit(41)";
    let json = directory.path().join("report.json");
    let traced = mcad_run([
        "--json",
        json.to_str().unwrap(),
        "-q",
        "--",
        &python,
        "-IS",
        "-c",
        command,
    ])
    .run()
    .expect(41);
    assert_eq!(traced.text(), "41654167500\n");
    let report = report::read(&json);
    assert_eq!(report.program.end, "exited 41");
    assert!(report.trace.instructions > 1_000_000);
}

#[test]
fn threads_are_traced_each_on_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let input = inputs::text(400_000);
    let command = ["xz", "-T2", "-0", "--block-size=100000", "-c"];
    let report = same(directory.path(), &command, &input);
    assert!(
        report.trace.threads >= 3,
        "{} threads",
        report.trace.threads
    );
    let sum: u64 = report.cpus[0]
        .threads
        .iter()
        .map(|thread| thread.instructions)
        .sum();
    assert_eq!(sum, report.trace.instructions);
}

#[test]
fn ffmpeg_decodes_a_clip() {
    let directory = tempfile::tempdir().unwrap();
    let clip = inputs::clip(directory.path());
    let clip = clip.to_str().unwrap();
    let command = [
        "ffmpeg", "-v", "error", "-threads", "1", "-i", clip, "-f", "framemd5", "-",
    ];
    // Loading its libraries takes some 220 million instructions.
    let report = same_with(&FAST, directory.path(), &command, b"");
    let unknown = &report.unknown_instructions;
    let all = report.trace.instructions;
    assert!(
        unknown.count * 10_000 <= all,
        "{} of {all} instructions are unknown: {:?}",
        unknown.count,
        unknown.forms
    );
    let modules = report.program.modules.iter();
    assert!(modules.clone().any(|m| m.path.contains("libavcodec")));
}

#[test]
fn signals_end_the_program_as_without() {
    for (signal, status) in [("KILL", 137), ("TERM", 143), ("SEGV", 139)] {
        let script = format!("kill -{signal} $$");
        let traced = mcad_run(["-q", "--", "sh", "-c", &script]).run();
        assert_eq!(traced.code(), status, "{signal}: {}", traced.stderr);
    }
}

#[test]
fn the_environment_and_directory_are_the_callers() {
    let directory = tempfile::tempdir().unwrap();
    let native = Command::new("pwd")
        .current_dir(directory.path())
        .output()
        .unwrap();
    let traced = mcad_run(["-q", "--", "sh", "-c", "pwd; echo $MARK"])
        .within(directory.path())
        .env("MARK", "x y")
        .run()
        .expect(0);
    assert_eq!(
        traced.text(),
        String::from_utf8(native.stdout).unwrap() + "x y\n"
    );
}
