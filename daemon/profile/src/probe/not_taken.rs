//! Conditional jumps that are not taken: how many of them a cycle has room for.

use super::{Axis, Point, Probe, Source, counted, repeated};

pub(super) const PROBES: &[Probe] = &[Probe {
    name: "not-taken",
    what: "lines with so many conditional jumps that are not taken, and a jump to the next: ports of jumps",
    axis: Axis::plain("not taken"),
    unit: "cycles per line",
    points,
}];

/// Lines, more than a loop has that is replayed.
const LINES: u64 = 32;

fn points() -> Vec<Point> {
    let point = |jumps: u64| {
        let turns = 1000;
        // Each conditional jump tests what it goes by, as most do.
        let line = "    .p2align 6\n".to_owned()
            + &repeated(jumps, "test rsi, rsi\n    jnz 5f\n    5:")
            + "    test rsi, rsi\n    jz 6f\n    nop\n6:\n";
        let body = format!("    .rept {LINES}\n{line}    .endr\n");
        let source = Source {
            run: format!("    xor esi, esi\n{}", counted(turns, &body)),
            operations: (turns * LINES) as f64,
            ..Source::default()
        };
        Point::new(jumps as f64, source)
    };
    (0..=7).map(point).collect()
}
