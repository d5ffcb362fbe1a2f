//! Locked operations in whole programs, as they were measured on Redwood Cove and Zen 5: docs/REDWOOD-COVE.md, "Locked operations",
//! and docs/ZEN5.md.

mod support;

use mcad_proto::event::Arch;
use mcad_proto::word::{BlockId, block_word};

const PLACE: u64 = 0x7000_0040;

/// Cycles of a turn of a locked addition, so many no-operations and so many stores.
fn turn(cpu: &str, nops: usize, stores: usize) -> f64 {
    turn_of(cpu, &[0x90], nops, stores)
}

/// The same with other instructions in the place of no-operations.
fn turn_of(cpu: &str, other: &[u8], others: usize, stores: usize) -> f64 {
    let mut code = vec![0xf0, 0x48, 0x83, 0x06, 0x01]; // lock add qword ptr [rsi], 1
    code.extend(other.repeat(others));
    for _ in 0..stores {
        code.extend([0x48, 0x89, 0x5e, 0x40]); // mov [rsi + 0x40], rbx
    }
    code.extend([0x48, 0xff, 0xcf]); // dec rdi
    let back = -(code.len() as i32 + 6);
    code.extend([0x0f, 0x85]); // jnz to the first
    code.extend(back.to_le_bytes());
    let instructions = 3 + others + stores;
    let blocks = [(0x1000, instructions as u16, code)];
    let cycles = |turns: usize| {
        let mut words = Vec::new();
        for _ in 0..turns {
            words.push(block_word(BlockId(0)));
            words.push(support::access(0, false, PLACE));
            words.push(support::access(0, true, PLACE));
            for store in 0..stores {
                let index = 1 + others + store;
                words.push(support::access(index as u16, true, PLACE + 0x40));
            }
        }
        support::run(cpu, Arch::X86_64, &blocks, &words).cpus[0].cycles
    };
    let turns = 500;
    (cycles(2 * turns) - cycles(turns)) as f64 / turns as f64
}

fn holds(cpu: &str, nops: usize, stores: usize, measured: f64) {
    let cycles = turn(cpu, nops, stores);
    assert!(
        (cycles - measured).abs() <= 1.3,
        "{cpu}, {nops} no-operations, {stores} stores: {cycles} for {measured}"
    );
}

/// They retire eight a cycle once the one before has.
#[test]
fn one_waits_for_older_instructions_to_retire() {
    for (nops, measured) in [
        (0, 18.06),
        (16, 18.07),
        (24, 25.2),
        (64, 25.06),
        (128, 33.06),
        (192, 41.06),
    ] {
        holds("rwc", nops, 0, measured);
    }
}

/// Two to a line are written in a cycle.
#[test]
fn one_waits_for_older_stores_to_be_written() {
    for (stores, measured) in [(8, 25.06), (24, 30.0), (64, 50.07), (128, 82.07)] {
        holds("rwc", 0, stores, measured);
    }
}

/// Behind one nothing issues for a while, then eight a cycle, whatever the one before is waited for.
#[test]
fn on_zen_5_nothing_issues_behind_one_for_sixteen_cycles() {
    let lea = [0x48, 0x8d, 0x4a, 0x08]; // lea rcx, [rdx + 8]
    for (others, measured) in [(0, 19.97), (16, 19.97), (64, 24.97), (128, 32.96)] {
        let cycles = turn_of("zen5", &lea, others, 0);
        assert!(
            (cycles - measured).abs() <= 1.1,
            "{others} additions: {cycles} for {measured}"
        );
    }
}

/// Where nothing is known of it they are held apart by their throughput alone, with which work goes on beside them.
#[test]
fn without_parameters_work_goes_on_beside_one() {
    let cycles = |nops| turn("icl", nops, 0);
    let (alone, beside) = (cycles(0), cycles(64));
    // In turn they would take 64 / 5 more.
    assert!(beside - alone < 4.0, "{alone} {beside}");
}
