//! What a jump costs does not depend on how far it goes, nor on where its line of code ends.

#![allow(clippy::unwrap_used)] // Helpers of tests fail tests.

mod support;

use mcad_isa::machine;
use mcad_proto::event::Arch;
use mcad_proto::word::{BlockId, block_word};
use support::run;

const TURNS: usize = 4000;

/// Cycles a turn of a comparison with a jump at `address`, fused, and one back from `target`.
fn cycles(cpu: &str, address: u64, target: u64) -> f64 {
    let relative = |from: u64, to: u64| (to.wrapping_sub(from) as u32).to_le_bytes();
    // add rcx,rdx; cmp rax,rbx; je target
    let mut there = vec![0x48, 0x01, 0xd1, 0x48, 0x39, 0xd8, 0x0f, 0x84];
    there.extend(relative(address + 12, target));
    // jmp address
    let mut back = vec![0xe9];
    back.extend(relative(target + 5, address));
    let words: Vec<u64> = (0..2 * TURNS)
        .map(|n| block_word(BlockId(n as u32 % 2)))
        .collect();
    let blocks = [(address, 3, there), (target, 1, back)];
    let report = run(cpu, Arch::X86_64, &blocks, &words);
    report.cpus.first().map_or(0, |cpu| cpu.cycles) as f64 / TURNS as f64
}

/// A comparison and a jump that lie in one line of code, or go on in the next: natively on a Zen 5 a turn
/// takes one cycle more then, however far the jump goes (1.26 and 2.26 with three jumps a turn).
#[test]
fn a_fused_pair_across_two_lines_jumps_as_any_other() {
    for info in machine::cpus_of(Arch::X86_64) {
        let erratum = machine::cpu(info.name).is_ok_and(|cpu| cpu.core.frontend.jcc_erratum);
        // What crosses a line comes from the decoders there.
        let most = if erratum { 5.5 } else { 1.5 };
        for target in [0x40_8000, 0x44_0000, 0x3f_0000] {
            let within = cycles(info.name, 0x40_0000, target);
            let across = cycles(info.name, 0x40_003b, target);
            assert!(
                (across - within).abs() < most,
                "{}, target {target:x}: {across} across, {within} within",
                info.name
            );
            assert!(within < 6.0, "{}, target {target:x}: {within}", info.name);
        }
    }
}
