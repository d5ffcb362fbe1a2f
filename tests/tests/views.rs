//! What people see of real runs: timelines that agree with the report, comparisons of commands,
//! the examples' scripts.

#![allow(clippy::unwrap_used, clippy::panic)] // Helpers of tests fail tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use mcad_tests::{Run, mcad, programs};
use serde_json::Value;

struct Recording {
    directory: tempfile::TempDir,
    trace: PathBuf,
}

/// A recorded run of a small program.
fn recording() -> &'static Recording {
    static RECORDING: OnceLock<Recording> = OnceLock::new();
    RECORDING.get_or_init(|| {
        let directory = tempfile::tempdir().unwrap();
        let trace = directory.path().join("true.mcad");
        // Small: its whole timeline is read as one JSON value.
        mcad(["record", "-o", trace.to_str().unwrap(), "--", "true"])
            .run()
            .expect(0);
        Recording { directory, trace }
    })
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("no number: {value}"))
}

/// The report of a replay that records a timeline of this window.
fn timeline(window: &str, name: &str) -> (Value, PathBuf) {
    let recording = recording();
    let report = recording.directory.path().join(format!("{name}.json"));
    let timeline = recording.directory.path().join(format!("{name}.timeline"));
    mcad([
        "replay",
        "-q",
        "--cpu",
        "skl",
        "--timeline-limit",
        "100000000",
        "--json",
    ])
    .args([&report, Path::new("--timeline"), &timeline])
    .args(["--window", window, recording.trace.to_str().unwrap()])
    .run()
    .expect(0);
    (json(&report), timeline)
}

#[test]
fn the_chrome_trace_of_a_whole_run_gives_the_reports_figures() {
    let (report, timeline) = timeline("all", "whole");
    let cpu = &report["cpus"][0];
    let trace = recording().directory.path().join("whole.chrome.json");
    mcad(["view", "--format", "chrome", "-o"])
        .args([&trace, &timeline])
        .run()
        .expect(0);
    let trace = json(&trace);
    let mut ports = vec![0; cpu["ports"].as_array().unwrap().len()];
    let mut cycles = 0;
    let mut retired = 0;
    for event in trace["traceEvents"].as_array().unwrap() {
        if event["ph"] != "X" || event["cat"] != "instruction" {
            continue;
        }
        let end = number(&event["ts"]) + number(&event["dur"]) - 1;
        assert!(end >= retired, "instructions retire in order");
        retired = end;
        cycles = cycles.max(end);
        for uop in event["args"]["uops"].as_array().unwrap() {
            if let Some(port) = uop[0].as_u64() {
                ports[port as usize] += 1;
            }
        }
    }
    assert_eq!(cycles, number(&cpu["cycles"]));
    let expected = cpu["ports"].as_array().unwrap().iter();
    let expected: Vec<u64> = expected.map(|port| number(&port["uops"])).collect();
    assert_eq!(ports, expected);
}

#[test]
fn timelines_are_shown_in_every_form_and_nothing_else_is_taken_for_one() {
    let (_, timeline) = timeline("instructions:1000-1200", "window");
    let view = |format: &str, file: &Path| mcad(["view", "--format", format]).args([file]).run();
    let text = view("text", &timeline).expect(0).text();
    assert!(text.contains("executing") && text.contains('R'), "{text}");
    let log = view("konata", &timeline).expect(0).text();
    assert!(log.starts_with("Kanata\t0004\n"));
    let rows = |command: &str| log.lines().filter(|line| line.starts_with(command)).count();
    assert_eq!(rows("I\t"), rows("R\t"));
    // Macro-fused pairs have one row for two instructions.
    assert!(rows("I\t") >= 100);
    view("html", &timeline).expect(2).says("timeline");
}

#[test]
fn reports_become_pages_profiles_and_stacks() {
    let (report, _) = timeline("cycles:0-10", "formats");
    let path = recording().directory.path().join("formats.json");
    let view = |format: &str| {
        let run = mcad(["view", "--format", format]).args([&path]).run();
        run.expect(0).text()
    };
    let html = view("html");
    assert!(html.starts_with("<!doctype html>") && html.len() < 5 << 20);
    let stacks = view("collapsed");
    let cycles = |line: &str| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap();
    let sum: u64 = stacks.lines().map(cycles).sum();
    assert!(sum <= number(&report["cpus"][0]["cycles"]));
    let profile: Value = serde_json::from_str(&view("firefox")).unwrap();
    let weights = profile["threads"][0]["samples"]["weight"]
        .as_array()
        .unwrap();
    assert_eq!(weights.iter().map(number).sum::<u64>(), sum);
    let run = mcad(["view", "--format", "konata"]).args([&path]).run();
    run.expect(2).says("--timeline");
}

