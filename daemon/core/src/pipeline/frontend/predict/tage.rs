//! Direction of conditional branches by partial tag matching over geometric history lengths
//! (TAGE: Seznec & Michaud, JILP 2006; allocation and replacement as in TAGE-SC-L, CBP-5 2016, or one entry at a
//! time, in sets as measured on Redwood Cove: docs/BRANCHES.md).
//!
//! The base table also says whether a branch ever went two ways. One that has not is predicted
//! to go on as it did and takes no room in the tagged tables: AMD's optimisation guides have
//! that filter ("always taken until observed not taken"), and it is what makes most look-ups
//! cheap. A tagged entry is one 16-bit word, `tag:12 useful:1 counter:3`.

use std::ops::Range;

use mcad_isa::machine::params::branch::{Direction, MAX_TABLES, Replacement};

use super::history::{Path, Seen, mix, spread};
use super::register::SET_BITS;
use crate::chance::Chance;
use crate::pipeline::fold::Folding;

/// Counters of three bits; from this on they say taken.
const TAKEN: u16 = 4;
const COUNTER: u16 = 7;
const USEFUL: u16 = 1 << 3;
const TAG_SHIFT: u32 = 4;
/// Where a hash has its tag; what is above it is its place in a table of up to 2^20.
const TAG_BITS_AT: u32 = 32;

/// A freshly allocated counter.
#[inline]
fn weak(counter: u16) -> bool {
    counter == TAKEN || counter == TAKEN - 1
}

#[inline]
fn saturated(counter: u16) -> bool {
    counter == 0 || counter == COUNTER
}

/// An entry of a branch that went so, of no use yet.
#[inline]
fn new_entry(tag: u16, taken: bool) -> u16 {
    tag << TAG_SHIFT | if taken { TAKEN } else { TAKEN - 1 }
}

#[inline]
fn toward(counter: u16, taken: bool) -> u16 {
    if taken {
        (counter + 1).min(COUNTER)
    } else {
        counter.saturating_sub(1)
    }
}

/// What the base table knows of a branch.
pub(super) mod base {
    /// Not executed before.
    pub const UNSEEN: u8 = 0;
    /// Never taken so far.
    pub const NOT_TAKEN: u8 = 1;
    /// Always taken so far.
    pub const TAKEN: u8 = 2;
    /// Went both ways: a counter above this.
    pub const BOTH: u8 = 8;
}

/// How sure a prediction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confidence {
    /// The counter is at its end.
    High,
    /// It is one step away.
    Medium,
    /// Neither of these, nor weak.
    Fair,
    /// It would change its mind at the next surprise.
    Low,
}

/// A prediction and where it came from.
#[derive(Clone, Copy, Debug)]
pub struct Guess {
    /// The direction.
    pub taken: bool,
    /// The branch never went the other way, so that nothing else need be asked.
    pub settled: bool,
    /// How sure.
    pub confidence: Confidence,
    /// Number of the table with the longest match plus one; 0: the base table.
    pub table: usize,
    /// The longest match and the next disagree.
    pub torn: bool,
    /// What the base table says.
    pub base: bool,
}

/// What a look-up found, kept for the update.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    base: usize,
    /// From which the branch's places and tags in the tables follow, with its history.
    branch: Branch,
    /// Longest match plus one, 0: none; and its entry.
    hit: usize,
    hit_place: u32,
    /// The next, likewise.
    other: usize,
    other_place: u32,
    longest: bool,
    alternate: bool,
    /// Which counter chose between them.
    choice: usize,
    guess: bool,
}

impl Found {
    /// Takes the first two of these tables, longest history first, in which there is a match, which is at that place.
    #[inline(always)]
    fn matches(&mut self, tables: impl Iterator<Item = (usize, Option<u32>)>) {
        (self.hit, self.other) = (0, 0);
        for (n, place) in tables {
            if let Some(place) = place {
                if self.hit > 0 {
                    (self.other, self.other_place) = (n + 1, place);
                    return;
                }
                (self.hit, self.hit_place) = (n + 1, place);
            }
        }
    }
}

/// What of a branch's address is in its places and tags.
#[derive(Clone, Copy, Debug, Default)]
struct Branch {
    key: u64,
    /// 0 or 1, where that alone is in the places.
    bit: u32,
}

