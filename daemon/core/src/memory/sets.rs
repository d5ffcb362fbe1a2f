//! Set-associative storage: what a cache or a buffer of translations holds, and since when.
//!
//! An entry carries the cycle from which on it is there. One that is still on its way is found all
//! the same: who asks waits for the rest of the way, so that a hit under a miss and a prefetch
//! that is late cost what is left and no more.

use mcad_isa::machine::hierarchy::Replacement;

use super::Level;
use crate::chance::Chance;
use crate::pipeline::fold::Folding;

/// Number of what an entry is for: of a line (address / 64) or of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key(pub u64);

/// When an entry is there, where it came from, and whether it was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State(u64);

impl State {
    const DIRTY: u64 = 1 << 3;
    const PREFETCHED: u64 = 1 << 4;
    const SHIFT: u32 = 5;

    /// There from cycle `at` on; it came from `level`.
    #[inline]
    #[must_use]
    pub fn new(at: u64, level: Level) -> Self {
        Self(at << Self::SHIFT | level as u64)
    }

    /// From which cycle on it is there.
    #[inline]
    #[must_use]
    pub fn at(self) -> u64 {
        self.0 >> Self::SHIFT
    }

    /// Where it came from.
    #[inline]
    #[must_use]
    pub fn level(self) -> Level {
        Level::ALL[(self.0 & 7) as usize % Level::ALL.len()]
    }

    /// It was written since it came.
    #[inline]
    #[must_use]
    pub fn is_dirty(self) -> bool {
        self.0 & Self::DIRTY != 0
    }

    /// The same, and written if `yes`.
    #[inline]
    #[must_use]
    pub fn dirty(self, yes: bool) -> Self {
        Self(self.0 | if yes { Self::DIRTY } else { 0 })
    }

    /// Brought by a prefetcher, and nobody has asked for it yet.
    #[inline]
    #[must_use]
    pub fn is_prefetched(self) -> bool {
        self.0 & Self::PREFETCHED != 0
    }

    /// The same, but brought by a prefetcher, or not.
    #[inline]
    #[must_use]
    pub fn prefetched(self, yes: bool) -> Self {
        Self(self.0 & !Self::PREFETCHED | if yes { Self::PREFETCHED } else { 0 })
    }
}

/// A hash of a page's number, which stands for the frame that the kernel gave it: pages in order get frames without any (Steele, Lea
/// and Flood's SplitMix, OOPSLA 2014, whose last steps these are).
#[inline]
fn frame(key: Key) -> u64 {
    let page = (key.0 >> 6)
        .wrapping_add(1)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let page = (page ^ page >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (page ^ page >> 27).wrapping_mul(0x94d0_49bb_1331_11eb) >> 24
}

/// Bits of a frame's number of which sets are numbered, more than any cache has.
const FRAME_BITS_OF_SETS: u32 = 20;

/// Of four ages of a line the youngest, in steps from the oldest.
const YOUNGEST: u32 = 3;

/// How a set is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Index {
    /// By the lowest bits of the number: what is looked up by virtual address.
    Direct,
    /// By the place in the page and a hash of the page's number, which stands for the frame that
    /// the kernel gave it: what is looked up by physical address.
    Frames,
    /// The same, with so many bits of the place in the page folded with others of the frame's number.
    FoldedFrames(u32),
}

impl Index {
    /// Number of the set, of so many, that `key` belongs to.
    #[inline]
    #[must_use]
    pub fn set(self, key: Key, sets: u64) -> usize {
        let number = match self {
            Self::Direct => key.0,
            Self::Frames => frame(key) << 6 | key.0 & 63,
            Self::FoldedFrames(bits) => {
                let frame = frame(key);
                // Of the bits that choose no set without it.
                let folded = frame >> FRAME_BITS_OF_SETS & ((1 << bits) - 1);
                frame << 6 | (key.0 & 63) ^ folded
            }
        };
        let set = if sets.is_power_of_two() {
            number & (sets - 1)
        } else {
            number % sets
        };
        set as usize
    }
}

