//! Older stores: store-to-load dependencies from addresses.
//!
//! A load that an older store's bytes contain gets its data from the store buffer; one that only
//! overlaps them waits for the store to leave it. Stores are remembered by 4-byte granule in a
//! table that forgets old ones when a newer store takes their place: a store that long ago is in
//! the cache and holds nobody up.

use std::cmp::Ordering;

use crate::pipeline::access::{Access, Line};
use crate::pipeline::fold::Folding;
use crate::pipeline::state::{Fingerprint, Moment, Part};
use crate::pipeline::window::last;

const ENTRIES: usize = 1 << 12;
/// At least as many stores as can be in flight.
pub const RECENT: usize = 1 << 10;

const NO_SOURCE: u64 = u64::MAX;
/// No load has its bytes from the store before it is written.
const NOT_FORWARDED: u64 = u64::MAX - 1;

/// How loads may have a store's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handed {
    /// By being renamed to the register that it comes from, which is there at this cycle.
    FromRegister(u64),
    /// From the store buffer.
    FromStore,
    /// Once it is written.
    NotBeforeWritten,
}

impl Handed {
    fn source(self) -> u64 {
        match self {
            Self::FromRegister(there) => there,
            Self::FromStore => NO_SOURCE,
            Self::NotBeforeWritten => NOT_FORWARDED,
        }
    }
}

#[derive(Clone, Copy, Default, PartialEq)]
struct OlderStore {
    /// Granule plus 1; 0 is empty.
    granule: u64,
    start: u64,
    bytes: u32,
    /// How many stores before this one was the one that has bytes of the granule which this one has not, whichever of them a load needs; 0:
    /// none.
    under: u32,
    /// Cycle in which both address and data are there.
    ready: u64,
    /// Cycle in which the register that holds the data is there, [`NO_SOURCE`] when loads cannot be
    /// renamed to it, [`NOT_FORWARDED`] when they cannot have it before it is written. Thousands of threads have many of these, so it is one word.
    source: u64,
    /// Number of the store.
    store: u64,
}

impl OlderStore {
    #[inline]
    fn end(&self) -> u64 {
        self.start.wrapping_add(u64::from(self.bytes))
    }

    /// Whether some of these bytes of a granule are not its own.
    #[inline]
    fn lacks(&self, granule: u64, start: u64, end: u64) -> bool {
        let first = start.max(granule << 2);
        let behind = end.min((granule + 1) << 2);
        first < behind && (first < self.start || self.end() < behind)
    }

    /// The store below another one in a granule.
    #[inline]
    fn below(&self, above: &Self, granule: u64) -> u64 {
        if self.granule != granule + 1 || !above.lacks(granule, u64::MIN, u64::MAX) {
            return 0;
        }
        match above.lacks(granule, self.start, self.end()) {
            true => self.store,
            // What lies below that one.
            false if self.under > 0 => self.store - u64::from(self.under),
            false => 0,
        }
    }
}

/// What older stores mean for a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forward {
    /// No store in sight: from the cache.
    Cache,
    /// All bytes come from a store that is complete at `ready`.
    From {
        /// Address and data are there.
        ready: u64,
        /// The register that holds the data is there; `None` when the load cannot be renamed to
        /// it.
        source: Option<u64>,
        /// Its number.
        store: u64,
    },
    /// Some bytes come from stores that it must wait for until they have left the store buffer.
    Blocked {
        /// They are complete.
        ready: u64,
        /// Number of the youngest of them that it waits for to be written: not the youngest of all where that starts where
        /// the load does; 0: none.
        store: u64,
        /// Number of the youngest of them in any case.
        youngest: u64,
    },
}

/// Recent stores.
pub struct OlderStores {
    entries: Box<[OlderStore]>,
    count: u64,
    /// Stores up to this one do not exist any more.
    forgotten: u64,
    /// Cycles of address and data of the last stores, for its fingerprint.
    recent: Box<[(u64, u64, u64)]>,
    /// The store whose address µop came last.
    current: Option<(Access, u64)>,
    /// Whether a load must lie within a part of the store, as wide as the load and no less than eight bytes.
    in_parts: bool,
}

