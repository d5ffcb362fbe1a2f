//! Clients and files that want the daemon's files or its memory: each ends itself, and nothing else.

#![allow(clippy::unwrap_used, clippy::panic)] // Helpers of tests fail tests.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use mcad_proto::event::{Arch, BlockDef, EndReason, Event, ModuleDef, RegionDef, SessionInfo};
use mcad_proto::trace::TraceWriter;
use mcad_proto::wire::{BatchBuilder, FrameReader, Hello, Message, Role, encode};
use mcad_proto::word::{Access, BlockId, GuestAddr, StreamId, access_word, block_word};
use mcad_tests::daemon::Daemon;
use mcad_tests::run::{Run, eventually};
use mcad_tests::{inputs, mcad, mcad_run};

/// Sends a greeting with these options and gives what the daemon says to it.
fn greet(daemon: &Daemon, options: Vec<(String, String)>) -> (UnixStream, String) {
    let mut stream = daemon.connect();
    let mut hello = Hello::new(Role::Trace, Some(Arch::X86_64));
    hello.features = Hello::REPORT;
    hello.options = options;
    let mut bytes = Vec::new();
    encode(&Message::Hello(hello), &mut bytes);
    stream.write_all(&bytes).unwrap();
    let mut reader = FrameReader::new(stream.try_clone().unwrap(), "daemon");
    let frame = reader.next_frame().unwrap().expect("an answer");
    let opened = frame.open().unwrap();
    let said = match opened.message().unwrap() {
        Message::Refused(refused) => refused.message,
        other => other.name().to_owned(),
    };
    (stream, said)
}

fn option(key: &str, value: impl Into<String>) -> (String, String) {
    (key.to_owned(), value.into())
}

/// Highest resident memory of a process so far, in MiB.
fn peak_mib(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|l| l.starts_with("VmHWM:")).unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib >> 10
}

#[test]
fn the_daemon_opens_no_file_that_a_client_names_as_a_model() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(directory.path(), &[]);
    let secret = directory.path().join("secret.toml");
    std::fs::write(&secret, "password = \"swordfish\"\n").unwrap();
    let (_, said) = greet(&daemon, vec![option("cpu", secret.to_str().unwrap())]);
    assert!(said.contains("unknown CPU"), "{said}");
    assert!(!said.contains("password"), "{said}");
    // Opened, it would block a thread of the daemon for good: it has two.
    let pipe = directory.path().join("pipe.toml");
    let made = Run::of("/usr/bin/mkfifo".as_ref()).args([&pipe]).run();
    drop(made.expect(0));
    for _ in 0..3 {
        let (_, said) = greet(&daemon, vec![option("cpu", pipe.to_str().unwrap())]);
        assert!(said.contains("unknown CPU"), "{said}");
    }
    mcad_run(["-q", "--daemon", &daemon.address(), "--", "true"])
        .run()
        .expect(0);
    mcad_run(["-q", "--daemon", &daemon.address(), "--cpu"])
        .args([secret.to_str().unwrap(), "--", "true"])
        .run()
        .expect(125)
        .says("built-in");
    drop(daemon.finish());
}

#[test]
fn options_without_end_take_neither_memory_nor_a_session() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(directory.path(), &[]);
    let (_, said) = greet(&daemon, vec![option("cpu", "skl"); 60_000]);
    assert_eq!(said, "HelloReply");
    let regions = (0..1000).map(|n| option("region", format!("f{n}")));
    let (_, said) = greet(&daemon, regions.collect());
    assert!(said.contains("more than"), "{said}");
    let (_, said) = greet(&daemon, vec![option("cpu", "x".repeat(1 << 19))]);
    assert!(said.len() < 1000, "{} bytes", said.len());
    let peak = peak_mib(daemon.process.pid());
    assert!(peak < 300, "{peak} MiB");
    drop(daemon.finish());
}

