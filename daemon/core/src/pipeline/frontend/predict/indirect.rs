//! Targets of indirect branches: the last target, and tagged tables that know the target after
//! histories of geometric lengths (ITTAGE: Seznec, "A 64-Kbytes ITTAGE indirect branch
//! predictor", JWAC-2 2011), in sets by a hash, or as measured on Redwood Cove (docs/BRANCHES.md, "Sets of targets").

use mcad_isa::machine::params::branch::{Chosen, Indirect, MAX_TABLES};

use super::history::{Path, mix, spread};
use super::last_targets::{self, Last, LastTargets, SURE};
use crate::chance::Chance;
use crate::pipeline::fold::Folding;

const TABLES: usize = MAX_TABLES as usize;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Entry {
    target: u64,
    tag: u16,
    confidence: u8,
    useful: bool,
}

/// Last targets by the branch and the one that led to it.
#[derive(Clone)]
struct Led {
    targets: LastTargets,
    /// The last byte of the branch that was taken last.
    from: u64,
}

impl Led {
    const WAYS: u32 = 8;

    /// Where the branch with this key went last behind that one, whose address chooses the set.
    fn find(&mut self, key: u64) -> Last {
        let set = spread(self.from);
        self.targets.find_in(set, key ^ mix(set))
    }
}

/// What is predicted of a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guess {
    /// Where it goes.
    pub target: u64,
    /// That is not what the branch target buffer has.
    pub chosen: bool,
    /// From the branch before it has always gone there.
    pub led: bool,
}

/// The predictor.
#[derive(Clone)]
pub struct IndirectTargets {
    tables: usize,
    /// Number of the first table's history, and how far on the next one's is.
    first: usize,
    every: usize,
    /// The last branches that it does not see.
    late: usize,
    from: Chosen,
    log: u32,
    tag_mask: u64,
    /// Entries of a set.
    ways: usize,
    /// Least confidence with which an entry of a tagged table is believed.
    believed: u8,
    base: LastTargets,
    led: Option<Led>,
    entries: Box<[Entry]>,
    // Of the branch predicted last.
    places: [u32; TABLES],
    tags: [u16; TABLES],
    hit: usize,
    other: Option<u64>,
    guess: u64,
    random: Chance,
    tick: i32,
}

/// Failed allocations after which no entry is useful any more.
const TICKS: i32 = 256;

impl IndirectTargets {
    /// An empty predictor, whose tables have every so many-th length of the history from the `first`
    /// one on.
    #[must_use]
    pub fn new(p: &Indirect, first: usize, every: usize, from: Chosen) -> Self {
        let tables = p.tables.min(MAX_TABLES) as usize;
        Self {
            tables,
            first,
            every,
            late: p.late as usize,
            from,
            log: p.table_entries.trailing_zeros(),
            tag_mask: (1 << p.tag_bits) - 1,
            ways: p.ways as usize,
            believed: u8::from(!p.new_is_believed),
            base: LastTargets::new(p.base_entries, p.base_ways),
            led: (p.led_entries > 0).then(|| Led {
                targets: LastTargets::new(p.led_entries, Led::WAYS),
                from: 0,
            }),
            entries: vec![Entry::default(); tables << p.table_entries.trailing_zeros()].into(),
            places: [0; TABLES],
            tags: [0; TABLES],
            hit: 0,
            other: None,
            guess: 0,
            random: Chance::new(0x1234_5671),
            tick: 0,
        }
    }

    /// Shows its tables.
    pub fn fold(&mut self, folding: &mut Folding) {
        self.base.fold(folding);
        if let Some(led) = &mut self.led {
            led.targets.fold(folding);
        }
        folding.table(&mut self.entries, Entry::default());
    }

    /// A branch whose last byte is there was taken.
    #[inline]
    pub fn take(&mut self, last_byte: u64) {
        if let Some(led) = &mut self.led {
            led.from = last_byte;
        }
    }

