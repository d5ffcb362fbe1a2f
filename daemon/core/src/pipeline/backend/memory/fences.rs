//! The order among memory µops that fences make.

use crate::pipeline::state::{Fingerprint, Moment, Part};

/// When loads and stores are done and may go on.
#[derive(Default)]
pub struct Fences {
    loads_done: u64,
    stores_done: u64,
    loads_from: u64,
    stores_from: u64,
}

impl Fences {
    /// A load may not be ready before this cycle.
    #[inline]
    #[must_use]
    pub fn load(&self) -> u64 {
        self.loads_from
    }

    /// A store may not be ready before this cycle.
    #[inline]
    #[must_use]
    pub fn store(&self) -> u64 {
        self.stores_from
    }

    /// A load is done at this cycle.
    #[inline]
    pub fn load_done(&mut self, executed: u64) {
        self.loads_done = self.loads_done.max(executed);
    }

    /// A store is done at this cycle.
    #[inline]
    pub fn store_done(&mut self, executed: u64) {
        self.stores_done = self.stores_done.max(executed);
    }

    /// First cycle in which a fence for loads or stores can be ready.
    #[must_use]
    pub fn ready(&self, loads: bool, stores: bool) -> u64 {
        let loads = if loads { self.loads_done + 1 } else { 0 };
        let stores = if stores { self.stores_done + 1 } else { 0 };
        loads.max(stores)
    }

    /// A fence is done; what it orders comes after.
    pub fn done(&mut self, executed: u64, loads: bool, stores: bool) {
        if loads {
            self.loads_from = executed + 2;
        }
        if stores {
            self.stores_from = executed + 2;
        }
    }
}

impl Part for Fences {
    fn reset(&mut self, _: &Moment) {
        *self = Self::default();
    }

    fn fingerprint(&self, at: &Moment, h: &mut Fingerprint) {
        let Self {
            loads_done,
            stores_done,
            loads_from,
            stores_from,
        } = self;
        for stamp in [loads_done, stores_done, loads_from, stores_from] {
            h.add_future(*stamp, at.issue);
        }
    }
}
