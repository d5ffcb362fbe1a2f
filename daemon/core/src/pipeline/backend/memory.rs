//! Store-to-load dependencies from addresses.
//!
//! A load that an older store's bytes contain gets its data from the store buffer; one that only
//! overlaps them waits for the store to leave it. Stores are remembered by 4-byte granule in a
//! table that forgets old ones when a newer store takes their place: a store that long ago is in
//! the cache and holds nobody up.

use crate::pipeline::inst::Access;
use crate::pipeline::state::Fingerprint;
use crate::pipeline::window::last;

const ENTRIES: usize = 1 << 12;
/// At least as many stores as can be in flight.
const RECENT: usize = 1 << 10;

#[derive(Clone, Copy, Default)]
struct Entry {
    /// Granule plus 1; 0 is empty.
    granule: u64,
    start: u64,
    end: u64,
    /// Cycle in which both address and data are there.
    ready: u64,
    /// Cycle in which the register that holds the data is there, when loads can be renamed to it.
    source: Option<u64>,
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
    },
    /// Some bytes come from stores that it must wait for until they have left the store buffer.
    Blocked {
        /// They are complete.
        ready: u64,
        /// Number of the youngest of them; 0 when it starts where the load does: such a load does
        /// not wait for it to be written.
        store: u64,
    },
}

/// Recent stores.
pub struct Stores {
    entries: Box<[Entry]>,
    count: u64,
    /// Stores up to this one do not exist any more.
    forgotten: u64,
    /// Cycles of address and data of the last stores, for [`Stores::fingerprint`].
    recent: Box<[(u64, u64, u64)]>,
    /// The store whose address µop came last.
    current: Option<(Access, u64)>,
}

#[inline]
fn place(granule: u64) -> usize {
    (granule.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize & (ENTRIES - 1)
}

#[inline]
fn granules(access: &Access) -> std::ops::RangeInclusive<u64> {
    let last = access
        .address
        .wrapping_add(u64::from(access.size.max(1)) - 1);
    (access.address >> 2)..=(last >> 2).max(access.address >> 2)
}

impl Stores {
    /// No stores yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            entries: vec![Entry::default(); ENTRIES].into(),
            count: 0,
            forgotten: 0,
            recent: vec![(0, 0, 0); RECENT].into(),
            current: None,
        }
    }

    /// A store's address is there at `ready`; its data comes with [`Stores::data`].
    #[inline]
    pub fn address(&mut self, access: Option<Access>, ready: u64) {
        self.current = access.map(|a| (a, ready));
    }

    /// The line that the current store goes to.
    #[inline]
    #[must_use]
    pub fn line(&self) -> Option<(u64, i64)> {
        self.current.map(|(a, _)| (a.line, a.offset))
    }

    /// The current store's data is there at `ready`; it comes from a register that is there at
    /// `source`, if loads can be renamed to it.
    #[inline]
    pub fn data(&mut self, ready: u64, source: Option<u64>) {
        let Some((access, address_ready)) = self.current.take() else {
            return;
        };
        self.count += 1;
        self.recent[self.count as usize % RECENT] = (address_ready, ready, source.unwrap_or(ready));
        let start = access.address;
        let end = start.wrapping_add(u64::from(access.size.max(1)));
        for granule in granules(&access) {
            if let Some(entry) = self.entries.get_mut(place(granule)) {
                *entry = Entry {
                    granule: granule + 1,
                    start,
                    end,
                    ready: address_ready.max(ready),
                    source,
                    store: self.count,
                };
            }
        }
    }

    /// Forgets all stores.
    pub fn reset(&mut self) {
        self.forgotten = self.count;
        self.current = None;
    }

    /// Adds when the last `most` stores are complete. That says all of them only if which load
    /// takes from which store is the same in every iteration of what is simulated.
    pub fn fingerprint(&self, now: u64, most: u64, h: &mut Fingerprint) {
        let most = most.min(self.count - self.forgotten).min(RECENT as u64);
        let (older, younger) = last(&self.recent, self.count + 1, most as usize);
        h.add_distances(
            (older.iter().chain(younger))
                .flat_map(|&(address, data, source)| [address, data, source])
                .map(|stamp| stamp.saturating_sub(now)),
        );
        if let Some((_, ready)) = self.current {
            h.add_future(ready, now);
        }
    }

    /// Stores so far.
    #[inline]
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count - self.forgotten
    }

    /// Looks for stores that a load depends on.
    #[inline]
    #[must_use]
    pub fn find(&self, access: &Access) -> Forward {
        let start = access.address;
        let end = start.wrapping_add(u64::from(access.size.max(1)));
        let mut result = Forward::Cache;
        let mut from = 0;
        for granule in granules(access) {
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
            let contained = entry.start <= start && end <= entry.end;
            result = match result {
                Forward::Cache if contained => {
                    from = entry.store;
                    Forward::From {
                        ready: entry.ready,
                        source: entry.source.filter(|_| entry.start == start),
                    }
                }
                Forward::From { .. } if contained && from == entry.store => result,
                Forward::Cache => Forward::Blocked {
                    ready: entry.ready,
                    store: if entry.start == start {
                        0
                    } else {
                        entry.store - self.forgotten
                    },
                },
                Forward::From { ready, .. } => Forward::Blocked {
                    ready: ready.max(entry.ready),
                    store: from.max(entry.store) - self.forgotten,
                },
                Forward::Blocked { ready, store } => Forward::Blocked {
                    ready: ready.max(entry.ready),
                    store: store.max(entry.store - self.forgotten),
                },
            };
        }
        result
    }
}

impl Default for Stores {
    fn default() -> Self {
        Self::new()
    }
}
