//! `mcad-run --measure`: what a program takes by itself stands beside the predictions.

#![cfg(target_arch = "x86_64")]
#![allow(clippy::unwrap_used)]

use std::path::Path;

use mcad_tests::{Run, inputs, mcad, mcad_run, programs, report};

/// A shell that runs `mcad-run` with these arguments on the file as its stdin.
fn on_file(arguments: &str, input: &Path) -> Run {
    let program = programs().file("mcad-run");
    let script = format!(
        "'{}' {arguments} < '{}'",
        program.display(),
        input.display()
    );
    Run::of(Path::new("/bin/sh")).args(["-c", &script])
}

#[test]
fn predictions_and_measurements_stand_side_by_side() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name);
    std::fs::write(file("input"), inputs::text(20_000)).unwrap();
    let run = |more: &str, name: &str| {
        let json = file(name);
        let arguments = format!("--cpu skl {more} --json '{}' -- gzip -c", json.display());
        (on_file(&arguments, &file("input")).run().expect(0), json)
    };
    let (plain, without) = run("", "without.json");
    let (finished, with) = run("--measure=2", "with.json");
    // The program's output is that of its traced run, once.
    assert_eq!(finished.stdout, plain.stdout);
    assert_eq!(report::stable(&with), report::stable(&without));
    assert_eq!(report::read(&without).run.measured, None);
    let measured = report::read(&with).run.measured.unwrap();
    // On a busy machine runs with an uncertain clock are replaced, by four in all at most.
    assert!((1..=4).contains(&measured.runs), "{measured:?}");
    assert!(measured.min <= measured.low && measured.core_mhz > 0.0);
    assert!(measured.low <= measured.cycles && measured.cycles <= measured.high);
    // One run says nothing of others; of two, the median of all is between them every other time.
    let interval = measured.interval.unwrap();
    let percent = [0.0, 50.0, 75.0, 87.5][measured.runs as usize - 1];
    assert_eq!(interval.percent, percent);
    assert!((interval.low..=interval.high).contains(&measured.cycles));
    assert!(measured.load.unwrap().cpus >= 1);
    let told = format!("with {percent:.0} % confidence");
    assert!(finished.stderr.contains(&told), "{}", finished.stderr);
    assert!(finished.stderr.contains("Predicted and measured cycles"));
    let verdicts = ["is the model of this CPU", "compare different CPUs"];
    assert!(
        verdicts.iter().any(|v| finished.stderr.contains(v)),
        "{}",
        finished.stderr
    );
    assert!(!plain.stderr.contains("measured"));
}

#[test]
fn what_can_be_read_once_only_is_refused_before_anything_runs() {
    let directory = tempfile::tempdir().unwrap();
    let mark = directory.path().join("mark");
    mcad_run(["-q", "--measure", "--", "touch", mark.to_str().unwrap()])
        .input("words")
        .run()
        .expect(125)
        .says("can be read only once");
    assert!(!mark.exists());
}

#[test]
fn programs_that_fail_are_not_measured() {
    let directory = tempfile::tempdir().unwrap();
    let input = directory.path().join("input");
    std::fs::write(&input, "").unwrap();
    on_file("--cpu skl --measure=2 -- sh -c 'exit 3'", &input)
        .run()
        .expect(3)
        .says("the program did not succeed, so it is not measured");
}

#[test]
fn measured_programs_do_not_find_their_output_to_be_the_null_device() {
    // What the clock does is of no interest here.
    let looks = "profile program --max-drift 1e6 --runs 1 -- sh -c";
    mcad(
        looks
            .split(' ')
            .chain(["[ ! /proc/self/fd/1 -ef /dev/null ]"]),
    )
    .run()
    .expect(0);
}

#[test]
fn a_program_is_measured_until_its_cycles_are_known() {
    let directory = tempfile::tempdir().unwrap();
    let (input, json) = (
        directory.path().join("input"),
        directory.path().join("json"),
    );
    std::fs::write(&input, inputs::text(1000)).unwrap();
    let arguments = format!("--cpu skl --measure --json '{}' -- gzip -c", json.display());
    let finished = on_file(&arguments, &input).run().expect(0);
    let measured = report::read(&json).run.measured.unwrap();
    let interval = measured.interval.unwrap();
    let off = |end: u64| end.abs_diff(measured.cycles) as f64 / measured.cycles.max(1) as f64;
    let widest = off(interval.low).max(off(interval.high));
    // It is what was asked for, or said to be wider.
    let told = finished.stderr.contains("wider than the 2 % to both sides");
    assert_eq!(
        told,
        100.0 * widest > interval.asked_percent,
        "{interval:?}"
    );
}