#[inline]
fn place(granule: u64) -> usize {
    (granule.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize & (ENTRIES - 1)
}

#[inline]
fn granules(bytes: &std::ops::Range<u64>) -> std::ops::RangeInclusive<u64> {
    let last = bytes.end.wrapping_sub(1);
    (bytes.start >> 2)..=(last >> 2).max(bytes.start >> 2)
}

/// Whether the store buffer hands on so many bytes from there on in a store: they must not lie in two of its parts,
/// which are as wide as the load and no less than eight bytes; a load of two bytes may lie in its first two.
fn lies_in_a_part(from: u64, bytes: u64) -> bool {
    let part = bytes.next_power_of_two().max(8);
    let last = from + bytes.max(1) - 1;
    from / part == last / part || bytes == 2 && last == 8
}

/// Whether a load need not wait until a store that begins where it does, of fewer bytes, is written: as measured on Redwood Cove
/// (`forward-partly`), where loads of more than eight bytes are a vector's.
fn goes_ahead(stored: u64, loaded: u64) -> bool {
    match loaded {
        0..=8 => true,
        9..=16 => stored >= 4,
        _ => false,
    }
}

impl OlderStores {
    /// No stores yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            entries: vec![OlderStore::default(); ENTRIES].into(),
            count: 0,
            forgotten: 0,
            recent: Self::no_recent(),
            current: None,
            in_parts: false,
        }
    }

    /// From now on a load must lie within a part of the store that it would have its data from, or not.
    pub fn are_handed_on_in_parts(&mut self, in_parts: bool) {
        self.in_parts = in_parts;
    }

    fn no_recent() -> Box<[(u64, u64, u64)]> {
        vec![(0, 0, 0); RECENT].into()
    }

    /// A store's address is there at `ready`; its data comes with [`Stores::data`].
    #[inline]
    pub fn address(&mut self, access: Option<Access>, ready: u64) {
        self.current = access.map(|a| (a, ready));
    }

    /// The line that the current store goes to.
    #[inline]
    #[must_use]
    pub fn line(&self) -> Option<Line> {
        self.current.map(|(a, _)| a.line())
    }

    /// The current store's data is there at `ready`.
    #[inline]
    pub fn data(&mut self, ready: u64, handed: Handed) {
        let Some((access, address_ready)) = self.current.take() else {
            return;
        };
        self.count += 1;
        let source = match handed {
            Handed::FromRegister(there) => there,
            Handed::FromStore | Handed::NotBeforeWritten => ready,
        };
        self.recent[self.count as usize % RECENT] = (address_ready, ready, source);
        let bytes = access.bytes();
        let mut store = OlderStore {
            granule: 0,
            start: bytes.start,
            bytes: bytes.end.wrapping_sub(bytes.start) as u32,
            under: 0,
            ready: address_ready.max(ready),
            source: handed.source(),
            store: self.count,
        };
        for granule in granules(&bytes) {
            if let Some(entry) = self.entries.get_mut(place(granule)) {
                store.granule = granule + 1;
                let below = entry.below(&store, granule);
                store.under = match below {
                    0 => 0,
                    below => u32::try_from(self.count - below).unwrap_or(0),
                };
                *entry = store;
            }
        }
    }

    /// Stores so far.
    #[inline]
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count - self.forgotten
    }

    /// When the address of a store, by number, was there.
    #[inline]
    #[must_use]
    pub fn address_known(&self, store: u64) -> u64 {
        self.recent[store as usize % RECENT].0
    }

    /// When the addresses of a store, by number, and of all younger ones were there.
    #[must_use]
    pub fn addresses_known_from(&self, store: u64) -> u64 {
        let oldest = store.max(self.count.saturating_sub(RECENT as u64 - 1));
        let known = (oldest..=self.count).map(|store| self.address_known(store));
        known.max().unwrap_or(0)
    }

    /// Looks for stores that a load depends on.
    #[inline(always)]
    #[must_use]
    pub fn find(&self, access: &Access) -> Forward {
        let bytes = access.bytes();
        let known = |granule: u64| {
            let entry = self.entries.get(place(granule));
            entry.is_some_and(|entry| entry.granule == granule + 1)
        };
        let granules = granules(&bytes);
        // Most loads are of two granules at most, which no store has written lately.
        let (first, last) = (*granules.start(), *granules.end());
        if last - first <= 1 && !known(first) && !known(last) {
            return Forward::Cache;
        }
        self.find_among(&bytes)
    }

    #[inline(never)]
    fn find_among(&self, bytes: &std::ops::Range<u64>) -> Forward {
        let (start, end) = (bytes.start, bytes.end);
        let mut result = Forward::Cache;
        let mut from = 0;
        let goes_ahead = |entry: &OlderStore| {
            entry.start == start
                && (!self.in_parts || goes_ahead(entry.end() - entry.start, end - start))
        };
        // The store that is to be written before the load has its data: one that starts where the load does is not, but what the
        // load has besides of a store below it.
        let written = |entry: &OlderStore, granule: u64| match goes_ahead(entry) {
            true if entry.under == 0 || !entry.lacks(granule, start, end) => 0,
            true => (entry.store - u64::from(entry.under)).saturating_sub(self.forgotten),
            false => entry.store - self.forgotten,
        };
        for granule in granules(bytes) {
            let Some(entry) = self.entries.get(place(granule)) else {
                continue;
            };
            let overlaps = entry.granule == granule + 1
                && entry.store > self.forgotten
                && entry.start < end
                && start < entry.end();
            if !overlaps {
                continue;
            }
            let contained = entry.start <= start
                && end <= entry.end()
                && entry.source != NOT_FORWARDED
                && (!self.in_parts || lies_in_a_part(start - entry.start, end - start));
            result = match result {
                Forward::Cache if contained => {
                    from = entry.store;
                    Forward::From {
                        ready: entry.ready,
                        source: Some(entry.source)
                            .filter(|source| entry.start == start && *source != NO_SOURCE),
                        store: entry.store - self.forgotten,
                    }
                }
                Forward::From { .. } if contained && from == entry.store => result,
                Forward::Cache => Forward::Blocked {
                    ready: entry.ready,
                    store: written(entry, granule),
                    youngest: entry.store - self.forgotten,
                },
                Forward::From { ready, .. } => Forward::Blocked {
                    ready: ready.max(entry.ready),
                    store: from.max(entry.store) - self.forgotten,
                    youngest: from.max(entry.store) - self.forgotten,
                },
                Forward::Blocked {
                    ready,
                    store,
                    youngest,
                } => {
                    let number = entry.store - self.forgotten;
                    Forward::Blocked {
                        ready: ready.max(entry.ready),
                        store: match number.cmp(&youngest) {
                            Ordering::Greater if goes_ahead(entry) => youngest,
                            Ordering::Greater => number,
                            // It does not wait for the youngest.
                            Ordering::Less if store < youngest => store.max(number),
                            Ordering::Less | Ordering::Equal => store,
                        },
                        youngest: youngest.max(number),
                    }
                }
            };
        }
        result
    }
}

