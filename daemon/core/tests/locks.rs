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

/// It retires sixteen cycles after all before it, and has nothing retire meanwhile; stores before it are written first, two a cycle.
#[test]
fn on_zen_5_nothing_retires_beside_one() {
    let lea = [0x48, 0x8d, 0x4a, 0x08]; // lea rcx, [rdx + 8]
    for (others, stores, measured) in [
        (0, 0, 19.97),
        (16, 0, 19.97),
        (32, 0, 20.98),
        (64, 0, 24.97),
        (128, 0, 32.96),
        (240, 0, 46.91),
        (0, 4, 21.96),
        (0, 8, 23.97),
        (0, 32, 35.96),
        (48, 1, 25.98),
    ] {
        let cycles = turn_of("zen5", &lea, others, stores);
        assert!(
            (cycles - measured).abs() <= 0.3,
            "{others} additions, {stores} stores: {cycles} for {measured}"
        );
    }
}

/// Cycles of a turn of twelve multiplications, of which the last gives the address of what comes then, whose result the next turn waits for.
fn behind_multiplications(instructions: &[(&[u8], &[bool])]) -> f64 {
    let imul = [0x48, 0x0f, 0xaf, 0xc9]; // imul rcx, rcx
    let mut code = imul.repeat(12);
    code.extend([0x48, 0x89, 0xca, 0x48, 0x83, 0xe2, 0x00]); // mov rdx, rcx; and rdx, 0
    let mut accesses = Vec::new();
    for (n, (bytes, stores)) in instructions.iter().enumerate() {
        code.extend(*bytes);
        let access = |&store: &bool| support::access(14 + n as u16, store, PLACE);
        accesses.extend(stores.iter().map(access));
    }
    code.extend([0x4c, 0x01, 0xd9, 0x48, 0xff, 0xcf, 0x75]); // add rcx, r11; dec rdi; jnz to the first
    code.push((code.len() as i32 + 1).wrapping_neg() as u8);
    let blocks = [(0x1000, 17 + instructions.len() as u16, code)];
    let cycles = |turns: usize| {
        let turn = [&[block_word(BlockId(0))][..], &accesses].concat();
        let words = turn.repeat(turns);
        support::run("zen5", Arch::X86_64, &blocks, &words).cpus[0].cycles
    };
    (cycles(1000) - cycles(500)) as f64 / 500.0
}

/// What one gives is there as soon as without the lock, though it keeps the next one from retiring; but who loads what it wrote waits for it.
#[test]
fn on_zen_5_what_one_gives_is_early() {
    let setne: (&[u8], &[bool]) = (&[0x41, 0x0f, 0x95, 0xc3], &[]); // setne r11b
    let load: (&[u8], &[bool]) = (&[0x4c, 0x8b, 0x1e], &[false]); // mov r11, [rsi]
    let both = &[false, true][..];
    for (instructions, measured) in [
        // lock cmpxchg [rsi + rdx], r12
        (
            [(&[0xf0, 0x4c, 0x0f, 0xb1, 0x24, 0x16][..], both), setne],
            43.93,
        ),
        // lock sub qword ptr [rsi + rdx], 1
        ([(&[0xf0, 0x48, 0x83, 0x2c, 0x16, 0x01], both), setne], 43.9),
        // lock add [rsi], rdx
        ([(&[0xf0, 0x48, 0x01, 0x16], both), load], 44.94),
        // add [rsi], rdx
        ([(&[0x48, 0x01, 0x16], both), load], 38.95),
    ] {
        let cycles = behind_multiplications(&instructions);
        assert!(
            (cycles - measured).abs() <= 1.2,
            "{instructions:x?}: {cycles} for {measured}"
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