/// Where entries are, in one row of all tables.
#[derive(Clone, Copy, Debug)]
struct Layout {
    /// Binary logarithm of a table's entries.
    log: u32,
    /// Entries among which a branch may take any, a power of two.
    ways: u32,
    tag_mask: u16,
    /// The bit of a branch's address that is in the number of its set, if not all of it is.
    set_bit: Option<u32>,
    /// The rest of that number is of the path history register.
    registered: bool,
    /// Which of the history's lengths is the first table's.
    first_length: usize,
    /// Of how many tables, the first ones, sets are of all of the branch's address and a hash of its history.
    hashed: usize,
    /// Tables are all alike, of sets of one entry, and these by a hash of all of the address and the history.
    is_plain: bool,
    /// Binary logarithm of the entries of each table.
    logs: [u8; MAX_TABLES as usize],
}

impl Layout {
    #[inline(always)]
    fn branch(&self, pc: u64) -> Branch {
        Branch {
            key: spread(pc),
            bit: self.set_bit.map_or(0, |bit| (pc >> bit) as u32 & 1),
        }
    }

    /// The first entry of the set, and the tag, of a branch in table `n`, where this is seen of its history.
    #[inline(always)]
    fn place(&self, n: usize, seen: Seen, branch: Branch) -> (u32, u16) {
        let x = mix(seen.hash ^ branch.key);
        let all = (1u32 << self.log) - 1;
        let own = self.logs.get(n).map_or(all, |log| (1u32 << log) - 1);
        let set = match self.set_bit {
            None => (x >> (64 - self.log)) as u32,
            _ if n < self.hashed || own < all => (x >> (64 - self.log)) as u32,
            Some(_) if self.registered => (seen.set | branch.bit << SET_BITS) * self.ways,
            Some(_) => (mix(seen.hash) >> (65 - self.log)) as u32 | branch.bit << (self.log - 1),
        };
        let set = set & own & !(self.ways - 1);
        let tag = (x >> TAG_BITS_AT) as u16 & self.tag_mask;
        (((n as u32) << self.log) + set, tag)
    }

    /// The same of a layout that is plain.
    #[inline(always)]
    fn plain_place(&self, n: usize, hash: u64, branch: Branch) -> (u32, u16) {
        let x = mix(hash ^ branch.key);
        let tag = (x >> TAG_BITS_AT) as u16 & self.tag_mask;
        (
            ((n as u32) << self.log) + (x >> (64 - self.log)) as u32,
            tag,
        )
    }

    /// From the place of a set's first entry to that of the one with a tag.
    #[inline(always)]
    fn find(&self, entries: &[u16], set: u32, tag: u16) -> Option<u32> {
        let has = |entry: &u16| entry >> TAG_SHIFT == tag;
        match self.ways {
            1 => find_alone(entries, set, tag),
            4 => Some(set + among_four(*entries.get(set as usize..)?.first_chunk()?, tag)?),
            ways => {
                let mut ways = entries.get(set as usize..)?.iter().take(ways as usize);
                Some(set + ways.position(has)? as u32)
            }
        }
    }
}

/// The place of an entry, if that has a tag.
#[inline(always)]
fn find_alone(entries: &[u16], place: u32, tag: u16) -> Option<u32> {
    let entry = entries.get(place as usize)?;
    (entry >> TAG_SHIFT == tag).then_some(place)
}

/// Which of four entries has a tag, the first one; all are compared at once.
#[inline(always)]
fn among_four(entries: [u16; 4], tag: u16) -> Option<u32> {
    const EACH: u64 = 0x0001_0001_0001_0001;
    const TAGS: u64 = (u16::MAX >> TAG_SHIFT) as u64 * EACH;
    let [a, b, c, d] = entries.map(u64::from);
    let all = a | b << 16 | c << 32 | d << 48;
    // A tag has less bits than an entry, so that what is added to one never comes to the next.
    let differ = (all >> TAG_SHIFT & TAGS) ^ (u64::from(tag) * EACH);
    let same = !(differ + 0x7fff * EACH) & (0x8000 * EACH);
    (same != 0).then(|| same.trailing_zeros() / 16)
}

/// The predictor.
#[derive(Clone)]
pub struct Tage {
    tables: usize,
    layout: Layout,
    base: Box<[u8]>,
    /// From which on its counters say taken.
    base_taken: u8,
    /// From which table on what a new entry says is believed.
    believed_from: usize,
    entries: Box<[u16]>,
    use_other: [i8; 16],
    /// Failed allocations less twice those that succeeded, in the short tables, if there are any, and the others.
    ticks: [i32; 2],
    random: Chance,
    replacement: Replacement,
    found: Found,
}

