//! Closed forms of A64 and RISC-V code through the whole simulation: chains take their latencies,
//! independent work its units.

#![allow(clippy::unwrap_used)]

mod support;

use mcad_proto::event::Arch;
use mcad_proto::word::{BlockId, block_word};
use mcad_report::Report;

const TIMES: u64 = 1000;

/// Runs a loop of these words, the last of which jumps to the first; `loads` are instructions that
/// load from one address.
fn run(arch: Arch, cpu: &str, code: &[u32], loads: &[u16]) -> Report {
    let mut words = Vec::new();
    for _ in 0..TIMES {
        words.push(block_word(BlockId(0)));
        words.extend(loads.iter().map(|n| support::access(*n, false, 0x8000)));
    }
    let block = (0x1000, code.len() as u16, support::code(code));
    support::run(cpu, arch, &[block], &words)
}

/// Cycles of one turn, once the first turns are over.
fn cycles(report: &Report) -> f64 {
    report.cpus[0].cycles as f64 / TIMES as f64
}

/// A64: b to the first of `n` instructions before it.
fn back(n: u32) -> u32 {
    0x1400_0000 | (n.wrapping_neg() & 0x03ff_ffff)
}

fn a64(cpu: &str, body: &[u32], loads: &[u16]) -> f64 {
    let mut code = body.to_vec();
    code.push(back(body.len() as u32));
    cycles(&run(Arch::AArch64, cpu, &code, loads))
}

#[test]
fn chains_take_their_latencies() {
    // add x0, x0, #1; mul w0, w0, w0; ldr x0, [x0]
    let (add, mul, ldr) = (0x9100_0400, 0x1b00_7c00, 0xf940_0000);
    for n in [1, 2, 5, 9] {
        let adds = a64("neoverse-n1", &vec![add; n], &[]);
        assert!((adds - n as f64).abs() < 0.05, "{n} additions: {adds}");
        // Arm, Neoverse N1 Software Optimization Guide, 3.3 and 3.5: 2 and 4 cycles.
        let muls = a64("neoverse-n1", &vec![mul; n], &[]);
        assert!((muls - 2.0 * n as f64).abs() < 0.05, "{n} products: {muls}");
        let all: Vec<u16> = (0..n as u16).collect();
        let loads = a64("neoverse-n1", &vec![ldr; n], &all);
        assert!((loads - 4.0 * n as f64).abs() < 0.05, "{n} loads: {loads}");
    }
}

#[test]
fn independent_work_takes_its_units() {
    // mul w1, w9, w9 …: the N1 has one unit for products, which those of 64 bits keep for three
    // cycles (the same guide, 3.5).
    for (word, each) in [(0x1b09_7d20, 1.0), (0x9b09_7d20, 3.0)] {
        let muls: Vec<u32> = (1..=6).map(|reg| word | reg).collect();
        let cycles = a64("neoverse-n1", &muls, &[]);
        assert!((cycles - 6.0 * each).abs() < 0.05, "{cycles}");
    }
    // ldr x1, [x9] …: and two for loads; three µops a cycle go in.
    let loads: Vec<u32> = (1..=8).map(|reg| 0xf940_0120 | reg).collect();
    let cycles = a64("neoverse-n1", &loads, &[0, 1, 2, 3, 4, 5, 6, 7]);
    assert!((cycles - 4.0).abs() < 0.05, "{cycles}");
}

#[test]
fn the_zero_register_is_no_dependency() {
    // add xzr, x0, x1 (as adds xzr: cmn x0, x1) and reads of xzr: orr x0, xzr, x1.
    let moves = vec![0xaa01_03e0; 6];
    let cycles = a64("neoverse-n1", &moves, &[]);
    assert!(cycles < 3.0, "{cycles}");
    // RISC-V: add x0, x0, x0.
    let mut code = vec![0x0000_0033; 7];
    // jal x0, -28
    code.push(0xfe5f_f06f);
    let report = run(Arch::RiscV64, "sifive-p670", &code, &[]);
    let turns = report.cpus[0].cycles as f64 / TIMES as f64;
    assert!(turns < 3.0, "{turns}");
}

#[test]
fn a_trace_of_another_instruction_set_is_refused() {
    let session = support::session(Arch::AArch64);
    let error = support::simulation("skl").event(&session);
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("aarch64") && error.contains("skl"),
        "{error}"
    );
}