impl Part for OlderStores {
    fn fold(&mut self, folding: &mut Folding) {
        folding.table(&mut self.entries, OlderStore::default());
        // Programs are not asked whether they recur.
        let take = |recent: &mut Box<[_]>| ((), std::mem::take(recent));
        folding.any(&mut self.recent, take, |recent, (), empty| {
            *recent = empty.unwrap_or_else(Self::no_recent);
        });
    }

    fn reset(&mut self, _: &Moment) {
        let Self {
            entries: _,
            count,
            forgotten,
            recent: _,
            current,
            in_parts: _,
        } = self;
        *forgotten = *count;
        *current = None;
    }

    /// When the last stores are complete, as many as may be in flight. That says all of them only
    /// if which load takes from which store is the same in every iteration of what is simulated.
    fn fingerprint(&self, at: &Moment, h: &mut Fingerprint) {
        let Self {
            entries: _,
            count,
            forgotten,
            recent,
            current,
            in_parts: _,
        } = self;
        let now = at.issue;
        let most = at.in_flight.min(count - forgotten).min(RECENT as u64);
        let (older, younger) = last(recent, count + 1, most as usize);
        h.add_distances(
            (older.iter().chain(younger))
                .flat_map(|&(address, data, source)| [address, data, source])
                .map(|stamp| stamp.saturating_sub(now)),
        );
        if let Some((_, ready)) = current {
            h.add_future(*ready, now);
        }
    }
}

impl Default for OlderStores {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: u64 = 0x1000;

    /// What stores of so many bytes from there on, one after the other, mean for a load.
    fn found(in_parts: bool, stores: &[(u64, u16)], load: (u64, u16)) -> Forward {
        let mut older = OlderStores::new();
        older.are_handed_on_in_parts(in_parts);
        for (from, bytes) in stores {
            older.address(Some(Access::known(PLACE + from, *bytes)), 1);
            older.data(1, Handed::FromStore);
        }
        older.find(&Access::known(PLACE + load.0, load.1))
    }

    fn waits_for(forward: Forward) -> u64 {
        match forward {
            Forward::Blocked { store, .. } => store,
            other => panic!("{other:?}"),
        }
    }

