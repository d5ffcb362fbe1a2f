//! The published formulas.
//!
//! Source: Breughe, Eyerman, Eeckhout, "Mechanistic analytical modeling of superscalar in-order
//! processor performance" (ACM TACO 2014): T = N/W + ΣH·max(c_dep, c_fu). Every place in an issue
//! group is taken as equally likely, and an instruction of long latency keeps the pipeline waiting
//! for all of it, as it does in the paper's five stages, where nothing passes it. Pr\[dense\], the
//! share of patterns in which like instructions follow each other without a gap, is taken as 1.

use crate::kind::Kind;
use crate::machine::{MAX_WIDTH, Machine};
use crate::rows::{Row, Rows};
use crate::stack::Stack;

/// Σ of the slots that are lost behind a place of a group which is as likely as any other, for
/// something that may come no earlier than the group after, over `reach` slots; in cycles.
#[must_use]
pub fn lost_behind(width: usize, distance: usize, reach: usize) -> f64 {
    let left = reach.saturating_sub(distance) as f64;
    left * (left + 1.0) / (2.0 * (width * width) as f64)
}

/// Penalty of a dependence, in cycles.
#[must_use]
pub fn dependence(machine: &Machine, row: &Row) -> f64 {
    let width = usize::from(machine.width);
    let distance = usize::from(row.distance);
    if distance == 0 {
        return 0.0;
    }
    let latency = machine.units(row.producer).latency;
    match (latency > 1, distance) {
        (false, d) if d < width => lost_behind(width, d, width),
        (true, d) if d < width => (3 * width + 1 - 2 * d) as f64 / (2 * width) as f64,
        (true, d) if d < 2 * width => lost_behind(width, d, 2 * width),
        _ => 0.0,
    }
}

/// Penalty of units, in cycles.
#[must_use]
pub fn units(machine: &Machine, row: &Row) -> f64 {
    let width = usize::from(machine.width);
    let pattern = row.pattern.get(MAX_WIDTH - width..).unwrap_or(&[]);
    let Some(&own) = pattern.last() else {
        return 0.0;
    };
    let own_units = machine.units(own);
    let count = usize::from(own_units.count);
    let like: Vec<usize> = (0..width)
        .filter(|&back| pattern.get(width - 1 - back) == Some(&own))
        .collect();
    let k = like.len();
    // The instruction whose unit is wanted: so many of the kind back as there are units.
    let refill = like
        .get(count)
        .map_or(0.0, |&d| lost_behind(width, d, width));
    let latency = f64::from(own_units.latency) - 1.0;
    if latency <= 0.0 {
        return refill;
    }
    let long = if own_units.pipelined {
        if k == 1 { latency } else { latency / k as f64 }
    } else if k % count == 1 % count {
        latency
    } else {
        latency / count.min(k) as f64
    };
    refill + long
}

/// Cycles of a program.
#[must_use]
pub fn predict(machine: &Machine, rows: &Rows) -> Stack {
    let mut stack = Stack {
        base: rows.total() as f64 / f64::from(machine.width),
        ..Stack::default()
    };
    for (row, count) in &rows.rows {
        let (dependence, unit) = (dependence(machine, row), units(machine, row));
        let own = row.pattern.last().copied().unwrap_or(Kind::Alu);
        if dependence >= unit {
            stack.dependences[row.producer as usize] += dependence * *count as f64;
        } else {
            stack.units[own as usize] += unit * *count as f64;
        }
    }
    stack
}
