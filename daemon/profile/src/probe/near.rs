//! Code that is near: pages whose translations the predictor has at hand before the first level's, and a set of the
//! op cache with more than fits.

use std::fmt::Write;

use mcad_isa::machine::hierarchy::LINE_BYTES as LINE;

use super::{Axis, Point, Probe, Source, counted, repeated};

pub(super) const PROBES: &[Probe] = &[
    Probe {
        name: "near-pages",
        what: "48 jumps, each to another of some pages in turn, by the number of pages: translations before the first level's",
        axis: Axis {
            name: "pages",
            unit: "",
            logarithmic: false,
        },
        unit: "cycles per jump",
        points: near_pages,
    },
    Probe {
        name: "full-set",
        what: "blocks of thirteen instructions that share a set of the op cache, and 24 that do not, by the number of those \
               that do: what is decoded once more behind what is not there",
        axis: Axis {
            name: "blocks",
            unit: "",
            logarithmic: false,
        },
        unit: "cycles per turn",
        points: full_set,
    },
];

const PAGE: u64 = 4096;
/// Bytes between jumps, by which neither their lines nor the bits from the fourth on recur soon.
const APART: u64 = 72;
const TURNS: u64 = 2_000;

/// A loop through places that jump to each other in their order; each is its bytes from the first page's start and the
/// text before its jump.
fn through(places: &[(u64, String)]) -> Source {
    let mut laid: Vec<usize> = (0..places.len()).collect();
    laid.sort_by_key(|&n| places[n].0);
    let mut code = String::from("    jmp 9f\n    .p2align 12, 0xcc\n7:\n");
    for n in laid {
        let (at, text) = &places[n];
        let _ = write!(
            code,
            "    .org 7b + {at}, 0xcc\nplace_{n}:\n{text}    jmp place_{}\n",
            n + 1
        );
    }
    let _ = write!(code, "    .p2align 12, 0xcc\n9:\n");
    let body = format!("    jmp place_0\nplace_{}:\n", places.len());
    Source {
        run: format!("{code}{}", counted(TURNS, &body)),
        operations: TURNS as f64,
        ..Source::default()
    }
}

fn near_pages() -> Vec<Point> {
    const JUMPS: u64 = 48;
    [1u64, 2, 4, 6, 7, 8, 9, 10, 11, 12, 16, 24, 32]
        .into_iter()
        .map(|pages| {
            let places: Vec<_> = (0..JUMPS)
                .map(|n| (n % pages * PAGE + n * APART, String::new()))
                .collect();
            let mut source = through(&places);
            source.operations *= JUMPS as f64;
            Point::new(pages as f64, source)
        })
        .collect()
}

fn full_set() -> Vec<Point> {
    const OTHERS: u64 = 24;
    (1..=12u64)
        .map(|blocks| {
            let twelve = repeated(12, "nop dword ptr [rax + 1]");
            let mut places: Vec<_> = (0..blocks).map(|n| (n * PAGE, twelve.clone())).collect();
            places.extend((0..OTHERS).map(|n| ((2 + n) * LINE, twelve.clone())));
            Point::new(blocks as f64, through(&places))
        })
        .collect()
}
