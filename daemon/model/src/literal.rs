//! The published formulas.
//!
//! Source: Breughe, Eyerman, Eeckhout, "Mechanistic analytical modeling of superscalar in-order
//! processor performance" (ACM TACO 2014): T = N/W + ΣH·max(c_dep, c_fu). Every place in an issue
//! group is taken as equally likely, and an instruction of long latency keeps the pipeline waiting
//! for all of it, as it does in the paper's five stages, where nothing passes it. Pr\[dense\], the
//! share of patterns in which like instructions follow each other without a gap, is taken as 1.
//! A miss costs its latency less (W-1)/2W, those of data divided by how many overlap; a misprediction
//! the front end's depth, and a taken branch its bubble, and (W-1)/2W each.

use crate::events::Costs;
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

/// Loads between a load and its first consumer, in a group at most, over all whose consumer is near:
/// so many misses overlap.
#[must_use]
pub fn overlap(width: u8, rows: &Rows) -> f64 {
    let (mut all, mut overlapping) = (0.0, 0.0);
    for (row, count) in &rows.rows {
        if row.distance > 0 && row.producer == Kind::Load {
            let reach = usize::from(row.distance).min(usize::from(width));
            let between = row.pattern.iter().rev().skip(1).take(reach - 1);
            let loads = between.filter(|k| **k == Kind::Load).count();
            all += *count as f64;
            overlapping += (1 + loads) as f64 * *count as f64;
        }
    }
    if all > 0.0 { overlapping / all } else { 1.0 }
}

/// What misses and mispredictions cost.
fn events(machine: &Machine, rows: &Rows, stack: &mut Stack) {
    let width = f64::from(machine.width);
    let group = (width - 1.0) / (2.0 * width);
    let costs = Costs::new(machine);
    let (second, memory) = costs.latencies();
    let (depth, bubble) = costs.bubbles();
    let (second, memory) = (f64::from(second) - group, f64::from(memory) - group);
    let overlap = overlap(machine.width, rows);
    for counted in &rows.events {
        let events = costs.events(counted);
        stack.data_cache += events.data_second * (second / overlap).max(0.0)
            + events.data_memory * (memory / overlap).max(0.0);
        stack.instruction_cache +=
            events.fetch_second * second.max(0.0) + events.fetch_memory * memory.max(0.0);
        stack.misprediction += events.mispredicted * (f64::from(depth) + group);
        stack.taken_branch += events.taken * (f64::from(bubble) + group);
    }
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
    events(machine, rows, &mut stack);
    stack
}