#[test]
fn silent_and_slow_clients_keep_nobody_out() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(directory.path(), &[]);
    let socket = directory.path().join("mcad.sock");
    let mode = std::fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut hello = Vec::new();
    encode(&Message::Hello(Hello::new(Role::Control, None)), &mut hello);
    let held: Vec<UnixStream> = (0..200)
        .map(|n| {
            let mut stream = daemon.connect();
            if n % 2 == 0 {
                // One that was closed for a newer one takes nothing.
                let _ = stream.write_all(&hello);
            }
            stream
        })
        .collect();
    mcad_run(["-q", "--daemon", &daemon.address(), "--", "true"])
        .run()
        .expect(0);
    // The client has its report a moment before the daemon counts the session.
    let begin = Instant::now();
    while !daemon.status().contains("1 finished") {
        let status = daemon.status();
        assert!(begin.elapsed() < Duration::from_secs(60), "{status}");
        std::thread::sleep(Duration::from_millis(50));
    }
    drop(held);
    let log = daemon.finish().stderr;
    assert!(log.contains("too many connections"), "{log}");
    assert!(log.len() < 20_000, "{} bytes of log", log.len());
}

#[test]
fn reports_that_are_kept_replace_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let reports = directory.path().join("reports");
    std::fs::create_dir(&reports).unwrap();
    let precious = directory.path().join("precious");
    std::fs::write(&precious, "precious").unwrap();
    std::os::unix::fs::symlink(&precious, reports.join("session-1.json")).unwrap();
    for _ in 0..2 {
        let daemon = Daemon::start(directory.path(), &["--reports", reports.to_str().unwrap()]);
        mcad_run(["-q", "--daemon", &daemon.address(), "--", "true"])
            .run()
            .expect(0);
        drop(daemon.finish());
    }
    assert_eq!(std::fs::read_to_string(&precious).unwrap(), "precious");
    assert_eq!(std::fs::read_dir(&reports).unwrap().count(), 3);
}

const NOP: &[u8] = &[0x90];

fn block(id: u32) -> Event<'static> {
    Event::Block(BlockDef {
        id: BlockId(id),
        address: GuestAddr(0x1000 + u64::from(id)),
        instructions: 1,
        bytes: NOP,
    })
}

/// Streams that live at the same time, each with a core of its own.
fn threads() -> Vec<Event<'static>> {
    let words: &'static [u64] = Box::leak(Box::new([block_word(BlockId(0)); 4]));
    let mut events = vec![block(0)];
    events.extend((0..4000).flat_map(|n| {
        let stream = StreamId(n);
        [Event::StreamStart(stream), Event::Records { stream, words }]
    }));
    events
}

/// More code than a session has room for.
fn code() -> Vec<Event<'static>> {
    let block = |n: u32| {
        Event::Block(BlockDef {
            id: BlockId(n),
            address: GuestAddr(u64::from(n) * 0x1000),
            instructions: 500,
            bytes: &[0x90; 500],
        })
    };
    (0..20_000).map(block).collect()
}

/// Mappings that replace each other, with a block between them so that none can be forgotten.
fn modules() -> Vec<Event<'static>> {
    (0..6000)
        .flat_map(|n| {
            let start = 0x1000 + u64::from(n) * 0x1000;
            let module = Event::Module(ModuleDef {
                path: "x".repeat(200),
                start: GuestAddr(start),
                end: GuestAddr(start + 0x1001),
                file_offset: 0,
            });
            [module, block(n)]
        })
        .collect()
}

fn regions() -> Vec<Event<'static>> {
    let region = |n: u64| RegionDef {
        name: format!("r{n}"),
        start: GuestAddr(n),
        end: GuestAddr(n + 1),
    };
    (0..240_000).map(|n| Event::Region(region(n))).collect()
}

fn texts() -> Vec<Event<'static>> {
    let text = "x".repeat(60_000);
    (0..5000).map(|_| Event::Notice(text.clone())).collect()
}

fn sparse() -> Vec<Event<'static>> {
    let ids = [0xff_fffe, 0x7f_ffff, 0];
    ids.into_iter().map(block).collect()
}

