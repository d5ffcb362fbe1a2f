//! A branch that goes one of two ways to the same place, in an order that recurs, by taken branches a turn: in how many sets of the
//! directions' tables the history of such a loop can be.

use super::{Axis, Point, Probe, Source, counted, random, repeated};
use std::fmt::Write;

/// Directions until the order recurs: with three, six, nine, … taken branches a turn Redwood Cove holds hardly any of them, with other
/// numbers all.
const LENGTH: u64 = 512;
/// Times that it is executed.
const TURNS: u64 = 60;
/// Taken branches of a turn besides the jumps: the branch or the jump behind it, and the loop's.
const OTHERS: u64 = 2;

pub(super) const PROBES: &[Probe] = &[Probe {
    name: "pattern-alike",
    what: "a branch in a random order of 512 that recurs, of which both ways have one taken branch, by taken branches a turn: \
           in how many sets of the tables of directions such histories can be",
    axis: Axis {
        name: "taken branches",
        unit: "",
        logarithmic: false,
    },
    unit: "cycles per turn",
    points,
}];

fn points() -> Vec<Point> {
    (2..=13)
        .map(|taken| Point::new(taken as f64, alike(taken - OTHERS)))
        .collect()
}

fn alike(jumps: u64) -> Source {
    let mut order = String::new();
    for n in random::numbers(LENGTH, 2) {
        let _ = writeln!(order, "    .byte {n}");
    }
    let body = format!(
        "    .p2align 4
    cmp byte ptr [rsi], 0
    lea rsi, [rsi + 1]
    jz 4f
    jmp 4f
    .p2align 4
4:{}
    cmp rsi, rdx
    cmove rsi, rbx
",
        match jumps {
            0 => String::new(),
            _ => repeated(jumps, "    jmp 6f\n    .p2align 4\n6:"),
        }
    );
    let run = format!(
        "    .pushsection .data\n    .p2align 6\norder:\n{order}    .popsection
    lea rbx, [rip + order]
    mov rsi, rbx
    lea rdx, [rbx + {LENGTH}]
{}",
        counted(TURNS * LENGTH, &body)
    );
    Source {
        run,
        operations: (TURNS * LENGTH) as f64,
        ..Source::default()
    }
}
