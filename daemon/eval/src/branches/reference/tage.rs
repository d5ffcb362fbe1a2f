//! The tagged tables: 18 geometric lengths of history, most of them in two ways, in 10 banks of short
//! tags and 20 of long ones that the lengths share; a bimodal table below.

use super::counter::{strength, toward};
use super::history::{Global, PATH, fold, low};

/// Numbered as in the paper: length of history `(n + 1) / 2`, and its first or second way.
const TABLES: usize = 36;
const SHORTEST: f64 = 6.0;
const LONGEST: f64 = 3000.0;
/// From here on tags are long, and entries in the banks of the long ones.
const LONG: usize = 13;
/// Lengths with two ways.
const TWO_WAYS: std::ops::Range<usize> = 9..23;
/// Left out of all the same.
const LEFT_OUT: [usize; 4] = [4, 8, 30, 34];
const LOG: usize = 10;
const SHORT_BANKS: u64 = 10;
const LONG_BANKS: u64 = 20;

const BASE_LOG: usize = 13;
/// Predictions of the base table that share a bit of hysteresis, as a power of two.
const SHARED: usize = 2;

const COUNTER: u32 = 3;
const CHOICE: u32 = 5;
const CHOICES: usize = 15;
/// Failed allocations, less two for each that succeeded, after which no entry is useful any more.
const TICKS: i32 = 1024;

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    tag: u64,
    counter: i32,
    useful: bool,
}

impl Entry {
    fn taken(self) -> bool {
        self.counter >= 0
    }
}

/// A table's number, bank and place in that.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    table: usize,
    at: usize,
    tag: u64,
}

/// What the tables say of a branch.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The prediction.
    pub taken: bool,
    /// That of the longest history.
    pub longest: bool,
    /// That of the next.
    pub alternate: bool,
    /// Number of the table with the longest history that has the branch; 0: the base table.
    pub hit: usize,
    /// The next one, likewise.
    pub other: usize,
    /// The counter is at its end, one before it, or at its weakest.
    pub high: bool,
    pub medium: bool,
    pub low: bool,
    choice: usize,
    base: usize,
    places: Vec<Place>,
}

/// The tables.
pub struct Tage {
    lengths: Vec<usize>,
    short: Vec<Entry>,
    long: Vec<Entry>,
    predictions: Vec<bool>,
    hysteresis: Vec<bool>,
    use_alternate: [i32; CHOICES],
    tick: i32,
}

impl Tage {
    /// Empty ones.
    pub fn new() -> Self {
        let last = (TABLES / 2 - 1) as i32;
        let length = |n: i32| {
            let steps = f64::from(n) / f64::from(last);
            (SHORTEST * (LONGEST / SHORTEST).powf(steps) + 0.5) as usize
        };
        let entries = |banks: u64| vec![Entry::default(); (banks as usize) << LOG];
        Self {
            lengths: (0..=last).map(length).collect(),
            short: entries(SHORT_BANKS),
            long: entries(LONG_BANKS),
            predictions: vec![false; 1 << BASE_LOG],
            hysteresis: vec![true; 1 << (BASE_LOG - SHARED)],
            use_alternate: [0; CHOICES],
            tick: 0,
        }
    }

    fn length(&self, table: usize) -> usize {
        self.lengths[(table - 1) / 2]
    }

    fn entry(&self, place: Place) -> Entry {
        match place.table < LONG {
            true => self.short[place.at],
            false => self.long[place.at],
        }
    }

    fn entry_mut(&mut self, place: Place) -> &mut Entry {
        match place.table < LONG {
            true => &mut self.short[place.at],
            false => &mut self.long[place.at],
        }
    }

