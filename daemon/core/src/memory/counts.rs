//! What a program's accesses found, in all and by instruction.

use rustc_hash::FxHashMap;

use super::Level;

/// What accesses found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Lines that loads asked for, by the level that had them; those on their way count for the
    /// level that they came from.
    pub loads: [u64; Level::ALL.len()],
    /// The same of stores.
    pub stores: [u64; Level::ALL.len()],
    /// The same of fetches.
    pub fetches: [u64; Level::ALL.len()],
    /// Data accesses whose translation the first level had not.
    pub tlb_misses: u64,
    /// Page walks for data.
    pub walks: u64,
    /// The same for instructions.
    pub fetch_walks: u64,
    /// Lines that prefetchers brought.
    pub prefetches: u64,
    /// Those of them that were asked for before they went.
    pub useful_prefetches: u64,
    /// Prefetches that found no buffer.
    pub dropped_prefetches: u64,
    /// Pages touched first.
    pub faults: u64,
}

impl Counts {
    /// Adds what was counted from `begin` to `end`.
    pub fn add_between(&mut self, begin: &Self, end: &Self) {
        let lists = [
            (&mut self.loads, &begin.loads, &end.loads),
            (&mut self.stores, &begin.stores, &end.stores),
            (&mut self.fetches, &begin.fetches, &end.fetches),
        ];
        for (sum, begin, end) in lists {
            for ((sum, begin), end) in sum.iter_mut().zip(begin).zip(end) {
                *sum += end - begin;
            }
        }
        self.tlb_misses += end.tlb_misses - begin.tlb_misses;
        self.walks += end.walks - begin.walks;
        self.fetch_walks += end.fetch_walks - begin.fetch_walks;
        self.prefetches += end.prefetches - begin.prefetches;
        self.useful_prefetches += end.useful_prefetches - begin.useful_prefetches;
        self.dropped_prefetches += end.dropped_prefetches - begin.dropped_prefetches;
        self.faults += end.faults - begin.faults;
    }
}

/// Misses of one instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Misses {
    /// Data accesses that the first level had not.
    pub l1: u64,
    /// Nor the second.
    pub l2: u64,
    /// Nor the third.
    pub l3: u64,
    /// Page walks.
    pub walks: u64,
}

impl Misses {
    /// Adds others.
    pub fn add(&mut self, other: &Self) {
        self.l1 += other.l1;
        self.l2 += other.l2;
        self.l3 += other.l3;
        self.walks += other.walks;
    }
}

/// Misses by place of the instruction in the static program; only code that misses is in it.
pub type MissesByInstruction = FxHashMap<u32, Misses>;
