//! `mcad profile program` as a user runs it. Nothing here depends on how long anything takes.

#![cfg(all(target_arch = "x86_64", target_os = "linux"))]
#![allow(clippy::unwrap_used)]

use std::path::Path;

use assert_cmd::Command;
use serde_json::Value;

/// Long enough that the kernel sees some of it in user mode.
const BUSY: &str = "i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done";

/// `mcad profile program` with options, on a shell's script. Any drift of the clock will do.
fn profile(options: &[&str], script: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcad"));
    command
        .args(["profile", "program", "--max-drift", "1e6"])
        .args(options)
        .args(["--", "sh", "-c", script]);
    command
}

fn stdout(mut command: Command) -> String {
    let output = command.assert().success().get_output().stdout.clone();
    String::from_utf8(output).unwrap()
}

/// What a run that fails says.
fn failure(mut command: Command) -> String {
    let output = command.assert().code(2).get_output().clone();
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).unwrap()
}

fn script_that_counts(file: &Path) -> String {
    format!("echo >> '{}'", file.display())
}

#[test]
fn json_has_every_run_and_what_it_rests_on() {
    let json = stdout(profile(
        &["--runs", "3", "--warmup", "0", "--json", "-"],
        BUSY,
    ));
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["command"][0], "sh");
    assert!(json["host"]["vendor"].is_string() && !json["cpu"].is_string());
    assert_eq!(
        json["source"] == "time-stamp",
        json["no_counter"].is_string()
    );
    let number = |v: &Value| v.as_f64().unwrap();
    let cycles = &json["cycles"];
    let counting = cycles["runs"].as_u64().unwrap();
    assert!(counting >= 3);
    let order = ["min", "low", "median", "high", "max"].map(|name| number(&cycles[name]));
    assert!(order[0] > 0.0 && order.is_sorted(), "{order:?}");
    let samples = json["samples"].as_array().unwrap();
    // Those beside whatever was on the core's other hardware thread are made again.
    let rejected = ["drifted", "shared", "outliers"].map(|why| json[why].as_u64().unwrap());
    assert_eq!(
        samples.len() as u64,
        counting + rejected.iter().sum::<u64>()
    );
    let counts = |sample: &&Value| sample["fate"] == "counts";
    assert_eq!(samples.iter().filter(counts).count() as u64, counting);
    for sample in samples.iter().filter(counts) {
        assert!(number(&sample["cycles"]) >= order[0] && number(&sample["cycles"]) <= order[4]);
        assert!(number(&sample["user_seconds"]) <= number(&sample["cpu_seconds"]));
        assert!(number(&sample["core_mhz"]) > 0.0);
    }
    let share = number(&json["user_share"]);
    assert!(share > 0.0 && share <= 1.0);
    // What divides the time, or why it does not.
    let sampled = &json["sampled"];
    if sampled.is_object() {
        let [user, kernel, behind] =
            ["user", "kernel", "behind_cpuid"].map(|n| number(&sampled[n]));
        assert!((share - user / (user + kernel)).abs() < 1e-9, "{sampled}");
        assert!(behind <= user && sampled["lost"] == 0, "{sampled}");
        // Where runs were made again, the last ones may have come when there were enough.
        let (runs, enough) = (sampled["runs"].as_u64().unwrap(), user + kernel >= 24_000.0);
        let all = samples.len() as u64;
        assert!(
            runs == all || runs < all && enough,
            "{runs} of {all}: {sampled}"
        );
    } else {
        assert_eq!(
            json["source"] == "time-stamp",
            json["not_sampled"].is_string()
        );
    }
}

#[test]
fn samples_find_user_time_and_the_kernels() {
    let json = |script: &str| {
        let json = stdout(profile(&["--runs", "6", "--json", "-"], script));
        serde_json::from_str::<Value>(&json).unwrap()
    };
    let computes = json(BUSY);
    if !computes["sampled"].is_object() {
        // A counter, or a kernel that allows none: what it says of that is another test's.
        return;
    }
    // Copies in the kernel from one end to the other.
    let copies = json("head -c 200000000 /dev/zero | tail -c 1");
    let share = |json: &Value| json["user_share"].as_f64().unwrap();
    assert!(share(&computes) > 0.6 && share(&copies) < share(&computes) - 0.1);
}

/// A process that keeps a CPU busy, until it is dropped.
struct Spinner(std::process::Child);

