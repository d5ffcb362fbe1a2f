//! `mcad diff` over files: exit statuses, forms and messages.

#![allow(clippy::unwrap_used)] // Helpers of tests fail tests.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

fn cpu(name: &str, functions: &[(&str, u64)]) -> Value {
    let cycles: u64 = functions.iter().map(|(_, cycles)| cycles).sum();
    let functions: Vec<Value> = functions
        .iter()
        .map(|(name, cycles)| {
            json!({"name": name, "module": "prog", "cycles": cycles, "instructions": 10,
                   "uops": 10})
        })
        .collect();
    json!({
        "cpu": name, "name": name, "analysis": "pipeline", "instructions": 1000, "uops": 1000,
        "cycles": cycles, "ipc": 1000.0 / cycles as f64,
        "topdown": {"slots": 0, "retiring": 0, "frontend": 0, "backend_memory": 0,
                    "backend_core": 0, "other": 0},
        "ports": [], "threads": [], "functions": functions, "blocks": [], "regions": [],
        "unknown_instructions": {"count": 0, "approximated": 0, "forms": []},
        "parameters": null
    })
}

fn report(cpus: Vec<Value>) -> Value {
    json!({
        "schema_version": 1,
        "tool": {"name": "mcad", "version": "1"},
        "program": {"command": ["prog"], "arch": "x86_64", "end": "exited 0", "complete": true,
                    "modules": []},
        "trace": {"instructions": 1000, "blocks_executed": 10, "memory_accesses": 0, "records": 10,
                  "distinct_blocks": 1, "threads": 1, "lost_records": 0, "partial_blocks": 0},
        "cpus": cpus,
        "unknown_instructions": {"count": 0, "approximated": 0, "forms": []},
        "notes": [],
        "run": {"seconds": 1.0, "instructions_per_second": 1.0, "peak_memory_bytes": 1,
                "source": "test"}
    })
}

struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        let files = Self(tempfile::tempdir().unwrap());
        files.put(
            "a.json",
            &report(vec![cpu("skl", &[("f", 600), ("g", 400)])]),
        );
        files.put(
            "b.json",
            &report(vec![cpu("skl", &[("f", 690), ("h", 380)])]),
        );
        files.put("zen.json", &report(vec![cpu("zen3", &[("f", 1)])]));
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn put(&self, name: &str, content: &Value) {
        std::fs::write(self.path(name), content.to_string()).unwrap();
    }

    fn diff(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_mcad"))
            .arg("diff")
            .args(args)
            .current_dir(self.0.path())
            .output()
            .unwrap()
    }
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn refused(output: &Output, parts: &[&str]) {
    let message = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(2), "{message}");
    for part in parts {
        assert!(message.contains(part), "'{part}' is not in: {message}");
    }
}

