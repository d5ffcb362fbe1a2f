//! Each ablation changes the prediction of a block that has what it leaves out.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use mcad_core::block::{Block, Mode, Options};
use mcad_isa::machine::ablation::ablations;
use mcad_isa::machine::{CpuModel, cpu};

fn cycles(model: &Arc<CpuModel>, mode: Mode, bytes: &[u8]) -> f64 {
    let options = Options {
        mode,
        ..Options::default()
    };
    Block::new(model, bytes).unwrap().predict(options).cycles
}

fn without(name: &str, cpu_name: &str, mode: Mode, bytes: &[u8]) -> (f64, f64) {
    let whole = cpu(cpu_name).unwrap();
    let ablation = ablations().iter().find(|a| a.name == name).unwrap();
    assert!(ablation.applies(&whole.core), "{name} on {cpu_name}");
    let part = ablation.of(&whole);
    (cycles(&whole, mode, bytes), cycles(&part, mode, bytes))
}

#[test]
fn each_changes_what_it_names() {
    use Mode::{Loop, Unrolled};
    let jump = [0x48, 0xff, 0xc8, 0x75, 0xfb];
    let lcp = [0x66, 0x05, 0x34, 0x12];
    let store_nops = [0x48, 0x89, 6, 0x90, 0x90, 0x90];
    let moves = [0x48, 0x89, 0xd8, 0x48, 0x89, 0xc3];
    let cases: &[(&str, &str, Mode, &[u8])] = &[
        ("simple-front-end", "skl", Unrolled, &lcp),
        ("no-micro-fusion", "skl", Unrolled, &store_nops),
        ("no-move-elimination", "skl", Unrolled, &moves),
        (
            "no-add-elimination",
            "glc",
            Unrolled,
            &[0x48, 0x83, 0xc0, 1],
        ),
        ("no-banks", "glc", Unrolled, &[0x48, 0x8b, 0x06]),
        (
            "no-memory-renaming",
            "glc",
            Loop,
            &[0x48, 0x83, 0x06, 1, 0x48, 0xff, 0xc8, 0x75, 0xf7],
        ),
        ("no-forwarding", "skl", Unrolled, &[0x48, 0x83, 0x06, 1]),
        (
            "no-loop-unrolling",
            "hsw",
            Loop,
            &[0x90, 0x90, 0x90, 0x90, 0x48, 0xff, 0xc8, 0x75, 0xf7],
        ),
    ];
    for &(name, cpu_name, mode, bytes) in cases {
        let (whole, part) = without(name, cpu_name, mode, bytes);
        assert!(
            (whole - part).abs() > 0.05,
            "{name} on {cpu_name}: {whole} and {part}"
        );
    }
    let (whole, part) = without("no-macro-fusion", "skl", Loop, &jump);
    assert!(whole <= part, "{whole} and {part}");
}