/// Sends events as fast as the daemon takes them and gives what it says in the end.
fn send(daemon: &Daemon, events: &[Event<'_>]) -> String {
    let (mut stream, said) = greet(daemon, vec![option("region", "main")]);
    assert_eq!(said, "HelloReply");
    let mut reader = FrameReader::new(stream.try_clone().unwrap(), "daemon");
    let mut batch = BatchBuilder::new();
    let mut bytes = Vec::new();
    let mut batches = 0;
    let mut outstanding = 0;
    let mut out = |bytes: &mut Vec<u8>| {
        // The session may be over already; its last message says why.
        let _ = stream.write_all(bytes);
        bytes.clear();
    };
    let last = events.len() - 1;
    for (n, event) in events.iter().enumerate() {
        batch.push(event, 1 << 16);
        if n == last || batch.payload_bytes() > 1 << 20 || batch.is_full(1 << 12) {
            while outstanding >= 4 {
                match reader
                    .next_frame()
                    .unwrap()
                    .unwrap()
                    .open()
                    .unwrap()
                    .message()
                {
                    Ok(Message::Credit(more)) => outstanding -= more,
                    Ok(Message::Progress(_)) => {}
                    other => panic!("{other:?}"),
                }
            }
            batch.encode(batches, &mut bytes);
            batch.clear();
            out(&mut bytes);
            batches += 1;
            outstanding += 1;
        }
    }
    let reason = EndReason::Exited(0);
    encode(&Message::End { reason, batches }, &mut bytes);
    out(&mut bytes);
    let mut report = Vec::new();
    while let Ok(Some(frame)) = reader.next_frame() {
        match frame.open().unwrap().message().unwrap() {
            Message::ReportPart(part) => report.extend_from_slice(part.data),
            Message::Failure(text) => return text,
            _ => {}
        }
    }
    let report: mcad_report::Report = serde_json::from_slice(&report).unwrap();
    report.program.end
}

#[test]
fn a_session_over_its_bound_ends_alone() {
    let directory = tempfile::tempdir().unwrap();
    // A share of 128 MiB for each of four.
    let options = ["--max-memory", "512", "--max-sessions", "4"];
    let daemon = Daemon::start(directory.path(), &options);
    let neighbour = mcad_run(["-q", "--daemon", &daemon.address(), "--"])
        .args(mcad_tests::inputs::busy(directory.path()))
        .start();
    for (events, expected) in [
        (code(), "more than the 128 MiB"),
        (threads(), "exited 0"),
        (regions(), "regions"),
        (sparse(), "without gaps"),
        (modules(), "exited 0"),
        (texts(), "exited 0"),
    ] {
        let end = send(&daemon, &events);
        assert!(end.contains(expected), "{end}");
        let peak = peak_mib(daemon.process.pid());
        assert!(peak < 400, "{peak} MiB after '{end}'");
    }
    std::fs::remove_file(directory.path().join("go")).unwrap();
    assert_eq!(neighbour.wait().code(), 6);
    drop(daemon.finish());
}

fn write_trace(path: &Path, events: &[Event<'_>]) {
    let info = SessionInfo {
        arch: Arch::X86_64,
        producer: "test".into(),
        command: Vec::new(),
        memory: true,
    };
    let file = File::create(path).unwrap();
    let mut writer = TraceWriter::new(file, "test", &info).unwrap();
    for event in events {
        writer.event(event).unwrap();
    }
    writer.event(&Event::End(EndReason::Exited(0))).unwrap();
    writer.finish().unwrap();
}

/// Runs with so much address space and no more.
fn within_mib(mib: u64, arguments: &[&str]) -> mcad_tests::run::Finished {
    let mcad = mcad_tests::programs().file("mcad");
    let script = format!("ulimit -v {}; exec \"$0\" \"$@\"", mib << 10);
    Run::of("/bin/sh".as_ref())
        .args(["-c", &script, mcad.to_str().unwrap()])
        .args(arguments)
        .run()
}

/// Threads as real programs have them: each begins with some hundred blocks of its own code and data,
/// and then waits for all others.
#[test]
fn thousands_of_live_threads_fit_into_memory() {
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("threads");
    // mov rax, [rdi]; mov [rsi], rax; test al, 1; jne
    let code: &'static [u8] = &[0x48, 0x8b, 0x07, 0x48, 0x89, 0x06, 0xa8, 0x01, 0x75, 0x00];
    let mut events: Vec<Event<'_>> = (0..100)
        .map(|n| {
            Event::Block(BlockDef {
                id: BlockId(n),
                address: GuestAddr(0x40_0000 + u64::from(n) * 10),
                instructions: 4,
                bytes: code,
            })
        })
        .collect();
    let work = |thread: u64| -> &'static [u64] {
        let words = (0..200).flat_map(|n| {
            let access = |index, store, address: u64| {
                access_word(Access {
                    index,
                    store,
                    size: 8,
                    address: GuestAddr(thread << 16 | address),
                })
            };
            let block = block_word(BlockId((n * 7 % 100) as u32));
            [block, access(0, false, n * 64), access(1, true, n * 8)]
        });
        Box::leak(words.collect())
    };
    let threads = 4000;
    events.extend((0..threads).map(|n| Event::StreamStart(StreamId(n))));
    events.extend((0..threads).map(|n| Event::Records {
        stream: StreamId(n),
        words: work(u64::from(n)),
    }));
    write_trace(&trace, &events);
    for cpu in ["skl", "glc", "zen5"] {
        let run = mcad(["replay", "-q", "--json", "-", "--cpu", cpu]).args([&trace]);
        let run = run.run().expect(0);
        let report: mcad_report::Report = serde_json::from_slice(&run.stdout).unwrap();
        assert_eq!(report.trace.threads, u64::from(threads));
        // A live thread that does little takes some 100 to 140 KiB, wherever its core is simulated.
        let peak = report.run.peak_memory_bytes >> 20;
        assert!(peak < 576, "{peak} MiB on {cpu}");
    }
}

#[test]
fn files_made_to_be_large_are_read_in_bounded_memory() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    for (name, events, status) in [
        ("modules", modules(), 0),
        ("sparse", sparse(), 2),
        ("regions", regions(), 2),
    ] {
        let trace = path(name);
        write_trace(&trace, &events);
        let run = within_mib(1024, &["replay", "-q", &text(&trace)]).expect(status);
        assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
    }

    let zeros = path("zeros");
    let file = File::create(&zeros).unwrap();
    file.set_len(3 << 29).unwrap();
    drop(file);
    let packed = Run::of("/usr/bin/xz".as_ref()).args(["-0".as_ref(), zeros.as_os_str()]);
    drop(packed.run().expect(0));
    within_mib(
        1024,
        &["eval", "--predict", "skl", &text(&path("zeros.xz"))],
    )
    .expect(2)
    .says("line 1: longer than");

    let json = path("large.json");
    let mut file = std::io::BufWriter::new(File::create(&json).unwrap());
    let begin = format!(
        "{{\"schema_version\":{},\"junk\":[",
        mcad_report::SCHEMA_VERSION
    );
    file.write_all(begin.as_bytes()).unwrap();
    for _ in 0..50_000_000 {
        file.write_all(b"0,").unwrap();
    }
    file.write_all(b"0]}").unwrap();
    drop(file);
    within_mib(1024, &["view", &text(&json)])
        .expect(2)
        .says("damaged");
    within_mib(1024, &["view", "/dev/zero"])
        .expect(2)
        .says("longer");
    let endless = mcad(["block", "--hex", "90", "--cpu", "/dev/zero.toml"]).run();
    endless.expect(2).says("cannot read");
}

