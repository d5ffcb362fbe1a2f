//! How long the prediction of a basic block takes: decoding with look-up, and simulation, for
//! blocks that end early because the core's state recurs and for blocks that do not.
//!
//! `cargo bench -p mcad-core --bench block`; over a whole file of blocks,
//! `mcad block --batch FILE --jobs 1 --stats`.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use mcad_core::block::{Block, Init, Options, Simulator};

/// Name and code.
const BLOCKS: [(&str, &[u8]); 4] = [
    // add rax, rbx
    ("chain", &[0x48, 0x01, 0xd8]),
    // mov r15, [rsp+8]; add r15, 16; cmp r15, rdi: the ports are never chosen alike twice
    (
        "load, add, compare",
        &[
            0x4c, 0x8b, 0x7c, 0x24, 0x08, 0x49, 0x83, 0xc7, 0x10, 0x4c, 0x39, 0xff,
        ],
    ),
    // mov rax, [rsp+16]; add rax, 1; mov [rsp+16], rax; add rsi, 8
    (
        "store and load again",
        &[
            0x48, 0x8b, 0x44, 0x24, 0x10, 0x48, 0x83, 0xc0, 0x01, 0x48, 0x89, 0x44, 0x24, 0x10,
            0x48, 0x83, 0xc6, 0x08,
        ],
    ),
    // vfmadd231ps ymm1, ymm0, [rdi+rcx*4]; add rcx, 8; cmp rcx, rdx; jb -15
    (
        "reduction, as a loop",
        &[
            0xc4, 0xe2, 0x7d, 0xb8, 0x0c, 0x8f, 0x48, 0x83, 0xc1, 0x08, 0x48, 0x39, 0xd1, 0x72,
            0xf1,
        ],
    ),
];

fn predict(c: &mut Criterion) {
    let options = Options {
        init: Init::Stack,
        ..Options::default()
    };
    for cpu in ["skl", "glc"] {
        let Ok(model) = mcad_isa::machine::cpu(cpu) else {
            continue;
        };
        let mut simulator = Simulator::new(&model);
        for (name, code) in BLOCKS {
            c.bench_function(&format!("{cpu}: {name}"), |b| {
                b.iter(|| {
                    Block::new(&model, black_box(code))
                        .map(|block| simulator.predict(&block, options).cycles)
                });
            });
        }
        c.bench_function(&format!("{cpu}: decode and look up"), |b| {
            b.iter(|| Block::new(&model, black_box(BLOCKS[2].1)).map(|block| block.fused_uops()));
        });
    }
}

criterion_group!(benches, predict);
criterion_main!(benches);
