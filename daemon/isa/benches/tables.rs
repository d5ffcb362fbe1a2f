//! How long an instruction table takes to load, and a lookup in it.
//!
//! `cargo bench -p mcad-core --bench tables`

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use iced_x86::{Decoder, DecoderOptions};
use mcad_isa::machine::table::FormTable;

fn load(c: &mut Criterion) {
    for (cpu, bytes) in [
        ("skl", include_bytes!("../data/skl.table").as_slice()),
        ("icl", include_bytes!("../data/icl.table").as_slice()),
    ] {
        c.bench_function(&format!("load {cpu}"), |b| {
            b.iter(|| FormTable::decode(black_box(bytes)));
        });
    }
}

fn find(c: &mut Criterion) {
    // add, load, store, lea, xor, imul, jump, vector add.
    let code = [
        0x48, 0x01, 0xd8, 0x48, 0x8b, 0x06, 0x48, 0x89, 0x04, 0xbe, 0x48, 0x8d, 0x44, 0x8b, 0x08,
        0x31, 0xc0, 0x48, 0x0f, 0xaf, 0xc3, 0x72, 0x08, 0xc5, 0xf5, 0x58, 0xc2,
    ];
    let instructions: Vec<_> = Decoder::with_ip(64, &code, 0, DecoderOptions::NONE)
        .into_iter()
        .collect();
    let Ok(table) = FormTable::for_cpu("skl") else {
        return;
    };
    c.bench_function("find 8 instructions", |b| {
        b.iter(|| {
            for instruction in black_box(&instructions) {
                black_box(table.find(instruction));
            }
        });
    });
}

criterion_group!(benches, load, find);
criterion_main!(benches);