    /// Predicts where the branch at `pc` goes; `history` is the direction
    /// predictor's, or its own.
    pub fn predict(&mut self, pc: u64, history: &Path) -> Guess {
        let key = spread(pc);
        let base = self.base.find(pc);
        let led = (self.led.as_mut()).map_or_else(Last::default, |led| led.find(key));
        self.hit = 0;
        self.other = None;
        let mut longest = Entry::default();
        let tables = self.tables.min(TABLES);
        for n in (0..tables).rev() {
            let x = mix(history.towards(pc, self.first + n * self.every, self.late) ^ key);
            let set = self.set(n, x, key, history);
            let tag = (x >> 28 & self.tag_mask) as u16;
            self.places[n] = set as u32;
            self.tags[n] = tag;
            let entries = self.entries.get(set..set + self.ways).unwrap_or(&[]);
            let mut ways = entries.iter().enumerate();
            if let Some((way, entry)) = ways.find(|(_, e)| e.tag == tag && e.target != 0) {
                if self.hit > 0 {
                    // It learns nothing while a longer history has the branch; what led here does.
                    self.other = Some(if led.confidence > 0 {
                        led.target
                    } else {
                        entry.target
                    });
                    break;
                }
                self.hit = n + 1;
                longest = *entry;
                self.places[n] += way as u32;
            }
        }
        let without = if led.target == 0 {
            base.target
        } else {
            led.target
        };
        let other = self.other.unwrap_or(without);
        self.other = Some(other);
        self.guess = if self.hit > 0 && longest.confidence >= self.believed {
            longest.target
        } else {
            other
        };
        Guess {
            target: self.guess,
            chosen: match self.from {
                Chosen::BehindFirst => base.first != 0 && base.first != self.guess,
                Chosen::Changing => base.target != self.guess || base.confidence < SURE,
                Chosen::Elsewhere => base.changed,
            },
            led: led.target == self.guess && !led.changed,
        }
    }

    /// The first entry of the set in table `n` of a branch with this key, whose hash with that table's history is `x`.
    #[inline]
    fn set(&self, n: usize, x: u64, key: u64, history: &Path) -> usize {
        let table = n << self.log;
        if self.ways == 1 || n == 0 {
            return table + ((x >> (64 - self.log)) as usize & !(self.ways - 1));
        }
        // The history has half of the sets for each of two kinds of branches.
        let half = 1 << (self.log - 1);
        let set = history.set(self.first + n * self.every) as usize * self.ways;
        table + (set & (half - 1)) + half * (key >> 63) as usize
    }

    /// The branch predicted last went to `target`.
    pub fn update(&mut self, target: u64) {
        let right = self.guess == target;
        let other_right = self.other == Some(target);
        if let Some(base) = self.base.found() {
            if base.first == 0 {
                base.first = target;
            }
            base.changed |= base.first != target;
            base.train(target);
        }
        if let Some(led) = self.led.as_mut().and_then(|led| led.targets.found()) {
            led.changed |= led.target != 0 && led.target != target;
            led.train(target);
        }
        let mut longest_right = false;
        if let Some(hit) = self.hit.checked_sub(1)
            && let Some(entry) = self.entries.get_mut(self.places[hit] as usize)
        {
            longest_right = entry.target == target;
            if longest_right != other_right {
                entry.useful = longest_right;
            }
            last_targets::train(&mut entry.target, &mut entry.confidence, target);
        }
        if !right && !longest_right {
            match self.ways {
                1 => self.allocate(target),
                _ => self.replace(target),
            }
        }
    }

    /// Gives the branch an entry that is not in use in the first table with one in its set, from a longer history at random on. A new
    /// one is in use; where all are, those of one set are not any more.
    fn replace(&mut self, target: u64) {
        let longer = self.tables.min(TABLES) - self.hit;
        if longer == 0 {
            return;
        }
        let random = self.random.next() as usize >> 3;
        let (first, way) = (random % longer, random / longer);
        for n in 0..longer {
            let table = self.hit + (first + n) % longer;
            let set = self.places[table] as usize;
            let entries = self.entries.get_mut(set..set + self.ways);
            let entries = entries.unwrap_or(&mut []);
            let ways = (0..self.ways).map(|n| (way + n) % self.ways);
            for way in ways {
                if let Some(entry) = entries.get_mut(way)
                    && !entry.useful
                {
                    *entry = Entry {
                        target,
                        tag: self.tags[table],
                        useful: true,
                        ..Entry::default()
                    };
                    return;
                }
            }
        }
        let set = self.places[self.hit + first] as usize;
        for entry in self.entries.iter_mut().skip(set).take(self.ways) {
            entry.useful = false;
        }
    }

    fn allocate(&mut self, target: u64) {
        let first = self.hit + usize::from(self.random.next() & 3 == 0);
        for n in first..self.tables.min(TABLES) {
            let Some(entry) = self.entries.get_mut(self.places[n] as usize) else {
                return;
            };
            if !entry.useful && entry.confidence < 2 {
                *entry = Entry {
                    target,
                    tag: self.tags[n],
                    ..Entry::default()
                };
                self.tick = (self.tick - 1).max(0);
                return;
            }
            entry.confidence = entry.confidence.saturating_sub(u8::from(!entry.useful));
            self.tick += 1;
        }
        if self.tick > TICKS {
            self.tick = 0;
            for entry in &mut self.entries {
                entry.useful = false;
            }
        }
    }
}
