//! The daemon: what it gives is what a local run gives, and no client harms another.

#![allow(clippy::unwrap_used, clippy::panic)] // Helpers of tests fail tests.

use std::io::Write;
use std::net::{TcpListener, TcpStream};

use mcad_proto::event::{Arch, EndReason};
use mcad_proto::wire::{FrameReader, Hello, Message, Refusal, Role, encode};
use mcad_tests::daemon::{Daemon, read_to_end};
use mcad_tests::run::eventually;
use mcad_tests::{inputs, mcad, mcad_run, report};

#[test]
fn a_forwarded_session_gives_the_report_of_a_local_replay() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(directory.path(), &[]);
    let trace = directory.path().join("t.mcad");
    let (remote, local) = (
        directory.path().join("r.json"),
        directory.path().join("l.json"),
    );
    let run = mcad_run([
        "-q",
        "--daemon",
        &daemon.address(),
        "--cpu",
        "glc",
        "--region",
        "malloc",
    ])
    .args([
        "--record",
        trace.to_str().unwrap(),
        "--json",
        remote.to_str().unwrap(),
    ])
    .args(["--", "gzip", "-c"])
    .input(inputs::text(100_000))
    .run()
    .expect(0);
    assert!(run.stdout.starts_with(&[0x1f, 0x8b]));
    mcad(["replay", "-q", "--cpu", "glc", "--region", "malloc"])
        .args(["--json", local.to_str().unwrap(), trace.to_str().unwrap()])
        .run()
        .expect(0);
    assert!(
        report::stable(&remote) == report::stable(&local),
        "the reports differ"
    );
    eventually("the session's count", || {
        daemon.status().contains("1 finished")
    });
    drop(daemon.finish());
}

#[test]
fn several_clients_are_served_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(directory.path(), &[]);
    let runs: Vec<_> = (0..3)
        .map(|i| {
            let script = format!("exit {i}");
            mcad_run([
                "-q",
                "--daemon",
                &daemon.address(),
                "--",
                "sh",
                "-c",
                &script,
            ])
            .start()
        })
        .collect();
    for (i, run) in (0..).zip(runs) {
        assert_eq!(run.wait().code(), i);
    }
    eventually("the sessions' count", || {
        daemon.status().contains("3 finished")
    });
    drop(daemon.finish());
}

#[test]
fn clients_that_do_not_keep_the_protocol_end_only_themselves() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(directory.path(), &["--handshake-timeout", "1"]);
    let mut garbage = daemon.connect();
    garbage
        .write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        .unwrap();
    let mut oversized = daemon.connect();
    oversized.write_all(b"MCAD\xf8\xff\xff\xff").unwrap();
    let mut noise = daemon.connect();
    noise.write_all(b"MCAD\x40\x00\x00\x00").unwrap();
    noise.write_all(&[0xff; 64]).unwrap();
    let mut silent = daemon.connect();
    let mut half = daemon.connect();
    half.write_all(b"MCAD\x40\x00\x00\x00abc").unwrap();
    for stream in [
        &mut garbage,
        &mut oversized,
        &mut noise,
        &mut silent,
        &mut half,
    ] {
        // Closed by the daemon, the silent ones after their time.
        let _ = read_to_end(stream);
    }
    mcad_run(["-q", "--daemon", &daemon.address(), "--", "true"])
        .run()
        .expect(0);
    let log = daemon.finish();
    for text in [
        "this another program's port",
        "at most",
        "malformed",
        "no greeting within 1 s",
    ] {
        assert!(log.stderr.contains(text), "no {text:?} in {}", log.stderr);
    }
    assert!(!log.stderr.contains("panicked"), "{}", log.stderr);
}

/// Sends a greeting and gives the answer's text form.
fn greet(daemon: &Daemon, change: impl FnOnce(&mut Hello)) -> String {
    let mut hello = Hello::new(Role::Trace, Some(Arch::X86_64));
    change(&mut hello);
    let mut stream = daemon.connect();
    let mut bytes = Vec::new();
    encode(&Message::Hello(hello), &mut bytes);
    stream.write_all(&bytes).unwrap();
    let mut reader = FrameReader::new(stream, "daemon");
    let opened = reader
        .next_frame()
        .unwrap()
        .expect("an answer")
        .open()
        .unwrap();
    match opened.message().unwrap() {
        Message::Refused(refused) => {
            assert_ne!(refused.reason, Refusal::Other);
            refused.message
        }
        other => other.name().to_owned(),
    }
}

