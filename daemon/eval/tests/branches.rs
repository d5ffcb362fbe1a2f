//! `mcad-eval branches` over a recorded program whose branches are known.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use assert_cmd::Command;
use mcad_proto::event::{Arch, BlockDef, EndReason, Event, SessionInfo};
use mcad_proto::trace::TraceWriter;
use mcad_proto::word::{BlockId, GuestAddr, StreamId, block_word};
use serde_json::Value;

/// Insertion sort: address, instructions and bytes of its blocks.
const BLOCKS: [(u64, u16, &[u8]); 6] = [
    // mov rcx, rax; test rcx, rcx; je done
    (0x1000, 3, b"\x48\x89\xc1\x48\x85\xc9\x74\x10"),
    // test rcx, rcx; je done
    (0x1003, 2, b"\x48\x85\xc9\x74\x10"),
    // cmp [rdx+rcx*8], rax; jle done
    (0x1008, 2, b"\x48\x39\x04\xca\x7e\x0a"),
    // dec rcx; jmp back to the second
    (0x100e, 2, b"\x48\xff\xc9\xeb\xf0"),
    // done: inc rax; cmp rax, rsi; jne back to the first
    (0x1018, 3, b"\x48\xff\xc0\x48\x39\xf0\x75\xe0"),
    // nop; jmp back to the first, with another list
    (0x1020, 2, b"\x90\xeb\xdd"),
];

/// Records the sorting of lists; returns how many instructions and conditional branches that takes.
fn record(path: &Path) -> (u64, u64) {
    let info = SessionInfo {
        arch: Arch::X86_64,
        producer: "test".into(),
        command: vec!["sort".into()],
        memory: false,
    };
    let mut writer = TraceWriter::new(std::fs::File::create(path).unwrap(), "sort", &info).unwrap();
    for (id, (address, instructions, bytes)) in BLOCKS.into_iter().enumerate() {
        let def = BlockDef {
            id: BlockId(id as u32),
            address: GuestAddr(address),
            instructions,
            bytes,
        };
        writer.event(&Event::Block(def)).unwrap();
    }
    let mut random = fastrand::Rng::with_seed(3);
    let mut blocks = Vec::new();
    for _ in 0..1500 {
        let mut list: Vec<u8> = (0..12).map(|_| random.u8(..)).collect();
        for n in 0..list.len() {
            let mut at = n;
            blocks.push(0);
            while at > 0 {
                blocks.push(2);
                if list[at - 1] <= list[at] {
                    break;
                }
                list.swap(at - 1, at);
                at -= 1;
                blocks.extend([3, 1]);
            }
            blocks.push(4);
        }
        blocks.push(5);
    }
    let words: Vec<u64> = blocks.iter().map(|&id| block_word(BlockId(id))).collect();
    let stream = StreamId(0);
    writer
        .event(&Event::Records {
            stream,
            words: &words,
        })
        .unwrap();
    writer.event(&Event::End(EndReason::Exited(0))).unwrap();
    writer.finish().unwrap();
    let instructions = blocks.iter().map(|&id| u64::from(BLOCKS[id as usize].1));
    let conditional = blocks.iter().filter(|id| !matches!(id, 3 | 5));
    (instructions.sum(), conditional.count() as u64)
}

#[test]
fn a_recorded_program_is_predicted_as_the_reference_does() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("sort.mcad");
    let (instructions, conditional) = record(&trace);
    let eval = |more: &[&str]| {
        let mut command = Command::cargo_bin("mcad-eval").unwrap();
        let output = command
            .arg("branches")
            .arg(&trace)
            .args(more)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let json: Value =
        serde_json::from_str(&eval(&["--predict", "zen5,skl", "--json", "-"])).unwrap();
    assert_eq!(json["kept"], true);
    let program = &json["programs"][0];
    assert_eq!(program["instructions"], instructions);
    assert_eq!(program["conditional"], conditional);
    // One of the comparisons of each place in a list is chance.
    let wrong = |value: &Value| value["wrong"].as_u64().unwrap();
    assert!(wrong(&program["reference"]) > 4_000, "{json}");
    let off = wrong(&program["here"]) as f64 / wrong(&program["reference"]) as f64 - 1.0;
    assert!((program["difference"].as_f64().unwrap() - off).abs() < 1e-3);
    let cpus = program["cpus"].as_array().unwrap();
    assert_eq!(cpus.len(), 2);
    assert!(cpus.iter().all(|cpu| wrong(cpu) > 4_000), "{json}");
    let text = eval(&[]);
    assert!(text.contains("all are within 5 %"), "{text}");
}

#[test]
fn what_is_no_trace_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("no.mcad");
    std::fs::write(&file, "no trace").unwrap();
    let mut command = Command::cargo_bin("mcad-eval").unwrap();
    let output = command.arg("branches").arg(&file).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no.mcad"));
}
