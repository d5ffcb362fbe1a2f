//! Loads over the end of what the first level of cache reads at a time, in whole programs.

mod support;

use mcad_proto::event::Arch;
use mcad_proto::word::{Access, BlockId, GuestAddr, access_word, block_word};

const TIMES: u64 = 400;
const LINE: u64 = 0x7000_0040;

/// Cycles of one turn of a loop of eight such loads, of eight bytes, from the same place of a line.
fn turn(cpu: &str, load: &[u8], place: u64) -> f64 {
    // Without what the first ones take, whose pages and code are new.
    let cycles = |times| turns(times, cpu, load, place);
    (cycles(2 * TIMES) - cycles(TIMES)) as f64 / TIMES as f64
}

/// Cycles of so many.
fn turns(times: u64, cpu: &str, load: &[u8], place: u64) -> u64 {
    const LOADS: u16 = 8;
    let mut code = load.repeat(usize::from(LOADS));
    let back = -(code.len() as i64) - 2;
    code.extend([0xeb, back as u8]); // jmp
    let mut words = Vec::new();
    for _ in 0..times {
        words.push(block_word(BlockId(0)));
        words.extend((0..LOADS).map(|index| {
            access_word(Access {
                index,
                store: false,
                size: 8,
                address: GuestAddr(LINE + place),
            })
        }));
    }
    let blocks = [(0x1000, LOADS + 1, code)];
    let report = support::run(cpu, Arch::X86_64, &blocks, &words);
    report.cpus[0].cycles
}

#[track_caller]
fn near(cycles: f64, expected: f64) {
    assert!((cycles - expected).abs() < 0.1, "{cycles}, not {expected}");
}

/// Where no cost is known, none is assumed: Golden Cove's is the last.
const CPUS: [(&str, &[u64], f64); 4] = [
    ("zen1", &[25, 28, 31, 57, 63], 1.0),
    ("zen3", &[57, 63], 1.0),
    ("zen5", &[57, 63], 2.0),
    ("glc", &[], 0.0),
];

#[test]
fn they_take_longer() {
    // mov rax, [rax + rdi]
    let chain = [0x48, 0x8b, 0x04, 0x38];
    for (cpu, crossing, later) in CPUS {
        let aligned = turn(cpu, &chain, 0);
        for place in [8, 24, 25, 28, 31, 32, 56, 57, 63] {
            let longer = if crossing.contains(&place) {
                later
            } else {
                0.0
            };
            near(turn(cpu, &chain, place), aligned + 8.0 * longer);
        }
    }
}

#[test]
fn they_take_their_unit_twice() {
    // mov rax, [rsi]
    let independent = [0x48, 0x8b, 0x06];
    for place in [0, 24, 25, 56, 57] {
        let crossing = [25, 57].contains(&place);
        let cycles = turn("zen1", &independent, place);
        near(cycles, if crossing { 8.0 } else { 4.0 });
        // Four units, natively 1.04 and 2.03 for four loads.
        let cycles = turn("zen5", &independent, place);
        near(cycles, if place == 57 { 4.0 } else { 2.0 });
    }
}