/// Failed allocations after which no entry is useful any more, as in TAGE-SC-L.
const TICKS: i32 = 1024;

impl Tage {
    /// An empty predictor, whose tables have the history's lengths from this one on.
    #[must_use]
    pub fn new(p: &Direction, first_length: usize) -> Self {
        let tables = p.tables.min(MAX_TABLES) as usize;
        let mut logs = [p.table_entries.trailing_zeros() as u8; MAX_TABLES as usize];
        for (log, entries) in logs.iter_mut().zip(&p.entries) {
            *log = entries.trailing_zeros() as u8;
        }
        Self {
            tables,
            layout: Layout {
                log: p.table_entries.trailing_zeros(),
                ways: 1 << p.ways.max(1).trailing_zeros(),
                tag_mask: (1u16 << p.tag_bits) - 1,
                set_bit: p.set_bit,
                registered: p.path_register,
                first_length,
                hashed: p.hashed_tables as usize,
                is_plain: p.ways.max(1) == 1
                    && p.set_bit.is_none()
                    && p.entries.is_empty()
                    && !p.path_register,
                logs,
            },
            base: vec![base::UNSEEN; p.base_entries as usize].into(),
            base_taken: 1 << (p.base_counter_bits - 1),
            believed_from: p.believed_from.map_or(usize::MAX, |n| n as usize),
            entries: vec![TAKEN; tables << p.table_entries.trailing_zeros()].into(),
            use_other: [0; 16],
            ticks: [0; 2],
            random: Chance::new(0x2545_f491),
            replacement: p.replacement,
            found: Found::default(),
        }
    }

    /// Shows its tables.
    pub fn fold(&mut self, folding: &mut Folding) {
        folding.table(&mut self.base, base::UNSEEN);
        folding.table(&mut self.entries, TAKEN);
    }

    /// The counter of the entry at a place.
    #[inline]
    fn counter(&self, place: u32) -> u16 {
        self.entries
            .get(place as usize)
            .map_or(TAKEN, |entry| entry & COUNTER)
    }

    fn chance(&mut self) -> u32 {
        self.random.next() >> 3
    }

    /// Predicts the branch at `pc`; `history` has a length for each table.
    #[inline]
    pub fn predict(&mut self, pc: u64, history: &Path) -> Guess {
        let branch = self.layout.branch(pc);
        let f = &mut self.found;
        f.base = (branch.key as usize) & (self.base.len() - 1);
        let known = self.base.get(f.base).copied().unwrap_or(base::UNSEEN);
        if known < base::BOTH {
            let taken = known == base::TAKEN;
            f.guess = taken;
            return Guess {
                taken,
                settled: true,
                confidence: Confidence::High,
                table: 0,
                torn: false,
                base: taken,
            };
        }
        let counter = known - base::BOTH;
        let base_taken = counter >= self.base_taken;
        let base_sure = counter == 0 || counter == 2 * self.base_taken - 1;
        f.branch = branch;
        let (layout, entries) = (&self.layout, &*self.entries);
        let (first, count) = (layout.first_length, self.tables);
        match layout.is_plain {
            // The same, with nothing to ask at each table.
            true => f.matches((history.each_hash(first, count)).map(|(n, hash)| {
                let (place, tag) = layout.plain_place(n, hash, branch);
                (n, find_alone(entries, place, tag))
            })),
            false => f.matches((history.each_seen(first, count)).map(|(n, seen)| {
                let (set, tag) = layout.place(n, seen, branch);
                (n, layout.find(entries, set, tag))
            })),
        }
        let mut guess = Guess {
            taken: base_taken,
            settled: false,
            confidence: if base_sure {
                Confidence::High
            } else {
                Confidence::Low
            },
            table: f.hit,
            torn: false,
            base: base_taken,
        };
        (f.longest, f.alternate) = (base_taken, base_taken);
        if let Some(hit) = f.hit.checked_sub(1) {
            let mut other_sure = base_sure;
            if self.found.other > 0 {
                let counter = self.counter(self.found.other_place);
                self.found.alternate = counter >= TAKEN;
                other_sure = !weak(counter);
            }
            let counter = self.counter(self.found.hit_place);
            let f = &mut self.found;
            f.longest = counter >= TAKEN;
            f.choice = (hit / 4 * 2 + usize::from(other_sure)) % 16;
            let doubt = weak(counter) && hit < self.believed_from && self.use_other[f.choice] >= 0;
            guess.taken = if doubt { f.alternate } else { f.longest };
            guess.torn = f.longest != f.alternate;
            guess.confidence = match counter {
                0 | 7 => Confidence::High,
                1 | 6 => Confidence::Medium,
                3 | 4 => Confidence::Low,
                _ => Confidence::Fair,
            };
        }
        self.found.guess = guess.taken;
        guess
    }

