//! Short loops one behind another, and lines with many branches, as measured on Redwood Cove (docs/REDWOOD-COVE.md, "Lines, ends of
//! loops, and what the op cache holds").

mod support;

use mcad_proto::event::Arch;
use mcad_proto::word::{BlockId, block_word};

const LOOPS: u64 = 24;

/// A no-operation of three to five bytes.
fn nothing(bytes: u8) -> &'static [u8] {
    match bytes {
        3 => &[0x0f, 0x1f, 0x00],
        4 => &[0x0f, 0x1f, 0x40, 0x00],
        _ => &[0x0f, 0x1f, 0x44, 0x00, 0x00],
    }
}

/// Cycles of a round through these blocks in this order, once all is known.
fn round(blocks: &[(u64, u16, Vec<u8>)], order: &[u32]) -> f64 {
    let cycles = |rounds: usize| {
        let words: Vec<u64> = order.iter().map(|n| block_word(BlockId(*n))).collect();
        support::run("rwc", Arch::X86_64, blocks, &words.repeat(rounds)).cpus[0].cycles
    };
    (cycles(90) - cycles(60)) as f64 / 30.0
}

/// Cycles of a loop of so many turns, with these no-operations, that begins so far behind a line's begin; a jump leads to the next one.
fn cycles_a_loop(turns: usize, bytes: &[u8], offset: u64) -> f64 {
    let mut blocks = Vec::new();
    let mut order = Vec::new();
    for n in 0..LOOPS {
        let at = 0x40_0000 + 192 * n + offset;
        let mut code: Vec<u8> = bytes.iter().flat_map(|b| nothing(*b)).copied().collect();
        // dec edx; jnz
        let back = -(code.len() as i64 + 4) as i8;
        code.extend([0xff, 0xca, 0x75, back as u8]);
        let behind = at + code.len() as u64;
        let next = 0x40_0000 + 192 * ((n + 1) % LOOPS) + offset;
        let distance = (next as i64 - behind as i64 - 5) as i32;
        order.extend(std::iter::repeat_n(blocks.len() as u32, turns));
        blocks.push((at, bytes.len() as u16 + 2, code));
        order.push(blocks.len() as u32);
        blocks.push((behind, 1, [&[0xe9], &distance.to_le_bytes()[..]].concat()));
    }
    round(&blocks, &order) / LOOPS as f64
}

fn assert_near(found: f64, expected: f64, off: f64, what: &str) {
    assert!(
        (found - expected).abs() <= off,
        "{what}: {found}, not {expected}"
    );
}

#[test]
fn a_loops_end_is_known_two_cycles_late() {
    // Natively 6.2, 7.9, 10.2, 13.9 and 18.1; of two turns 2.2.
    for turns in [4, 6, 8, 12, 16] {
        let found = cycles_a_loop(turns, &[4, 4], 0);
        assert_near(found, turns as f64 + 2.0, 0.4, &format!("{turns} turns"));
    }
    assert_near(cycles_a_loop(2, &[4, 4], 0), 2.2, 0.4, "2 turns");
}

#[test]
fn a_line_takes_half_a_cycle_and_a_branch_that_lies_in_two_a_whole_one() {
    // Natively 13.9, 21.8 and 25.8: a body of 16 bytes whose jump is the last two.
    for (offset, expected) in [(0, 14.0), (52, 20.5), (60, 20.5), (49, 26.5)] {
        let found = cycles_a_loop(12, &[5, 3, 4], offset);
        assert_near(found, expected, 0.7, &format!("at {offset}"));
    }
}

#[test]
fn the_op_cache_does_not_read_a_line_twice_in_a_cycle() {
    // Natively 13.9, 16.2, 23.6 and 24.5.
    for (uops, expected) in [(6, 14.0), (8, 16.0), (9, 23.0), (11, 24.0)] {
        let found = cycles_a_loop(12, &vec![4; uops - 1], 0);
        assert_near(found, expected, 1.0, &format!("{uops} µops"));
    }
}

#[test]
fn a_turn_in_two_lines_takes_a_cycle_for_each_eight_uops() {
    // Natively one loop alone 1.5, 1.5, 2.0, 2.0 and 3.0 a turn and two cycles for the end: lines of four µops and of the others.
    for (uops, expected) in [(7, 20.0), (8, 20.0), (9, 24.0), (10, 24.0), (17, 36.0)] {
        let found = cycles_a_loop(12, &vec![4; uops - 1], 48);
        assert_near(found, expected, 1.2, &format!("{uops} µops"));
    }
}

/// Cycles of a turn of a loop of two taken branches, one of which is not taken once in so many turns.
fn cycles_a_turn(every: usize) -> f64 {
    let four = |n: usize| nothing(4).repeat(n);
    // dec edx; jnz over the next block
    let first = (0x40_0000, 2, vec![0xff, 0xca, 0x75, 0x05]);
    // mov edx, 1
    let skipped = (0x40_0004, 1, vec![0xba, 0x01, 0x00, 0x00, 0x00]);
    // dec ecx; jnz back
    let back = [four(4), vec![0xff, 0xc9, 0x75, (-29_i8) as u8]].concat();
    let last = (0x40_0009, 6, back);
    let mut order = [0, 2].repeat(every - 1);
    order.extend([0, 1, 2]);
    round(&[first, skipped, last], &order) / every as f64
}

#[test]
fn what_goes_otherwise_in_a_loop_that_is_replayed_is_never_foreseen() {
    // Natively 2.06, 2.29, 1.86 and 1.43.
    for (every, expected) in [(12, 2.1), (32, 2.25), (48, 1.8), (96, 1.4)] {
        let found = cycles_a_turn(every);
        assert_near(found, expected, 0.1, &format!("{every} turns"));
    }
}

#[test]
fn a_line_with_too_many_branches_comes_from_the_decoders() {
    // Natively 4.0, 4.1, 6.0, 6.9.
    for (jumps, expected) in [(2usize, 4.0), (6, 4.0), (8, 6.0), (10, 7.0)] {
        let mut blocks = Vec::new();
        for line in 0..16u64 {
            let mut at = 0x40_0000 + 64 * line;
            for _ in 0..jumps {
                // jc over nothing
                blocks.push((at, 1, vec![0x72, 0x00]));
                at += 2;
            }
            let left = 64 * (line + 1) + 0x40_0000 - at;
            let others = 24 - jumps as u64;
            let mut code = Vec::new();
            for n in 0..others {
                let last_line = line == 15 && n + 2 >= others;
                match left / others + u64::from(n < left % others) {
                    _ if last_line => {}
                    // mov edx, esi
                    2 => code.extend([0x89, 0xf2]),
                    bytes => code.extend(nothing(bytes as u8)),
                }
            }
            let count = others - if line == 15 { 2 } else { 0 };
            blocks.push((at, count as u16, code.clone()));
            if line == 15 {
                at += code.len() as u64;
                let back = (0x40_0000i64 - at as i64 - 5) as i32;
                blocks.push((at, 1, [&[0xe9], &back.to_le_bytes()[..]].concat()));
            }
        }
        let order: Vec<u32> = (0..blocks.len() as u32).collect();
        let found = round(&blocks, &order) / 16.0;
        assert_near(found, expected, 0.25, &format!("{jumps} jumps"));
    }
}
