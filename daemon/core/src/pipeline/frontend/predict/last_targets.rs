//! Where indirect branches went last, by their address alone, as a branch target buffer has them, or with that of the branch before.

use super::history::spread;
use crate::pipeline::fold::Folding;

/// Most of a confidence counter.
pub const SURE: u8 = 3;

/// Of one branch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Last {
    /// Where it goes; 0 if it has not gone anywhere.
    pub target: u64,
    tag: u16,
    /// How often that was right.
    pub confidence: u8,
    /// It has gone elsewhere.
    pub changed: bool,
    /// Where it went first.
    pub first: u64,
}

impl Last {
    /// The target stays until it was wrong as often as it was right.
    pub fn train(&mut self, target: u64) {
        train(&mut self.target, &mut self.confidence, target);
    }
}

/// A target stays until it was wrong as often as it was right.
pub fn train(kept: &mut u64, confidence: &mut u8, target: u64) {
    if *kept == target {
        *confidence = (*confidence + 1).min(SURE);
    } else if *confidence > 0 {
        *confidence -= 1;
    } else {
        *kept = target;
    }
}

/// In sets by a hash of the address. Where there is one way entries have no tags: branches may share one.
#[derive(Clone)]
pub struct LastTargets {
    ways: usize,
    entries: Box<[Last]>,
    /// Of the branch asked for last.
    place: usize,
}

impl LastTargets {
    /// Empty ones; `entries` and `ways` are powers of two.
    #[must_use]
    pub fn new(entries: u32, ways: u32) -> Self {
        Self {
            ways: ways.max(1) as usize,
            entries: vec![Last::default(); entries as usize].into(),
            place: 0,
        }
    }

    /// Shows the table.
    pub fn fold(&mut self, folding: &mut Folding) {
        folding.table(&mut self.entries, Last::default());
    }

    /// That of the branch at `pc`, which is the last used of its set afterwards.
    pub fn find(&mut self, pc: u64) -> Last {
        let key = spread(pc);
        self.find_in(key, key)
    }

    /// That of the branch with this key in the set that another key chooses.
    pub fn find_in(&mut self, set: u64, key: u64) -> Last {
        let ways = self.ways;
        self.place = set as usize & (self.entries.len() - 1) & !(ways - 1);
        let Some(set) = self.entries.get_mut(self.place..self.place + ways) else {
            return Last::default();
        };
        if ways > 1 {
            let tag = (key >> 48) as u16;
            let found = set.iter().position(|e| e.tag == tag && e.target != 0);
            set[..=found.unwrap_or(ways - 1)].rotate_right(1);
            if let (None, Some(first)) = (found, set.first_mut()) {
                *first = Last {
                    tag,
                    ..Last::default()
                };
            }
        }
        set.first().copied().unwrap_or_default()
    }

    /// The entry that was found last.
    pub fn found(&mut self) -> Option<&mut Last> {
        self.entries.get_mut(self.place)
    }
}
