//! Code in more pages, functions and lines than what is at hand has room for.

use std::fmt::Write;

use super::random;
use super::{Axis, Point, Probe, Source, counted, repeated};

pub(super) const PROBES: &[Probe] = &[
    Probe {
        name: "page-rows",
        what: "eight jumps in a row in each page, by the number of pages: translations of code that are not at hand",
        axis: Axis {
            name: "pages",
            unit: "",
            logarithmic: true,
        },
        unit: "cycles per page",
        points: page_rows,
    },
    Probe {
        name: "functions",
        what: "functions that are called in a random order, each at one place, by their number: which calls and returns are foreseen",
        axis: Axis {
            name: "functions",
            unit: "",
            logarithmic: true,
        },
        unit: "cycles per call",
        points: functions,
    },
    Probe {
        name: "decoded-branches",
        what: "lines of twelve instructions and a jump from the decoders, by how many of the twelve are branches not taken",
        axis: Axis {
            name: "branches not taken",
            unit: "",
            logarithmic: false,
        },
        unit: "cycles per line",
        points: decoded_branches,
    },
];

fn page_rows() -> Vec<Point> {
    const JUMPS: u64 = 8;
    let point = |pages: u64| {
        let turns = (4096 / pages).max(8);
        let mut body = String::from("    .p2align 12\n");
        for page in 0..pages {
            // Lines of all sets, each page's elsewhere than the one before's.
            let line = page * 7 % (64 - JUMPS + 1);
            let _ = write!(
                body,
                "    jmp page_{page}\n    .p2align 12, 0xcc\n    .skip {}, 0xcc\npage_{page}:\n    .rept {JUMPS}\n    \
                 jmp 6f\n    .p2align 6, 0xcc\n6:\n    .endr\n",
                line * 64
            );
        }
        Point::new(
            pages as f64,
            Source {
                run: counted(turns, &body),
                operations: (turns * pages) as f64,
                ..Source::default()
            },
        )
    };
    [16, 32, 60, 96, 128, 192, 256, 512]
        .into_iter()
        .map(point)
        .collect()
}

/// Bytes from one call to the next.
const CALL: u64 = 16;

fn functions() -> Vec<Point> {
    let point = |count: u64| {
        let turns = (16_384 / count).max(4);
        let mut order: Vec<u64> = (0..count).collect();
        random::shuffle(&mut order);
        let mut body = String::new();
        for function in &order {
            let _ = write!(
                body,
                "    .p2align {}\n    call function_{function}\n",
                CALL.ilog2()
            );
        }
        let mut after = String::new();
        for function in 0..count {
            let nops = repeated(4, "nop dword ptr [rax + 1]");
            let _ = write!(
                after,
                "    .p2align 6, 0xcc\nfunction_{function}:\n{nops}    ret\n"
            );
        }
        Point::new(
            count as f64,
            Source {
                run: format!("{}    jmp 9f\n{after}9:\n", counted(turns, &body)),
                operations: (turns * count) as f64,
                ..Source::default()
            },
        )
    };
    [256, 1024, 2048, 4096, 6144, 8192, 10_240, 12_288]
        .into_iter()
        .map(point)
        .collect()
}

fn decoded_branches() -> Vec<Point> {
    // More than the op caches have of such lines, and no more code than 32 KiB.
    const LINES: u64 = 480;
    const ALL: u64 = 12;
    let point = |branches: u64| {
        let turns = 40;
        let mut line = String::new();
        for n in 0..ALL {
            line.push_str(match n * branches / ALL == (n + 1) * branches / ALL {
                true => "    nop dword ptr [rax + 1]\n",
                false => "    jo 6f\n6:\n",
            });
        }
        let body =
            format!("    .rept {LINES}\n{line}    jmp 7f\n    .p2align 6, 0xcc\n7:\n    .endr\n");
        Point::new(
            branches as f64,
            Source {
                run: counted(turns, &body),
                operations: (turns * LINES) as f64,
                ..Source::default()
            },
        )
    };
    [0, 2, 4, 6, 8, 10, 12].into_iter().map(point).collect()
}
