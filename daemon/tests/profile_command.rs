//! `mcad profile` as scripts see it. Figures are not judged: machines that test are busy.

#![cfg(all(target_arch = "x86_64", target_os = "linux"))]
#![allow(clippy::unwrap_used, clippy::panic)] // Helpers of tests fail tests.

use std::path::Path;

use assert_cmd::Command;

fn profile(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcad"));
    command.arg("profile").args(arguments);
    command
}

fn lines(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// A line is `hex,cycles,spread` with numbers, or unsteady on a machine that is too busy.
fn is_figure(line: &str, hex: &str) -> bool {
    let fields: Vec<_> = line.split(',').collect();
    match fields.as_slice() {
        [block, cycles, spread] if *cycles != "ERR" => {
            *block == hex
                && cycles.parse::<f64>().unwrap() > 0.0
                && spread.parse::<f64>().unwrap() >= 0.0
        }
        [block, "ERR", reason] => {
            *block == hex && (reason.starts_with("unsteady") || reason.starts_with("clock"))
        }
        _ => false,
    }
}

#[test]
fn a_batch_answers_every_line_in_order_and_goes_on_where_it_was_cut_off() {
    let directory = tempfile::tempdir().unwrap();
    let (input, output) = (
        directory.path().join("in.csv"),
        directory.path().join("out"),
    );
    std::fs::write(&input, "4801d8,1.0\n0f05\nzz\n480fafc3,more\n").unwrap();
    let (from, to) = (input.to_str().unwrap(), output.to_str().unwrap());
    let summary = profile(&["block", "--batch", from, "-o", to])
        .assert()
        .success();
    let summary = String::from_utf8(summary.get_output().stderr.clone()).unwrap();
    assert!(summary.contains("4 blocks in "), "{summary}");
    assert!(summary.contains("refused         1  25.0 %"), "{summary}");
    let first = lines(&output);
    assert_eq!(first.len(), 4);
    assert!(is_figure(&first[0], "4801d8"), "{}", first[0]);
    assert!(first[1].starts_with("0f05,ERR,refused: "), "{}", first[1]);
    assert_eq!(first[2], "zz,ERR,no hexadecimal digit at character 1");
    assert!(is_figure(&first[3], "480fafc3"), "{}", first[3]);

    // Cut off within the third line: what is complete stays as it is.
    let text = format!("{}\n{}\nzz,ER", first[0], first[1]);
    std::fs::write(&output, text).unwrap();
    let arguments = ["block", "--batch", from, "-o", to, "--resume", "-q"];
    profile(&arguments).assert().success().stderr("");
    let second = lines(&output);
    assert_eq!(second[..3], first[..3]);
    assert!(is_figure(&second[3], "480fafc3"), "{}", second[3]);
    assert_eq!(second.len(), 4);

    // Of another input, nothing is added.
    std::fs::write(&input, "90\n").unwrap();
    let refused = profile(&arguments).assert().failure();
    let message = String::from_utf8(refused.get_output().stderr.clone()).unwrap();
    assert!(message.contains("line 1 of"), "{message}");
    assert_eq!(lines(&output), second);
}

#[test]
fn one_block_has_both_notions_and_json() {
    let json = profile(&["block", "--hex", "4801d8", "--json", "-", "--init", "stack"])
        .output()
        .unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["schema_version"], 1);
    let results = json["blocks"][0]["results"].as_array().unwrap();
    let notions: Vec<_> = results
        .iter()
        .map(|r| r["notion"].as_str().unwrap())
        .collect();
    assert_eq!(notions, ["unrolled", "loop"]);
    let refused = profile(&["block", "--hex", "f4"]).assert().code(1);
    let text = String::from_utf8(refused.get_output().stdout.clone()).unwrap();
    assert!(text.contains("refused: 'hlt' is privileged"), "{text}");
}

#[test]
fn instructions_are_measured_compared_and_exported_as_a_model() {
    let directory = tempfile::tempdir().unwrap();
    let (csv, model) = (
        directory.path().join("f.csv"),
        directory.path().join("here.toml"),
    );
    let (csv, model) = (csv.to_str().unwrap(), model.to_str().unwrap());
    let form = "imul (r64, r64)";
    let run = profile(&[
        "instruction",
        form,
        "--check",
        "skl",
        "-o",
        csv,
        "--export",
        model,
    ])
    .assert()
    .success();
    let text = String::from_utf8(run.get_output().stdout.clone()).unwrap();
    for part in ["1 forms: ", "helpers: ", "latencies within 0.1 cycles: "] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let rows = lines(Path::new(csv));
    assert_eq!(
        rows[0],
        "form,example,figure,from,to,kind,cycles,spread,exact,reason"
    );
    assert!(rows[1].starts_with("\"IMUL (R64, R64)\",\"imul rbx,rcx\",throughput,"));
    // Both sources, to the result and to the flags.
    assert_eq!(rows.len(), 2 + 4);
    let block = Command::new(env!("CARGO_BIN_EXE_mcad"))
        .args(["block", "--cpu", model, "--hex", "480fafc3"])
        .assert()
        .success();
    let block = String::from_utf8(block.get_output().stdout.clone()).unwrap();
    assert!(block.contains("here"), "{block}");
    profile(&["instruction", "no such form"]).assert().failure();
    let list = profile(&["instruction", "--list", "--cpu", "hsw", "popcnt"])
        .assert()
        .success();
    let list = String::from_utf8(list.get_output().stdout.clone()).unwrap();
    assert!(list.contains("popcnt rbx,[rsi]"), "{list}");
}

#[test]
fn conflicts_have_a_row_a_pair_and_a_drawing() {
    let directory = tempfile::tempdir().unwrap();
    let (csv, svg) = (
        directory.path().join("c.csv"),
        directory.path().join("c.svg"),
    );
    profile(&[
        "instruction",
        "--conflicts",
        "--cpu",
        "glc",
        "imul (r64, r64",
        "-o",
    ])
    .arg(&csv)
    .arg("--heatmap")
    .arg(&svg)
    .assert()
    .success();
    // IMUL of two registers, and of two and an immediate of 8 and 32 bits, and of zero.
    assert_eq!(lines(&csv).len(), 1 + 4 * 3 / 2);
    assert!(std::fs::read_to_string(svg).unwrap().starts_with("<svg "));
}

#[test]
fn the_clock_says_what_it_is() {
    let text = profile(&["clock", "--samples", "3"]).assert().success();
    let text = String::from_utf8(text.get_output().stdout.clone()).unwrap();
    for line in [
        "cycles ",
        "time-stamp counter ",
        "core clock ",
        "noise ",
        "check ",
    ] {
        assert!(text.lines().any(|l| l.starts_with(line)), "{text}");
    }
}

#[test]
fn outputs_that_cannot_be_written_are_told_before_anything_is_measured() {
    let outputs: [&[&str]; 4] = [
        &["instruction", "imul", "--export"],
        &["instruction", "--conflicts", "--output"],
        &["instruction", "--conflicts", "--heatmap"],
        &["core", "load-latency", "--native", "--html"],
    ];
    for words in outputs {
        let output = Command::new(env!("CARGO_BIN_EXE_mcad"))
            .arg("profile")
            .args(words)
            .arg("/no/such/place")
            .assert()
            .code(2)
            .get_output()
            .clone();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            said.contains("cannot write /no/such/place"),
            "{words:?}: {said}"
        );
        assert!(output.stdout.is_empty(), "{words:?}");
    }
}
