//! The rows of H: what instructions were executed in which surroundings, and how often.
//!
//! A row is the kinds of the last [`MAX_WIDTH`] instructions and the distance to the closest
//! producer of a value that the last one reads, up to twice the width. At distances that reach
//! beyond the pattern the producer's kind is kept too, which the paper leaves out.

use rustc_hash::FxHashMap;

use crate::events::{Counted, Site};
use crate::kind::Kind;
use crate::machine::MAX_WIDTH;
use crate::profile::{Inst, Profile};

/// Largest distance that is told apart.
pub const MAX_DISTANCE: usize = 2 * MAX_WIDTH;

/// A row of H.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Row {
    /// Kinds of the last instructions, the last one last.
    pub pattern: [Kind; MAX_WIDTH],
    /// How far back the closest producer is; 0: further than [`MAX_DISTANCE`], or none.
    pub distance: u8,
    /// Its kind.
    pub producer: Kind,
    /// How far back the closest producer is that takes longer than that kind does on any sensible
    /// machine, which may be the one that is waited for; 0: none. The paper leaves it out.
    pub slower: u8,
    /// Its kind.
    pub slower_producer: Kind,
}

/// H with how often each row occurs, most frequent first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// Rows and counts.
    pub rows: Vec<(Row, u64)>,
    /// What befell their last instructions, in the order of the rows.
    pub events: Vec<Counted>,
    /// How often one row follows another, in a fixed order.
    pub follow: Vec<((Row, Row), u64)>,
}

impl Rows {
    /// Collects the rows of a profile.
    #[must_use]
    pub fn of(profile: &Profile) -> Self {
        let mut counts: FxHashMap<Row, u64> = FxHashMap::default();
        let mut follow: FxHashMap<(Row, Row), u64> = FxHashMap::default();
        let sites: FxHashMap<(u32, u32), &Site> = (profile.sites.iter())
            .map(|site| ((site.block, site.instruction), site))
            .collect();
        let mut events: FxHashMap<Row, Counted> = FxHashMap::default();
        let mut path_code: Vec<&Inst> = Vec::new();
        for path in &profile.paths {
            path_code.clear();
            let mut begin = 0;
            for &block in &path.blocks {
                begin = path_code.len();
                path_code.extend(profile.blocks.get(block as usize).into_iter().flatten());
            }
            let mut before = begin.checked_sub(1).map(|n| row(&path_code, n));
            for n in begin..path_code.len() {
                let row = row(&path_code, n);
                *counts.entry(row).or_insert(0) += path.count;
                let last = path.blocks.last().copied().unwrap_or(0);
                if let Some(site) = sites.get(&(last, (n - begin) as u32)) {
                    // Of a block's events each of its paths has the share that it has in the block's
                    // executions.
                    let of_block = profile.executions.get(last as usize).copied();
                    let share = path.count as f64 / of_block.unwrap_or(0).max(1) as f64;
                    events.entry(row).or_default().add(site, share);
                }
                if let Some(before) = before.replace(row) {
                    *follow.entry((before, row)).or_insert(0) += path.count;
                }
            }
        }
        let mut follow: Vec<((Row, Row), u64)> = follow.into_iter().collect();
        follow.sort_unstable();
        let mut rows: Vec<(Row, u64)> = counts.into_iter().collect();
        rows.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        let events = (rows.iter())
            .map(|(row, _)| events.remove(row).unwrap_or_default())
            .collect();
        Self {
            rows,
            events,
            follow,
        }
    }

    /// Instructions counted.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.rows.iter().map(|r| r.1).sum()
    }
}

/// The row of instruction `n` of a path.
fn row(code: &[&Inst], n: usize) -> Row {
    let back = |distance: usize| n.checked_sub(distance).and_then(|at| code.get(at));
    let kind = |distance: usize| back(distance).map_or(Kind::Alu, |i| i.kind);
    let mut pattern = [Kind::Alu; MAX_WIDTH];
    for (place, kind) in pattern.iter_mut().rev().zip((0..).map(kind)) {
        *place = kind;
    }
    let reads = back(0).map_or(&[][..], |i| &i.reads);
    // Who wrote a register last is who is waited for; writes before that one were overwritten.
    let writer = |register: &u8| {
        (1..=MAX_DISTANCE).find(|&d| back(d).is_some_and(|i| i.writes.contains(register)))
    };
    let distance = reads.iter().filter_map(writer).min();
    let least = distance.map_or(u8::MAX, |d| slowness(kind(d)));
    let slower = (reads.iter().filter_map(writer))
        .filter(|&d| slowness(kind(d)) > least)
        .min();
    Row {
        pattern,
        distance: distance.unwrap_or(0) as u8,
        producer: distance.map_or(Kind::Alu, kind),
        slower: slower.unwrap_or(0) as u8,
        slower_producer: slower.map_or(Kind::Alu, kind),
    }
}

/// Kinds in the order of how long they take.
fn slowness(kind: Kind) -> u8 {
    match kind {
        Kind::Alu | Kind::Store | Kind::Branch => 0,
        Kind::Load => 1,
        Kind::Multiply | Kind::FpAdd | Kind::FpMultiply => 2,
        Kind::Divide | Kind::FpDivide => 3,
    }
}
