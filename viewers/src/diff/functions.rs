//! Functions across two versions, with what is in no function as the rest, so that the deltas
//! add up to the total's exactly.

use std::collections::BTreeMap;

use mcad_report::{CpuReport, FunctionReport};

use super::matching::{self, Pair};
use super::{Delta, FunctionDelta, MatchedBy, Status};

/// Functions across two versions.
pub(super) struct Functions {
    /// Those that changed, largest change first.
    pub deltas: Vec<FunctionDelta>,
    /// Cycles of no function.
    pub rest: Delta,
    /// Shares of the cycles in functions that were found in both.
    pub matched: [f64; 2],
}

/// Compares the functions of two versions.
pub(super) fn deltas(before: &CpuReport, after: &CpuReport, total: &Delta) -> Functions {
    let pairs = matching::pairs(before, after);
    let mut found = [0u128; 2];
    let mut left: BTreeMap<String, Left<'_>> = BTreeMap::new();
    let mut deltas: Vec<FunctionDelta> = Vec::new();
    for pair in &pairs {
        if let (Some(before), Some(after)) = (pair.before, pair.after) {
            found[0] += u128::from(before.cycles);
            found[1] += u128::from(after.cycles);
        } else if let Some(one) = pair.before.or(pair.after)
            && one.is_unnamed()
        {
            let left = left.entry(matching::family(&one.module)).or_default();
            left.add(pair);
            continue;
        }
        deltas.extend(delta(pair, total));
    }
    deltas.extend(left.into_values().filter_map(|left| left.delta(total)));
    let share = |found: u128, cpu: &CpuReport| match cpu.cycles {
        0 => 1.0,
        all => (found as f64 / all as f64).min(1.0),
    };
    deltas.sort_by(|a, b| {
        let size = |f: &FunctionDelta| (f.cycles.delta.abs(), f.instructions.delta.abs());
        size(b)
            .cmp(&size(a))
            .then_with(|| (&a.name, &a.module).cmp(&(&b.name, &b.module)))
    });
    Functions {
        deltas,
        rest: Delta::new(rest(before), rest(after)).with(total, before, after),
        matched: [share(found[0], before), share(found[1], after)],
    }
}

/// Functions of a module that have no names and were not found in the other version: whether they
/// were added or removed, or only look different, nobody knows.
#[derive(Default)]
struct Left<'r> {
    module: &'r str,
    functions: [usize; 2],
    cycles: [u128; 2],
    instructions: [u128; 2],
}

impl<'r> Left<'r> {
    fn add(&mut self, pair: &Pair<'r>) {
        for (n, function) in [pair.before, pair.after].into_iter().enumerate() {
            if let Some(function) = function {
                self.module = &function.module;
                self.functions[n] += 1;
                self.cycles[n] += u128::from(function.cycles);
                self.instructions[n] += u128::from(function.instructions);
            }
        }
    }

    fn delta(self, total: &Delta) -> Option<FunctionDelta> {
        let (cycles, instructions) = (of_sums(self.cycles), of_sums(self.instructions));
        let [before, after] = self.functions;
        (cycles.changed() || instructions.changed()).then(|| FunctionDelta {
            name: format!(
                "[{}: functions without names that were not matched, {before} before, {after} after]",
                self.module
            ),
            module: self.module.to_owned(),
            previous_name: None,
            near: None,
            status: Status::Changed,
            matched_by: MatchedBy::Nothing,
            share: total
                .changed()
                .then(|| cycles.delta as f64 / total.delta as f64),
            cycles,
            instructions,
        })
    }
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

/// Of sums that a foreign report may make larger than a count can be: the difference stays exact.
fn of_sums([before, after]: [u128; 2]) -> Delta {
    let count = |sum: u128| u64::try_from(sum).unwrap_or(u64::MAX);
    let signed = |sum: u128| i128::try_from(sum).unwrap_or(i128::MAX);
    let mut delta = Delta::new(count(before), count(after));
    delta.delta = signed(after).saturating_sub(signed(before));
    delta
}
