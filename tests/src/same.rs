//! What a traced program shows of itself, beside what it shows natively.

use std::path::Path;

use mcad_report::Report;

use crate::{Run, mcad_run, report, tool};

/// The CPU model that is simulated fastest, for large programs of which the cycles do not matter.
pub const FAST: [&str; 2] = ["--cpu", "atom"];

/// Runs a command natively and traced, on the same input, and compares its output and status; the
/// report, which must be complete.
///
/// # Panics
/// When something of it differs.
#[must_use]
pub fn same(directory: &Path, command: &[&str], input: &[u8]) -> Report {
    same_with(&[], directory, command, input)
}

/// The same with further options of `mcad-run`.
///
/// # Panics
/// When something of it differs.
#[must_use]
pub fn same_with(options: &[&str], directory: &Path, command: &[&str], input: &[u8]) -> Report {
    let json = directory.join("report.json");
    let native = Run::of(&tool(command[0]))
        .args(&command[1..])
        .within(directory)
        .input(input)
        .run();
    let traced = mcad_run(["--json", json.to_str().unwrap(), "-q"])
        .args(options)
        .args(["--"])
        .args(command)
        .within(directory)
        .input(input)
        .run();
    assert_eq!(
        traced.code(),
        native.code(),
        "{command:?}: {}",
        traced.stderr
    );
    assert!(
        traced.stdout == native.stdout,
        "{command:?}: {} and {} bytes on stdout",
        traced.stdout.len(),
        native.stdout.len()
    );
    assert_eq!(traced.stderr, native.stderr, "{command:?}");
    let report = report::read(&json);
    assert!(
        report.program.complete,
        "{command:?}: {}",
        report.program.end
    );
    assert_eq!(report.trace.lost_records, 0, "{command:?}");
    report
}
