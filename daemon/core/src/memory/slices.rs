//! Storage of many entries that is copied at little cost: sets in slices, of which copies share
//! those that neither has changed since.
//!
//! It answers as [`Sets`] do. Looking an entry up changes it (its age), so a slice is copied with
//! the first look-up after the storage was.

use std::sync::Arc;

use mcad_isa::machine::hierarchy::Replacement;

use super::sets::{Evicted, Index, Key, Sets, State};

/// Sets of a slice; some 10 KB of storage.
const SLICE: u64 = 32;

/// The storage.
#[derive(Clone)]
pub struct Slices {
    index: Index,
    sets: u64,
    /// Places in a slice.
    places: usize,
    slices: Vec<Arc<Sets>>,
}

impl Slices {
    /// Empty, with room for `entries` in sets of `ways`.
    #[must_use]
    pub fn new(entries: u64, ways: u32, index: Index, replacement: Replacement) -> Self {
        let ways = ways.max(1).min(u32::from(u8::MAX));
        let sets = (entries / u64::from(ways)).max(1);
        let empty = Arc::new(Sets::new(SLICE * u64::from(ways), ways, index, replacement));
        Self {
            index,
            sets,
            places: (SLICE * u64::from(ways)) as usize,
            slices: vec![empty; sets.div_ceil(SLICE) as usize],
        }
    }

    /// The slice of a key, to be changed, the set in it, and the place of the slice's first entry.
    fn slice(&mut self, key: Key) -> (&mut Sets, usize, usize) {
        let set = self.index.set(key, self.sets);
        let (slice, set) = (set / SLICE as usize, set % SLICE as usize);
        (
            Arc::make_mut(&mut self.slices[slice]),
            set,
            slice * self.places,
        )
    }

    /// Where the entry for `key` is, if it is there or on its way; counts as a use.
    pub fn find(&mut self, key: Key) -> Option<usize> {
        let (slice, set, first) = self.slice(key);
        Some(first + slice.find_in(set, key)?)
    }

    /// State of a place that [`Slices::find`] gave.
    pub fn state(&mut self, place: usize) -> &mut State {
        let slice = &mut self.slices[place / self.places];
        Arc::make_mut(slice).state(place % self.places)
    }

    /// Puts in an entry that is not there; returns what had to go for it.
    pub fn insert(&mut self, key: Key, state: State) -> Option<Evicted> {
        let (slice, set, _) = self.slice(key);
        slice.insert_in(set, key, state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Level;

    #[test]
    fn slices_answer_as_sets_do() {
        for ways in [1, 15, 16] {
            for entries in [960, 4096] {
                let mut sets = Sets::new(entries, ways, Index::Frames, Replacement::Lru);
                let mut slices = Slices::new(entries, ways, Index::Frames, Replacement::Lru);
                let mut expected = Vec::new();
                for n in 0..20_000u64 {
                    let key = Key(n.wrapping_mul(n) % 7919);
                    let found = sets.find(key).is_some();
                    let gone = match found {
                        true => None,
                        false => sets.insert(key, State::new(n, Level::L3)),
                    };
                    expected.push((found, gone));
                    let found = slices.find(key).map(|place| slices.state(place).level());
                    let gone = match found {
                        Some(_) => None,
                        None => slices.insert(key, State::new(n, Level::L3)),
                    };
                    assert_eq!(expected.last(), Some(&(found.is_some(), gone)), "{n}");
                }
                assert!(expected.iter().any(|e| e.0) && expected.iter().any(|e| e.1.is_some()));
            }
        }
    }

    #[test]
    fn a_copy_goes_its_own_way() {
        let mut slices = Slices::new(4096, 16, Index::Frames, Replacement::Lru);
        for n in 0..1500 {
            slices.insert(Key(n), State::default());
        }
        let mut copy = slices.clone();
        for n in 1500..50_000 {
            if slices.find(Key(n)).is_none() {
                slices.insert(Key(n), State::default());
            }
        }
        assert!((0..1500).all(|n| slices.find(Key(n)).is_none()));
        assert!((0..1500).all(|n| copy.find(Key(n)).is_some()));
    }
}
