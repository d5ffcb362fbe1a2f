//! Operations that load an operand: the load takes as long as one by itself, the operation what it takes with
//! registers (docs/ZEN5.md).

#![allow(clippy::unwrap_used)]

use mcad_core::block::{Block, Mode, Options};

/// Cycles of a turn of a loop on Zen 5.
fn turn(hex: &str) -> f64 {
    cycles("zen5", hex, Mode::Loop)
}

/// Cycles from one instance to the next.
fn chain(cpu: &str, hex: &str) -> f64 {
    cycles(cpu, hex, Mode::Unrolled)
}

fn cycles(cpu: &str, hex: &str, mode: Mode) -> f64 {
    let bytes: Vec<u8> = (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
        .collect();
    let model = mcad_isa::machine::cpu(cpu).unwrap();
    let options = Options {
        mode,
        ..Options::default()
    };
    Block::new(&model, &bytes).unwrap().predict(options).cycles
}

/// As measured, rounded: `OP xmm9, [rbx]; mov [rbx], xmm9`, nine cycles from the store to the load's data.
#[test]
fn behind_a_store_they_take_their_whole_latency() {
    for (what, hex, measured) in [
        ("andnpd", "66440f550b440f110b49ffcf75f2", 11.0),
        ("paddd", "66440ffe0b440f110b49ffcf75f2", 11.0),
        ("pshufd", "66440f700be4440f110b49ffcf75f1", 11.0),
        ("addpd", "66440f580b440f110b49ffcf75f2", 12.0),
        ("addsd", "f2440f580bf2440f110b49ffcf75f1", 12.0),
        ("mulpd", "66440f590b440f110b49ffcf75f2", 12.0),
        ("cvtdq2ps", "440f5b0b440f110b49ffcf75f3", 12.0),
        ("vfmadd213sd", "c462f1a90bc579d60b49ffcf75f2", 13.0),
        ("sqrtps", "440f510b440f110b49ffcf75f3", 23.0),
    ] {
        let cycles = turn(hex);
        assert!((cycles - measured).abs() < 0.05, "{what}: {cycles}");
    }
}

/// As measured, rounded: from memory to an address by way of a vector register.
#[test]
fn from_the_cache_there_is_no_more_than_that() {
    for (what, hex, measured) in [
        // movq xmm9, [rbx]; movq rax, xmm9; xor rbx, rax; xor rbx, rax
        ("movq", "f3440f7e0b664c0f7ec84831c34831c349ffcf75eb", 11.0),
        // The same with paddd xmm9, xmm8 between.
        (
            "movq, paddd",
            "f3440f7e0b66450ffec8664c0f7ec84831c34831c349ffcf75e6",
            13.0,
        ),
    ] {
        let cycles = turn(hex);
        assert!((cycles - measured).abs() < 0.05, "{what}: {cycles}");
    }
}

/// Where what is loaded lies does not matter to the operation: from an address that no register is in (`[rip + 4096]`) its
/// other input takes as long to the result, on every CPU.
#[test]
fn constants_have_the_latency_of_other_operands() {
    for cpu in [
        "snb", "hsw", "skl", "icl", "glc", "zen1", "zen2", "zen3", "zen4", "zen5",
    ] {
        for (what, hex, with_base) in [
            ("addpd", "66440f580500100000", "66440f5806"),
            ("mulsd", "f2440f590500100000", "f2440f5906"),
            ("imul", "480faf0500100000", "480faf06"),
        ] {
            let [fixed, other] = [hex, with_base].map(|hex| chain(cpu, hex));
            assert!(other > 1.5, "{cpu} {what}: {other}");
            assert!(
                (fixed - other).abs() < 0.05,
                "{cpu} {what}: {fixed}, {other}"
            );
        }
    }
}
