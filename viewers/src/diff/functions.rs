//! Functions across two versions, with what is in no function as the rest, so that the deltas
//! add up to the total's exactly.

use mcad_report::{CpuReport, FunctionReport};

use super::matching::{self, Pair};
use super::{Delta, FunctionDelta, MatchedBy, Status};

/// The functions that changed, largest change first, and the cycles of no function.
pub(super) fn deltas(
    before: &CpuReport,
    after: &CpuReport,
    total: &Delta,
) -> (Vec<FunctionDelta>, Delta) {
    let mut deltas: Vec<FunctionDelta> = matching::pairs(&before.functions, &after.functions)
        .iter()
        .filter_map(|pair| delta(pair, total))
        .collect();
    deltas.sort_by(|a, b| {
        let size = |f: &FunctionDelta| (f.cycles.delta.abs(), f.instructions.delta.abs());
        size(b)
            .cmp(&size(a))
            .then_with(|| (&a.name, &a.module).cmp(&(&b.name, &b.module)))
    });
    (
        deltas,
        Delta::new(rest(before), rest(after)).with(total, before, after),
    )
}

/// Cycles that no function has. Functions never have more than the total.
fn rest(cpu: &CpuReport) -> u64 {
    cpu.cycles
        .saturating_sub(in_functions(cpu).try_into().unwrap_or(u64::MAX))
}

fn in_functions(cpu: &CpuReport) -> u128 {
    cpu.functions.iter().map(|f| u128::from(f.cycles)).sum()
}

impl Delta {
    /// Keeps the sum exact even for a foreign report whose functions have more cycles than it.
    fn with(mut self, total: &Delta, before: &CpuReport, after: &CpuReport) -> Self {
        let signed = |cpu: &CpuReport| i128::try_from(in_functions(cpu)).unwrap_or(i128::MAX);
        self.delta = total
            .delta
            .saturating_sub(signed(after).saturating_sub(signed(before)));
        self
    }
}

fn delta(pair: &Pair<'_>, total: &Delta) -> Option<FunctionDelta> {
    let count = |of: fn(&FunctionReport) -> u64| {
        Delta::new(pair.before.map_or(0, of), pair.after.map_or(0, of))
    };
    let cycles = count(|f| f.cycles);
    let instructions = count(|f| f.instructions);
    let status = match (pair.before, pair.after) {
        (Some(_), Some(_)) => Status::Changed,
        (None, _) => Status::Added,
        (_, None) => Status::Removed,
    };
    // A name without a place says nothing more; a function that only moved did not change.
    if status == Status::Changed && !cycles.changed() && !instructions.changed() {
        return None;
    }
    let named = pair.after.or(pair.before)?;
    Some(FunctionDelta {
        name: named.name.clone(),
        module: named.module.clone(),
        previous_name: pair
            .before
            .filter(|before| before.name != named.name)
            .map(|before| before.name.clone()),
        near: named.near.clone(),
        status,
        matched_by: if status == Status::Changed {
            pair.by
        } else {
            MatchedBy::Nothing
        },
        cycles,
        instructions,
        share: total
            .changed()
            .then(|| cycles.delta as f64 / total.delta as f64),
    })
}