#[test]
fn equal_reports_are_no_difference_and_no_regression() {
    let files = Files::new();
    let output = files.diff(&["a.json", "a.json", "--fail-above", "0%"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(stdout(&output).contains("no difference"));
}

#[test]
fn what_crashed_or_stopped_early_is_no_improvement() {
    let files = Files::new();
    let changed = |name: &str, change: &dyn Fn(&mut Value)| {
        let text = std::fs::read_to_string(files.path("a.json")).unwrap();
        let mut report: Value = serde_json::from_str(&text).unwrap();
        change(&mut report);
        files.put(name, &report);
    };
    changed("crash.json", &|r| r["program"]["end"] = "signal 11".into());
    changed("other.json", &|r| r["program"]["end"] = "exited 3".into());
    changed("cut.json", &|r| {
        r["program"]["complete"] = false.into();
        r["trace"]["lost_records"] = 7.into();
        r["trace"]["lost_reasons"] = json!(["the disk is full (7 records)"]);
    });
    for (name, says) in [
        ("crash.json", "signal 11"),
        ("other.json", "exited 3"),
        (
            "cut.json",
            "7 or more records are missing: the disk is full\n",
        ),
    ] {
        let output = files.diff(&["a.json", name, "--fail-above", "5%"]);
        refused(&output, &[says, name]);
        assert_eq!(files.diff(&["a.json", name]).status.code(), Some(0));
    }
    // Two that end alike can be compared.
    let output = files.diff(&["other.json", "other.json", "--fail-above", "5%"]);
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn regressions_decide_the_exit_status() {
    let files = Files::new();
    let status = |args: &[&str]| files.diff(args).status.code();
    assert_eq!(status(&["a.json", "b.json"]), Some(0));
    assert_eq!(status(&["a.json", "b.json", "--fail-above", "5%"]), Some(1));
    assert_eq!(status(&["a.json", "b.json", "--fail-above", "8%"]), Some(0));
    assert_eq!(status(&["b.json", "a.json", "--fail-above", "0%"]), Some(0));
    let watching = ["a.json", "b.json", "--fail-above", "8", "--watch", "f"];
    let output = files.diff(&watching);
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(
        message.contains("600 → 690") && message.contains("+15.00 %"),
        "{message}"
    );
}

#[test]
fn the_deltas_of_the_json_add_up() {
    let files = Files::new();
    let diff: Value =
        serde_json::from_str(&stdout(&files.diff(&["a.json", "b.json", "--json", "-"]))).unwrap();
    let cpu = &diff["overall"]["cpus"][0];
    let listed: i64 = cpu["functions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| f["cycles"]["delta"].as_i64().unwrap())
        .sum();
    let rest = cpu["unattributed"]["delta"].as_i64().unwrap();
    assert_eq!(listed + rest, 70);
    assert_eq!(cpu["cycles"]["delta"], 70);
}

#[test]
fn all_forms_go_to_files() {
    let files = Files::new();
    for (form, begins) in [
        (Some("--markdown"), "### "),
        (Some("--benchmark"), "["),
        (None, "a.json"),
    ] {
        let args = [
            "a.json", "b.json", "a.json", "-o", "out", "--svg", "p.svg", "--json", "all.json",
        ];
        let args: Vec<&str> = args.into_iter().chain(form).collect();
        assert!(stdout(&files.diff(&args)).is_empty());
        let text = |name: &str| std::fs::read_to_string(files.path(name)).unwrap();
        assert!(text("out").contains(begins), "{}", text("out"));
        assert!(text("all.json").starts_with('{'));
        let plot = std::fs::read_to_string(files.path("p.svg")).unwrap();
        assert!(plot.starts_with("<svg") && plot.trim_end().ends_with("</svg>"));
    }
    // Stdout has one of them.
    let json = stdout(&files.diff(&["a.json", "b.json", "--json", "-"]));
    assert!(serde_json::from_str::<Value>(&json).is_ok(), "{json}");
    let twice = ["a.json", "b.json", "--json", "-", "--markdown"];
    refused(&files.diff(&twice), &["stdout is given for two outputs"]);
}

#[test]
fn foreign_files_and_wrong_uses_are_told_by_name() {
    let files = Files::new();
    refused(&files.diff(&["a.json"]), &["two"]);
    refused(&files.diff(&["a.json", "none.json"]), &["none.json"]);
    refused(
        &files.diff(&["a.json", "zen.json"]),
        &["skl", "zen3", "--cpu"],
    );
    std::fs::write(files.path("text.json"), "hello").unwrap();
    refused(
        &files.diff(&["a.json", "text.json"]),
        &["text.json", "no JSON"],
    );
    files.put("other.json", &json!({"a": 1}));
    refused(&files.diff(&["a.json", "other.json"]), &["no mcad report"]);
    files.put("old.json", &json!({"schema_version": 0}));
    refused(
        &files.diff(&["a.json", "old.json"]),
        &["old.json", "version 0"],
    );
    for line in [
        &["--cpu", "skl"][..],
        &["--ideal", "l1d"],
        &["--last-level", "4096"],
        &["--clock", "3600"],
        &["--cores", "each"],
        &["--jobs", "2"],
        &["--jobs", "1", "--interval", "20000"],
        &["--jobs", "1", "--warm-up", "1000"],
        &["--no-follow"],
    ] {
        let options = line.iter().filter(|word| word.starts_with("--"));
        let told: Vec<&str> = options.copied().chain(["are for commands"]).collect();
        refused(&files.diff(&[&["a.json", "b.json"], line].concat()), &told);
    }
    let nobody = [
        "a.json",
        "b.json",
        "--fail-above",
        "5%",
        "--watch",
        "nobody",
    ];
    refused(&files.diff(&nobody), &["nobody"]);
    refused(&files.diff(&["--", "true"]), &["CMD_B"]);
    refused(
        &files.diff(&["--cpu", "z80", "--", "true", "--", "true"]),
        &["z80"],
    );
    assert!(Path::new(&files.path("a.json")).exists());
}
