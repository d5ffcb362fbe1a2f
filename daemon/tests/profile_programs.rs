//! `mcad profile programs` as a user runs it. Nothing here depends on how long anything takes.

#![cfg(all(target_arch = "x86_64", target_os = "linux"))]
#![allow(clippy::unwrap_used)]

use std::path::Path;

use assert_cmd::Command;

/// The programs of a list: a shell that reads its input and a variable, in two versions, and one that is not wanted.
fn write_list(directory: &Path) -> String {
    let list = directory.join("list.csv");
    let lines = [
        "package,version,program,command,stdin,environment,tunables,qemu_cpu",
        "shell,1,/bin/sh,/bin/sh script,,WHAT=one,,",
        "shell,2,/bin/sh,/bin/sh script,input,WHAT=two,,max",
        "other,1,/bin/false,/bin/false,,,,",
    ];
    std::fs::write(&list, lines.join("\n") + "\n").unwrap();
    // It runs where its inputs are, and each version with what is its own.
    let script = "read line\ntest \"$WHAT$line\" = one || test \"$WHAT$line\" = twohello";
    std::fs::write(directory.join("script"), script).unwrap();
    std::fs::write(directory.join("input"), "hello\n").unwrap();
    list.display().to_string()
}

fn programs(options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcad"));
    command.args(["profile", "programs"]).args(options);
    command
}

#[test]
fn a_list_gets_the_figures_of_all_rounds() {
    let directory = tempfile::tempdir().unwrap();
    let list = write_list(directory.path());
    let output = directory.path().join("measured.csv");
    let to = output.display().to_string();
    let options = ["--rounds", "2", "--runs", "6", "--only", "shell", "-o", &to];
    let ran = programs(&[&options[..], &[&list]].concat()).assert();
    let said = String::from_utf8(ran.success().get_output().stderr.clone()).unwrap();
    assert!(
        said.contains("shell 2: ") && said.contains("(round 2 of 2)"),
        "{said}"
    );
    let measured = mcad_daemon::eval::programs::read(&output).unwrap();
    // The one that is not wanted is as it was.
    assert_eq!((measured.len(), measured[2].runs), (3, None));
    for row in &measured[..2] {
        // Those far from all others or with another clock do not count.
        assert!(
            row.runs.is_some_and(|runs| (1..=24).contains(&runs)),
            "{row:?}"
        );
        assert!(
            row.min_cycles
                .is_some_and(|least| least > 0.0 && least <= row.user_cycles)
        );
        assert!(row.core_mhz.is_some_and(|mhz| mhz > 0));
    }
    assert_eq!(measured[1].qemu_cpu.as_deref(), Some("max"));
    assert_eq!(measured[1].stdin.as_deref(), Some("input"));
    // It can be measured again in its place.
    let again = ["--rounds", "1", "--runs", "2", "--only", "shell", "-o"];
    programs(&[&again[..], &[&to, &to]].concat())
        .assert()
        .success();
    assert_eq!(mcad_daemon::eval::programs::read(&output).unwrap().len(), 3);
}

#[test]
fn programs_that_fail_keep_nothing_from_the_others() {
    let directory = tempfile::tempdir().unwrap();
    let list = write_list(directory.path());
    let ran = programs(&["--rounds", "1", "--runs", "2", &list])
        .assert()
        .code(1);
    let output = ran.get_output();
    let (text, said) = (&output.stdout, &output.stderr);
    let (text, said) = (String::from_utf8_lossy(text), String::from_utf8_lossy(said));
    assert_eq!(text.lines().count(), 4, "{text}");
    assert!(
        said.contains("other 1: run 1 of /bin/false ended with status 1"),
        "{said}"
    );
    assert!(said.contains("1 measurements failed"), "{said}");
    // Nothing is measured where nothing can be written.
    let nowhere = programs(&["-o", "/nowhere/list.csv", &list])
        .assert()
        .code(2);
    let said = String::from_utf8_lossy(&nowhere.get_output().stderr).into_owned();
    assert!(
        said.contains("/nowhere/list.csv") && !said.contains("round"),
        "{said}"
    );
}

#[test]
fn a_list_without_figures_cannot_be_compared_with() {
    let directory = tempfile::tempdir().unwrap();
    let list = write_list(directory.path());
    let mut eval = Command::new(env!("CARGO_BIN_EXE_mcad"));
    let eval = eval
        .args(["eval", "--programs", "--predict", "skl", &list])
        .assert()
        .code(2);
    let said = String::from_utf8_lossy(&eval.get_output().stderr).into_owned();
    assert!(said.contains("mcad profile programs"), "{said}");
}