/// A guest has the rings mapped, and finds them in `/proc`: it can write into them, and that is all.
#[test]
fn a_guest_cannot_shrink_the_ring_nor_send_signals_by_it() {
    let directory = tempfile::tempdir().unwrap();
    let program = inputs::compile(directory.path(), "ring", include_str!("../programs/ring.c"));
    let program = program.to_str().unwrap();
    // A shorter file would end mcad-run by SIGBUS.
    let run = mcad_run(["--", program, "shrink"]).run().expect(7);
    assert!(run.text().ends_with(" tried, 0 done\n"), "{}", run.text());
    assert!(!run.text().starts_with("0 tried"), "nothing was attacked");
    assert!(run.stderr.contains("exited 7"), "{}", run.stderr);

    // Somebody else's process, named in the ring as the traced one.
    let mut other = std::process::Command::new("sleep")
        .arg("1000")
        .spawn()
        .unwrap();
    let said = directory.path().join("said");
    let script = format!(
        "exec '{program}' forge {} > '{}'",
        other.id(),
        said.display()
    );
    let running = mcad_run(["-q", "--", "sh", "-c", &script]).start();
    let text = || std::fs::read_to_string(&said).unwrap_or_default();
    eventually("the attack", || text().ends_with("done\n"));
    assert!(
        !text().starts_with("0 tried") && !text().contains(" 0 done"),
        "{}",
        text()
    );
    let emulators = running.children();
    running.signal(libc::SIGTERM);
    assert_ne!(running.wait().code(), 0);
    let alive = |pid: &i32| Path::new(&format!("/proc/{pid}/cwd")).read_link().is_ok();
    eventually("the program's end", || !emulators.iter().any(alive));
    assert!(
        other.try_wait().unwrap().is_none(),
        "another process was ended"
    );
    other.kill().unwrap();
    other.wait().unwrap();
}
