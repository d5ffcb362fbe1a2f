//! What a repeated block has stored, and where: the youngest store to every four bytes.

use rustc_hash::FxHashMap;

use super::values::Value;
use crate::pipeline::access::Access;

/// Bytes in memory that one store wrote.
#[derive(Clone, Copy)]
pub(super) struct Stored {
    pub(super) address: u64,
    pub(super) size: u16,
    pub(super) value: Value,
    /// Stores so far, with this one.
    pub(super) number: u64,
}

impl Stored {
    fn overlaps(&self, access: &Access) -> bool {
        let bytes = access.bytes();
        self.address < bytes.end && bytes.start < self.address.wrapping_add(u64::from(self.size))
    }

    pub(super) fn contains(&self, access: &Access) -> bool {
        let bytes = access.bytes();
        self.address <= bytes.start && bytes.end <= self.address.wrapping_add(u64::from(self.size))
    }
}

/// The groups of four bytes that an access touches.
#[inline]
fn granules(access: &Access) -> std::ops::Range<u64> {
    let bytes = access.bytes();
    let (first, last) = (bytes.start >> 2, bytes.end.wrapping_sub(1) >> 2);
    first..last.max(first) + 1
}

/// All stores.
#[derive(Clone, Default)]
pub(super) struct Written {
    /// By four bytes: the place of the last store to them.
    places: FxHashMap<u64, u32>,
    stores: Vec<Stored>,
}

impl Written {
    /// Nothing is stored any more.
    pub(super) fn clear(&mut self) {
        self.places.clear();
        self.stores.clear();
    }

    /// How many stores there were.
    #[inline]
    pub(super) fn count(&self) -> u64 {
        self.stores.len() as u64
    }

    /// For every four bytes that a load touches, first to last: the last store to them, if that wrote
    /// some of what is loaded.
    #[inline]
    pub(super) fn under<'a>(
        &'a self,
        load: &'a Access,
    ) -> impl Iterator<Item = Option<&'a Stored>> {
        let none = self.stores.is_empty();
        granules(load).map(move |granule| {
            if none {
                return None;
            }
            let stored = self.stores.get(*self.places.get(&granule)? as usize)?;
            stored.overlaps(load).then_some(stored)
        })
    }

    /// Stores a value; whether anything is other than it was.
    pub(super) fn store(&mut self, access: &Access, value: Value) -> bool {
        let place = self.stores.len();
        let stored = Stored {
            address: access.bytes().start,
            size: access.size,
            value,
            number: place as u64 + 1,
        };
        self.stores.push(stored);
        let mut changed = false;
        for granule in granules(access) {
            let old = self.places.insert(granule, place as u32);
            let old = old.and_then(|old| self.stores.get(old as usize));
            changed |= old.is_none_or(|o| {
                o.address != stored.address || o.size != stored.size || o.value != value
            });
        }
        changed
    }
}
