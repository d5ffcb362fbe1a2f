//! The broker in C of `examples/broker-c`: built, loaded, and its events checked.

#![allow(clippy::unwrap_used, clippy::panic)] // helpers of tests may fail loudly

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use mcad_broker_abi::{BrokerLibrary, BrokerSession, Config};
use mcad_proto::event::*;
use mcad_proto::word::*;

const NOW: Duration = Duration::ZERO;

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/broker-c")
}

/// Compiles the broker as its Makefile does.
fn build(dir: &Path) -> BrokerLibrary {
    let library = dir.join("libmcad_broker_c_example.so");
    let compiled = Command::new("cc")
        .args([
            "-O2",
            "-std=c11",
            "-Wall",
            "-Wextra",
            "-Wpedantic",
            "-Werror",
        ])
        .args(["-fPIC", "-fvisibility=hidden", "-shared", "-I"])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("include"))
        .arg("-o")
        .arg(&library)
        .arg(example().join("broker.c"))
        .output()
        .expect("this test needs a C compiler: apt-get install gcc");
    let messages = String::from_utf8_lossy(&compiled.stderr);
    assert!(compiled.status.success(), "{messages}");
    BrokerLibrary::load(&library).unwrap()
}

fn open(library: &BrokerLibrary, file: &Path) -> Result<BrokerSession, String> {
    let mut config = Config::new();
    config.push("file", file.to_str().unwrap()).unwrap();
    library.open(&config).map_err(|e| e.to_string())
}

fn block(id: u32, address: u64, instructions: u16, bytes: &[u8]) -> Event<'_> {
    Event::Block(BlockDef {
        id: BlockId(id),
        address: GuestAddr(address),
        instructions,
        bytes,
    })
}

fn records(words: &[u64]) -> Event<'_> {
    Event::Records {
        stream: StreamId(0),
        words,
    }
}

#[test]
fn its_list_comes_out_as_events() {
    let dir = tempfile::tempdir().unwrap();
    let library = build(dir.path());
    assert_eq!(library.name(), "c-example");
    assert!(library.help().starts_with("file=PATH"));
    let mut session = open(&library, &example().join("loop.txt")).unwrap();
    const fn words<const N: usize>(id: u32) -> [u64; N] {
        [block_word(BlockId(id)); N]
    }
    let expected = [
        Event::Session(SessionInfo {
            arch: Arch::X86_64,
            producer: "C example, 3 blocks".into(),
            command: vec![],
            memory: false,
        }),
        Event::StreamStart(StreamId(0)),
        block(0, 0x40_1000, 1, &[0xb9, 7, 0, 0, 0]),
        records(&const { words::<1>(0) }),
        block(1, 0x40_1005, 3, &[0x48, 0x01, 0xc3, 0xff, 0xc9, 0x75, 0xf9]),
        records(&const { words::<7>(1) }),
        block(2, 0x40_100c, 1, &[0xc3]),
        records(&const { words::<1>(2) }),
        Event::StreamEnd(StreamId(0)),
        Event::End(EndReason::Complete),
    ];
    for event in expected {
        assert_eq!(session.next(NOW).unwrap(), Some(event));
    }
    assert!(session.next(NOW).is_err());
}

#[test]
fn long_runs_come_in_pieces_and_stop_on_request() {
    let dir = tempfile::tempdir().unwrap();
    let library = build(dir.path());
    let list = dir.path().join("list");
    std::fs::write(&list, "block 10 1 90 x10000\n").unwrap();
    let mut session = open(&library, &list).unwrap();
    let mut count = 0;
    while let Some(event) = session.next(NOW).unwrap() {
        match event {
            Event::Records { words, .. } => count += words.len(),
            Event::End(reason) => {
                assert_eq!(reason, EndReason::Complete);
                break;
            }
            _ => {}
        }
    }
    assert_eq!(count, 10_000);

    let mut session = open(&library, &list).unwrap();
    session.next(NOW).unwrap();
    assert!(session.stop());
    let end = EndReason::Truncated("stopped on request".into());
    assert_eq!(session.next(NOW).unwrap(), Some(Event::End(end)));
}

#[test]
fn mistakes_are_told_with_their_line() {
    let dir = tempfile::tempdir().unwrap();
    let library = build(dir.path());
    let list = dir.path().join("list");
    let message = |text: &str| {
        std::fs::write(&list, text).unwrap();
        open(&library, &list).unwrap_err()
    };
    for (text, expected) in [
        ("", "line 0: there is no block in it"),
        ("\nhello\n", "line 2: expected: block ADDRESS"),
        (
            "block zz 1 90\n",
            "line 1: the address is no hexadecimal number",
        ),
        (
            "block 10 0 90\n",
            "line 1: the number of instructions must be",
        ),
        (
            "block 10 1 9\n",
            "line 1: the code must be hexadecimal bytes",
        ),
        (
            "block 10 1 90 xx\n",
            "line 1: the executions must be written as xN",
        ),
        ("block 10 1 90 x1 1\n", "line 1: something follows"),
    ] {
        let message = message(text);
        assert!(message.contains(expected), "{message}");
    }
    assert!(message(&"x".repeat(20_000)).contains("line 1: the line is too long"));
    let missing = open(&library, &dir.path().join("none")).unwrap_err();
    assert!(
        missing.starts_with("c-example broker: cannot open "),
        "{missing}"
    );
    let unknown = Config::decode("loops=3").unwrap();
    let unknown = library.open(&unknown).unwrap_err().to_string();
    assert!(unknown.contains("unknown configuration key"), "{unknown}");
}
