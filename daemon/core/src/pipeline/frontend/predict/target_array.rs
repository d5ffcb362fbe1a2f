//! Targets of indirect branches by an array that the path chooses from, as found in Zen (docs/ZEN1.md, "Targets"; AMD's guides name
//! an "indirect target array" of so many entries): a branch that has gone to several places has an entry for each path that led to it.
//! Branches of one line of code share entries: the page takes part in an entry's number, and the line in the page is its tag.

use mcad_isa::machine::params::branch::{Indirect, TargetArray};

use super::addresses::{AddressRegisters, lowest, turns};
use super::indirect::Guess;
use super::last_targets::LastTargets;
use super::stream::{LINE_SHIFT, PAGE_SHIFT};
use crate::pipeline::fold::Folding;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Entry {
    target: u64,
    line: u8,
}

/// What a branch has written that is not read yet.
#[derive(Clone, Copy, Debug)]
struct Written {
    place: usize,
    entry: Entry,
    /// Taken branches since, itself among them.
    since: u32,
}

/// The array, and where branches went when they were last predicted wrongly.
#[derive(Clone)]
pub struct PathTargets {
    p: TargetArray,
    last: LastTargets,
    entries: Box<[Entry]>,
    written: Option<Written>,
    // Of the branch predicted last.
    place: usize,
    line: u8,
    guess: u64,
}

impl PathTargets {
    /// Those that have seen nothing.
    #[must_use]
    pub fn new(p: &Indirect, array: TargetArray) -> Self {
        Self {
            p: array,
            last: LastTargets::new(p.base_entries, p.base_ways),
            entries: vec![Entry::default(); array.entries as usize].into(),
            written: None,
            place: 0,
            line: 0,
            guess: 0,
        }
    }

    /// Shows the tables.
    pub fn fold(&mut self, folding: &mut Folding) {
        self.last.fold(folding);
        folding.table(&mut self.entries, Entry::default());
    }

    /// A branch is taken.
    #[inline]
    pub fn take(&mut self) {
        if let Some(written) = &mut self.written {
            written.since += 1;
        }
    }

    /// Predicts where the branch at `pc` goes, to which that path led.
    pub fn predict(&mut self, pc: u64, path: &AddressRegisters) -> Guess {
        if self
            .written
            .is_some_and(|written| written.since > self.p.late)
        {
            self.write();
        }
        let bits = self.p.entries.trailing_zeros();
        self.place =
            (turns(path.near(self.p.history_bits), bits) ^ turns(pc >> PAGE_SHIFT, bits)) as usize;
        self.line = lowest(pc >> LINE_SHIFT, PAGE_SHIFT - LINE_SHIFT) as u8;
        let last = self.last.find(pc);
        let entry = self.entries.get(self.place).copied().unwrap_or_default();
        self.guess = match last.changed && entry.target != 0 && entry.line == self.line {
            true => entry.target,
            false => last.target,
        };
        Guess {
            target: self.guess,
            chosen: self.guess != last.target,
            led: false,
        }
    }

    fn write(&mut self) {
        if let Some(written) = self.written.take()
            && let Some(entry) = self.entries.get_mut(written.place)
        {
            *entry = written.entry;
        }
    }

    /// The branch predicted last went to `target`.
    pub fn update(&mut self, target: u64) {
        self.write();
        let Some(last) = self.last.found() else {
            return;
        };
        last.changed |= last.target != 0 && last.target != target;
        if self.guess != target {
            last.target = target;
        }
        if last.changed {
            self.written = Some(Written {
                place: self.place,
                entry: Entry {
                    target,
                    line: self.line,
                },
                since: 0,
            });
        }
    }
}
