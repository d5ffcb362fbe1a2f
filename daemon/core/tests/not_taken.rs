//! Ports of conditional jumps that are not taken, in whole programs.

mod support;

use mcad_proto::event::Arch;
use mcad_proto::word::{BlockId, block_word};

/// Cycles of a turn with so many jumps that are not taken, and of one that is.
fn turn(cpu: &str, jumps: usize) -> f64 {
    let mut blocks = Vec::new();
    let mut at = 0x1000;
    for _ in 0..jumps {
        // test rsi, rsi; jnz to the next
        let code = vec![0x48, 0x85, 0xf6, 0x75, 0x00];
        let next = at + code.len() as u64;
        blocks.push((at, 2, code));
        at = next;
    }
    let mut last = vec![0x48, 0xff, 0xcf, 0x0f, 0x85]; // dec rdi; jnz to the first
    let back = -((at - 0x1000) as i32 + last.len() as i32 + 4);
    last.extend(back.to_le_bytes());
    blocks.push((at, 2, last));
    let cycles = |turns: usize| {
        let turn = (0..=jumps).map(|n| block_word(BlockId(n as u32)));
        let words: Vec<u64> = (0..turns).flat_map(|_| turn.clone()).collect();
        support::run(cpu, Arch::X86_64, &blocks, &words).cpus[0].cycles
    };
    let turns = 2000;
    (cycles(2 * turns) - cycles(turns)) as f64 / turns as f64
}

/// Intel's Optimization Reference Manual has two branch units from Haswell on, of which port 0's is for jumps that are not taken; on
/// Redwood Cove `not-taken` has half a cycle for each.
#[test]
fn two_ports_have_them_from_haswell_on() {
    // Not Skylake: of its code jumps at certain places are kept from the op cache.
    for cpu in ["hsw", "icl", "glc"] {
        for jumps in [3, 5, 7, 11] {
            let (cycles, expected) = (turn(cpu, jumps), (jumps + 1) as f64 / 2.0);
            assert!(
                (cycles - expected).abs() < 0.1 * expected,
                "{cpu}, {jumps}: {cycles} for {expected}"
            );
        }
    }
}

#[test]
fn one_port_has_all_on_sandy_bridge() {
    for jumps in [3, 7] {
        let (cycles, expected) = (turn("snb", jumps), (jumps + 1) as f64);
        assert!(
            (cycles - expected).abs() < 0.1 * expected,
            "{jumps}: {cycles} for {expected}"
        );
    }
}
