//! When locked operations start in a whole program: not before all older instructions have retired and all older stores
//! are written, one behind the other, and later by some cycles when much has come in between.
//!
//! Measured on Redwood Cove: docs/REDWOOD-COVE.md, "Locked operations".

use crate::pipeline::state::{Fingerprint, Moment, Part};
use mcad_isa::machine::params::Locked;

/// From when a locked operation is done to when it has retired, which its throughput has in it.
const RETIRES: u64 = 2;

/// What a locked operation finds when it comes.
#[derive(Clone, Copy, Debug)]
pub struct Before {
    /// Cycle in which the last older instruction retires.
    pub retired: u64,
    /// Cycle in which the last older store is written.
    pub written: u64,
    /// Fused µops so far.
    pub uops: u64,
    /// Stores so far.
    pub stores: u64,
}

/// Where the last locked operation was.
#[derive(Clone, Copy, Debug)]
pub struct Locks {
    p: Option<Locked>,
    /// First cycle in which the next one can start, if it is near.
    free: u64,
    /// Fused µops and stores up to the last one, it included.
    uops: u64,
    stores: u64,
}

impl Locks {
    /// No locked operation yet; without parameters, they are held apart as others of their throughput.
    #[must_use]
    pub fn new(p: Option<Locked>) -> Self {
        Self {
            p,
            free: 0,
            uops: 0,
            stores: 0,
        }
    }

    /// Whether they are modelled.
    #[inline]
    #[must_use]
    pub fn are_modelled(&self) -> bool {
        self.p.is_some()
    }

    /// First cycle in which a locked operation of the throughput `apart`, in cycles, can be ready, which has its inputs at
    /// `ready`, and so many fused µops and stores of its own.
    pub fn start(&mut self, before: Before, ready: u64, apart: u64, own: (u64, u64)) -> u64 {
        let p = self.p.unwrap_or_default();
        let far = before.uops.saturating_sub(self.uops) > u64::from(p.near)
            || before.stores > self.stores;
        let free = self.free + if far { u64::from(p.apart) } else { 0 };
        let oldest = (before.retired.max(before.written)).saturating_sub(u64::from(p.ahead));
        let start = ready.max(oldest).max(free);
        self.free = start + apart;
        (self.uops, self.stores) = (before.uops + own.0, before.stores + own.1);
        start
    }

    /// Cycles from its start until a locked operation of this throughput is done.
    #[must_use]
    pub fn takes(apart: u64) -> u64 {
        apart.saturating_sub(RETIRES)
    }
}

impl Part for Locks {
    fn reset(&mut self, _: &Moment) {
        *self = Self::new(self.p);
    }

    /// Not where states are compared: it is modelled of programs alone, which are not asked whether they recur.
    fn fingerprint(&self, _: &Moment, _: &mut Fingerprint) {
        let Self {
            p: _,
            free: _,
            uops: _,
            stores: _,
        } = self;
    }
}
