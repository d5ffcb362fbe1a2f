//! A quick predictor that remembers what branches did in the contexts used last, as found on Zen 4 (docs/BRANCHES.md, "The quick
//! predictor"): a context is a branch with the last directions before it, few of them in the first table and more in the next ones.

use mcad_isa::machine::params::branch;

use super::history::{Path, mix, spread};
use crate::pipeline::fold::Folding;

/// What a branch does in a context.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Entry {
    /// Of the branch and its history; 0: none.
    key: u32,
    taken: bool,
    /// It was right the last time.
    sure: bool,
}

/// The predictor.
#[derive(Clone)]
pub struct Contexts {
    /// Number of the first table's history.
    first_length: usize,
    tables: usize,
    ways: usize,
    /// Sets of a table, and those of which a history chooses one of a branch's.
    sets: u64,
    reach: u64,
    /// Tables, sets, and in these the entry that was used last first.
    entries: Box<[Entry]>,
    /// Counters by address, of two bits, taken from 0 on.
    base: Box<[i8]>,
}

impl Contexts {
    /// An empty one, whose tables have the history's lengths from this one on.
    #[must_use]
    pub fn new(p: &branch::Contexts, first_length: usize) -> Self {
        Self {
            first_length,
            tables: p.histories.len(),
            ways: p.ways as usize,
            sets: u64::from(p.entries / p.ways.max(1)),
            reach: u64::from(p.sets_of_a_branch),
            entries: vec![Entry::default(); p.histories.len() * p.entries as usize].into(),
            base: vec![0; p.base_entries as usize].into(),
        }
    }

    /// Shows its tables.
    pub fn fold(&mut self, folding: &mut Folding) {
        folding.table(&mut self.entries, Entry::default());
        folding.table(&mut self.base, 0);
    }

    /// What it says of the branch at `pc`, which then goes `taken`.
    pub fn predicts(&mut self, pc: u64, taken: bool, history: &Path) -> bool {
        let own = spread(pc);
        let counter = own as usize & (self.base.len() - 1);
        let mut guess = self.base.get(counter).is_some_and(|c| *c >= 0);
        // The longest history that has an entry, and where it is.
        let mut hit = None;
        for table in 0..self.tables {
            let (first, key) = self.set(table, own, history);
            let set = self.entries.get(first..first + self.ways).unwrap_or(&[]);
            if let Some(way) = set.iter().position(|entry| entry.key == key) {
                hit = Some((table, first, way));
                if let Some(entry) = set.get(way).filter(|entry| entry.sure) {
                    guess = entry.taken;
                }
            }
        }
        let next = match hit {
            Some((table, first, way)) => {
                self.use_entry(first, way, taken);
                table + 1
            }
            None => {
                if let Some(counter) = self.base.get_mut(counter) {
                    *counter = (*counter + if taken { 1 } else { -1 }).clamp(-2, 1);
                }
                0
            }
        };
        if guess != taken && next < self.tables {
            let (first, key) = self.set(next, own, history);
            if let Some(set) = self.entries.get_mut(first..first + self.ways) {
                set.rotate_right(1);
                if let Some(entry) = set.first_mut() {
                    *entry = Entry {
                        key,
                        taken,
                        sure: false,
                    };
                }
            }
        }
        guess
    }

    /// An entry is used: it comes first in its set, and learns.
    fn use_entry(&mut self, first: usize, way: usize, taken: bool) {
        let Some(set) = self.entries.get_mut(first..=first + way) else {
            return;
        };
        set.rotate_right(1);
        if let Some(entry) = set.first_mut() {
            match (entry.taken == taken, entry.sure) {
                (true, _) => entry.sure = true,
                (false, true) => entry.sure = false,
                (false, false) => entry.taken = taken,
            }
        }
    }

    /// The first entry of the set of a branch in a table, and its key there.
    fn set(&self, table: usize, own: u64, history: &Path) -> (usize, u32) {
        let context = mix(history.hash(self.first_length + table) ^ own);
        let chosen = context >> 40 & (self.reach - 1);
        let set = (own >> (7 * table + 20) ^ chosen) & (self.sets - 1);
        let first = (table as u64 * self.sets + set) * self.ways as u64;
        (first as usize, context as u32 | 1)
    }
}
