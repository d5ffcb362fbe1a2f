//! Simulations that end early: a recurring state changes no result, settled iterations hardly any.

#![allow(clippy::unwrap_used)]

use mcad_core::block::{Block, EarlyEnd, Init, Mode, Options, Simulator};
use mcad_isa::machine::{self, cpu};

/// Instructions that between them use every part of the state: chains, ports, dividers, loads and
/// stores that meet, moves, high-8 registers, the stack engine, microcode, prefixes.
const PIECES: &[&[u8]] = &[
    &[0x48, 0x01, 0xd8],                   // add rax, rbx
    &[0x48, 0x0f, 0xaf, 0xc1],             // imul rax, rcx
    &[0x48, 0x89, 0xc3],                   // mov rbx, rax
    &[0x48, 0x8b, 0x07],                   // mov rax, [rdi]
    &[0x48, 0x89, 0x07],                   // mov [rdi], rax
    &[0x48, 0x89, 0x4f, 0x08],             // mov [rdi+8], rcx
    &[0x48, 0x03, 0x4e, 0x08],             // add rcx, [rsi+8]
    &[0x48, 0x83, 0xc7, 0x08],             // add rdi, 8
    &[0x48, 0xff, 0xc6],                   // inc rsi
    &[0x48, 0x87, 0xfe],                   // xchg rsi, rdi
    &[0x31, 0xc0],                         // xor eax, eax
    &[0x88, 0xc4],                         // mov ah, al
    &[0x00, 0xe1],                         // add cl, ah
    &[0x50],                               // push rax
    &[0x5b],                               // pop rbx
    &[0x48, 0x89, 0xe5],                   // mov rbp, rsp
    &[0xf7, 0xf1],                         // div ecx
    &[0x66, 0x05, 0x34, 0x12],             // add ax, 0x1234 (length-changing prefix)
    &[0xc5, 0xf5, 0x58, 0xc1],             // vaddpd ymm0, ymm1, ymm1
    &[0xc5, 0xfe, 0x7f, 0x07],             // vmovdqu [rdi], ymm0
    &[0xc5, 0xfe, 0x6f, 0x0e],             // vmovdqu ymm1, [rsi]
    &[0x0f, 0x1f, 0x44, 0x00, 0x00],       // nop
    &[0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8], // mov rax, imm64
    &[0x48, 0xd3, 0xe0],                   // shl rax, cl
    &[0x0f, 0xa2],                         // cpuid
    &[0xf0, 0x48, 0x01, 0x07],             // lock add [rdi], rax
    &[0x8b, 0x04, 0x8f],                   // mov eax, [rdi+4*rcx]
    &[0x85, 0xc0],                         // test eax, eax
];

/// Up to nine pieces, half of the time in a loop.
fn some_block(random: &mut fastrand::Rng) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..=random.usize(..9) {
        bytes.extend_from_slice(PIECES[random.usize(..PIECES.len())]);
    }
    if random.usize(..2) == 0 {
        bytes.extend_from_slice(&[0x49, 0xff, 0xcf, 0x75, 0x00]); // dec r15; jnz
    }
    bytes
}

#[test]
fn results_are_the_same_with_and_without() {
    let mut random = fastrand::Rng::with_seed(7);
    for info in machine::cpus_of(mcad_proto::event::Arch::X86_64) {
        let model = cpu(info.name).unwrap();
        let mut simulator = Simulator::new(&model);
        for _ in 0..60 {
            let bytes = some_block(&mut random);
            let Ok(block) = Block::new(&model, &bytes) else {
                continue;
            };
            for mode in [Mode::Unrolled, Mode::Loop] {
                for init in [Init::Distinct, Init::Equal, Init::Stack] {
                    let ending = |early_end| Options {
                        mode,
                        init,
                        early_end,
                    };
                    assert_eq!(
                        simulator.predict(&block, ending(EarlyEnd::Recurring)),
                        simulator.predict(&block, ending(EarlyEnd::Never)),
                        "{} {mode:?} {init:?} {bytes:02x?}",
                        info.name
                    );
                }
            }
        }
    }
}

#[test]
fn settled_iterations_go_on_as_they_did() {
    for info in machine::cpus_of(mcad_proto::event::Arch::X86_64) {
        // The same blocks on each.
        let mut random = fastrand::Rng::with_seed(23);
        let model = cpu(info.name).unwrap();
        let mut simulator = Simulator::new(&model);
        let (mut blocks, mut far, mut difference) = (0, 0, 0.0);
        for _ in 0..100 {
            let Ok(block) = Block::new(&model, &some_block(&mut random)) else {
                continue;
            };
            let options = Options {
                init: Init::Stack,
                ..Options::default()
            };
            let whole = Options {
                early_end: EarlyEnd::Never,
                ..options
            };
            let all = simulator.predict(&block, whole).cycles;
            let relative = (simulator.predict(&block, options).cycles - all).abs() / all;
            blocks += 1;
            far += u32::from(relative > 0.01);
            difference += relative;
        }
        let mean = difference / f64::from(blocks);
        assert!(
            blocks > 50 && far <= 2 && mean < 1e-3,
            "{}: {far} of {blocks} differ by more than 1 %, the mean is {mean}",
            info.name
        );
    }
}

#[test]
fn one_store_that_fills_the_store_buffer_has_not_settled() {
    let model = cpu("glc").unwrap();
    // mov [rbx-4], rax and movups [rbx-8], xmm0 over the end of a line.
    for bytes in [[0x48, 0x89, 0x43, 0xfc], [0x0f, 0x11, 0x43, 0xf8]] {
        let block = Block::new(&model, &bytes).unwrap();
        let predicted = [EarlyEnd::Settled, EarlyEnd::Never].map(|early_end| {
            let options = Options {
                mode: Mode::Unrolled,
                early_end,
                ..Options::default()
            };
            Simulator::new(&model).predict(&block, options).cycles
        });
        assert_eq!(predicted, [2.0; 2], "{bytes:02x?}");
    }
}

#[test]
fn a_simulator_keeps_nothing_of_earlier_blocks() {
    let model = cpu("icl").unwrap();
    let mut used = Simulator::new(&model);
    let mut random = fastrand::Rng::with_seed(11);
    for _ in 0..200 {
        let mut bytes = Vec::new();
        for _ in 0..=random.usize(..6) {
            bytes.extend_from_slice(PIECES[random.usize(..PIECES.len())]);
        }
        let Ok(block) = Block::new(&model, &bytes) else {
            continue;
        };
        let mode = [Mode::Unrolled, Mode::Loop][random.usize(..2)];
        let options = Options {
            mode,
            init: Init::Equal,
            ..Options::default()
        };
        assert_eq!(
            used.predict(&block, options),
            Simulator::new(&model).predict(&block, options),
            "{bytes:02x?}"
        );
    }
}
