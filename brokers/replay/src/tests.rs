//! Recorded sessions through the broker.

#![allow(clippy::unwrap_used)] // helpers of tests may fail loudly

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use mcad_broker_abi::{BrokerLibrary, BrokerSession, Config};
use mcad_proto::event::*;
use mcad_proto::trace::{TraceReader, TraceWriter};
use mcad_proto::word::*;

use super::Replay;

fn info() -> SessionInfo {
    SessionInfo {
        arch: Arch::X86_64,
        producer: "test".into(),
        command: vec!["x".into()],
        memory: true,
    }
}

fn events() -> Vec<Event<'static>> {
    vec![
        Event::Session(info()),
        Event::StreamStart(StreamId(0)),
        Event::Block(BlockDef {
            id: BlockId(0),
            address: GuestAddr(0x1000),
            instructions: 1,
            bytes: &[0xc3],
        }),
        Event::Records {
            stream: StreamId(0),
            words: const { &[block_word(BlockId(0)); 3] },
        },
        Event::End(EndReason::Exited(0)),
    ]
}

fn trace() -> Vec<u8> {
    let mut writer = TraceWriter::new(Vec::new(), "t", &info()).unwrap();
    for event in events() {
        writer.event(&event).unwrap();
    }
    writer.finish_into().unwrap().1
}

fn open(file: &Path) -> Result<BrokerSession, String> {
    let mut config = Config::new();
    config.push("file", file.to_str().unwrap()).unwrap();
    let library = BrokerLibrary::linked::<Replay>().unwrap();
    library.open(&config).map_err(|e| e.to_string())
}

#[test]
fn a_recording_is_delivered_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace");
    std::fs::write(&path, trace()).unwrap();
    let mut session = open(&path).unwrap();
    for expected in events() {
        let event = session.next(Duration::ZERO).unwrap();
        assert_eq!(event, Some(expected));
    }
}

#[test]
fn a_slow_pipe_is_waited_for_and_can_be_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(made.unwrap().success());
    let writer = std::thread::spawn({
        let path = path.clone();
        move || std::fs::OpenOptions::new().write(true).open(path).unwrap()
    });
    let mut session = open(&path).unwrap();
    let mut pipe = writer.join().unwrap();
    let short = Duration::from_millis(1);
    assert_eq!(session.next(short).unwrap(), None);
    let trace = trace();
    // The header and a part of the first chunk.
    let mut reader = TraceReader::new(&*trace, "t").unwrap();
    while reader.next().unwrap().is_some() {}
    let cut = reader.chunks()[0].offset as usize + 50;
    pipe.write_all(&trace[..cut]).unwrap();
    assert_eq!(session.next(short).unwrap(), Some(Event::Session(info())));
    for _ in 0..3 {
        assert_eq!(session.next(short).unwrap(), None);
    }
    pipe.write_all(&trace[cut..]).unwrap();
    for expected in &events()[1..4] {
        assert_eq!(session.next(short).unwrap().as_ref(), Some(expected));
    }
    assert!(session.stop());
    let Some(Event::End(EndReason::Truncated(what))) = session.next(short).unwrap() else {
        unreachable!("the stop was not taken");
    };
    assert!(
        what.ends_with("stopped on request before its end"),
        "{what}"
    );
}

#[test]
fn what_is_no_trace_is_refused_with_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("note");
    std::fs::write(&path, "hello world, this is text").unwrap();
    let message = open(&path).unwrap_err();
    assert!(message.contains("/note is no mcad trace"), "{message}");
    let message = open(&dir.path().join("none")).unwrap_err();
    assert!(message.contains("cannot open"), "{message}");
    let message = open(dir.path()).unwrap_err();
    assert!(message.contains("is a directory"), "{message}");
    let library = BrokerLibrary::linked::<Replay>().unwrap();
    let message = library.open(&Config::new()).unwrap_err().to_string();
    assert_eq!(
        message,
        "replay broker: no trace file given: set file=PATH or file=-"
    );
}
