//! Loads that rename gives the register of a store since it has seen them take their data from one: a small table of
//! the loads' addresses.
//!
//! On Zen 5 two sets of twenty, least recently used: 40 such loads fifteen bytes apart are all renamed and
//! of 42 none, 20 sixteen bytes apart and of 21 none. Which bits tell the sets apart is not
//! known; here it is all of them (docs/ZEN5.md, "Memory renaming"). On Zen 3 one of 24 (docs/ZEN3.md). On Zen 4 a load that once
//! meets no store, or another one than before, is not renamed before it has met one anew (docs/ZEN4.md, "Loads ahead of stores").

use crate::pipeline::fold::Folding;
use crate::pipeline::state::{Fingerprint, Moment, Part};

/// Most sets.
pub const SETS: usize = 2;

/// A load, and how many stores before it the one was that it had its data from, where that matters.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Load {
    address: u64,
    back: u64,
}

/// The loads, in each set the last one used first.
pub struct Learnt {
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
            ways: entries as usize / used,
            used,
            sets: Default::default(),
        }
    }

    /// The load at `address` takes its data from the store so many before it (`back`); returns whether it was known to.
    pub fn know(&mut self, address: u64, back: u64) -> bool {
        let ways = self.ways;
        let load = Load { address, back };
        let set = self.set(address);
        if let Some(place) = set.iter().position(|known| known.address == address) {
            set[..=place].rotate_right(1);
            return std::mem::replace(&mut set[0], load) == load;
        }
        set.truncate(ways.saturating_sub(1));
        set.insert(0, load);
        false
    }

    /// The load at `address` met no store.
    pub fn forget(&mut self, address: u64) {
        self.set(address).retain(|known| known.address != address);
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
            ways: _,
            used: _,
            sets,
        } = self;
        sets.iter_mut().for_each(Vec::clear);
    }

    /// States are compared only where code lies alike: loads have been seen by then or never will be.
    fn fingerprint(&self, _: &Moment, _: &mut Fingerprint) {
        let Self {
            ways: _,
            used: _,
            sets: _,
        } = self;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_met_no_store_is_learnt_anew() {
        let mut learnt = Learnt::new(40, 2);
        for met in [true, true, false, true, true] {
            match met {
                true => _ = learnt.know(0x1000, 0),
                false => learnt.forget(0x1000),
            }
        }
        assert!(learnt.know(0x1000, 0));
        assert!(!learnt.know(0x1000, 1));
        assert!(learnt.know(0x1000, 1));
        learnt.forget(0x1000);
        assert!(!learnt.know(0x1000, 1));
    }

    #[test]
    fn as_many_as_fit_into_their_sets_stay_known() {
        let mut learnt = Learnt::new(40, 2);
        let loads: Vec<u64> = (0..20).map(|n| 0x1000 + 15 * n).collect();
        loads
            .iter()
            .for_each(|load| assert!(!learnt.know(*load, 0)));
        loads.iter().for_each(|load| assert!(learnt.know(*load, 0)));
        // In turn, none of more than there is room for.
        let loads: Vec<u64> = (0..100).map(|n| 0x1000 + 15 * n).collect();
        for _ in 0..2 {
            loads.iter().for_each(|load| _ = learnt.know(*load, 0));
        }
        assert!(loads.iter().all(|load| !learnt.know(*load, 0)));
    }
}
