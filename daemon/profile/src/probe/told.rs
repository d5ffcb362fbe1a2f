//! A branch that does what some random ones before it say together: how many ways the directions' tables keep apart, by how far
//! back they divide.

use super::{Axis, Point, Probe, Source, counted, random, repeated};
use std::fmt::Write;

/// Random branches, each of which goes one of two ways to the same place.
const TELLING: u32 = 4;

pub(super) const PROBES: &[Probe] = &[Probe {
    name: "told",
    what: "a branch that four random ones tell together, by jumps between: whether tables of a history that reaches so far have room for sixteen ways",
    axis: Axis {
        name: "jumps between",
        unit: "",
        logarithmic: false,
    },
    unit: "cycles per round",
    points: told,
}];

fn told() -> Vec<Point> {
    [
        1u64, 4, 8, 12, 14, 16, 20, 24, 26, 28, 30, 36, 42, 48, 54, 60, 72, 84, 96, 120, 150, 180,
    ]
    .into_iter()
    .map(|between| {
        let turns = 20_000;
        let mut telling = String::new();
        for bit in 0..TELLING {
            let _ = write!(
                telling,
                "    .p2align 4
    bt rax, {}
    jc 6f
    .fill 4, 1, 0x90
    jmp 6f
    .p2align 4
    nop
6:
",
                63 - bit
            );
        }
        let jumps = repeated(between, "    jmp 6f\n    .p2align 3\n6:");
        let body = format!(
            "{}    mov rdx, rax
    shr rdx, {}
{telling}{jumps}    .p2align 4
    bt r8, rdx
    jc 4f
    nop
    nop
4:
",
            random::NEXT,
            64 - TELLING,
        );
        let run = format!(
            "{}    mov r8d, {DIRECTIONS}\n{}",
            random::begin(),
            counted(turns, &body),
        );
        let source = Source {
            run,
            data: 4096,
            operations: turns as f64,
            ..Source::default()
        };
        Point::new(between as f64, source)
    })
    .collect()
}

/// The branch's direction each way, half of them taken.
const DIRECTIONS: u32 = 0b1001_0111_0100_1010;