    /// Where the branch would be in each table that there is.
    fn places(&self, pc: u64, history: &Global) -> Vec<Place> {
        let mut places = Vec::new();
        for (first, banks) in [(1, SHORT_BANKS), (LONG, LONG_BANKS)] {
            let end = if first == 1 { LONG } else { TABLES + 1 };
            let path = history.path & low(self.length(first));
            let mut bank = (pc ^ path) % banks;
            for table in (first..end).filter(|&table| exists(table)) {
                let (index, tag) = self.hash(pc, table, history);
                let at = (bank << LOG | index) as usize;
                places.push(Place { table, at, tag });
                bank = (bank + 1) % banks;
            }
        }
        places
    }

    /// The place in a bank, and the tag.
    fn hash(&self, pc: u64, table: usize, history: &Global) -> (u64, u64) {
        let length = self.length(table);
        let width = if table < LONG { 8 } else { 12 };
        let folded = |width| history.bits.fold(length, width);
        let tag = (pc ^ folded(width) ^ folded(width - 1) << 1) & low(width);
        // Both ways of a length are numbered as the first.
        let first = table - (table + 1) % 2;
        let path = turn(fold(history.path, length.min(PATH), LOG), first);
        let way = if first == table { 0 } else { tag };
        let address = pc ^ pc >> (LOG.abs_diff(first) + 1);
        ((address ^ folded(LOG) ^ path ^ way) & low(LOG), tag)
    }

    /// Looks the branch up.
    pub fn predict(&self, pc: u64, history: &Global) -> Found {
        let base = ((pc ^ pc >> 2) & low(BASE_LOG)) as usize;
        let base_taken = self.predictions[base];
        let base_sure = base_taken == self.hysteresis[base >> SHARED];
        let mut found = Found {
            taken: base_taken,
            longest: base_taken,
            alternate: base_taken,
            high: base_sure,
            low: !base_sure,
            base,
            places: self.places(pc, history),
            ..Found::default()
        };
        let known = |place: &&Place| self.entry(**place).tag == place.tag;
        let mut hits = found.places.iter().rev().filter(known).copied();
        let (hit, other) = (hits.next(), hits.next());
        drop(hits);
        let Some(hit) = hit else {
            return found;
        };
        let mut other_sure = base_sure;
        if let Some(other) = other {
            let entry = self.entry(other);
            found.other = other.table;
            found.alternate = entry.taken();
            other_sure = strength(entry.counter) > 1;
        }
        let entry = self.entry(hit);
        found.hit = hit.table;
        found.longest = entry.taken();
        found.choice = ((hit.table - 1) / 8 * 2 + usize::from(other_sure)) % CHOICES;
        let strength = strength(entry.counter);
        let doubt = strength == 1 && self.use_alternate[found.choice] >= 0;
        found.taken = if doubt {
            found.alternate
        } else {
            found.longest
        };
        (found.high, found.medium, found.low) = (strength == 7, strength == 5, strength == 1);
        found
    }

    /// The branch went `taken`; `predicted` is what all predictors together said.
    pub fn update(
        &mut self,
        found: &Found,
        taken: bool,
        predicted: bool,
        random: &mut fastrand::Rng,
    ) {
        let at = |table: usize| {
            found
                .places
                .iter()
                .find(|place| place.table == table)
                .copied()
        };
        let (hit, other) = (at(found.hit), at(found.other));
        let mut allocate = found.taken != taken && found.hit < TABLES;
        if hit.is_some_and(|hit| strength(self.entry(hit).counter) == 1) {
            allocate &= found.longest != taken;
            if found.longest != found.alternate {
                let choice = &mut self.use_alternate[found.choice];
                *choice = toward(*choice, CHOICE, found.alternate == taken);
            }
        }
        if predicted == taken {
            allocate &= random.u32(0..32) == 0;
        }
        if allocate {
            self.allocate(found, taken, random);
        }
        let Some(hit) = hit else {
            self.update_base(found.base, taken);
            return;
        };
        if strength(self.entry(hit).counter) == 1 && found.longest != taken {
            match other {
                Some(other) => {
                    let entry = self.entry_mut(other);
                    entry.counter = toward(entry.counter, COUNTER, taken);
                }
                None => self.update_base(found.base, taken),
            }
        }
        let other_sure = other.is_some_and(|other| strength(self.entry(other).counter) == 7);
        let entry = self.entry_mut(hit);
        entry.counter = toward(entry.counter, COUNTER, taken);
        let redundant = found.alternate == taken && found.longest == taken && other_sure;
        if strength(entry.counter) == 1 || redundant {
            entry.useful = false;
        }
        if found.longest != found.alternate && found.longest == taken {
            entry.useful = true;
        }
    }

