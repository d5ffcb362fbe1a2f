//! Straight code behind an indirect jump whose target changes: how many lines of it are predicted while fetch is behind.

use super::branches::jumps_in_order;
use super::{Axis, Point, Probe, repeated};

pub(super) const PROBES: &[Probe] = &[Probe {
    name: "behind-indirect",
    what: "an indirect jump to one of sixteen targets in an order of 64 that recurs, by lines of code at each target",
    axis: Axis {
        name: "lines",
        unit: "",
        logarithmic: false,
    },
    unit: "cycles per jump",
    points,
}];

/// Targets, and jumps until their order recurs.
const TARGETS: u64 = 16;
const ORDER: u64 = 64;
/// A no-operation of fourteen bytes, of which a line has few µops.
const LONG: &str = "    .byte 0x66, 0x66, 0x66, 0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0";

fn points() -> Vec<Point> {
    let point = |lines: u64| {
        // The jump back is in the last line.
        let straight = repeated((64 * lines - 12) / 14, LONG);
        let each = ("    .p2align 6\n", straight.as_str());
        Point::new(
            lines as f64,
            jumps_in_order(TARGETS, ORDER, 200 * ORDER, each),
        )
    };
    (1..=8).map(point).collect()
}
