//! Instruction counts against an independent plugin in the same run (docs/COUNTING.md).

#![allow(clippy::unwrap_used, clippy::panic)] // Helpers of tests fail tests.

use std::fs;
use std::path::Path;

use mcad_tests::{FAST, inputs, mcad_run, programs, report, tool};

/// Runs a command with mcad's plugin and the counting one; returns both counts.
fn both(directory: &Path, command: &[&str], input: &[u8]) -> (u64, u64) {
    let (count, json) = (directory.join("count.txt"), directory.join("report.json"));
    let wrapper = directory.join("qemu");
    let script = format!(
        "#!/bin/sh\nexec {} -plugin file={},out={} \"$@\"\n",
        tool("qemu-x86_64").display(),
        programs().count_plugin().display(),
        count.display()
    );
    inputs::script(&wrapper, &script);
    mcad_run(FAST)
        .args([
            "-q",
            "--json",
            json.to_str().unwrap(),
            "--qemu",
            wrapper.to_str().unwrap(),
            "--",
        ])
        .args(command)
        .input(input)
        .run()
        .expect(0);
    let counted = fs::read_to_string(&count).expect("the counting plugin writes its count");
    let digits = counted
        .split(|c: char| !c.is_ascii_digit())
        .find(|part| !part.is_empty());
    let counted = digits.expect("a number").parse().unwrap();
    (report::read(&json).trace.instructions, counted)
}

#[test]
fn single_threaded_programs_count_exactly() {
    let directory = tempfile::tempdir().unwrap();
    let text = inputs::text(200_000);
    let python = inputs::python();
    let sql = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 3000) \
               select sum(i * i) from n;";
    for (command, input) in [
        (&["true"][..], &b""[..]),
        (&["gzip", "-c"], &text),
        (&["sqlite3", ":memory:", sql], b""),
        (&[&python, "-IS", "-c", "print(sorted('hello')[0])"], b""),
    ] {
        let (ours, theirs) = both(directory.path(), command, input);
        assert_eq!(ours, theirs, "{command:?}");
    }
}

#[test]
fn repeated_string_instructions_count_once() {
    let directory = tempfile::tempdir().unwrap();
    let source = r#"
        static char from[4096], to[4096];
        int main(void) {
            for (int i = 0; i < 1000; i++) {
                void *d = to, *s = from;
                long n = i;
                __asm__ volatile("rep movsb" : "+D"(d), "+S"(s), "+c"(n) :: "memory");
                n = i; d = to;
                __asm__ volatile("rep stosb" : "+D"(d), "+c"(n) : "a"(1) : "memory");
            }
            return 0;
        }"#;
    let program = inputs::compile(directory.path(), "strings", source);
    let (ours, theirs) = both(directory.path(), &[program.to_str().unwrap()], b"");
    assert_eq!(ours, theirs);
    // About a million iterations; counted once each it is far less.
    assert!(ours < 400_000, "{ours}");
}