    fn update_base(&mut self, base: usize, taken: bool) {
        let (prediction, hysteresis) = (
            &mut self.predictions[base],
            &mut self.hysteresis[base >> SHARED],
        );
        let state = 2 * i32::from(*prediction) + i32::from(*hysteresis);
        let state = toward(state - 2, 2, taken) + 2;
        (*prediction, *hysteresis) = (state >= 2, state % 2 == 1);
    }

    /// Gives the branch up to two entries in tables of longer history.
    fn allocate(&mut self, found: &Found, taken: bool, random: &mut fastrand::Rng) {
        let further = if random.u32(0..128) < 32 { 4 } else { 2 };
        // The way of a length that is tried first: either.
        let first_way = random.usize(0..2);
        let mut length = (found.hit + further - 1) / 2;
        let (mut left, mut failed, mut made) = (2, 0, 0);
        while length < TABLES / 2 && left > 0 {
            let ways = [first_way, 1 - first_way].map(|way| 2 * length + 1 + way);
            let mut done = false;
            for table in ways {
                let Some(place) = found.places.iter().find(|place| place.table == table) else {
                    continue;
                };
                let entry = self.entry_mut(*place);
                if entry.useful {
                    failed += 1;
                } else if strength(entry.counter) <= 3 {
                    entry.tag = place.tag;
                    entry.counter = if taken { 0 } else { -1 };
                    made += 1;
                    done = true;
                    break;
                } else {
                    entry.counter += if entry.counter > 0 { -1 } else { 1 };
                }
            }
            left -= i32::from(done);
            length += 1 + usize::from(done);
        }
        self.tick = (self.tick + failed - 2 * made).max(0);
        if self.tick >= TICKS {
            self.tick = 0;
            let all = self.short.iter_mut().chain(&mut self.long);
            all.for_each(|entry| entry.useful = false);
        }
    }
}

/// Which tables there are: second ways, and first ways of the middle lengths.
fn exists(table: usize) -> bool {
    (table.is_multiple_of(2) || TWO_WAYS.contains(&table)) && !LEFT_OUT.contains(&table)
}

/// Rotates the bits of a place by a table's number.
fn turn(place: u64, table: usize) -> u64 {
    let by = table % LOG;
    (place << by | place >> (LOG - by)) & low(LOG)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_64_kb_class() {
        let tage = Tage::new();
        assert_eq!((tage.length(1), tage.length(TABLES)), (6, 3000));
        assert!(tage.lengths.is_sorted_by(|a, b| a < b));
        // Tag, counter and useful bit.
        let bits = tage.short.len() * (8 + 4) + tage.long.len() * (12 + 4);
        let base = tage.predictions.len() + tage.hysteresis.len();
        assert_eq!((bits, base), (450_560, 10_240));
        let places = tage.places(0x40_1234, &Global::new());
        assert_eq!(places.len(), (1..=TABLES).filter(|&t| exists(t)).count());
        // No two tables share a bank for the same branch.
        for long in [false, true] {
            let of_kind = places.iter().filter(|p| (p.table >= LONG) == long);
            let mut banks: Vec<_> = of_kind.map(|p| p.at >> LOG).collect();
            let count = banks.len();
            banks.sort_unstable();
            banks.dedup();
            assert_eq!(banks.len(), count);
        }
    }
}
