//! RISC-V's vector instructions cost by the type that `vsetvli` has set, wherever that was.

#![allow(clippy::unwrap_used)] // Helpers of tests fail tests.

mod support;

use mcad_proto::event::Arch;
use mcad_proto::word::{BlockId, block_word};
use mcad_report::CpuReport;

/// Instructions of the shared function, and calls of it at each length.
const ADDITIONS: u64 = 60;
const CALLS: u64 = 200;

/// A function of independent vector additions that is called with groups of 1, 2, 4 and 8
/// registers: `vsetvli x0, a1, e32, mN; j function`, as often as `calls` says for each, and from
/// blocks that do not set anything.
fn run(cpu: &str, calls: [u64; 4], set: bool) -> CpuReport {
    let mut blocks = Vec::new();
    for lmul in 0..4 {
        let address = 0x1000 + 16 * u64::from(lmul);
        // j 0x2000
        let offset = (0x2000 - (address + 4)) as u32;
        let fields = offset >> 12 & 0xff | (offset >> 11 & 1) << 8 | (offset >> 1 & 0x3ff) << 9;
        let set = if set {
            (0x10 | lmul) << 20 | 0x5_f057
        } else {
            0x13
        };
        blocks.push((address, 2, support::code(&[set, fields << 12 | 0x6f])));
    }
    // vadd.vv vd, v0, v0, to v8, v16 and v24 in turn; ret
    let mut function: Vec<u32> = (0..ADDITIONS as u32)
        .map(|n| 0x0200_0057 | (8 + n % 3 * 8) << 7)
        .collect();
    function.push(0x0000_8067);
    blocks.push((0x2000, function.len() as u16, support::code(&function)));
    let mut words = Vec::new();
    for (lmul, calls) in calls.iter().enumerate() {
        for _ in 0..*calls {
            words.extend([block_word(BlockId(lmul as u32)), block_word(BlockId(4))]);
        }
    }
    let report = support::run(cpu, Arch::RiscV64, &blocks, &words);
    report.cpus.into_iter().next().unwrap()
}

fn only(lmul: usize) -> [u64; 4] {
    std::array::from_fn(|n| if n == lmul { CALLS } else { 0 })
}

#[test]
fn a_shared_function_costs_by_the_length_that_its_caller_set() {
    let mut sum = 0;
    for lmul in 0..4 {
        let report = run("sifive-p670", only(lmul), true);
        // Two units, each taken for a cycle by a register: half a cycle for one register.
        let expected = (CALLS * ADDITIONS) as f64 * f64::from(1 << lmul) / 2.0;
        let error = report.cycles as f64 / expected - 1.0;
        assert!((-0.01..0.1).contains(&error), "m{}: {error}", 1 << lmul);
        assert_eq!(report.unknown_instructions.approximated, 0);
        sum += report.cycles;
    }
    let report = run("sifive-p670", [CALLS; 4], true);
    assert!(
        report.cycles.abs_diff(sum) < sum / 100,
        "{} {sum}",
        report.cycles
    );
    // Every cycle is somebody's.
    let all: u64 = report.blocks.iter().map(|block| block.cycles).sum();
    assert_eq!(all, report.cycles);
    assert_eq!(report.unknown_instructions.approximated, 0);
}

#[test]
fn in_order_cores_follow_the_length_too() {
    let one = run("spacemit-x60", only(0), true).cycles;
    let eight = run("spacemit-x60", only(3), true).cycles;
    assert!(eight > 4 * one, "{one} {eight}");
}

#[test]
fn what_is_not_known_is_counted_as_a_guess() {
    let report = run("sifive-p670", only(2), false);
    assert_eq!(report.unknown_instructions.approximated, CALLS * ADDITIONS);
}
