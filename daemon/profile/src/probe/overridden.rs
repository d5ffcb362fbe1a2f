//! Branches that go both ways in orders that recur, so that all are foreseen in the end: what a quick predictor of
//! directions foresees of them, and what it costs that a slower one overrides it.

use std::fmt::Write;

use super::{Axis, Point, Probe, Source, counted, random};

/// Branches in a row.
const ROW: u64 = 16;
/// Executions of branches, at least.
const LEAST: u64 = 100_000;

pub(super) const PROBES: &[Probe] = &[
    Probe {
        name: "rows",
        what: "sixteen branches that go both ways, in a random order that recurs, by how many are executed until it does: \
               how many a quick predictor foresees",
        axis: Axis {
            name: "executions",
            unit: "",
            logarithmic: true,
        },
        unit: "cycles per branch",
        points: rows,
    },
    Probe {
        name: "row-copies",
        what: "the same in an order of 16384, where every second branch goes where another one went, by how many branches \
               before: how far back a quick predictor sees",
        axis: Axis {
            name: "branches before",
            unit: "",
            logarithmic: false,
        },
        unit: "cycles per branch",
        points: copies,
    },
];

fn rows() -> Vec<Point> {
    [16u64, 64, 256, 512, 1024, 2048, 4096, 8192, 16_384]
        .into_iter()
        .map(|executions| {
            let order: Vec<u64> = random::numbers(executions, 2).collect();
            Point::new(executions as f64, recurring(&order))
        })
        .collect()
}

fn copies() -> Vec<Point> {
    let first: Vec<u64> = random::numbers(8192, 2).collect();
    (0..6usize)
        .map(|back| {
            let told = |n: usize| first[(n + first.len() - back) % first.len()];
            let order: Vec<u64> = (0..first.len()).flat_map(|n| [first[n], told(n)]).collect();
            Point::new((2 * back + 1) as f64, recurring(&order))
        })
        .collect()
}

/// Rows of branches that go to the next line either way, themselves or by a jump behind them; two indirect jumps after each
/// take a cycle of the predictor's time each and of fetch's, so that nothing is caught up with.
fn recurring(order: &[u64]) -> Source {
    let length = order.len() as u64;
    let turns = (LEAST / length).max(6) * length / ROW;
    let mut bytes = String::new();
    for bit in order {
        let _ = writeln!(bytes, "    .byte {bit}");
    }
    let mut row = String::new();
    for n in 0..ROW {
        let _ = write!(
            row,
            "    test byte ptr [rsi + {n}], 1
    jnz 4f
    jmp 4f
    .p2align 6
4:  lea rax, [rip + 5f]
    jmp rax
    .p2align 6
5:  lea rax, [rip + 6f]
    jmp rax
    .p2align 6
6:
"
        );
    }
    let body = counted(
        turns,
        &format!("{row}    add rsi, {ROW}\n    cmp rsi, rdx\n    cmove rsi, rbx\n"),
    );
    Source {
        run: format!(
            "    .pushsection .data\n    .p2align 6\norder:\n{bytes}    .popsection
    lea rbx, [rip + order]
    mov rsi, rbx
    lea rdx, [rbx + {length}]
{body}"
        ),
        operations: (turns * ROW) as f64,
        ..Source::default()
    }
}