/// An entry that had to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evicted {
    /// What it was for.
    pub key: Key,
    /// Its state.
    pub state: State,
}

/// The storage.
#[derive(Clone)]
pub struct Sets {
    index: Index,
    replacement: Replacement,
    ways: usize,
    sets: u64,
    /// The bits of a number that choose a set, where nothing else does; else 0.
    mask: u64,
    /// Numbers plus 1, 0 where there is nothing; set by set.
    tags: Box<[u64]>,
    states: Box<[State]>,
    /// When it was used last, by this storage's own count, or whether it was lately, or how much younger than the oldest it is.
    used: Box<[u32]>,
    /// By set: the way used last, which is the next one more often than not.
    latest: Box<[u8]>,
    count: u32,
    chance: Chance,
}

impl Sets {
    /// Empty, with room for `entries` in sets of `ways`.
    #[must_use]
    pub fn new(entries: u64, ways: u32, index: Index, replacement: Replacement) -> Self {
        let ways = (ways.max(1) as usize).min(usize::from(u8::MAX));
        let sets = (entries / ways as u64).max(1);
        let places = sets as usize * ways;
        Self {
            index,
            replacement,
            ways,
            sets,
            mask: match index {
                Index::Direct if sets.is_power_of_two() => sets - 1,
                _ => 0,
            },
            tags: vec![0; places].into(),
            states: vec![State::default(); places].into(),
            used: vec![0; places].into(),
            latest: vec![0; sets as usize].into(),
            count: 0,
            chance: Chance::new(0x9e37_79b9),
        }
    }

    /// Shows its tables.
    pub fn fold(&mut self, folding: &mut Folding) {
        folding.table(&mut self.tags, 0);
        folding.table(&mut self.states, State::default());
        folding.table(&mut self.used, 0);
        folding.table(&mut self.latest, 0);
    }

    #[inline(always)]
    fn set(&self, key: Key) -> usize {
        match self.mask {
            0 => self.index.set(key, self.sets),
            mask => (key.0 & mask) as usize,
        }
    }

    /// Where the entry for `key` is, if it is there or on its way; counts as a use.
    #[inline(always)]
    pub fn find(&mut self, key: Key) -> Option<usize> {
        self.find_in(self.set(key), key)
    }

    /// The same where the set is known.
    #[inline(always)]
    pub(super) fn find_in(&mut self, set: usize, key: Key) -> Option<usize> {
        let latest = set * self.ways + usize::from(self.latest[set]);
        if self.tags[latest] != key.0 + 1 {
            return self.search(set, key);
        }
        self.touch_again(set, latest);
        Some(latest)
    }

    /// The state of the entry for `key`, if it is there and as wanted; counts as a use then.
    #[inline(always)]
    pub fn find_if(&mut self, key: Key, wanted: impl FnOnce(&State) -> bool) -> Option<&mut State> {
        let set = self.set(key);
        let first = set * self.ways;
        let latest = first + usize::from(self.latest[set]);
        if self.tags[latest] != key.0 + 1 {
            let way = self.way_of(set, key)?;
            let place = first + way;
            if !wanted(&self.states[place]) {
                return None;
            }
            self.touch(set, way);
            return Some(&mut self.states[place]);
        }
        if !wanted(&self.states[latest]) {
            return None;
        }
        self.touch_again(set, latest);
        Some(&mut self.states[latest])
    }

    /// In which way of a set the entry for `key` is.
    #[inline]
    fn way_of(&self, set: usize, key: Key) -> Option<usize> {
        let (first, tag) = (set * self.ways, key.0 + 1);
        let mut ways = self.tags[first..first + self.ways].iter();
        ways.position(|t| *t == tag)
    }

    #[inline(never)]
    fn search(&mut self, set: usize, key: Key) -> Option<usize> {
        let way = self.way_of(set, key)?;
        self.touch(set, way);
        Some(set * self.ways + way)
    }

