//! Blocks on the in-order x86 core: closed forms of Bonnell's published rules.

#![allow(clippy::unwrap_used)]

use mcad_core::block::{Block, Mode, Options, Simulator};
use mcad_isa::machine;

/// Cycles per iteration, unrolled.
fn cycles(hex: &str) -> f64 {
    let bytes = ::hex::decode(hex).unwrap();
    let model = machine::cpu("atom").unwrap();
    let block = Block::new(&model, &bytes).unwrap();
    let options = Options {
        mode: Mode::Unrolled,
        ..Options::default()
    };
    Simulator::new(&model).predict(&block, options).cycles
}

#[test]
fn blocks_cost_what_the_rules_say() {
    for (what, hex, expected) in [
        ("add rax, rbx: a chain", "4801d8", 1.0),
        ("add rax, rcx; add rbx, rcx: a pair", "4801c84801cb", 1.0),
        ("mov rax, [rax]: chasing a pointer", "488b00", 3.0),
        (
            "mov rcx, [rbx]; mov rdx, [rbx]: one access a cycle",
            "488b0b488b13",
            2.0,
        ),
        (
            "lea rax, [rax+1]: made where addresses are",
            "488d4001",
            1.0,
        ),
        (
            "mov rcx, [rbx]; lea rdx, [rcx+1]; mov rbx, [rdx]: it waits for what it adds",
            "488b0b488d5101488b1a",
            7.0,
        ),
        (
            "add rax, rbx; mov rcx, [rax]: what follows waits too",
            "4801d8488b08",
            4.0,
        ),
        ("add rax, [rax]: address and operand", "480300", 4.0),
        ("shl rax, 1; shl rbx, 1: one shifter", "48d1e048d1e3", 2.0),
        ("imul eax, ebx: a chain", "0fafc3", 5.0),
        ("addsd xmm0, xmm1: a chain", "f20f58c1", 5.0),
    ] {
        let got = cycles(hex);
        assert!(
            (got - expected).abs() < 0.02,
            "{what}: {got}, not {expected}"
        );
    }
}