impl Spinner {
    fn start() -> Self {
        let mut command = std::process::Command::new("sh");
        Self(command.args(["-c", "while :; do :; done"]).spawn().unwrap())
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn a_busy_machine_is_told_and_the_interval_is_the_true_one() {
    let cpus = std::thread::available_parallelism().unwrap().get();
    let _others: Vec<Spinner> = (0..cpus.min(4)).map(|_| Spinner::start()).collect();
    let options = ["--runs", "4", "--no-priority"];
    let text = stdout(profile(&options, BUSY));
    assert!(text.contains("the machine was busy"), "{text}");
    // Four runs have the median between them with 1 - 2/16, and no run of four is an outlier.
    assert!(text.contains("with 88 % confidence"), "{text}");
    let json = stdout(profile(&[&options[..], &["--json", "-"]].concat(), BUSY));
    let json: Value = serde_json::from_str(&json).unwrap();
    let number = |v: &Value| v.as_f64().unwrap();
    assert!(number(&json["load"]["others"]) >= 0.25, "{}", json["load"]);
    let (interval, cycles) = (&json["interval"], &json["cycles"]);
    assert!(number(&interval["low"]) <= number(&cycles["median"]));
    assert!(number(&interval["high"]) >= number(&cycles["median"]));
    if json["source"] == "time-stamp" {
        // Some hundred ticks at most: no figure is known within a thousandth by them.
        assert!(number(&interval["high"]) > number(&interval["low"]));
    }
}

#[test]
fn text_and_csv_say_the_same_runs() {
    let text = stdout(profile(&["--runs", "2", "--shared-core"], BUSY));
    for part in [
        "median of 2 runs",
        "cycles from",
        "core clock",
        "rejected     0 since",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    let csv = stdout(profile(&["--runs", "2", "--shared-core", "--csv"], BUSY));
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines.len(), 3, "{csv}");
    assert!(lines[0].starts_with("run,cycles,") && lines[2].starts_with("2,"));
    assert!(lines[2].ends_with(",counts"));
}

#[test]
fn the_command_runs_as_often_as_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let script = script_that_counts(&log);
    // As often as asked for, and those that are sampled in between.
    let ran = |options: &[&str]| {
        let options = [options, &["--shared-core", "--json", "-"]].concat();
        let json = stdout(profile(&options, &script));
        let json: Value = serde_json::from_str(&json).unwrap();
        let sampled = json["sampled"]["runs"].as_u64().unwrap_or(0) as usize;
        let runs = std::fs::read_to_string(&log).unwrap().lines().count();
        std::fs::remove_file(&log).unwrap();
        runs - sampled
    };
    assert_eq!(ran(&["--runs", "3", "--warmup", "2"]), 5);
    // Ten at least, thirty at most.
    let runs = ran(&["--warmup", "0"]);
    assert!((10..=30).contains(&runs), "{runs}");
}

#[test]
fn commands_that_fail_are_shown() {
    let said = failure(profile(&["--runs", "2"], "echo why >&2; exit 3"));
    assert!(
        said.contains("run 1 of sh ended with status 3") && said.contains("why"),
        "{said}"
    );
    let said = failure(profile(
        &["--runs", "2"],
        "printf '\\033[2J' >&2; kill -9 $$",
    ));
    assert!(
        said.contains("signal 9") && !said.contains('\u{1b}'),
        "{said:?}"
    );
    // The third run fails.
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let script = format!(
        "{0}; test $(wc -l < '{1}') -lt 3",
        script_that_counts(&log),
        log.display()
    );
    let said = failure(profile(&["--runs", "5"], &script));
    assert!(said.contains("run 3 of sh ended with status 1"), "{said}");
    let mut missing = Command::new(env!("CARGO_BIN_EXE_mcad"));
    missing.args(["profile", "program", "--", "/nowhere/program"]);
    assert!(failure(missing).contains("cannot run /nowhere/program"));
}

#[test]
fn every_run_reads_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let input = directory.path().join("input");
    std::fs::write(&input, "hello\n").unwrap();
    let input = input.to_str().unwrap();
    let script = "read line; test \"$line\" = hello";
    stdout(profile(&["--runs", "2", "--stdin", input], script));
    stdout(profile(&["--runs", "2"], "! read line"));
    let said = failure(profile(&["--stdin", "/nowhere/input"], "true"));
    assert!(said.contains("cannot read /nowhere/input"), "{said}");
}

#[test]
fn output_may_have_to_be_the_same() {
    let check = ["--runs", "3", "--check-output"];
    stdout(profile(&check, "echo always"));
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let script = format!("{}; wc -l < '{}'", script_that_counts(&log), log.display());
    let said = failure(profile(&check, &script));
    assert!(said.contains("run 2 of sh wrote something else"), "{said}");
    // Without the option nobody looks.
    stdout(profile(&["--runs", "3"], &script));
}

#[test]
fn runs_are_kept_on_a_cpu_and_may_have_fixed_addresses() {
    stdout(profile(&["--runs", "2"], "test $(nproc) = 1"));
    let said = failure(profile(&["--pin", "1023"], "true"));
    assert!(said.contains("CPU 1023"), "{said}");
    // Filters of containers forbid it; that is told.
    let script = "test $(($(printf 0x; cat /proc/self/personality) & 0x40000)) != 0";
    let mut fixed = profile(&["--runs", "2", "--no-aslr"], script);
    let output = fixed.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.success() || said.contains("cannot fix the command's addresses"),
        "{said}"
    );
}
