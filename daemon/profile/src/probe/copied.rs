//! Random branches that never recur, and branches that go the same ways: how far back, and how much, the short histories of
//! directions know, and what is made of branches of which nothing can be known but how often they are taken.

use std::fmt::Write;

use super::{Axis, Point, Probe, Source, counted, random, repeated};

/// Random numbers' bits, each the direction of a branch.
const BITS: u64 = 64;
/// Pairs whose directions come from one random number.
const PAIRS: u64 = 16;
/// Random branches before each that is copied far away, so that no long history recurs.
const BEFORE: u64 = 8;
/// Places of such.
const PLACES: u64 = 4;

const TAKEN: Axis = Axis {
    name: "taken of 256",
    unit: "",
    logarithmic: false,
};

pub(super) const PROBES: &[Probe] = &[
    Probe {
        name: "copies",
        what: "pairs of branches in a row, a random one and one that goes the same way, by number of pairs: how much short \
               histories remember",
        axis: Axis {
            name: "pairs",
            unit: "",
            logarithmic: true,
        },
        unit: "cycles per pair",
        points: pairs,
    },
    Probe {
        name: "copies-between",
        what: "nine random branches and one that goes as the last of them did, by jumps between: how far back short histories go",
        axis: Axis {
            name: "jumps between",
            unit: "",
            logarithmic: false,
        },
        unit: "cycles per round",
        points: between,
    },
    Probe {
        name: "biased",
        what: "sixteen random branches in a row, by how often they are taken: whether more of them are wrong than need be",
        axis: TAKEN,
        unit: "cycles per branch",
        points: || biased(16),
    },
    Probe {
        name: "biased-alone",
        what: "the same of one branch: whether what is known of chance is believed",
        axis: TAKEN,
        unit: "cycles per branch",
        points: || biased(1),
    },
    Probe {
        name: "mispredicted-code",
        what: "rows of random branches with sixteen instructions between, by their number: what a wrong prediction costs where the \
               op cache has the code, and where it has not",
        axis: Axis {
            name: "branches",
            unit: "",
            logarithmic: true,
        },
        unit: "cycles per branch",
        points: spread,
    },
];

/// A branch that goes to the next line either way, as a bit of rax says.
fn by_bit(bit: u64) -> String {
    format!("    bt rax, {bit}\n    jc 6f\n    nop\n6:\n")
}

fn source(turns: u64, each: u64, body: &str) -> Source {
    Source {
        run: format!("{}{}", random::begin(), counted(turns, body)),
        operations: (turns * each) as f64,
        ..Source::default()
    }
}

fn pairs() -> Vec<Point> {
    [16u64, 64, 128, 256, 512, 1024, 2048]
        .into_iter()
        .map(|pairs| {
            let mut body = String::new();
            for n in 0..pairs {
                if n % PAIRS == 0 {
                    body.push_str(random::NEXT);
                }
                let branch = by_bit(n % PAIRS * (BITS / PAIRS));
                let _ = write!(body, "{branch}{branch}");
            }
            Point::new(pairs as f64, source(400_000 / pairs, pairs, &body))
        })
        .collect()
}

fn between() -> Vec<Point> {
    [0u64, 2, 4, 6, 7, 8, 9, 10, 12, 14, 16, 17, 18, 20]
        .into_iter()
        .map(|jumps| {
            let mut place = random::NEXT.to_owned();
            for bit in 0..=BEFORE {
                place.push_str(&by_bit(bit));
            }
            place.push_str(&repeated(jumps, "    jmp 6f\n    .p2align 5\n6:\n"));
            place.push_str(&by_bit(BEFORE));
            let body = place.repeat(PLACES as usize);
            Point::new(jumps as f64, source(25_000, PLACES, &body))
        })
        .collect()
}

fn biased(row: u64) -> Vec<Point> {
    [0u64, 16, 32, 64, 85, 128, 192, 224, 240]
        .into_iter()
        .map(|taken| {
            let mut body = String::new();
            for n in 0..row {
                if n % (BITS / 8) == 0 {
                    let _ = writeln!(body, "{}    mov rbx, rax", random::NEXT);
                }
                let _ = write!(
                    body,
                    "    cmp bl, {taken}\n    jb 6f\n    .fill 4, 1, 0x90\n6:  shr rbx, 8\n"
                );
            }
            Point::new(taken as f64, source(160_000 / row, row, &body))
        })
        .collect()
}

fn spread() -> Vec<Point> {
    [16u64, 32, 64, 128, 256, 512, 1024]
        .into_iter()
        .map(|branches| {
            let mut body = String::new();
            for n in 0..branches {
                if n % BITS == 0 {
                    body.push_str(random::NEXT);
                }
                body.push_str(&by_bit(n % BITS));
                body.push_str(&repeated(16, "    lea r8d, [r9 + 4]"));
            }
            Point::new(branches as f64, source(100_000 / branches, branches, &body))
        })
        .collect()
}