#[test]
fn refusals_say_why() {
    let directory = tempfile::tempdir().unwrap();
    let token = directory.path().join("token");
    std::fs::write(&token, "secret\n").unwrap();
    let daemon = Daemon::start(directory.path(), &["--token-file", token.to_str().unwrap()]);
    let answer = greet(&daemon, |hello| {
        hello.min_version = 900;
        hello.max_version = 901;
    });
    assert!(answer.contains("900 to 901"), "{answer}");
    assert!(greet(&daemon, |_| {}).contains("token"));
    assert!(greet(&daemon, |hello| hello.token = "secre".into()).contains("token"));
    let answer = greet(&daemon, |hello| {
        hello.token = "secret".into();
        hello.options = vec![("cpu".into(), "z80".into())];
    });
    assert!(answer.contains("z80"), "{answer}");
    let accepted = greet(&daemon, |hello| hello.token = "secret".into());
    assert_eq!(accepted, "HelloReply");
    mcad_run(["-q", "--daemon", &daemon.address(), "--", "true"])
        .run()
        .expect(125)
        .says("token");
    mcad_run(["-q", "--daemon", &daemon.address(), "--", "true"])
        .env("MCAD_TOKEN", "secret")
        .run()
        .expect(0);
    daemon.process.signal(libc::SIGTERM);
    drop(daemon.process.wait().expect(0));
}

#[test]
fn more_sessions_than_allowed_are_refused_and_the_program_does_not_hang() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(directory.path(), &["--max-sessions", "1"]);
    let first = mcad_run(["-q", "--daemon", &daemon.address(), "--"])
        .args(inputs::busy(directory.path()))
        .start();
    eventually("the first session", || daemon.status().contains("running"));
    let second = mcad_run(["-q", "--daemon", &daemon.address(), "--", "echo", "ran"])
        .run()
        .expect(125)
        .says("1 sessions run already");
    assert_eq!(second.text(), "ran\n");
    first.signal(libc::SIGTERM);
    let _ = first.wait();
    drop(daemon.finish());
}

#[test]
fn a_client_that_is_killed_ends_its_session_and_no_other() {
    let directory = tempfile::tempdir().unwrap();
    let reports = directory.path().join("reports");
    let daemon = Daemon::start(directory.path(), &["--reports", reports.to_str().unwrap()]);
    let client = mcad_run(["-q", "--daemon", &daemon.address(), "--"])
        .args(inputs::busy(directory.path()))
        .start();
    eventually("the session's progress", || {
        let status = daemon.status();
        status.contains("running") && status.contains(",")
    });
    client.signal(libc::SIGKILL);
    std::fs::remove_file(directory.path().join("go")).unwrap();
    assert_eq!(client.wait().code(), 137);
    eventually("the session's end", || {
        daemon.status().contains("1 incomplete")
    });
    let report = report::read(&reports.join("session-1.json"));
    assert!(!report.program.complete);
    // Between two frames, or inside one.
    let ends = ["closed the connection", "the connection ended inside"];
    assert!(
        ends.iter().any(|end| report.program.end.contains(end)),
        "{}",
        report.program.end
    );
    mcad_run(["-q", "--daemon", &daemon.address(), "--", "true"])
        .run()
        .expect(0);
    drop(daemon.finish());
}

#[test]
fn a_client_that_falls_silent_is_given_up() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(directory.path(), &["--idle-timeout", "1"]);
    let mut stream = daemon.connect();
    let mut bytes = Vec::new();
    let mut hello = Hello::new(Role::Trace, Some(Arch::X86_64));
    hello.features = Hello::REPORT;
    encode(&Message::Hello(hello), &mut bytes);
    stream.write_all(&bytes).unwrap();
    let answer = read_to_end(&mut stream);
    assert!(!answer.is_empty());
    let log = daemon.finish();
    assert!(
        log.stderr.contains("no whole message for 1 s"),
        "{}",
        log.stderr
    );
}

