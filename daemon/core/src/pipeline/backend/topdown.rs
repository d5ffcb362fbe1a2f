//! Where issue slots went (Yasin, ISPASS 2014): every slot is counted once, when the cycle in
//! which the next µop issues is known.

use crate::pipeline::state::{Fingerprint, Moment, Part};
use mcad_report::TopDown;

/// Why the next µop could not issue in the slot after its predecessor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stall {
    /// Not delivered in time, since fetch went the wrong way.
    BadSpeculation,
    /// Not delivered in time.
    FrontEnd,
    /// Re-order buffer or schedulers full behind a load or store.
    Memory,
    /// Re-order buffer or schedulers full behind anything else.
    Core,
    /// Issue-group rule or serialisation.
    Other,
}

/// Counts slots.
#[derive(Clone, Copy, Debug, Default)]
pub struct SlotCount {
    slots: TopDown,
}

impl SlotCount {
    /// So many slots were lost.
    #[inline]
    pub fn lose(&mut self, slots: u64, why: Stall) {
        match why {
            Stall::BadSpeculation => self.slots.bad_speculation += slots,
            Stall::FrontEnd => self.slots.frontend += slots,
            Stall::Memory => self.slots.backend_memory += slots,
            Stall::Core => self.slots.backend_core += slots,
            Stall::Other => self.slots.other += slots,
        }
    }

    /// The counts after `cycles` cycles of `width` slots, `issued` of which issued a µop; what is
    /// left (the drain at the end) is `other`.
    #[must_use]
    pub fn at(&self, cycles: u64, width: u64, issued: u64) -> TopDown {
        let mut t = self.slots;
        t.retiring = issued;
        let counted = t.retiring
            + t.bad_speculation
            + t.frontend
            + t.backend_memory
            + t.backend_core
            + t.other;
        t.slots = (cycles * width).max(counted);
        t.other += t.slots - counted;
        t
    }
}

impl Part for SlotCount {
    fn reset(&mut self, _: &Moment) {
        let Self { slots } = self;
        *slots = TopDown::default();
    }

    /// Nothing depends on it.
    fn fingerprint(&self, _: &Moment, _: &mut Fingerprint) {
        let Self { slots: _ } = self;
    }
}
