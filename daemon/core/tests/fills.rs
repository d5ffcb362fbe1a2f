//! Lines that come into the first level of cache take a cycle of the load ports, as measured on Redwood Cove (docs/REDWOOD-COVE.md, "Lines
//! take ports' time").

mod support;

use mcad_proto::event::Arch;
use mcad_proto::word::{BlockId, block_word};

/// Lines that are loaded in turn, more than the first level has and less than the second.
const LINES: u64 = 2048;
const PAGE_LINES: u64 = 64;

/// Cycles of a turn of a loop of a load of the next line, or always the same one, and so many of one line.
fn turn(cpu: &str, moves: bool, others: u16) -> f64 {
    let cycles = |rounds| turns(cpu, rounds, moves, others);
    (cycles(6) - cycles(3)) as f64 / (3 * LINES) as f64
}

fn turns(cpu: &str, rounds: u64, moves: bool, others: u16) -> u64 {
    // mov rax, [rsi]; mov rbx, [rdi] …; jmp
    let mut code = vec![0x48, 0x8b, 0x06];
    code.extend([0x48, 0x8b, 0x1f].repeat(usize::from(others)));
    let back = -(code.len() as i64) - 2;
    code.extend([0xeb, back as u8]);
    let mut words = Vec::new();
    for n in 0..rounds * LINES {
        let n = if moves { n % LINES } else { 0 };
        // Lines of a page out of order.
        let line = n / PAGE_LINES * PAGE_LINES + n * 37 % PAGE_LINES;
        words.push(block_word(BlockId(0)));
        words.push(support::access(0, false, 0x7000_0000 + 64 * line));
        words.extend(
            (1..=others)
                .map(|index| support::access(index, false, 0x7fff_0000 + 8 * u64::from(index))),
        );
    }
    let blocks = [(0x1000, others + 2, code)];
    let report = support::run(cpu, Arch::X86_64, &blocks, &words);
    report.cpus[0].cycles
}

#[test]
fn a_line_takes_a_cycle_of_all_load_ports() {
    for others in [2, 5, 8] {
        let loads = f64::from(others + 1) / 3.0;
        for (moves, expected) in [(false, loads), (true, loads + 1.0)] {
            let cycles = turn("glc", moves, others);
            let what = format!("{others} others, moves: {moves}");
            assert!(
                (cycles - expected).abs() < 0.15,
                "{what}: {cycles}, not {expected}"
            );
        }
    }
}

#[test]
fn where_nobody_measured_it_takes_none() {
    // Two loads a cycle.
    let cycles = turn("skl", true, 9);
    assert!((cycles - 5.0).abs() < 0.3, "{cycles}");
}