    /// Intel's Optimization Reference Manual, "Store Forwarding Conditions", and as measured on Redwood Cove
    /// (`forward-4-in-16`, `forward-8-in-16`, `forward-16-in-32`).
    #[test]
    fn a_load_must_lie_in_one_part_of_a_store() {
        for (store, load, served) in [
            (16, 1, (0..16).collect::<Vec<u64>>()),
            (16, 2, (0..15).collect()),
            (16, 4, (0..13).filter(|at| !(5..8).contains(at)).collect()),
            (16, 8, vec![0, 8]),
            (16, 16, vec![0]),
            (32, 2, (0..31).filter(|at| ![15, 23].contains(at)).collect()),
            (32, 8, vec![0, 8, 16, 24]),
            (32, 16, vec![0, 16]),
            (32, 32, vec![0]),
            (8, 4, (0..5).collect()),
            (4, 2, (0..3).collect()),
        ] {
            let is_served = |at: &u64| {
                let found = found(true, &[(0, store)], (*at, load));
                matches!(found, Forward::From { .. })
            };
            let all: Vec<u64> = (0..=u64::from(store - load)).collect();
            let some: Vec<u64> = all.iter().copied().filter(is_served).collect();
            assert_eq!(some, served, "{load} bytes in {store}");
            // Elsewhere any part of a store will do.
            let any = |at: &u64| {
                matches!(
                    found(false, &[(0, store)], (*at, load)),
                    Forward::From { .. }
                )
            };
            assert!(all.iter().all(any));
        }
    }

    /// `forward-partly`: of one that starts where it does a load does not wait for it to be written, of all others it does.
    #[test]
    fn a_load_waits_for_the_youngest_store_that_does_not_start_with_it() {
        let waits = |stores: &[(u64, u16)]| waits_for(found(true, stores, (0, 16)));
        assert_eq!(waits(&[(0, 8)]), 0);
        assert_eq!(waits(&[(8, 8)]), 1);
        assert_eq!(waits(&[(0, 16), (0, 8)]), 1);
        assert_eq!(waits(&[(0, 16), (8, 8)]), 2);
        assert_eq!(waits(&[(8, 8), (0, 8)]), 1);
        assert_eq!(waits(&[(0, 8), (8, 8)]), 2);
        assert_eq!(waits(&[(12, 4), (8, 4), (0, 8)]), 2);
        assert_eq!(waits(&[(8, 4), (0, 8), (12, 4)]), 3);
    }

    /// `forward-partly`: loads of 32 bytes wait for a store that starts where they do, too, those of 16 for such ones of one and two bytes.
    #[test]
    fn wide_loads_wait_for_narrow_stores_wherever_they_start() {
        for (stored, loaded, waits) in [
            (1, 2, 0),
            (1, 8, 0),
            (4, 8, 0),
            (1, 16, 1),
            (2, 16, 1),
            (4, 16, 0),
            (8, 16, 0),
            (1, 32, 1),
            (8, 32, 1),
            (16, 32, 1),
        ] {
            let forward = found(true, &[(0, stored)], (0, loaded));
            assert_eq!(waits_for(forward), waits, "{stored} {loaded}");
            // Where others than Intel's hand on any part, nothing is known of these.
            assert_eq!(waits_for(found(false, &[(0, stored)], (0, loaded))), 0);
        }
        // Of two it waits for the later one, whose data it has, not for the one below alone.
        assert_eq!(waits_for(found(true, &[(0, 8), (0, 1)], (0, 32))), 2);
    }

    /// By hand on Redwood Cove: a store of four bytes, one of a byte in them, and a load of the four take 15.9 to 16.9 cycles a turn wherever the byte
    /// is, a store of the first byte alone and the load 1.1.
    #[test]
    fn a_load_waits_for_a_store_below_a_narrower_one_that_starts_with_it() {
        let waits = |stores: &[(u64, u16)]| waits_for(found(true, stores, (0, 4)));
        assert_eq!(waits(&[(0, 1)]), 0);
        assert_eq!(waits(&[(0, 4), (0, 1)]), 1);
        assert_eq!(waits(&[(0, 4), (0, 1), (0, 2)]), 1);
        assert_eq!(waits(&[(0, 4), (0, 2), (0, 1)]), 2);
        assert_eq!(waits(&[(0, 4), (1, 1)]), 2);
        assert_eq!(waits(&[(0, 1), (0, 1)]), 0);
        // What lies below it is not the load's.
        let narrow = found(true, &[(0, 4), (0, 1)], (0, 1));
        assert!(matches!(narrow, Forward::From { store: 2, .. }));
    }
}
