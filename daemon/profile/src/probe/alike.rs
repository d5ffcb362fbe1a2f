//! Branches whose ways all come to the same place, in an order that recurs, by taken branches a turn: in how many sets of the
//! predictors' tables the history of such a loop can be.

use super::{Axis, Point, Probe, Source, counted, random, repeated};
use std::fmt::Write;

/// Directions until the order recurs: with three, six, nine, … taken branches a turn Redwood Cove holds hardly any of them, with other
/// numbers all.
const LENGTH: u64 = 512;
/// Times that it is executed.
const TURNS: u64 = 60;
/// Taken branches of a turn besides the jumps: the branch or the jump behind it, and the loop's.
const OTHERS: u64 = 2;

/// Places of the indirect jump, and how many of its jumps until their order recurs.
const PLACES: u64 = 4;
const PLACES_LENGTH: u64 = 128;
/// Taken branches of its turn besides the jumps: itself, the jump behind it, and the loop's.
const OTHERS_OF_PLACES: u64 = 3;

const TAKEN: Axis = Axis {
    name: "taken branches",
    unit: "",
    logarithmic: false,
};
const UNIT: &str = "cycles per turn";

pub(super) const PROBES: &[Probe] = &[
    Probe {
        name: "pattern-alike",
        what: "a branch in a random order of 512 that recurs, of which both ways have one taken branch, by taken branches a turn: \
               in how many sets of the tables of directions such histories can be",
        axis: TAKEN,
        unit: UNIT,
        points: || {
            (OTHERS..=13)
                .map(|taken| Point::new(taken as f64, alike(taken - OTHERS)))
                .collect()
        },
    },
    Probe {
        name: "indirect-alike",
        what: "an indirect jump to one of four places in a random order of 128 that recurs, by taken branches a turn: the same of the \
               tables of targets",
        axis: TAKEN,
        unit: UNIT,
        points: || {
            (OTHERS_OF_PLACES..=13)
                .map(|taken| Point::new(taken as f64, places_alike(taken - OTHERS_OF_PLACES)))
                .collect()
        },
    },
];

/// Jumps to the next sixteen bytes.
pub(super) fn jumps(count: u64) -> String {
    match count {
        0 => String::new(),
        _ => repeated(count, "    jmp 6f\n    .p2align 4\n6:"),
    }
}

/// To the next number of [`through_order`], with the first behind the last.
pub(super) const NEXT: &str = "    cmp rsi, rdx\n    cmove rsi, rbx\n";

/// A loop of `turns` times through a random order of `length` numbers below `choices`, a byte each, of which the body takes the one at
/// `rsi` and goes on to [`NEXT`].
pub(super) fn through_order(
    (length, choices): (u64, u64),
    turns: u64,
    before: &str,
    body: &str,
) -> Source {
    let mut order = String::new();
    for n in random::numbers(length, choices) {
        let _ = writeln!(order, "    .byte {n}");
    }
    let run = format!(
        "    .pushsection .data\n    .p2align 6\norder:\n{order}    .popsection
    lea rbx, [rip + order]
    mov rsi, rbx
    lea rdx, [rbx + {length}]
{before}{}",
        counted(turns * length, body)
    );
    Source {
        run,
        operations: (turns * length) as f64,
        ..Source::default()
    }
}

fn places_alike(count: u64) -> Source {
    let (mut table, mut places) = (String::new(), String::new());
    for n in 0..PLACES {
        let _ = writeln!(table, "    .quad place{n}");
        let _ = write!(places, "    .p2align 6\nplace{n}:\n    nop\n    jmp 4f\n");
    }
    let before = format!(
        "    .pushsection .data\n    .p2align 3\nplaces:\n{table}    .popsection\n    lea r8, [rip + places]\n"
    );
    let body = format!(
        "    .p2align 6
    movzx eax, byte ptr [rsi]
    lea rsi, [rsi + 1]
    jmp [r8 + 8 * rax]
{places}    .p2align 6
4:{}
{NEXT}",
        jumps(count)
    );
    through_order((PLACES_LENGTH, PLACES), TURNS, &before, &body)
}

fn alike(count: u64) -> Source {
    let body = format!(
        "    .p2align 4
    cmp byte ptr [rsi], 0
    lea rsi, [rsi + 1]
    jz 4f
    jmp 4f
    .p2align 4
4:{}
{NEXT}",
        jumps(count)
    );
    through_order((LENGTH, 2), TURNS, "", &body)
}
