//! Translation of addresses: two levels of buffers and the page walk.
//!
//! A translation that is on its way is found like a line that is: whoever needs it waits for the
//! rest of the walk. The upper tables' entries are in a cache of their own (Intel's "paging
//! structure caches", AMD's "page directory cache"); the last table's are data, in lines of eight
//! that the second-level cache holds.

use mcad_isa::machine::hierarchy::{Replacement, TlbLevel, Tlbs};

use super::Level;
use super::queues::Buffers;
use super::sets::{Index, Key, Sets, State};
use crate::pipeline::fold::Folding;

/// Lines of page tables are told from the program's by a bit that no user address has.
const TABLES: u64 = 1 << 56;

/// Who asks for a translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Loads and stores.
    Data,
    /// Fetch.
    Instructions,
}

/// What a translation took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Translated {
    /// Cycles.
    pub late: u64,
    /// The first level had it not.
    pub missed_first: bool,
    /// Neither had the second: the tables were walked.
    pub walked: bool,
}

/// Buffers and walkers of one core.
#[derive(Clone)]
pub struct Tlb {
    data: Sets,
    instructions: Sets,
    second: Sets,
    second_latency: u64,
    /// The instructions' own second level and its latency.
    second_of_code: Option<(Sets, u64)>,
    directories: Sets,
    walk: u64,
    walkers: Buffers,
    /// The page of the last data access: most are to it again.
    last: u64,
    /// Where translations of pages were found lately: looking there first saves a search through
    /// all ways of a buffer that has many.
    recent: Recent,
    /// The same for instructions.
    recent_code: Recent,
}

/// Pages whose place is remembered, a power of two.
const RECENT: usize = 64;

/// Pages by their low bits, each with its place in the nearest buffer.
#[derive(Clone)]
struct Recent(Box<[(u64, usize)]>);

impl Recent {
    /// No page.
    const NONE: (u64, usize) = (u64::MAX, 0);

    fn new() -> Self {
        Self(vec![Self::NONE; RECENT].into())
    }

    /// The page with the same low bits, and its place.
    #[inline]
    fn like(&self, page: u64) -> (u64, usize) {
        let found = self.0.get(page as usize % RECENT);
        found.copied().unwrap_or(Self::NONE)
    }

    #[inline]
    fn set(&mut self, page: u64, place: usize) {
        if let Some(slot) = self.0.get_mut(page as usize % RECENT) {
            *slot = (page, place);
        }
    }
}

impl Tlb {
    /// Empty ones.
    #[must_use]
    pub fn new(p: &Tlbs) -> Self {
        let level =
            |l: &TlbLevel| Sets::new(u64::from(l.entries), l.ways, Index::Direct, l.replacement);
        Self {
            data: level(&p.l1d),
            instructions: level(&p.l1i),
            second: level(&p.l2),
            second_latency: p.l2.latency,
            second_of_code: p.l2i.as_ref().map(|l| (level(l), l.latency)),
            directories: Sets::new(
                u64::from(p.directories),
                p.directories,
                Index::Direct,
                Replacement::Lru,
            ),
            walk: p.walk,
            walkers: Buffers::new(p.walkers),
            last: u64::MAX,
            recent: Recent::new(),
            recent_code: Recent::new(),
        }
    }

    /// Shows its tables.
    pub fn fold(&mut self, folding: &mut Folding) {
        for sets in [&mut self.data, &mut self.instructions, &mut self.second] {
            sets.fold(folding);
        }
        if let Some((second, _)) = &mut self.second_of_code {
            second.fold(folding);
        }
        self.directories.fold(folding);
        for recent in [&mut self.recent, &mut self.recent_code] {
            folding.table(&mut recent.0, Recent::NONE);
        }
    }

    /// Whether the page is the one of the data access before, whose translation is there.
    #[inline]
    #[must_use]
    pub fn is_last(&self, page: u64) -> bool {
        self.last == page
    }

    /// Whether the first level has the translation of a page for data, and has had it long enough
    /// for an access in cycle `at`.
    #[inline]
    pub fn hits(&mut self, page: u64, at: u64) -> bool {
        let (known, place) = self.recent.like(page);
        let key = Key(page);
        if known != page || !self.data.is_still_at(place, key) || self.data.state(place).at() > at {
            return false;
        }
        self.last = page;
        true
    }

    /// The same for instructions.
    #[inline]
    pub fn hits_code(&mut self, page: u64, at: u64) -> bool {
        let (known, place) = self.recent_code.like(page);
        let key = Key(page);
        known == page
            && self.instructions.is_still_at(place, key)
            && self.instructions.state(place).at() <= at
    }

