//! The rows of H: what instructions were executed in which surroundings, and how often.
//!
//! A row is the kinds of the last [`MAX_WIDTH`] instructions and the distance to the closest
//! producer of a value that the last one reads, up to twice the width. At distances that reach
//! beyond the pattern the producer's kind is kept too, which the paper leaves out.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;

use crate::events::{Counted, Site};
use crate::kind::Kind;
use crate::machine::MAX_WIDTH;
use crate::profile::{Inst, Profile};
use crate::timing::{Cost, Instr, Timing};

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
    /// What a CPU has of this very instruction.
    pub own: Own,
}

/// Figures of one CPU for an instruction; where there are none, those of kinds count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Own {
    /// Cycles from the issue of the closest producer, and of the slower one.
    pub latencies: [Option<u8>; 2],
    /// What it costs by itself.
    pub cost: Option<Cost>,
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
        Self::collect(profile, None)
    }

    /// Those of a profile on one CPU, whose instructions are told apart by what they cost there.
    #[must_use]
    pub fn on(profile: &Profile, timing: &Timing) -> Self {
        Self::collect(profile, Some(timing))
    }

    fn collect(profile: &Profile, timing: Option<&Timing>) -> Self {
        let mut counts: FxHashMap<Row, u64> = FxHashMap::default();
        let mut follow: FxHashMap<(Row, Row), u64> = FxHashMap::default();
        let sites: FxHashMap<(u32, u32), &Site> = (profile.sites.iter())
            .map(|site| ((site.block, site.instruction), site))
            .collect();
        let mut events: FxHashMap<Row, Counted> = FxHashMap::default();
        let mut path_code: Vec<Executed<'_>> = Vec::new();
        for path in &profile.paths {
            path_code.clear();
            let mut begin = 0;
            for &block in &path.blocks {
                begin = path_code.len();
                let insts = profile.blocks.get(block as usize).into_iter().flatten();
                path_code.extend(insts.enumerate().map(|(n, inst)| Executed {
                    inst,
                    instr: timing.and_then(|timing| timing.instr(block, n)),
                }));
            }
            let mut before = begin.checked_sub(1).map(|n| row(&path_code, n, timing));
            for n in begin..path_code.len() {
                let row = row(&path_code, n, timing);
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

/// An instruction of a path.
#[derive(Clone, Copy, Debug)]
struct Executed<'a> {
    inst: &'a Inst,
    /// The same on a CPU.
    instr: Option<Instr>,
}

/// The row of instruction `n` of a path.
fn row(code: &[Executed<'_>], n: usize, timing: Option<&Timing>) -> Row {
    let back = |distance: usize| n.checked_sub(distance).and_then(|at| code.get(at));
    let kind = |distance: usize| back(distance).map_or(Kind::Alu, |e| e.inst.kind);
    let mut pattern = [Kind::Alu; MAX_WIDTH];
    for (place, kind) in pattern.iter_mut().rev().zip((0..).map(kind)) {
        *place = kind;
    }
    let reads = back(0).map_or(&[][..], |e| &e.inst.reads);
    // Who wrote a register last is who is waited for; writes before that one were overwritten.
    let writer = |register: &u8| {
        let of_it = |d: &usize| back(*d).is_some_and(|e| e.inst.writes.contains(register));
        (1..=MAX_DISTANCE).find(of_it).map(|d| (d, *register))
    };
    // The CPU's latency over that register.
    let own = |(d, register): (usize, u8)| {
        let (from, to) = (back(d)?.instr?, back(0)?.instr?);
        let latency = timing?.latency(from, to, register)?;
        Some(latency.min(u32::from(u8::MAX)) as u8)
    };
    // Of several registers of one producer the slowest counts.
    let producers = || {
        let all = reads.iter().filter_map(writer);
        all.map(|producer| (producer.0, own(producer)))
    };
    let closest = producers().min_by_key(|&(d, own)| (d, Reverse(own)));
    let slow = |(d, own): (usize, Option<u8>)| own.unwrap_or_else(|| slowness(kind(d)));
    let least = closest.map_or(u8::MAX, slow);
    let slower = producers()
        .filter(|&producer| slow(producer) > least)
        .min_by_key(|&(d, own)| (d, Reverse(own)));
    Row {
        pattern,
        distance: closest.map_or(0, |c| c.0) as u8,
        producer: closest.map_or(Kind::Alu, |c| kind(c.0)),
        slower: slower.map_or(0, |s| s.0) as u8,
        slower_producer: slower.map_or(Kind::Alu, |s| kind(s.0)),
        own: Own {
            latencies: [closest, slower].map(|producer| producer?.1),
            cost: timing.and_then(|timing| timing.cost(back(0)?.instr?)),
        },
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
