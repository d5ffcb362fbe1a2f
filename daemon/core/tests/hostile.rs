//! Mutated traces and random events into simulations: a report or an error, never a panic.

#![allow(clippy::unwrap_used)]

use fastrand::Rng;
use mcad_core::fuzz;
use mcad_proto::event::{Arch, BlockDef, EndReason, Event, SessionInfo};
use mcad_proto::trace::TraceWriter;
use mcad_proto::word::{Access, BlockId, GuestAddr, StreamId, access_word, block_word};

/// A loop with loads, stores, a division and a string instruction, as a trace of several chunks.
fn honest() -> Vec<u8> {
    let info = SessionInfo {
        arch: Arch::X86_64,
        producer: "test".into(),
        command: vec!["x".into()],
        memory: true,
    };
    let codes: [(&[u8], u16); 4] = [
        (
            &[
                0x48, 0x8b, 0x07, 0x48, 0x01, 0xc8, 0x48, 0x89, 0x07, 0x75, 0xf5,
            ],
            4,
        ),
        (&[0xf3, 0xa4, 0xc3], 2),
        (&[0x48, 0xf7, 0xf1, 0xff, 0xc8, 0x0f, 0x85, 0, 0, 0, 0], 3),
        (&[0xc5, 0xf9, 0xef, 0xc0, 0x90], 2),
    ];
    let writer = TraceWriter::new(Vec::new(), "test", &info).unwrap();
    let mut writer = writer.chunk_words(40);
    for (n, (bytes, instructions)) in (0..).zip(codes) {
        let block = BlockDef {
            id: BlockId(n),
            address: GuestAddr(0x1000 * (u64::from(n) + 1)),
            instructions,
            bytes,
        };
        writer.event(&Event::Block(block)).unwrap();
    }
    let mut random = Rng::with_seed(1);
    let stream = StreamId(0);
    writer.event(&Event::StreamStart(stream)).unwrap();
    let mut words = Vec::new();
    for _ in 0..60 {
        let block = random.usize(..4) as u32;
        words.push(block_word(BlockId(block)));
        for index in 0..random.usize(..3) as u16 {
            words.push(access_word(Access {
                index,
                store: random.bool(),
                size: 8,
                address: GuestAddr(0x7000 + random.u64(..256)),
            }));
        }
    }
    let words = &words;
    writer.event(&Event::Records { stream, words }).unwrap();
    writer.event(&Event::End(EndReason::Exited(0))).unwrap();
    writer.finish_into().unwrap().1
}

fn mutate(random: &mut Rng, bytes: &mut Vec<u8>) {
    if bytes.is_empty() {
        return;
    }
    for _ in 0..=random.usize(..4) {
        let at = random.usize(..bytes.len());
        match random.usize(..5) {
            0 => bytes[at] ^= 1 << random.usize(..8),
            1 => bytes[at] = [0, 0x7f, 0x80, 0xff][random.usize(..4)],
            2 => bytes.insert(at, random.u8(..)),
            3 => bytes.truncate(at + 1),
            _ => {
                let copied = bytes[at..].to_vec();
                let to = random.usize(..bytes.len());
                bytes.splice(to..to, copied.into_iter().take(40));
            }
        }
    }
}

#[test]
fn columns_with_right_checksums_and_wrong_content_end_with_a_report() {
    let honest = honest();
    assert!(fuzz::trace(4, &honest).unwrap().program.complete);
    let mut random = Rng::with_seed(5);
    let mut incomplete = 0;
    for _ in 0..400 {
        let forged = mcad_proto::fuzz::reseal(&honest, &mut |columns, words| {
            if random.usize(..3) == 0 {
                let column = random.usize(..columns.len());
                mutate(&mut random, &mut columns[column]);
            }
            if random.usize(..20) == 0 {
                *words = random.u32(..);
            }
        })
        .unwrap();
        let choice = random.u8(..);
        incomplete += u32::from(!fuzz::trace(choice, &forged).unwrap().program.complete);
    }
    assert!(incomplete > 80, "{incomplete}");
    for _ in 0..200 {
        let bytes: Vec<u8> = (0..random.usize(..400)).map(|_| random.u8(..)).collect();
        let file = mcad_proto::fuzz::columns(&bytes);
        assert!(fuzz::trace(random.u8(..), &file).is_some());
    }
}

#[test]
fn random_blocks_and_words_end_with_a_report() {
    let mut random = Rng::with_seed(9);
    let mut executed = 0;
    for _ in 0..600 {
        let bytes: Vec<u8> = (0..random.usize(..600)).map(|_| random.u8(..)).collect();
        let report = fuzz::events(&bytes).unwrap();
        executed += u32::from(report.trace.instructions > 0);
    }
    assert!(executed > 40, "{executed}");
}

#[test]
fn code_that_is_none_and_code_at_the_end_of_memory_count_up_to_there() {
    // jmp over; `.byte 0xd6`; and the same where addresses end.
    for address in [0x1000, u64::MAX - 3] {
        let info = SessionInfo {
            arch: Arch::X86_64,
            producer: String::new(),
            command: Vec::new(),
            memory: true,
        };
        let mut trace = TraceWriter::new(Vec::new(), "test", &info).unwrap();
        let block = |id, bytes, instructions| {
            Event::Block(BlockDef {
                id: BlockId(id),
                address: GuestAddr(address),
                instructions,
                bytes,
            })
        };
        trace
            .event(&block(0, &[0x90, 0x90, 0xd6, 0x90], 4))
            .unwrap();
        trace.event(&block(1, &[0xd6], 1)).unwrap();
        trace.event(&block(2, &[0x90, 0x0f, 0x09], 2)).unwrap();
        let stream = StreamId(0);
        let words: Vec<u64> = [0, 2, 1, 2, 0].map(|id| block_word(BlockId(id))).to_vec();
        let words = &words;
        trace.event(&Event::Records { stream, words }).unwrap();
        trace.event(&Event::End(EndReason::Exited(0))).unwrap();
        let file = trace.finish_into().unwrap().1;
        for choice in 0..11 {
            let report = fuzz::trace(choice, &file).unwrap();
            assert!(report.program.complete, "{}", report.program.end);
            assert_eq!(report.trace.instructions, 8);
        }
    }
}
