//! Loads that rename gives the register of a store since it has seen them take their data from one: a small table of
//! the loads' addresses.
//!
//! On Zen 5 two sets of twenty, least recently used: 40 such loads fifteen bytes apart are all renamed and
//! of 42 none, 20 sixteen bytes apart and of 21 none. Which bits tell the sets apart is not
//! known; here it is all of them (docs/ZEN5.md, "Memory renaming"). On Zen 3 and 4 one of 24 (docs/ZEN3.md, docs/ZEN4.md). On Zen 4 a load is renamed
//! once it has met the store as far back thirteen times in a row; one that then meets another store, or none, issues anew
//! (docs/ZEN4.md, "Memory renaming"). On Zen 5 it does not matter how far back the store is, but that it is the last one that was executed of
//! those instructions that the load had its data from before, as with store sets (Chrysos & Emer, ISCA 1998; docs/ZEN5.md).

use crate::pipeline::fold::Folding;
use crate::pipeline::state::{Fingerprint, Moment, Part};

/// Most sets.
pub const SETS: usize = 2;

/// Stores that a load is known with.
const STORES: usize = 4;

/// A store that a load has its data from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Met {
    /// So many before the load.
    Back(u64),
    /// With this number, by the instruction at this address.
    Store(u64, u64),
}

/// The last store of each instruction, by a part of its address: instructions that share it with others are forgotten.
#[derive(Default)]
pub struct LastStores(Box<[(u64, u64)]>);

impl LastStores {
    const ENTRIES: usize = 1 << 12;

    /// An empty table, or none.
    pub fn new(is_used: bool) -> Self {
        let entries = if is_used { Self::ENTRIES } else { 0 };
        Self(vec![(0, 0); entries].into())
    }

    fn place(address: u64) -> usize {
        (address ^ address >> 12) as usize % Self::ENTRIES
    }

    /// The instruction at an address stores, as the store with this number.
    #[inline]
    pub fn store(&mut self, address: u64, number: u64) {
        if let Some(last) = self.0.get_mut(Self::place(address)) {
            *last = (address, number);
        }
    }

    /// The last store of these instructions, 0: none is known.
    fn last_of(&self, addresses: &[u64]) -> u64 {
        let of = |address: &u64| match self.0.get(Self::place(*address)) {
            Some((known, number)) if known == address => *number,
            _ => 0,
        };
        addresses.iter().map(of).max().unwrap_or(0)
    }

    /// Shows its entries.
    pub fn fold(&mut self, folding: &mut Folding) {
        folding.table(&mut self.0, (0, 0));
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.0.fill((0, 0));
    }
}

/// A load, and the store that it had its data from: how many before it that was, or by which instructions, the last one first.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Load {
    address: u64,
    back: u64,
    stores: [u64; STORES],
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

impl Load {
    /// Whether the store is where it is looked for, from now on in any case.
    fn finds(&mut self, met: Met, last: &LastStores) -> bool {
        match met {
            Met::Back(back) => std::mem::replace(&mut self.back, back) == back,
            Met::Store(number, by) => {
                let found = last.last_of(&self.stores) == number;
                if !self.stores.contains(&by) {
                    self.stores.rotate_right(1);
                    self.stores[0] = by;
                }
                found
            }
        }
    }
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

    /// The load at `address` takes its data from a store.
    pub fn meet(&mut self, address: u64, met: Met, last: &LastStores) -> Learning {
        let (ways, after) = (self.ways, self.after);
        let set = self.set(address);
        let Some(place) = set.iter().position(|known| known.address == address) else {
            set.truncate(ways.saturating_sub(1));
            let mut load = Load {
                address,
                ..Load::default()
            };
            load.finds(met, last);
            set.insert(0, load);
            return Learning::Unknown;
        };
        set[..=place].rotate_right(1);
        let load = &mut set[0];
        let was_renamed = load.again >= after;
        match load.finds(met, last) {
            true => load.again = load.again.saturating_add(1),
            false => load.again = 0,
        }
        match load.again >= after {
            true => Learning::Renamed,
            false if was_renamed => Learning::InVain,
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

    fn meet(learnt: &mut Learnt, address: u64, back: u64) -> Learning {
        learnt.meet(address, Met::Back(back), &LastStores::default())
    }

    #[test]
    fn one_that_met_no_store_is_learnt_anew() {
        let mut learnt = Learnt::new(40, 2);
        for met in [true, true, false, true, true] {
            match met {
                true => _ = meet(&mut learnt, 0x1000, 0),
                false => _ = learnt.forget(0x1000),
            }
        }
        assert_eq!(meet(&mut learnt, 0x1000, 0), Renamed);
        assert_eq!(meet(&mut learnt, 0x1000, 1), InVain);
        assert_eq!(meet(&mut learnt, 0x1000, 1), Renamed);
        assert!(learnt.forget(0x1000));
        assert!(!learnt.forget(0x1000));
        assert_eq!(meet(&mut learnt, 0x1000, 1), Unknown);
    }

    #[test]
    fn one_is_renamed_after_as_many_times_in_a_row_as_it_takes() {
        let mut learnt = Learnt::new(40, 2);
        learnt.renames_after(14);
        for (back, run) in (1..).zip([14, 14, 15, 40]) {
            let learning: Vec<Learning> =
                (0..run).map(|_| meet(&mut learnt, 0x1000, back)).collect();
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
            .for_each(|load| assert_eq!(meet(&mut learnt, *load, 0), Unknown));
        (loads.iter()).for_each(|load| assert_eq!(meet(&mut learnt, *load, 0), Renamed));
        // In turn, none of more than there is room for.
        let loads: Vec<u64> = (0..100).map(|n| 0x1000 + 15 * n).collect();
        for _ in 0..2 {
            loads
                .iter()
                .for_each(|load| _ = meet(&mut learnt, *load, 0));
        }
        assert!((loads.iter()).all(|load| meet(&mut learnt, *load, 0) == Unknown));
    }

    #[test]
    fn one_that_looks_for_the_last_store_of_its_instructions_finds_it_wherever_that_is() {
        let mut learnt = Learnt::new(40, 2);
        learnt.renames_after(3);
        let mut last = LastStores::new(true);
        let mut number = 0;
        let mut turn = |by: &[u64]| {
            for store in by {
                number += 1;
                last.store(*store, number);
            }
            let met = Met::Store(number, by[by.len() - 1]);
            learnt.meet(0x1000, met, &last)
        };
        // Others come in between, and two of its own in any order.
        assert!((0..3).all(|_| turn(&[0x3000, 0x2000]) == Unknown));
        assert_eq!(turn(&[0x3000, 0x3000, 0x2000]), Renamed);
        assert_eq!(turn(&[0x2010]), InVain);
        assert_eq!(
            [0, 1, 2].map(|_| turn(&[0x2010])),
            [Unknown, Unknown, Renamed]
        );
        assert_eq!(turn(&[0x2000]), Renamed);
        assert_eq!(turn(&[0x2000, 0x2010]), Renamed);
        // It is not the last one.
        assert_eq!(turn(&[0x2000, 0x3000]), InVain);
    }
}
