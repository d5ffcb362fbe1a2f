//! Speed of the trace file's coding, in record words: `cargo bench -p mcad-proto`. It also prints
//! how many bytes a word takes.

#![allow(missing_docs)] // criterion's macros make public items
#![allow(clippy::unwrap_used, clippy::print_stdout)] // a benchmark may fail loudly and talk

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use mcad_proto::event::{Arch, BlockDef, EndReason, Event, SessionInfo};
use mcad_proto::trace::{TraceReader, TraceWriter};
use mcad_proto::word::{BlockId, GuestAddr, StreamId};

#[path = "../tests/support/mod.rs"]
mod support;

const WORDS: usize = 4 << 20;

fn record(words: &[u64]) -> Vec<u8> {
    let info = SessionInfo {
        arch: Arch::X86_64,
        producer: "benchmark".into(),
        command: Vec::new(),
        memory: true,
    };
    let mut writer = TraceWriter::new(Vec::new(), "memory", &info).unwrap();
    for id in 0..support::BLOCKS {
        let block = Event::Block(BlockDef {
            id: BlockId(id),
            address: GuestAddr(0x1000 + 64 * u64::from(id)),
            instructions: 6,
            bytes: &[0x90; 6],
        });
        writer.event(&block).unwrap();
    }
    let stream = StreamId(0);
    writer.event(&Event::StreamStart(stream)).unwrap();
    for words in words.chunks(1 << 16) {
        writer.event(&Event::Records { stream, words }).unwrap();
    }
    writer.event(&Event::End(EndReason::Complete)).unwrap();
    writer.finish_into().unwrap().1
}

fn trace(c: &mut Criterion) {
    let words = support::words(WORDS);
    let file = record(&words);
    let bytes = file.len() as f64 / words.len() as f64;
    println!("{bytes:.3} bytes per record word, of 8");
    let mut group = c.benchmark_group("trace");
    group.throughput(Throughput::Elements(words.len() as u64));
    group.sample_size(10);
    group.bench_function("encode", |b| b.iter(|| record(&words)));
    group.bench_function("decode", |b| {
        b.iter(|| {
            let mut reader = TraceReader::new(&*file, "memory").unwrap();
            let mut count = 0;
            while let Some(event) = reader.next().unwrap() {
                if let Event::Records { words, .. } = event {
                    count += words.len();
                }
            }
            assert_eq!(count, words.len());
        });
    });
    group.finish();
}

criterion_group!(benches, trace);
criterion_main!(benches);
