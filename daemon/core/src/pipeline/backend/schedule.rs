//! When a µop is ready, starts and is done: the dependency part of the scheduler.

use rustc_hash::FxHashMap;

use crate::pipeline::state::Fingerprint;

/// A µop is ready this long after its issue, or one cycle late if its last input comes in the two
/// cycles in which it enters the scheduler.
#[inline]
#[must_use]
pub fn ready_cycle(issued: u64, delay: u64, inputs: u64) -> u64 {
    let entered = issued + delay;
    if inputs < entered {
        entered
    } else if inputs <= entered + 1 {
        inputs + 1
    } else {
        inputs
    }
}

/// Order among memory µops that fences make, and forms that can start only every so many cycles.
#[derive(Default)]
pub struct Constraints {
    loads_done: u64,
    stores_done: u64,
    loads_from: u64,
    stores_from: u64,
    next_start: FxHashMap<u32, u64>,
}

impl Constraints {
    /// Adds what later µops depend on.
    pub fn fingerprint(&self, now: u64, h: &mut Fingerprint) {
        h.add_future(self.loads_done, now);
        h.add_future(self.stores_done, now);
        h.add_future(self.loads_from, now);
        h.add_future(self.stores_from, now);
        // In any order: the sum over forms.
        let forms = self.next_start.iter().map(|(form, next)| {
            let mut one = Fingerprint::default();
            one.add(u64::from(*form));
            one.add_future(*next, now);
            one.value()
        });
        h.add(forms.fold(0, u64::wrapping_add));
    }

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
    pub fn fence_ready(&self, loads: bool, stores: bool) -> u64 {
        let mut ready = 0;
        if loads {
            ready = ready.max(self.loads_done + 1);
        }
        if stores {
            ready = ready.max(self.stores_done + 1);
        }
        ready
    }

    /// A fence is done; what it orders comes after.
    pub fn fence_done(&mut self, executed: u64, loads: bool, stores: bool) {
        if loads {
            self.loads_from = executed + 2;
        }
        if stores {
            self.stores_from = executed + 2;
        }
    }

    /// The first µop of a form that starts at most every `throughput` cycles is known to be
    /// startable at `known`; returns the cycle in which it may be ready.
    pub fn throttle(&mut self, form: u32, throughput: u64, known: u64) -> u64 {
        let next = self.next_start.entry(form).or_insert(0);
        let known = known.max(*next);
        *next = known + throughput;
        known + 1
    }
}