    /// Translates `page` for an access in cycle `at`. `table` reads the line of a page table, by
    /// number, from a cycle on and says when it is there.
    pub fn translate(
        &mut self,
        side: Side,
        page: u64,
        at: u64,
        table: &mut dyn FnMut(Key, u64) -> u64,
    ) -> Translated {
        let first = match side {
            Side::Data => &mut self.data,
            Side::Instructions => &mut self.instructions,
        };
        let key = Key(page);
        if let Some(place) = first.find(key) {
            let late = first.state(place).at().saturating_sub(at);
            match side {
                Side::Data => {
                    self.recent.set(page, place);
                    if late == 0 {
                        self.last = page;
                    }
                }
                Side::Instructions => self.recent_code.set(page, place),
            }
            return Translated {
                late,
                ..Translated::default()
            };
        }
        let (second, latency) = match (&mut self.second_of_code, side) {
            (Some((second, latency)), Side::Instructions) => (second, *latency),
            _ => (&mut self.second, self.second_latency),
        };
        let (there, walked) = match second.find(key) {
            Some(place) => (second.state(place).at().max(at + latency), false),
            None => {
                let there = self.walk(page, at + latency, table);
                let second = match (&mut self.second_of_code, side) {
                    (Some((second, _)), Side::Instructions) => second,
                    _ => &mut self.second,
                };
                second.insert(key, State::new(there, Level::L2));
                (there, true)
            }
        };
        let first = match side {
            Side::Data => &mut self.data,
            Side::Instructions => &mut self.instructions,
        };
        first.insert(key, State::new(there, Level::L2));
        Translated {
            late: there - at,
            missed_first: true,
            walked,
        }
    }

    fn walk(&mut self, page: u64, at: u64, table: &mut dyn FnMut(Key, u64) -> u64) -> u64 {
        let (walker, mut now) = self.walkers.take(at);
        let directory = Key(page >> 9);
        match self.directories.find(directory) {
            Some(place) => now = now.max(self.directories.state(place).at()),
            None => {
                now = table(Key(TABLES << 1 | page >> 12), now);
                self.directories
                    .insert(directory, State::new(now, Level::L2));
            }
        }
        let there = table(Key(TABLES | page >> 3), now) + self.walk;
        self.walkers.hold(walker, there);
        there
    }

    /// Forgets the translations of these pages.
    pub fn forget(&mut self, pages: std::ops::Range<u64>) {
        self.last = u64::MAX;
        self.data.remove_all(pages.clone());
        self.instructions.remove_all(pages.clone());
        if let Some((own, _)) = &mut self.second_of_code {
            own.remove_all(pages.clone());
        }
        self.second.remove_all(pages);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: u64 = 10;

    fn shape() -> Tlbs {
        let level = |entries, ways, latency| TlbLevel {
            entries,
            ways,
            replacement: Replacement::Lru,
            latency,
        };
        Tlbs {
            l1d: level(64, 4, 0),
            l1i: level(64, 8, 0),
            l2: level(1024, 8, 7),
            l2i: None,
            walk: 20,
            walkers: 2,
            directories: 16,
            fault: 0,
            fault_code_lines: 0,
            fault_data_lines: 0,
            call_code_lines: 0,
            call_data_lines: 0,
        }
    }

    fn tlb() -> Tlb {
        Tlb::new(&shape())
    }

    fn late(tlb: &mut Tlb, page: u64, at: u64) -> u64 {
        let mut table = |_, at| at + TABLE;
        tlb.translate(Side::Data, page, at, &mut table).late
    }

    #[test]
    fn latencies_add_up() {
        let mut tlb = tlb();
        // Directory and table, after the second level has said no.
        assert_eq!(late(&mut tlb, 5, 1000), 7 + TABLE + TABLE + 20);
        // On its way.
        assert_eq!(late(&mut tlb, 5, 1010), 7 + TABLE + TABLE + 20 - 10);
        assert_eq!(late(&mut tlb, 5, 2000), 0);
        // The same directory.
        assert_eq!(late(&mut tlb, 6, 2000), 7 + TABLE + 20);
        // Out of the first level: 64 entries in 4 ways, 16 sets.
        for n in 1..=4 {
            late(&mut tlb, 5 + 16 * n, 3000);
        }
        assert_eq!(late(&mut tlb, 5, 9000), 7);
    }

    #[test]
    fn each_entry_reaches_a_page() {
        let mut tlb = tlb();
        for round in 0..3 {
            for page in 0..64 {
                let late = late(&mut tlb, page, 100_000 * (round + 1));
                assert_eq!(late > 0, round == 0, "{page} {round}");
            }
        }
    }

    #[test]
    fn so_many_walks_at_once() {
        let mut tlb = tlb();
        late(&mut tlb, 0, 0);
        let walk = 7 + TABLE + 20;
        assert_eq!(late(&mut tlb, 1, 1000), walk);
        assert_eq!(late(&mut tlb, 2, 1000), walk);
        assert_eq!(late(&mut tlb, 3, 1000), 2 * walk - 7);
    }

    #[test]
    fn code_has_a_second_level_of_its_own() {
        let p = |l2i| Tlbs { l2i, ..shape() };
        let own = TlbLevel {
            entries: 256,
            ways: 8,
            replacement: Replacement::Lru,
            latency: 9,
        };
        for (l2i, found) in [(None, 7), (Some(own), 9)] {
            let mut tlb = Tlb::new(&p(l2i));
            let mut code = |page: u64, at: u64| {
                tlb.translate(Side::Instructions, page, at, &mut |_, at| at + TABLE)
                    .late
            };
            for round in 1..4 {
                for page in 0..200 {
                    let late = code(page, 1_000_000 * round + 1000 * page);
                    assert!(round == 1 || late == found, "{round} {page} {late}");
                }
            }
            // Beyond what it holds the tables are walked, where the other has room for as many.
            for round in 4..6 {
                for page in 0..512 {
                    let late = code(page, 1_000_000 * round + 1000 * page);
                    assert!(
                        round == 4 || (late > found) == l2i.is_some(),
                        "{page} {late}"
                    );
                }
            }
        }
    }
}
