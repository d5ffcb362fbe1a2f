//! `mcad-eval` as a user runs it.

#![allow(clippy::unwrap_used)]

use std::io::Write;

use assert_cmd::Command;
use serde_json::Value;
use tempfile::NamedTempFile;

fn file(text: &str, suffix: &str) -> NamedTempFile {
    let mut file = tempfile::Builder::new().suffix(suffix).tempfile().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn stdout(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_heat_map_is_a_picture() {
    let labels = file("4801d8,1.0\n480fafc3,4.0\n", ".csv");
    let map = file("", ".svg");
    stdout(
        Command::cargo_bin("mcad-eval")
            .unwrap()
            .args(["--predict", "skl", "--heatmap"])
            .args([map.path(), labels.path()]),
    );
    assert!(
        std::fs::read_to_string(map.path())
            .unwrap()
            .starts_with("<svg")
    );
}

#[test]
fn an_evaluation_by_port_use_and_application() {
    // Loads, stores, additions, vector multiplications; one to five of each in a block.
    let kinds = ["488b07", "488907", "4801d8", "c5fc59c1"];
    let (mut labels, mut applications) = (String::new(), String::from("application,hex,weight\n"));
    for kind in kinds {
        for times in 1..=5 {
            let hex = kind.repeat(times);
            labels += &format!("{hex},{times}\n");
            applications += &format!("app-{kind},{hex},{}\n", times * 7);
        }
    }
    labels += "90,0.25\n";
    applications += "other,c3,1\nother,,1\n";
    let (labels, applications) = (file(&labels, ".csv"), file(&applications, ".csv"));
    let eval = |more: &[&str]| {
        stdout(
            Command::cargo_bin("mcad-eval")
                .unwrap()
                .args(["--predict", "skl", "--topics", "--applications"])
                .args([applications.path(), labels.path()])
                .args(more),
        )
    };
    let text = eval(&["--json", "-"]);
    assert_eq!(eval(&["--json", "-"]), text);
    let json: Value = serde_json::from_str(&text).unwrap();
    let names = |list: &str| -> Vec<String> {
        let list = json[list].as_array().unwrap().iter();
        list.map(|g| g["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(json["topics"].as_array().unwrap().len(), 6);
    for name in ["load", "store", "scalar", "vec"] {
        assert!(names("topics").iter().any(|n| n == name), "{text}");
    }
    // The nop has no µop that needs a port.
    let categories = json["categories"].as_array().unwrap();
    let blocks = categories.iter().map(|c| c["blocks"].as_u64().unwrap());
    assert_eq!(blocks.sum::<u64>(), 21);
    assert_eq!(categories.last().unwrap()["name"], "none");
    // Four programs of one application, and one without a label; half of the weight each.
    assert_eq!(names("applications"), ["app", "other"]);
    assert_eq!(json["applications"][0]["blocks"], 20);
    let covered = |v: &Value| v["weighted"]["covered"].as_f64().unwrap();
    assert!((covered(&json["applications"][0]) - 1.0).abs() < 1e-9);
    assert_eq!(covered(&json["applications"][1]), 0.0);
    assert!((covered(&json) - 0.5).abs() < 1e-9);
    let sum: f64 = categories.iter().map(covered).sum();
    assert!((sum - 0.5).abs() < 1e-9);

    let text = eval(&[]);
    for part in ["Topics (ports on hsw)", "p01 97 %", "w. MAPE", "app "] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}
