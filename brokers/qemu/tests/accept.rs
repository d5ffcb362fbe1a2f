//! A ring that waits for an emulator which someone else starts.

#![allow(clippy::unwrap_used, clippy::panic)] // As in the tests themselves.

mod support;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use mcad_broker_abi::Config;
use mcad_broker_qemu::{Session, qemu};
use mcad_proto::event::{Arch, EndReason};
use support::{Programs, Run, plugin};

/// A session without a command: its configuration holds nothing but the ring.
fn wait_at(ring: &str) -> Session {
    let mut config = Config::new();
    config.push("ring", ring).unwrap();
    Session::start(&config).unwrap()
}

fn own() -> &'static str {
    plugin().to_str().unwrap()
}

fn emulate(ring: &str, plugin: &str, command: &[&str]) -> Child {
    let found = qemu::find(None, Arch::X86_64).unwrap_or_else(|error| panic!("{error}"));
    Command::new(found.path)
        .arg("-plugin")
        .arg(format!("file={plugin},ring={ring}"))
        .args(command)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn a_strangers_emulator_is_taken_with_its_exit_status() {
    let programs = Programs::new();
    let ring = programs.path("ring");
    let mut session = wait_at(&ring);
    assert_eq!(session.next_event(Duration::from_millis(30)).unwrap(), None);
    let mut child = emulate(&ring, own(), &["/bin/sh", "-c", "exit 23"]);
    let trace = Run::new().collect(&mut session, |_, _| {});
    assert_eq!(child.wait().unwrap().code(), Some(23));
    assert_eq!(trace.end, Some(EndReason::Exited(23)));
    assert!(trace.block_words > 1000);
    drop(session);
    assert!(!Path::new(&ring).exists(), "the ring's file stays behind");
}

#[test]
fn the_last_threads_exit_is_the_programs() {
    let programs = Programs::new();
    let program = programs.c(
        "bare",
        &["-nostdlib", "-static"],
        r#"void _start(void) { __asm__("mov $60, %eax; mov $7, %edi; syscall"); }"#,
    );
    let ring = programs.path("ring");
    let mut session = wait_at(&ring);
    let mut child = emulate(&ring, own(), &[&program]);
    let trace = Run::new().collect(&mut session, |_, _| {});
    child.wait().unwrap();
    assert_eq!(trace.end, Some(EndReason::Exited(7)));
}

#[test]
fn a_killed_one_is_noticed_and_a_second_one_refused() {
    let programs = Programs::new();
    let ring = programs.path("ring");
    let mut session = wait_at(&ring);
    let mut child = emulate(&ring, own(), &["/bin/sleep", "100"]);
    let mut second = None;
    let trace = Run::new().collect(&mut session, |_, trace| {
        if trace.info.is_some() && second.is_none() {
            let output = emulate(&ring, own(), &["/bin/true"])
                .wait_with_output()
                .unwrap();
            second = Some((output.status.success(), String::from_utf8(output.stderr)));
            child.kill().unwrap();
        }
    });
    child.wait().unwrap();
    let (success, message) = second.unwrap();
    assert!(!success);
    assert!(message.unwrap().contains("serves another program"));
    let Some(EndReason::ProducerDied(how)) = trace.end else {
        panic!("{:?}", trace.end);
    };
    assert!(how.contains("in the middle"), "{how}");
}

#[test]
fn a_plugin_of_another_build_is_refused() {
    let programs = Programs::new();
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../qemu-plugin");
    for file in std::fs::read_dir(sources).unwrap() {
        let file = file.unwrap();
        let copy = programs.dir.path().join(file.file_name());
        std::fs::copy(file.path(), copy).unwrap();
    }
    let changed = programs.dir.path().join("dict.c");
    let mut text = std::fs::read_to_string(&changed).unwrap();
    text.push_str("/* something else */\n");
    std::fs::write(changed, text).unwrap();
    let built = Command::new("sh")
        .args([programs.path("build.sh"), programs.path("out")])
        .status();
    assert!(built.unwrap().success());

    let mut config = Config::new();
    let plugin = programs.path("out/libmcad-plugin.so");
    config.push("plugin", plugin.as_str()).unwrap();
    config.push("arg", "/bin/true").unwrap();
    let mut session = Session::start(&config).unwrap();
    let error = session.next_event(Duration::from_secs(60)).unwrap_err();
    assert!(error.to_string().contains("its own message"), "{error}");

    let ring = programs.path("ring");
    let _session = wait_at(&ring);
    let output = emulate(&ring, &plugin, &["/bin/true"]).wait_with_output();
    let output = output.unwrap();
    assert!(!output.status.success());
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("built from other sources"), "{message}");
}

#[test]
fn stopping_ends_the_wait_and_the_program() {
    let programs = Programs::new();
    let ring = programs.path("ring");
    let mut session = wait_at(&ring);
    session.killer()();
    let error = session.next_event(Duration::from_secs(5)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "stopped before an emulator came to the ring"
    );

    let ring = programs.path("another");
    let mut session = wait_at(&ring);
    let mut child = emulate(&ring, own(), &["/bin/sleep", "100"]);
    let stop = session.killer();
    let trace = Run::new().collect(&mut session, |_, trace| {
        if trace.info.is_some() {
            stop();
        }
    });
    assert!(!child.wait().unwrap().success());
    assert_eq!(
        trace.end,
        Some(EndReason::ProducerDied("stopped on request".into()))
    );
}

#[test]
fn contradictions_and_taken_names_are_refused() {
    let programs = Programs::new();
    let ring = programs.path("ring");
    let mut config = Config::new();
    config.push("ring", ring.as_str()).unwrap();
    config.push("arg", "true").unwrap();
    let error = Session::start(&config).unwrap_err().to_string();
    assert!(error.contains("does not go with arg="), "{error}");
    std::fs::write(&ring, "mine").unwrap();
    let mut config = Config::new();
    config.push("ring", ring.as_str()).unwrap();
    let error = Session::start(&config).unwrap_err().to_string();
    assert!(error.contains("exists already"), "{error}");
}