    /// The branch predicted last, with this history, went `taken`; `predicted` is what all predictors
    /// together said.
    #[inline]
    pub fn update(&mut self, taken: bool, predicted: bool, history: &Path) {
        let known = self.base.get(self.found.base).copied().unwrap_or(0);
        match known {
            base::UNSEEN => self.set_base(if taken { base::TAKEN } else { base::NOT_TAKEN }),
            base::TAKEN if taken => {}
            base::NOT_TAKEN if !taken => {}
            base::TAKEN => self.set_base(base::BOTH + self.base_taken),
            base::NOT_TAKEN => self.set_base(base::BOTH + self.base_taken - 1),
            _ => self.update_tables(taken, predicted, history),
        }
    }

    fn set_base(&mut self, known: u8) {
        if let Some(slot) = self.base.get_mut(self.found.base) {
            *slot = known;
        }
    }

    fn train_base(&mut self, taken: bool) {
        if let Some(slot) = self.base.get_mut(self.found.base) {
            let counter = *slot - base::BOTH;
            *slot = base::BOTH
                + if taken {
                    (counter + 1).min(2 * self.base_taken - 1)
                } else {
                    counter.saturating_sub(1)
                };
        }
    }

    fn train(&mut self, place: u32, taken: bool) {
        if let Some(entry) = self.entries.get_mut(place as usize) {
            *entry = *entry & !COUNTER | toward(*entry & COUNTER, taken);
        }
    }

    fn update_tables(&mut self, taken: bool, predicted: bool, history: &Path) {
        let f = self.found;
        let mut allocate = f.guess != taken && f.hit < self.tables;
        if f.hit > 0 && weak(self.counter(f.hit_place)) {
            // It may be new: nothing longer is needed where it was right.
            if f.longest == taken {
                allocate = false;
            }
            if f.longest != f.alternate {
                let right = f.alternate == taken;
                let choice = &mut self.use_other[f.choice];
                *choice = if right {
                    (*choice + 1).min(15)
                } else {
                    (*choice - 1).max(-16)
                };
            }
        }
        if allocate && predicted == taken && self.chance() & 31 != 0 {
            allocate = false;
        }
        if allocate {
            match self.replacement {
                Replacement::Useful => self.allocate(taken, history),
                Replacement::Single => self.replace(taken, history),
            }
        }
        if f.hit == 0 {
            self.train_base(taken);
            return;
        }
        if weak(self.counter(f.hit_place)) && f.longest != taken {
            match f.other {
                0 => self.train_base(taken),
                _ => self.train(f.other_place, taken),
            }
        }
        self.train(f.hit_place, taken);
        let other_saturated = f.other > 0 && saturated(self.counter(f.other_place));
        if let Some(entry) = self.entries.get_mut(f.hit_place as usize) {
            // A counter that has just changed its mind cannot have been of use, nor one that
            // says what a sure one says too.
            let redundant = f.alternate == taken && f.longest == taken && other_saturated;
            if weak(*entry & COUNTER) || redundant {
                *entry &= !USEFUL;
            }
            if f.longest != f.alternate && f.longest == taken {
                *entry |= USEFUL;
            }
        }
    }

    /// The place in a set where the branch was not found of the way with least to lose: of no use, and
    /// the least sure; any of several.
    #[inline]
    fn choose_way(&mut self, set: u32) -> u32 {
        let ways = self.layout.ways;
        if ways == 1 {
            return set;
        }
        let first = self.chance();
        let loss = |place: &u32| {
            let entry = self.entries.get(*place as usize).copied().unwrap_or(0);
            let counter = entry & COUNTER;
            (
                entry & USEFUL,
                counter.abs_diff(TAKEN).min(counter.abs_diff(TAKEN - 1)),
            )
        };
        let places = (0..ways).map(|way| set + (first + way) % ways);
        places.min_by_key(loss).unwrap_or(set)
    }

