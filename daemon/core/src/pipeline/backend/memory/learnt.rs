//! Loads that rename gives the register of a store since it has seen them take their data from one: a small table of
//! the loads' addresses.
//!
//! On Zen 5 two sets of twenty, least recently used: 40 such loads fifteen bytes apart are all renamed and
//! of 42 none, 20 sixteen bytes apart and of 21 none. Which bits tell the sets apart is not
//! known; here it is all of them (docs/ZEN5.md, "Memory renaming"). On Zen 3 and 4 one of 24 (docs/ZEN3.md, docs/ZEN4.md). On Zen 4 a load is renamed
//! once it has met the store as far back thirteen times in a row; one that then meets another store, or none, issues anew
//! (docs/ZEN4.md, "Memory renaming").

use crate::pipeline::fold::Folding;
use crate::pipeline::state::{Fingerprint, Moment, Part};

/// Most sets.
pub const SETS: usize = 2;

/// A load, and how many stores before it the one was that it had its data from, where that matters.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Load {
    address: u64,
    back: u64,
    /// Times in a row that it met the store as far back as the time before.
    again: u8,
}

/// What rename does about a load that takes its data from a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learning {
    /// It does not know of the store.
    Unknown,
    /// It gives the load the store's register.
    Renamed,
    /// It gave it another store's.
    InVain,
}

/// The loads, in each set the last one used first.
pub struct Learnt {
    /// Times in a row that a load meets the same store before it is renamed.
    after: u8,
    ways: usize,
    used: usize,
    sets: [Vec<Load>; SETS],
}

impl Learnt {
    /// Of so many entries in so many sets, at most [`SETS`].
    #[must_use]
    pub fn new(entries: u32, sets: u32) -> Self {
        let used = (sets as usize).clamp(1, SETS);
        Self {
            after: 1,
            ways: entries as usize / used,
            used,
            sets: Default::default(),
        }
    }

    /// Loads are renamed after so many times in a row.
    pub fn renames_after(&mut self, times: u8) {
        self.after = times;
    }

    /// The load at `address` takes its data from the store so many before it (`back`).
    pub fn meet(&mut self, address: u64, back: u64) -> Learning {
        let (ways, after) = (self.ways, self.after);
        let set = self.set(address);
        let Some(place) = set.iter().position(|known| known.address == address) else {
            set.truncate(ways.saturating_sub(1));
            let again = 0;
            set.insert(
                0,
                Load {
                    address,
                    back,
                    again,
                },
            );
            return Learning::Unknown;
        };
        set[..=place].rotate_right(1);
        let load = &mut set[0];
        let was_renamed = load.again >= after;
        if load.back == back {
            load.again = load.again.saturating_add(1);
            return match load.again >= after {
                true => Learning::Renamed,
                false => Learning::Unknown,
            };
        }
        (load.back, load.again) = (back, 0);
        match was_renamed {
            true => Learning::InVain,
            false => Learning::Unknown,
        }
    }

    /// The load at `address` met no store; returns whether it had been renamed.
    pub fn forget(&mut self, address: u64) -> bool {
        let after = self.after;
        let set = self.set(address);
        let Some(place) = set.iter().position(|known| known.address == address) else {
            return false;
        };
        set.remove(place).again >= after
    }

    fn set(&mut self, address: u64) -> &mut Vec<Load> {
        let set = (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 63) as usize % self.used;
        &mut self.sets[set]
    }
}

impl Part for Learnt {
    fn fold(&mut self, folding: &mut Folding) {
        for set in &mut self.sets {
            folding.list(set, Load::default());
        }
    }

    fn reset(&mut self, _: &Moment) {
        let Self {
            after: _,
            ways: _,
            used: _,
            sets,
        } = self;
        sets.iter_mut().for_each(Vec::clear);
    }

    /// States are compared only where code lies alike: loads have been seen by then or never will be.
    fn fingerprint(&self, _: &Moment, _: &mut Fingerprint) {
        let Self {
            after: _,
            ways: _,
            used: _,
            sets: _,
        } = self;
    }
}

#[cfg(test)]
mod tests {
    use super::Learning::*;
    use super::*;

    #[test]
    fn one_that_met_no_store_is_learnt_anew() {
        let mut learnt = Learnt::new(40, 2);
        for met in [true, true, false, true, true] {
            match met {
                true => _ = learnt.meet(0x1000, 0),
                false => _ = learnt.forget(0x1000),
            }
        }
        assert_eq!(learnt.meet(0x1000, 0), Renamed);
        assert_eq!(learnt.meet(0x1000, 1), InVain);
        assert_eq!(learnt.meet(0x1000, 1), Renamed);
        assert!(learnt.forget(0x1000));
        assert!(!learnt.forget(0x1000));
        assert_eq!(learnt.meet(0x1000, 1), Unknown);
    }

    #[test]
    fn one_is_renamed_after_as_many_times_in_a_row_as_it_takes() {
        let mut learnt = Learnt::new(40, 2);
        learnt.renames_after(14);
        for (back, run) in (1..).zip([14, 14, 15, 40]) {
            let learning: Vec<Learning> = (0..run).map(|_| learnt.meet(0x1000, back)).collect();
            assert!(learning[1..14].iter().all(|l| *l == Unknown));
            assert!(learning[14..].iter().all(|l| *l == Renamed));
            // Only the run before this one was long enough.
            assert_eq!(learning[0], if run == 40 { InVain } else { Unknown });
        }
    }

    #[test]
    fn as_many_as_fit_into_their_sets_stay_known() {
        let mut learnt = Learnt::new(40, 2);
        let loads: Vec<u64> = (0..20).map(|n| 0x1000 + 15 * n).collect();
        loads
            .iter()
            .for_each(|load| assert_eq!(learnt.meet(*load, 0), Unknown));
        (loads.iter()).for_each(|load| assert_eq!(learnt.meet(*load, 0), Renamed));
        // In turn, none of more than there is room for.
        let loads: Vec<u64> = (0..100).map(|n| 0x1000 + 15 * n).collect();
        for _ in 0..2 {
            loads.iter().for_each(|load| _ = learnt.meet(*load, 0));
        }
        assert!((loads.iter()).all(|load| learnt.meet(*load, 0) == Unknown));
    }
}