#[test]
fn an_end_that_contradicts_the_batches_is_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(directory.path(), &[]);
    let mut stream = daemon.connect();
    let mut bytes = Vec::new();
    encode(
        &Message::Hello(Hello::new(Role::Trace, Some(Arch::X86_64))),
        &mut bytes,
    );
    let reason = EndReason::Exited(0);
    encode(&Message::End { reason, batches: 3 }, &mut bytes);
    stream.write_all(&bytes).unwrap();
    let _ = read_to_end(&mut stream);
    let log = daemon.finish();
    assert!(log.stderr.contains("incomplete"), "{}", log.stderr);
}

#[test]
fn sigterm_finishes_running_sessions_with_what_they_have() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(directory.path(), &[]);
    let json = directory.path().join("r.json");
    let client = mcad_run(["-q", "--daemon", &daemon.address()])
        .args(["--json", json.to_str().unwrap(), "--"])
        .args(inputs::busy(directory.path()))
        .start();
    eventually("the session's progress", || {
        daemon.status().contains("running")
    });
    let log = daemon.finish();
    assert!(log.stderr.contains("incomplete"), "{}", log.stderr);
    // The program outlives the daemon.
    std::fs::remove_file(directory.path().join("go")).unwrap();
    let client = client.wait();
    assert_eq!(client.code(), 6, "{}", client.stderr);
    let report = report::read(&json);
    assert!(!report.program.complete);
    assert!(
        report.program.end.contains("the daemon is ending"),
        "{}",
        report.program.end
    );
}

#[test]
fn no_daemon_and_a_vanished_daemon_are_told() {
    let directory = tempfile::tempdir().unwrap();
    let nowhere = format!("unix:{}/none.sock", directory.path().display());
    let run = mcad_run(["-q", "--daemon", &nowhere, "--", "echo", "ran"])
        .run()
        .expect(125)
        .says("none.sock")
        .says("mcad daemon");
    // Before the program runs.
    assert_eq!(run.text(), "");
    mcad(["status", "--daemon", &nowhere])
        .run()
        .expect(2)
        .says("none.sock");
    let daemon = Daemon::start(directory.path(), &[]);
    let client = mcad_run(["-q", "--daemon", &daemon.address(), "--"])
        .args(inputs::busy(directory.path()))
        .start();
    eventually("the session's progress", || {
        daemon.status().contains("running")
    });
    daemon.process.signal(libc::SIGKILL);
    assert_eq!(daemon.process.wait().code(), 137);
    std::fs::remove_file(directory.path().join("go")).unwrap();
    client.wait().expect(125).says("daemon");
}

#[test]
fn tcp_needs_a_token_and_stays_on_this_machine() {
    mcad(["daemon", "--listen", "tcp:0.0.0.0:0"])
        .run()
        .expect(2)
        .says("--allow-remote");
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let address = format!("tcp:{free}");
    let process = mcad(["daemon", "--listen", &address])
        .env("MCAD_TOKEN", "secret")
        .start();
    eventually("the daemon's listening", || {
        TcpStream::connect(free).is_ok()
    });
    mcad_run(["-q", "--daemon", &address, "--", "true"])
        .run()
        .expect(125)
        .says("token");
    mcad_run(["-q", "--daemon", &address, "--", "true"])
        .env("MCAD_TOKEN", "secret")
        .run()
        .expect(0);
    mcad(["stop", "--daemon", &address])
        .env("MCAD_TOKEN", "secret")
        .run()
        .expect(0);
    let log = process.wait().expect(0);
    assert!(
        log.stderr.contains("listening on tcp:127.0.0.1:"),
        "{}",
        log.stderr
    );
    assert!(!log.stderr.contains("secret"), "{}", log.stderr);
}

#[test]
fn a_daemon_without_a_token_makes_one_and_a_second_does_not_take_its_place() {
    let tcp = mcad(["daemon", "--listen", "tcp:127.0.0.1:0"]).start();
    let directory = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(directory.path(), &[]);
    mcad(["daemon", "--listen", &daemon.address()])
        .run()
        .expect(2)
        .says("another daemon listens");
    let file = directory.path().join("file");
    std::fs::write(&file, "precious").unwrap();
    mcad(["daemon", "--listen", &format!("unix:{}", file.display())])
        .run()
        .expect(2)
        .says("not a socket");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
    drop(daemon.finish());
    tcp.signal(libc::SIGTERM);
    let log = tcp.wait().expect(0).stderr;
    let token = log
        .lines()
        .find_map(|line| line.split("(MCAD_TOKEN): ").nth(1));
    assert!(token.is_some_and(|token| token.len() >= 32), "{log}");
}
