//! A branch that some random ones before it tell together: how many ways the directions' tables keep apart, by how far back they
//! divide.

use super::{Axis, Point, Probe, Source, counted, random, repeated};
use std::fmt::Write;

/// Random branches, each of which goes one of two ways to the same place.
const TELLING: u32 = 4;
/// The told branch's direction each way: half of them taken, or none.
const HALF: u32 = 0b1001_0111_0100_1010;
const NONE: u32 = 0;

const AXIS: Axis = Axis {
    name: "jumps between",
    unit: "",
    logarithmic: false,
};
const UNIT: &str = "cycles per round";

pub(super) const PROBES: &[Probe] = &[
    Probe {
        name: "told",
        what: "a branch that four random ones tell together, by jumps between: whether tables of a history that reaches so far have room for sixteen ways",
        axis: AXIS,
        unit: UNIT,
        points: || told(HALF),
    },
    Probe {
        name: "told-alike",
        what: "the same where that branch is never taken: what of `told` is no misprediction of it",
        axis: AXIS,
        unit: UNIT,
        points: || told(NONE),
    },
];

fn told(directions: u32) -> Vec<Point> {
    let point = |between: u64| {
        let turns = 20_000;
        let mut telling = String::new();
        for n in 0..TELLING {
            let _ = write!(
                telling,
                "    .p2align 4
    test al, {}
    jnz 6f
    .fill 4, 1, 0x90
    jmp 6f
    .p2align 4
    nop
6:
",
                1 << n
            );
        }
        let body = format!(
            "    mov rax, r9
{}    mov r9, rax
    shr rax, {}
    xor ecx, ecx
    bt r8d, eax
    setc cl
{telling}{}    .p2align 4
    test ecx, ecx
    jnz 4f
    nop
    nop
4:
",
            random::NEXT,
            64 - TELLING,
            repeated(between, "    jmp 6f\n    .p2align 3\n6:"),
        );
        let run = format!(
            "{}    mov r9, rax\n    mov r8d, {directions}\n{}",
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
    };
    [
        1, 4, 8, 12, 14, 16, 20, 24, 26, 28, 30, 36, 42, 48, 54, 60, 72, 84, 96, 120, 150, 180,
    ]
    .map(point)
    .into()
}