#[test]
fn two_commands_are_compared_through_the_same_path_as_mcad_run() {
    let directory = tempfile::tempdir().unwrap();
    let diff = directory.path().join("diff.json");
    let lines = directory.path().join("lines");
    let text: String = (0..400).map(|n| format!("{}\n", n * 7919 % 400)).collect();
    std::fs::write(&lines, text).unwrap();
    let command = ["sort", lines.to_str().unwrap()];
    mcad([
        "diff",
        "-q",
        "--cpu",
        "skl",
        "--json",
        diff.to_str().unwrap(),
        "--",
    ])
    .args(["true", "--"])
    .args(["sort", "/dev/null"])
    .run()
    .expect(0);
    let diff = json(&diff);
    let cpu = &diff["overall"]["cpus"][0];
    let functions = cpu["functions"].as_array().unwrap().iter();
    let delta = |cycles: &Value| cycles["delta"].as_i64().unwrap();
    let sum: i64 = functions.map(|f| delta(&f["cycles"])).sum();
    assert_eq!(sum + delta(&cpu["unattributed"]), delta(&cpu["cycles"]));
    assert!(delta(&cpu["cycles"]) > 0, "sort does more than true");
    let slower = ["diff", "-q", "--fail-above", "5%", "--", "true", "--"];
    mcad(slower)
        .args(command)
        .run()
        .expect(1)
        .says("regression");
}

/// A script with mcad on its PATH.
fn script(name: &str) -> Run {
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", programs().dir.display());
    Run::of(&programs::root().join("examples").join(name)).env("PATH", path)
}

#[test]
fn the_ci_job_fails_on_a_slow_down_of_a_function() {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("p.c");
    let code = "int main(int n, char **v) { volatile int i; int work(void); work();\n\
                for (i = 0; i < 10; i++); return n > 9 && v; }\n\
                __attribute__((noinline)) int work(void) { volatile int i;\n\
                for (i = 0; i < STEPS; i++); return i; }\n";
    fs::write(&source, code).unwrap();
    let build = |steps: u32| {
        let program = directory.path().join(format!("p{steps}"));
        let run = Run::of(Path::new("cc"))
            .args(["-O1", &format!("-DSTEPS={steps}"), "-o"])
            .args([&program, &source])
            .run();
        run.expect(0);
        program
    };
    let (fast, slow) = (build(1000), build(1500));
    let baseline = directory.path().join("baseline.json");
    let summary = directory.path().join("summary.md");
    let check = |program: &Path, function: &str| {
        script("ci/check-cycles.sh")
            .env("SUMMARY", &summary)
            .args([
                baseline.as_path(),
                Path::new(function),
                Path::new("5%"),
                program,
            ])
            .run()
    };
    check(&fast, "work").expect(0).says("new baseline");
    check(&fast, "work").expect(0);
    check(&slow, "work").expect(1).says("regression");
    check(&slow, "main").expect(0);
    check(&slow, "nobody").expect(2).says("nobody");
    assert!(fs::read_to_string(&summary).unwrap().contains("| CPU |"));
}

#[test]
fn the_sweep_predicts_one_trace_on_all_cpus() {
    let trace = recording().trace.to_str().unwrap();
    let table = script("sweep-cpus.py").args([trace, "skl", "glc"]).run();
    let table = table.expect(0).text();
    let rows: Vec<&str> = table.lines().collect();
    assert_eq!(rows.len(), 3, "{table}");
    assert!(rows[1].starts_with("skl,") && rows[2].starts_with("glc,"));
    assert!(rows[1].contains(",1.0000,"));
    for row in &rows[1..] {
        // Where the slots went, all of them.
        let shares = row
            .split(',')
            .skip(4)
            .map(|share| share.parse::<f64>().unwrap());
        let sum: f64 = shares.sum();
        assert!((sum - 1.0).abs() < 0.001, "{sum}: {row}");
    }
    let all = script("sweep-cpus.py").args([trace]).run().expect(0).text();
    let models = mcad(["cpus"]).run().expect(0).text();
    for row in all.lines().skip(1) {
        let cpu = row.split(',').next().unwrap();
        assert!(models.contains(cpu), "{cpu}");
    }
    assert!(all.lines().count() > 5, "{all}");
}