    /// Whether the entry for `key` is in a place where it was found before; counts as a use.
    #[inline(always)]
    pub fn is_still_at(&mut self, place: usize, key: Key) -> bool {
        if self.tags.get(place) != Some(&(key.0 + 1)) {
            return false;
        }
        let set = self.set(key);
        self.touch(set, place - set * self.ways);
        true
    }

    /// Whether there is an entry for `key`; counts as no use.
    #[inline]
    #[must_use]
    pub fn has(&self, key: Key) -> bool {
        let first = self.set(key) * self.ways;
        self.tags[first..first + self.ways].contains(&(key.0 + 1))
    }

    /// State of a place that [`Sets::find`] gave.
    #[inline]
    pub fn state(&mut self, place: usize) -> &mut State {
        &mut self.states[place]
    }

    /// Puts in an entry that is not there; returns what had to go for it.
    pub fn insert(&mut self, key: Key, state: State) -> Option<Evicted> {
        self.insert_in(self.set(key), key, state)
    }

    /// The same where the set is known.
    pub(super) fn insert_in(&mut self, set: usize, key: Key, state: State) -> Option<Evicted> {
        let first = set * self.ways;
        let tags = &self.tags[first..first + self.ways];
        let way = match tags.iter().position(|t| *t == 0) {
            Some(empty) => empty,
            None => self.victim(first),
        };
        let place = first + way;
        let evicted = self.tags[place].checked_sub(1).map(|number| Evicted {
            key: Key(number),
            state: self.states[place],
        });
        self.tags[place] = key.0 + 1;
        self.states[place] = state;
        self.latest[set] = way as u8;
        match self.replacement {
            Replacement::Qlru => self.age(set, way, YOUNGEST - 1),
            _ => self.touch(set, way),
        }
        evicted
    }

    /// Takes an entry out.
    pub fn remove(&mut self, key: Key) -> Option<State> {
        let first = self.set(key) * self.ways;
        let tags = &self.tags[first..first + self.ways];
        let place = first + tags.iter().position(|t| *t == key.0 + 1)?;
        self.tags[place] = 0;
        self.used[place] = 0;
        Some(self.states[place])
    }

    /// Takes out all entries for these numbers.
    pub fn remove_all(&mut self, keys: std::ops::Range<u64>) {
        if keys.end.saturating_sub(keys.start) <= self.tags.len() as u64 {
            for key in keys {
                self.remove(Key(key));
            }
            return;
        }
        for (tag, used) in self.tags.iter_mut().zip(&mut self.used) {
            if tag.checked_sub(1).is_some_and(|key| keys.contains(&key)) {
                (*tag, *used) = (0, 0);
            }
        }
    }

    fn victim(&mut self, first: usize) -> usize {
        let used = &self.used[first..first + self.ways];
        match self.replacement {
            Replacement::Lru => {
                // Ages, so that the count may wrap around.
                let age = |n: &u32| self.count.wrapping_sub(*n);
                let oldest = used.iter().map(age).max().unwrap_or(0);
                used.iter().position(|n| age(n) == oldest).unwrap_or(0)
            }
            Replacement::NotRecent | Replacement::Qlru => {
                used.iter().position(|n| *n == 0).unwrap_or(0)
            }
            Replacement::Any => self.chance.below(self.ways),
        }
    }

    #[inline(always)]
    fn touch(&mut self, set: usize, way: usize) {
        self.latest[set] = way as u8;
        match self.replacement {
            Replacement::Lru => {
                self.count = self.count.wrapping_add(1);
                self.used[set * self.ways + way] = self.count;
            }
            Replacement::NotRecent => self.touch_lately(set, way),
            Replacement::Qlru => self.age(set, way, YOUNGEST),
            Replacement::Any => {}
        }
    }

    /// The one that was used last in its set is used again.
    #[inline(always)]
    fn touch_again(&mut self, set: usize, place: usize) {
        match self.replacement {
            Replacement::Lru => {
                self.count = self.count.wrapping_add(1);
                self.used[place] = self.count;
            }
            Replacement::Qlru if self.used[place] != YOUNGEST => {
                self.age(set, place - set * self.ways, YOUNGEST);
            }
            Replacement::NotRecent | Replacement::Qlru | Replacement::Any => {}
        }
    }

