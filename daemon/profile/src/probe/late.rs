//! Branches whose direction is known late: how many of them are foreseen. What any of them costs besides (targets, a quick
//! predictor that is overridden, the width of fetch) is the same whenever its direction is known; what a wrong
//! prediction costs grows with every load before, so that the slope of a curve is the share of wrong ones times the
//! latency of a load.

use std::fmt::Write;

use super::alike::{NEXT, through_order};
use super::{Axis, Point, Probe, Source, repeated};

/// Directions until the order recurs.
const LENGTH: u64 = 4096;
/// Times that it is executed.
const TURNS: u64 = 16;
/// Most loads before a branch: more of them take longer than branches that are foreseen.
const MOST: u64 = 4;

const LOADS: Axis = Axis {
    name: "loads before",
    unit: "",
    logarithmic: false,
};

pub(super) const PROBES: &[Probe] = &[
    Probe {
        name: "pattern-late",
        what: "a branch in a random order of 4096 that recurs, by loads in a chain that its direction comes from: the slope is \
               the share of wrong predictions times a load's latency",
        axis: LOADS,
        unit: "cycles per branch",
        points: || late(1),
    },
    Probe {
        name: "pattern-late-8",
        what: "eight branches in a row in such an order: whether they are foreseen in the place of one",
        axis: LOADS,
        unit: "cycles per eight branches",
        points: || late(8),
    },
];

fn late(branches: u64) -> Vec<Point> {
    (0..=MOST)
        .map(|loads| Point::new(loads as f64, source(branches, loads)))
        .collect()
}

/// So many branches a turn, 64 bytes apart, whose code is as long with any number of loads.
fn source(branches: u64, loads: u64) -> Source {
    let same = "    .pushsection .data\nsame:\n    .byte 0, 1\n    .popsection\n    lea r8, [rip + same]\n";
    let (chain, rest) = (
        repeated(loads, "    movzx eax, byte ptr [r8 + rax]"),
        repeated(MOST - loads, "    .byte 0x0f, 0x1f, 0x44, 0x00, 0x00"),
    );
    let mut body = String::new();
    for branch in 0..branches {
        let _ = write!(
            body,
            "    .p2align 6
    movzx eax, byte ptr [rsi + {branch}]
{chain}{rest}    test eax, eax
    jz 4f
    nop
4:
"
        );
    }
    let _ = write!(body, "    lea rsi, [rsi + {branches}]\n{NEXT}");
    through_order((LENGTH, 2), TURNS / branches, same, &body)
}
