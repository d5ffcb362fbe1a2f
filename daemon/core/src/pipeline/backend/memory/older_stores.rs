//! Older stores: store-to-load dependencies from addresses.
//!
//! A load that an older store's bytes contain gets its data from the store buffer; one that only
//! overlaps them waits for the store to leave it. Stores are remembered by 4-byte granule in a
//! table that forgets old ones when a newer store takes their place: a store that long ago is in
//! the cache and holds nobody up.

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
    end: u64,
    /// Cycle in which both address and data are there.
    ready: u64,
    /// Cycle in which the register that holds the data is there, [`NO_SOURCE`] when loads cannot be
    /// renamed to it, [`NOT_FORWARDED`] when they cannot have it before it is written. Thousands of threads have many of these, so it is one word.
    source: u64,
    /// Number of the store.
    store: u64,
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
        /// Number of the youngest of them; 0 when it starts where the load does: such a load does
        /// not wait for it to be written.
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
        }
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
        let (start, end) = (bytes.start, bytes.end);
        for granule in granules(&bytes) {
            if let Some(entry) = self.entries.get_mut(place(granule)) {
                *entry = OlderStore {
                    granule: granule + 1,
                    start,
                    end,
                    ready: address_ready.max(ready),
                    source: handed.source(),
                    store: self.count,
                };
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
        // The store that is to be written before the load has its data.
        let written = |entry: &OlderStore| match entry.start == start {
            true => 0,
            false => entry.store - self.forgotten,
        };
        for granule in granules(bytes) {
            let Some(entry) = self.entries.get(place(granule)) else {
                continue;
            };
            let overlaps = entry.granule == granule + 1
                && entry.store > self.forgotten
                && entry.start < end
                && start < entry.end;
            if !overlaps {
                continue;
            }
            let contained =
                entry.start <= start && end <= entry.end && entry.source != NOT_FORWARDED;
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
                    store: written(entry),
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
                } => Forward::Blocked {
                    ready: ready.max(entry.ready),
                    store: store.max(written(entry)),
                    youngest: youngest.max(entry.store - self.forgotten),
                },
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