    /// The first entry of the set, and the tag, of the branch predicted last in a table.
    #[inline]
    fn set(&self, table: usize, history: &Path) -> (u32, u16) {
        let seen = history.seen(self.layout.first_length + table);
        self.layout.place(table, seen, self.found.branch)
    }

    /// Gives the branch an entry with longer history; where what said was a short history or none, one of the short ones and one of the others.
    #[cold]
    fn replace(&mut self, taken: bool, history: &Path) {
        let (hit, short) = (self.found.hit, self.layout.hashed);
        self.replace_among(hit..short, taken, history);
        self.replace_among(hit.max(short)..self.tables, taken, history);
    }

    /// Gives the branch an entry in one of these tables, from one at random on, where any way of its set is of no use.
    fn replace_among(&mut self, tables: Range<usize>, taken: bool, history: &Path) {
        if tables.is_empty() {
            return;
        }
        let first = self.chance() as usize % tables.len();
        for n in 0..tables.len() {
            let (set, tag) = self.set(tables.start + (first + n) % tables.len(), history);
            let place = set + self.chance() % self.layout.ways;
            if let Some(entry) = self.entries.get_mut(place as usize)
                && *entry & USEFUL == 0
            {
                *entry = new_entry(tag, taken);
                self.count_allocations(tables.end, 0, 1);
                return;
            }
        }
        self.count_allocations(tables.end, 1, 0);
    }

    /// So many allocations failed in the short tables, or the others, which end with number `end`, and so many did not; where too many fail, none of
    /// their entries is of use any more.
    fn count_allocations(&mut self, end: usize, failed: i32, made: i32) {
        let short = self.layout.hashed;
        let (tick, tables) = match end == short {
            true => (&mut self.ticks[0], 0..short),
            false => (&mut self.ticks[1], short..self.tables),
        };
        *tick = (*tick + failed - 2 * made).max(0);
        if *tick >= TICKS {
            *tick = 0;
            let all = tables.start << self.layout.log..tables.end << self.layout.log;
            for entry in self.entries.get_mut(all).unwrap_or_default() {
                *entry &= !USEFUL;
            }
        }
    }

    /// Gives the branch an entry or two with longer history.
    #[cold]
    fn allocate(&mut self, taken: bool, history: &Path) {
        let chance = self.chance();
        // Mostly the next longer history, sometimes one or two beyond.
        let skip = usize::from(chance & 3 == 0) + usize::from(chance & 12 == 0);
        let (mut left, mut failed, mut made) = (2, 0, 0);
        let mut table = self.found.hit + skip;
        while table < self.tables && left > 0 {
            let (set, tag) = self.set(table, history);
            let place = self.choose_way(set);
            let Some(entry) = self.entries.get_mut(place as usize) else {
                break;
            };
            if *entry & USEFUL != 0 {
                failed += 1;
            } else if (2..=5).contains(&(*entry & COUNTER)) {
                *entry = new_entry(tag, taken);
                made += 1;
                left -= 1;
                table += 1;
            } else {
                *entry = *entry & !COUNTER | toward(*entry & COUNTER, *entry & COUNTER < TAKEN);
            }
            table += 1;
        }
        self.count_allocations(self.tables, failed, made);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_tables_are_asked_at_the_places_that_all_tables_are() {
        let direction = super::super::branches_of("zen5").direction;
        let layout = Tage::new(&direction, 0).layout;
        assert!(layout.is_plain);
        let mut random = fastrand::Rng::with_seed(5);
        for _ in 0..1000 {
            let (hash, branch) = (random.u64(..), layout.branch(random.u64(..)));
            let n = random.usize(..direction.tables as usize);
            let seen = Seen { hash, set: 0 };
            assert_eq!(
                layout.plain_place(n, hash, branch),
                layout.place(n, seen, branch)
            );
        }
    }

    #[test]
    fn four_ways_are_compared_as_one_after_the_other() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..10_000 {
            // Tags that are often alike, at both ends of what they can be.
            let mut tag = || [0, 1, 0xffe, 0xfff][random.usize(0..4)];
            let (tags, wanted) = ([(); 4].map(|()| tag()), tag());
            let entries = tags.map(|tag| tag << TAG_SHIFT | 0xf);
            let found = tags.iter().position(|tag| *tag == wanted);
            assert_eq!(among_four(entries, wanted), found.map(|way| way as u32));
        }
    }
}
