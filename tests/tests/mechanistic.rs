//! `mcad model` end to end: a recorded program is profiled, predicted, swept and drawn, and the
//! figures are near what the stepwise core says.

#![allow(clippy::unwrap_used, clippy::panic)] // Helpers of tests fail tests.

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use mcad_tests::{inputs, mcad};

/// A recording of gzip and its profile.
struct Recording {
    directory: tempfile::TempDir,
    trace: PathBuf,
    profile: PathBuf,
}

fn recording() -> &'static Recording {
    static RECORDING: OnceLock<Recording> = OnceLock::new();
    RECORDING.get_or_init(|| {
        let directory = tempfile::tempdir().unwrap();
        let trace = directory.path().join("gzip.mcad");
        let profile = directory.path().join("gzip.profile");
        mcad(["record", "-o", trace.to_str().unwrap(), "--", "gzip", "-c"])
            .input(inputs::text(40_000))
            .run()
            .expect(0);
        let said = mcad(["model", "profile", trace.to_str().unwrap(), "-o"])
            .args([profile.to_str().unwrap()])
            .run()
            .expect(0);
        assert!(said.stderr.contains(" instructions, "), "{}", said.stderr);
        Recording {
            directory,
            trace,
            profile,
        }
    })
}

/// The rows of a CSV, by the names of their columns.
fn column(csv: &str, name: &str) -> Vec<String> {
    let mut lines = csv.lines();
    let at = lines.next().unwrap().split(',').position(|c| c == name);
    let at = at.unwrap_or_else(|| panic!("no column {name} in {csv}"));
    lines
        .map(|line| line.split(',').nth(at).unwrap().to_owned())
        .collect()
}

fn numbers(csv: &str, name: &str) -> Vec<f64> {
    let all = column(csv, name);
    all.iter().map(|n| n.parse().unwrap()).collect()
}

#[test]
fn stacks_add_up_to_the_cycles() {
    let run = mcad(["model", "predict", "--json", "-"])
        .args([recording().profile.to_str().unwrap()])
        .run()
        .expect(0);
    let json: serde_json::Value = serde_json::from_str(&run.text()).unwrap();
    let sum = |value: &serde_json::Value| match value {
        serde_json::Value::Array(all) => all.iter().filter_map(|n| n.as_f64()).sum::<f64>(),
        one => one.as_f64().unwrap(),
    };
    let stack = json["stack"].as_object().unwrap();
    let parts: f64 = stack.values().map(sum).sum();
    let cycles = json["cycles"].as_f64().unwrap();
    assert_eq!(parts, cycles);
    // Cortex-A8 has caches and a predictor, and gzip begins with cold ones.
    for part in [
        "data_cache",
        "instruction_cache",
        "misprediction",
        "taken_branch",
    ] {
        assert!(stack[part].as_f64().unwrap() > 0.0, "{part}");
    }
}

#[test]
fn stacks_of_sweeps_add_up_to_the_cycle() {
    let space = recording().directory.path().join("stacks.toml");
    let text = "width = [1, 2, 3, 4]\nl1d_kib = [2, 16]\nl2_kib = [128]\npredictor = [\"gshare1k\"]\n\
                load_latency = [2, 3, 5]\nmultiply_pipelined = [false, true]\n";
    fs::write(&space, text).unwrap();
    for how in [&[][..], &["--literal"], &["--paths"]] {
        let run = mcad(["model", "sweep", "--space", space.to_str().unwrap()])
            .args([recording().profile.to_str().unwrap()])
            .args(how.iter().copied())
            .run()
            .expect(0);
        let csv = run.text();
        let header: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
        let base = header.iter().position(|c| *c == "base").unwrap();
        let cycles = numbers(&csv, "cycles");
        assert_eq!(cycles.len(), 48);
        for (line, cycles) in csv.lines().skip(1).zip(cycles) {
            let parts: Vec<&str> = line.split(',').skip(base).collect();
            if how == ["--paths"] {
                assert!(parts.iter().all(|part| part.is_empty()), "{line}");
            } else {
                let parts = parts.iter().map(|part| part.parse::<f64>().unwrap());
                assert_eq!(parts.sum::<f64>(), cycles, "{line}");
            }
        }
    }
}

#[test]
fn sweeps_know_every_axis() {
    let space = recording().directory.path().join("space.toml");
    fs::write(
        &space,
        "width = [1, 3]\ndepth = [5, 15]\npredictor = [\"gshare4k\", \"static\"]\n\
         taken_bubble = [1]\nl1i_kib = [8]\nl1d_kib = [2, 64]\nl2_kib = [256]\n\
         l2_latency = [10]\nmemory_latency = [80]\n",
    )
    .unwrap();
    let sweep = |how: &[&str]| {
        let run = mcad(["model", "sweep", "--space", space.to_str().unwrap()])
            .args([recording().profile.to_str().unwrap()])
            .args(how.iter().copied())
            .run()
            .expect(0);
        run.text()
    };
    let csv = sweep(&[]);
    let cycles = numbers(&csv, "cycles");
    assert_eq!(cycles.len(), 16);
    // In the order of the axes: width, depth, predictor, data cache.
    for (n, pair) in cycles.chunks(2).enumerate() {
        assert!(pair[0] > pair[1], "a small cache is no slower: {n}");
    }
    for (n, four) in cycles.chunks(4).enumerate() {
        assert!(four[2] > four[0], "static prediction is no slower: {n}");
    }
    for (n, eight) in cycles.chunks(8).enumerate() {
        assert!(eight[4] > eight[0], "a deeper front end is no slower: {n}");
    }
    assert!(cycles[0] > cycles[8], "a wider core is no faster");
    // The other models see the same misses.
    for how in ["--literal", "--paths"] {
        let other = numbers(&sweep(&[how]), "cycles");
        assert!(other[0] > other[1] && other[4] > other[0], "{how}");
    }
}

#[test]
fn spaces_and_machines_that_make_no_sense_are_refused() {
    let space = recording().directory.path().join("wrong.toml");
    let refused = |text: &str| {
        fs::write(&space, text).unwrap();
        mcad(["model", "sweep", "--space", space.to_str().unwrap()])
            .args([recording().profile.to_str().unwrap()])
            .run()
            .stderr
    };
    assert!(refused("l1d_kib = [48]\n").contains("48 KiB: a cache must have a power of two"));
    assert!(refused("width = [9]\n").contains("width = 9: must be 1 to 4"));
    assert!(refused("predictor = [\"oracle\"]\n").contains("unknown variant `oracle`"));
    assert!(refused("memory_latency = [0]\nl1d_kib = [4]\n").contains("memory_latency"));
}

#[test]
fn figures_are_near_the_stepwise_core() {
    for (figure, points) in [
        ("widths", 4),
        ("units", 2),
        ("multiplier", 6),
        ("caches", 11),
        ("predictors", 7),
        ("depth", 5),
    ] {
        let run = mcad(["model", "figure", figure, "--instructions", "300000"])
            .args([recording().trace.to_str().unwrap()])
            .run()
            .expect(0);
        let csv = run.text();
        let errors = numbers(&csv, "error_percent");
        assert_eq!(errors.len(), points, "{figure}");
        let worst = errors.iter().map(|e| e.abs()).fold(0.0, f64::max);
        assert!(worst < 12.0, "{figure}: {worst} %");
    }
}
