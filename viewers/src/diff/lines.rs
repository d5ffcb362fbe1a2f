//! Source lines across two versions, as far as the reports' listed blocks tell them.
//!
//! A report lists its hottest blocks. A line that only one version lists may just have dropped off
//! the other's list, so it counts only with more cycles than the least block of that list: had it
//! kept them, it would be there.

use std::collections::BTreeMap;

use mcad_core::report::BlockReport;

use super::{Delta, LineDelta};

#[derive(Default)]
struct Line<'r> {
    cycles: [u64; 2],
    /// Function of the block with the most cycles, and its cycles.
    hottest: (u64, &'r str),
}

/// Lines whose cycles changed, largest change first.
pub(super) fn deltas(before: &[BlockReport], after: &[BlockReport]) -> Vec<LineDelta> {
    let mut lines: BTreeMap<&str, Line<'_>> = BTreeMap::new();
    for (version, blocks) in [before, after].into_iter().enumerate() {
        for block in blocks {
            let Some(line) = &block.line else { continue };
            let entry = lines.entry(line).or_default();
            entry.cycles[version] = entry.cycles[version].saturating_add(block.cycles);
            if block.cycles >= entry.hottest.0 {
                entry.hottest = (block.cycles, function(&block.symbol));
            }
        }
    }
    let mut deltas: Vec<LineDelta> = lines
        .into_iter()
        .map(|(line, found)| LineDelta {
            line: line.to_owned(),
            function: found.hottest.1.to_owned(),
            cycles: Delta::new(found.cycles[0], found.cycles[1]),
        })
        .filter(|delta| delta.cycles.changed())
        .filter(|delta| match (delta.cycles.before, delta.cycles.after) {
            (0, cycles) => cycles > least(before),
            (cycles, 0) => cycles > least(after),
            _ => true,
        })
        .collect();
    deltas.sort_by_key(|delta| std::cmp::Reverse(delta.cycles.delta.abs()));
    deltas
}

/// Cycles of the least listed block.
fn least(blocks: &[BlockReport]) -> u64 {
    blocks.iter().map(|block| block.cycles).min().unwrap_or(0)
}

/// `function` of `function+0x12`.
fn function(symbol: &str) -> &str {
    match symbol.rsplit_once("+0x") {
        Some((name, offset)) if offset.bytes().all(|b| b.is_ascii_hexdigit()) => name,
        _ => symbol,
    }
}
