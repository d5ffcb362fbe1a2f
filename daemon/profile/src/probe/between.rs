//! Straight code between jumps, of so few instructions that they hardly take time: what the predictor takes for lines.

use std::fmt::Write;

use super::{Axis, Point, Probe, Source, counted};

pub(super) const PROBES: &[Probe] = &[
    Probe {
        name: "between-jumps",
        what: "jumps from line to line, with so many bytes of 15-byte no-operations between two of them",
        axis: Axis::plain("bytes"),
        unit: "cycles per jump",
        points: || {
            [64, 128, 192, 256, 320, 384]
                .into_iter()
                .map(between)
                .collect()
        },
    },
    Probe {
        name: "jumps-in-lines",
        what: "blocks of 32 bytes, every so-manyth of which begins with a jump over three bytes",
        axis: Axis::plain("blocks a jump"),
        unit: "cycles per block",
        points: || [1, 2, 4, 8].into_iter().map(in_lines).collect(),
    },
];

/// The longest no-operation that all decoders take.
const LONGEST: &str =
    "    .byte 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0\n";
const JUMPS: u64 = 24;
const BLOCKS: u64 = 16;
const TURNS: u64 = 1000;

/// So many bytes of no-operations, as few as there can be.
fn nothing(bytes: u64) -> String {
    let mut text = LONGEST.repeat((bytes / 15) as usize);
    if !bytes.is_multiple_of(15) {
        let _ = writeln!(text, "    .nops {}", bytes % 15);
    }
    text
}

fn point(at: u64, body: &str, operations: u64) -> Point {
    Point::new(
        at as f64,
        Source {
            run: counted(TURNS, body),
            operations: (TURNS * operations) as f64,
            ..Source::default()
        },
    )
}

fn between(bytes: u64) -> Point {
    let mut body = String::new();
    for _ in 1..JUMPS {
        let _ = writeln!(body, "{}    jmp 4f\n4:", nothing(bytes - 2));
    }
    // The loop's own jump is the last one.
    body += &nothing(bytes - 9);
    point(bytes, &body, JUMPS)
}

fn in_lines(every: u64) -> Point {
    let mut body = String::new();
    for block in 0..BLOCKS {
        let own = match block % every {
            0 => {
                body += "    jmp 4f\n    nop\n    nop\n    nop\n4:\n";
                5
            }
            _ => 0,
        };
        let end = if block + 1 == BLOCKS { 9 } else { 0 };
        body += &nothing(32 - own - end);
    }
    point(every, &body, BLOCKS)
}
