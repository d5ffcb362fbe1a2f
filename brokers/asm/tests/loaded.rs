//! The shared library as a host loads it.

#![allow(clippy::unwrap_used, clippy::panic)] // helpers of tests may fail loudly

use std::time::Duration;

use mcad_broker_abi::{BrokerLibrary, BrokerSession, Config};
use mcad_proto::event::*;
use mcad_proto::word::*;

fn open(entries: &[(&str, &str)]) -> Result<BrokerSession, String> {
    let exe = std::env::current_exe().unwrap();
    let path = exe.with_file_name("libmcad_broker_asm.so");
    let library = BrokerLibrary::load(path).unwrap();
    assert_eq!(library.name(), "asm");
    let mut config = Config::new();
    for (key, value) in entries {
        config.push(*key, *value).unwrap();
    }
    library.open(&config).map_err(|e| e.to_string())
}

/// What a session delivers: region names and addresses, blocks, executions by id, the end.
#[derive(Debug, Default, PartialEq)]
struct Delivered {
    regions: Vec<(String, u64, u64)>,
    blocks: Vec<(u64, u16, Vec<u8>)>,
    executed: Vec<u32>,
    end: Option<EndReason>,
}

fn deliver(mut session: BrokerSession) -> Delivered {
    let mut got = Delivered::default();
    while got.end.is_none() {
        match session.next(Duration::ZERO).unwrap().unwrap() {
            Event::Session(info) => assert!(!info.memory && info.command.is_empty()),
            Event::Region(r) => got.regions.push((r.name, r.start.0, r.end.0)),
            Event::Block(b) => {
                assert_eq!(b.id.0 as usize, got.blocks.len());
                got.blocks
                    .push((b.address.0, b.instructions, b.bytes.to_vec()));
            }
            Event::Records { words, .. } => {
                for word in words {
                    match decode_word(*word).unwrap() {
                        Record::Block(id) => got.executed.push(id.0),
                        Record::Access(_) | Record::Kernel(_) => panic!("an access"),
                    }
                }
            }
            Event::StreamStart(s) | Event::StreamEnd(s) => assert_eq!(s, StreamId(0)),
            Event::End(reason) => got.end = Some(reason),
            other => panic!("{other:?}"),
        }
    }
    got
}

#[test]
fn hex_bytes_are_cut_placed_and_repeated() {
    let session = open(&[("hex", "90 7500 90c3"), ("repeat", "3"), ("base", "0x1000")]).unwrap();
    assert_eq!(
        deliver(session),
        Delivered {
            regions: vec![("code 1".into(), 0x1000, 0x1005)],
            blocks: vec![
                (0x1000, 2, vec![0x90, 0x75, 0]),
                (0x1003, 2, vec![0x90, 0xc3]),
            ],
            executed: vec![0, 1, 0, 1, 0, 1],
            end: Some(EndReason::Complete),
        }
    );
}

#[test]
fn many_repetitions_come_in_many_events() {
    let got = deliver(open(&[("hex", "90"), ("repeat", "100001")]).unwrap());
    assert_eq!(got.executed, vec![0; 100_001]);
}

#[test]
fn marked_regions_run_one_after_the_other() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.s");
    let text = "# LLVM-MCA-BEGIN a\nadd rax, rbx\n# LLVM-MCA-END\n\
                # LLVM-MCA-BEGIN b\nnop\n# LLVM-MCA-END\n";
    std::fs::write(&path, text).unwrap();
    let file = path.to_str().unwrap();
    let got = deliver(open(&[("file", file), ("syntax", "intel"), ("repeat", "2")]).unwrap());
    assert_eq!(
        got.regions,
        [
            ("a".into(), 0x40_0000, 0x40_0003),
            ("b".into(), 0x40_1003, 0x40_1004)
        ]
    );
    assert_eq!(got.executed, [0, 0, 1, 1]);
}

#[test]
fn a_stop_ends_a_long_run() {
    let mut session = open(&[("hex", "90"), ("repeat", "1000000000000")]).unwrap();
    for _ in 0..6 {
        session.next(Duration::ZERO).unwrap();
    }
    assert!(session.stop());
    assert_eq!(
        session.next(Duration::ZERO).unwrap(),
        Some(Event::End(EndReason::Truncated(
            "stopped on request in repetition 65537".into()
        )))
    );
}

#[test]
fn mistakes_name_the_key_or_the_place() {
    let error = |entries: &[(&str, &str)]| open(entries).unwrap_err();
    assert_eq!(
        error(&[]),
        "asm broker: no input given: set file=PATH, file=- or hex=BYTES"
    );
    assert_eq!(
        error(&[("hex", "9")]),
        "asm broker: hex bytes: line 1, \"9\": an odd number of hexadecimal digits"
    );
    assert_eq!(
        error(&[("hex", "9006")]),
        "asm broker: hex bytes: the code: no instruction at byte 1 of 2: 06"
    );
    assert!(error(&[("hex", "90"), ("repeat", "0")]).contains("repeat=0: expected 1 to"));
    assert!(error(&[("hex", "90"), ("format", "elf")]).contains("another format"));
    assert!(error(&[("hex", "90"), ("loops", "1")]).contains("unknown configuration key"));
    assert!(error(&[("file", "/nonexistent")]).contains("cannot read /nonexistent: "));
}
