//! Source lines across two versions, as far as the reports' listed blocks tell them.

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
        .collect();
    deltas.sort_by_key(|delta| std::cmp::Reverse(delta.cycles.delta.abs()));
    deltas
}

/// `function` of `function+0x12`.
fn function(symbol: &str) -> &str {
    match symbol.rsplit_once("+0x") {
        Some((name, offset)) if offset.bytes().all(|b| b.is_ascii_hexdigit()) => name,
        _ => symbol,
    }
}