    /// One is so much younger than the oldest age, and the others as old as makes one of them that.
    #[inline(never)]
    fn age(&mut self, set: usize, way: usize, youth: u32) {
        let first = set * self.ways;
        let used = &mut self.used[first..first + self.ways];
        used[way] = youth;
        let oldest = used.iter().copied().min().unwrap_or(0);
        if oldest > 0 {
            for (other, used) in used.iter_mut().enumerate() {
                if other != way {
                    *used -= oldest;
                }
            }
        }
    }

    #[inline(never)]
    fn touch_lately(&mut self, set: usize, way: usize) {
        let first = set * self.ways;
        let used = &mut self.used[first..first + self.ways];
        used[way] = 1;
        if used.iter().all(|n| *n != 0) {
            used.fill(0);
            used[way] = 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sets(entries: u64, ways: u32, replacement: Replacement) -> Sets {
        Sets::new(entries, ways, Index::Direct, replacement)
    }

    /// Misses of `rounds` passes over `keys`.
    fn misses(sets: &mut Sets, keys: impl Iterator<Item = u64> + Clone, rounds: u32) -> u64 {
        let mut misses = 0;
        for _ in 0..rounds {
            for key in keys.clone() {
                if sets.find(Key(key)).is_none() {
                    misses += 1;
                    sets.insert(Key(key), State::new(0, Level::L2));
                }
            }
        }
        misses
    }

    #[test]
    fn what_fits_misses_once() {
        for replacement in [
            Replacement::Lru,
            Replacement::NotRecent,
            Replacement::Qlru,
            Replacement::Any,
        ] {
            for ways in [1, 4, 12] {
                let mut sets = sets(64 * u64::from(ways), ways, replacement);
                let all = 64 * u64::from(ways);
                assert_eq!(misses(&mut sets, 0..all, 5), all, "{replacement:?} {ways}");
            }
        }
    }

    #[test]
    fn one_line_too_many_in_a_set_thrashes_it_alone() {
        let mut sets = sets(64 * 8, 8, Replacement::Lru);
        // Nine lines, 64 apart: one set of eight ways.
        assert_eq!(misses(&mut sets, (0..9).map(|n| n * 64), 10), 90);
        // The others do not mind.
        assert_eq!(misses(&mut sets, (0..8).map(|n| n * 64 + 1), 10), 8);
    }

    #[test]
    fn a_cycle_over_more_than_fits_never_hits_when_the_oldest_goes() {
        let mut sets = sets(256, 4, Replacement::Lru);
        assert_eq!(misses(&mut sets, 0..257 + 63, 4), 4 * 5 * 64);
    }

    #[test]
    fn without_ages_some_of_such_a_cycle_stays() {
        let mut sets = sets(8, 8, Replacement::NotRecent);
        let missed = misses(&mut sets, 0..9, 100);
        assert!(missed > 200 && missed < 900, "{missed}");
    }

    /// One set with ages as nanoBench's authors write them down: the age of a line that is used becomes 0, of one that comes in 1;
    /// the first of age 3 goes; where none is of age 3 then, all but the one just used grow older until one is.
    #[test]
    fn four_ages_are_those_of_a_literal_set() {
        const WAYS: usize = 16;
        let mut sets = Sets::new(WAYS as u64, WAYS as u32, Index::Direct, Replacement::Qlru);
        let (mut lines, mut ages) = ([u64::MAX; WAYS], [3u32; WAYS]);
        let mut chance = Chance::new(1);
        let mut missed = 0;
        for turn in 0..20_000u64 {
            let key = match turn / 1000 % 2 {
                0 => turn % 21,
                _ => chance.below(30) as u64,
            };
            let known = lines.iter().position(|line| *line == key);
            assert_eq!(sets.find(Key(key)).is_some(), known.is_some(), "{turn}");
            let way = known.unwrap_or_else(|| {
                missed += 1;
                let gone = sets.insert(Key(key), State::default());
                let empty = lines.iter().position(|line| *line == u64::MAX);
                let way = empty.or_else(|| ages.iter().position(|age| *age == 3));
                let way = way.unwrap();
                assert_eq!(
                    gone.map_or(u64::MAX, |gone| gone.key.0),
                    lines[way],
                    "{turn}"
                );
                lines[way] = key;
                way
            });
            ages[way] = if known.is_some() { 0 } else { 1 };
            let older = 3 - ages.iter().max().unwrap();
            for (other, age) in ages.iter_mut().enumerate() {
                *age += if other == way { 0 } else { older };
            }
        }
        assert!((5_000..15_000).contains(&missed), "{missed}");
    }

    /// Of a cycle over n lines, of which c fit, a share m is missing with 1 - m = exp(-m n / c): each of the m n lines that
    /// come in between pushes a given one out with chance 1 / c.
    #[test]
    fn of_a_cycle_over_more_than_fits_as_much_stays_as_chance_has_it() {
        for (n, expected) in [
            (2048u64, 0.0),
            (2560, 0.371),
            (3072, 0.583),
            (4096, 0.797),
            (8192, 0.980),
        ] {
            let mut sets = Sets::new(2048, 16, Index::Direct, Replacement::Any);
            let missed = misses(&mut sets, 0..n, 40);
            let share = (missed - n) as f64 / (39 * n) as f64;
            assert!((share - expected).abs() < 0.03, "{n}: {share}");
        }
    }

    #[test]
    fn sets_need_not_be_a_power_of_two() {
        let mut sets = sets(12 * 3, 12, Replacement::Lru);
        assert_eq!(misses(&mut sets, 0..36, 3), 36);
        assert_eq!(misses(&mut sets, (0..13).map(|n| 100 + n * 3), 2), 26);
    }

    #[test]
    fn what_goes_takes_its_state_along() {
        let mut sets = sets(1, 1, Replacement::Lru);
        let dirty = State::new(7, Level::Dram).dirty(true);
        assert_eq!(sets.insert(Key(3), dirty), None);
        let evicted = sets.insert(Key(4), State::default()).unwrap();
        assert_eq!((evicted.key, evicted.state), (Key(3), dirty));
        assert!(evicted.state.is_dirty());
        assert_eq!((dirty.at(), dirty.level()), (7, Level::Dram));
        assert_eq!(sets.remove(Key(4)), Some(State::default()));
        assert!(!sets.has(Key(4)));
    }

    #[test]
    fn frames_spread_pages_over_all_sets() {
        // One line of every 16th page: all in one of 1 024 sets by virtual address, over 16 by frame.
        let keys = (0..128).map(|n| (n * 16) << 6);
        let mut frames = Sets::new(1 << 14, 16, Index::Frames, Replacement::Lru);
        assert!(misses(&mut frames, keys.clone(), 2) < 128 + 20);
        let mut direct = sets(1 << 14, 16, Replacement::Lru);
        assert_eq!(misses(&mut direct, keys, 2), 256);
        assert!(!direct.has(Key(1)));
    }

    /// One line of every page, of a cache of 2 048 sets: 32 sets where nothing is folded, of which each
    /// bit makes twice as many. A Zen 4 has 1 024 such lines in its second level, and not 2 048.
    #[test]
    fn folded_bits_give_lines_at_one_place_of_pages_more_sets() {
        let held = |index, pages: u64| {
            let mut sets = Sets::new(1 << 14, 8, index, Replacement::Lru);
            let keys = (0..pages).map(|n| 17 + (n << 6));
            let missed = misses(&mut sets, keys, 2) - pages;
            1.0 - missed as f64 / pages as f64
        };
        assert!(held(Index::Frames, 128) > 0.9);
        assert!(held(Index::Frames, 1024) < 0.01);
        assert!(held(Index::FoldedFrames(3), 1024) > 0.9);
        assert!(held(Index::FoldedFrames(3), 4096) < 0.2);
        assert_eq!(
            Index::FoldedFrames(0).set(Key(12_345), 2048),
            Index::Frames.set(Key(12_345), 2048)
        );
    }
}
