//! Short loops that are not replayed, one behind another: what their ends take, what it takes them that they lie in two lines, and how
//! their µops come from the op cache. Loops that are replayed until a branch goes otherwise. And lines with more branches than an op cache has room for.

use std::fmt::Write;

use super::{Axis, Point, Probe, Source, counted};

pub(super) const PROBES: &[Probe] = &[
    Probe {
        name: "loop-ends",
        what: "loops of so many turns, which all foresee in the end: what is known of them at once",
        axis: Axis::plain("turns"),
        unit: "cycles per loop",
        points: || {
            let loops = |turns| point(turns, &SMALL, 0, turns);
            [2, 3, 4, 6, 8, 12, 16, 24].map(loops).into()
        },
    },
    Probe {
        name: "loop-lines",
        what: "loops of twelve turns and 17 bytes that begin so far from a line's begin: lines that a turn comes to",
        axis: Axis::plain("offset"),
        unit: "cycles per loop",
        points: || {
            let loops = |offset| point(offset, &[5, 3, 4], offset, 12);
            [0, 47, 48, 49, 52, 56, 60, 63].map(loops).into()
        },
    },
    Probe {
        name: "loop-uops",
        what: "loops of twelve turns with so many µops in a line: whether the op cache reads a line twice in a cycle",
        axis: Axis::plain("µops"),
        unit: "cycles per loop",
        points: || (4..=12).map(|uops| of_uops(uops, 0)).collect(),
    },
    Probe {
        name: "loop-uops-lines",
        what: "the same loops of four bytes a µop, 16 bytes of them in a line and the others in the next ones",
        axis: Axis::plain("µops"),
        unit: "cycles per loop",
        points: || {
            let all = [5, 6, 7, 8, 9, 10, 11, 12, 16, 17];
            all.map(|uops| of_uops(uops, 48)).into()
        },
    },
    Probe {
        name: "loop-breaks",
        what: "a loop of two taken branches a turn, one of which is not taken once in so many turns: whether that is foreseen where the \
           loop is replayed",
        axis: Axis::plain("turns"),
        unit: "cycles per turn",
        points: || [6, 8, 12, 32, 48, 64, 96].map(broken).into(),
    },
    Probe {
        name: "crowded-lines",
        what: "lines of 24 instructions, of which the first so many are jumps that are never taken: what the op cache holds of a line",
        axis: Axis::plain("jumps"),
        unit: "cycles per line",
        points: || [0, 1, 2, 3, 4, 6, 8, 10, 12].map(crowded).into(),
    },
];

/// Bytes of what a small loop has besides what counts.
const SMALL: [u64; 2] = [4, 4];
const LOOPS: u64 = 24;
const LINES: u64 = 16;
const TURNS: u64 = 1000;

fn source(run: String, operations: u64) -> Source {
    Source {
        run,
        operations: (TURNS * operations) as f64,
        ..Source::default()
    }
}

/// Loops of so many turns, each with no-operations of so many bytes and so far from a line's begin.
fn point(at: u64, bytes: &[u64], offset: u64, turns: u64) -> Point {
    let mut body = format!(
        "    .rept {LOOPS}\n    mov edx, {turns}\n    jmp 4f\n    .p2align 6, 0xcc\n    .fill {offset}, 1, 0xcc\n4:\n"
    );
    for length in bytes {
        let _ = writeln!(body, "    .nops {length}");
    }
    body += "    dec edx\n    jnz 4b\n    .endr\n";
    Point::new(at as f64, source(counted(TURNS, &body), LOOPS))
}

/// Loops of twelve turns of so many µops, of four bytes each.
fn of_uops(uops: u64, offset: u64) -> Point {
    point(uops, &vec![4; uops as usize - 1], offset, 12)
}

/// A loop whose inner branch is not taken once in so many turns.
fn broken(every: u64) -> Point {
    let body = format!(
        "    dec edx\n    jnz 5f\n    mov edx, {every}\n5:\n    .nops 4\n    .nops 4\n    .nops 4\n    .nops 4\n"
    );
    let turns = TURNS * LOOPS;
    let run = format!("    mov edx, {every}\n{}", counted(turns, &body));
    Point::new(every as f64, source(run, LOOPS))
}

/// Lines of 24 instructions and 64 bytes.
fn crowded(jumps: u64) -> Point {
    let (others, bytes) = (24 - jumps, 64 - 2 * jumps);
    // As many bytes each, and one more of the first ones; of two and four bytes all CPUs take as many in a cycle.
    let (each, more) = (bytes / others, bytes % others);
    let mut line = "    .p2align 6\n".to_owned() + &"    jc 5f\n5:\n".repeat(jumps as usize);
    for n in 0..others {
        match each + u64::from(n < more) {
            2 => line += "    mov edx, esi\n",
            bytes => {
                let _ = writeln!(line, "    .nops {bytes}");
            }
        }
    }
    let body = format!("    .rept {LINES}\n{line}    .endr\n");
    let run = format!("    clc\n{}", counted(TURNS, &body));
    Point::new(jumps as f64, source(run, LINES))
}
