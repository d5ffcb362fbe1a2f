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
    /// Adds another thread's.
    pub fn add(&mut self, other: &Self) {
        let lists = [
            (&mut self.loads, &other.loads),
            (&mut self.stores, &other.stores),
            (&mut self.fetches, &other.fetches),
        ];
        for (sum, more) in lists {
            for (sum, more) in sum.iter_mut().zip(more) {
                *sum += more;
            }
        }
        self.tlb_misses += other.tlb_misses;
        self.walks += other.walks;
        self.fetch_walks += other.fetch_walks;
        self.prefetches += other.prefetches;
        self.useful_prefetches += other.useful_prefetches;
        self.dropped_prefetches += other.dropped_prefetches;
        self.faults += other.faults;
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
