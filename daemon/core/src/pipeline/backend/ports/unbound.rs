//! Ports of one scheduler that µops are not bound to when they issue: each starts on whichever of its
//! ports is free, and one that was woken too soon takes a port in vain.
//!
//! Zen 5's ALUs are such (docs/ZEN5.md). The scheduler takes ready µops in no strict order, so that a
//! µop that has to wait may be passed by younger ones. Here, where µops are booked in program order,
//! it passes over some free places instead and leaves them to those behind it: as many as the
//! multiples of a step are, modulo [`PortLayout::disorder`], so that all numbers occur alike and the
//! core's state recurs. Its address units are bound as little, but start the oldest ready µop first.

use super::{HORIZON, MASK, PORT_MASK, Ports};
use crate::pipeline::state::{Fingerprint, Moment, Part};
use mcad_isa::machine::params::{PortLayout, PortSet};

/// Places passed over from one µop that has to wait to the next; it has no divisor in common with
/// usual numbers of places.
const STEP: u32 = 5;

/// The ports, and how many places the last µop passed over.
pub struct Unbound {
    ports: PortSet,
    /// Those of them where the oldest ready µop starts first.
    oldest_first: PortSet,
    disorder: u32,
    passed: u32,
}

impl Unbound {
    pub fn new(layout: &PortLayout) -> Self {
        Self {
            ports: layout.unbound.with(layout.oldest_first),
            oldest_first: layout.oldest_first,
            disorder: layout.disorder.max(1),
            passed: 0,
        }
    }

    /// Whether there are no such ports.
    pub fn is_none(&self) -> bool {
        self.ports.is_empty()
    }
}

impl Ports {
    /// Whether a µop with these ports is bound to one of them when it issues.
    #[inline(always)]
    #[must_use]
    pub fn are_bound(&self, ports: PortSet) -> bool {
        !self.unbound.ports.meets(ports)
    }

    /// Books a free one of unbound `ports` for a µop that was woken at `woken` and is ready at
    /// `ready`; returns which, and the cycle.
    #[inline(always)]
    pub fn start_on_any(&mut self, ports: PortSet, woken: u64, ready: u64) -> (u8, u64) {
        let own = ports.0 & self.unbound.ports.0;
        let at = ready.max(self.cycle + 1);
        if woken >= at
            && at < self.cycle + HORIZON
            && !self.queues.has(own.trailing_zeros() as u8)
            && let Some(port) = self.lowest_free(own, at)
        {
            self.book(port, at);
            return (port, at);
        }
        self.start_on_any_late(ports, woken, ready)
    }

    /// [`Ports::start_on_any`] in general.
    #[inline(never)]
    fn start_on_any_late(&mut self, ports: PortSet, woken: u64, ready: u64) -> (u8, u64) {
        let strict = self.unbound.oldest_first.meets(ports);
        let ports = ports.0 & self.unbound.ports.0;
        let lowest = ports.trailing_zeros() as u8;
        let first = self.first_scheduled(lowest).max(self.cycle + 1);
        let ready = ready.max(first);
        let end = self.cycle + HORIZON;
        if woken < ready && !strict {
            let woken = woken.max(first);
            let (at, port) = match self.lowest_free(ports, woken) {
                Some(port) => (woken, u32::from(port)),
                None => {
                    let (at, free) = self.free_of(ports, woken);
                    (at, free.trailing_zeros())
                }
            };
            if at < ready.min(end) {
                self.take(at, port);
            }
        }
        if let Some(port) = self.lowest_free(ports, ready).filter(|_| ready < end) {
            self.book(port, ready);
            return (port, ready);
        }
        let (mut at, mut free) = self.free_of(ports, ready);
        if at > ready && !strict {
            let u = &mut self.unbound;
            u.passed = (u.passed + STEP) % u.disorder;
            let mut rest = u.passed;
            while rest >= free.count_ones() && at < end {
                rest -= free.count_ones();
                (at, free) = self.free_of(ports, at + 1);
            }
        }
        if at >= end {
            let at = self.behind_window(lowest, lowest, at.max(ready));
            return (lowest, at);
        }
        let port = free.trailing_zeros() as u8;
        self.book(port, at);
        (port, at)
    }

    /// The same of one that is ready at `ready` and may start only on the first ones of its ports before `until`.
    pub fn start_ahead(
        &mut self,
        (few, all): (PortSet, PortSet),
        ready: u64,
        until: u64,
    ) -> (u8, u64) {
        let few = PortSet(few.0 & all.0);
        let first = ready.max(self.cycle + 1);
        match self.free_of(few.0, first).0 < until {
            true => self.start_on_any(few, ready, ready),
            false => self.start_on_any(all, until, until),
        }
    }

    /// Nothing else may start on a port in a cycle.
    pub(super) fn take(&mut self, at: u64, port: u32) {
        let place = (at & MASK) as usize;
        self.slots[place].in_vain |= 1 << port;
        self.busy[place / 64][port as usize & PORT_MASK] |= 1 << (at & 63);
    }

    /// Those of unbound `ports` that are free in a cycle of the calendar: nothing takes them but what
    /// starts there and what [`Ports::take`] does.
    #[inline(always)]
    fn free_in(&self, ports: u32, at: u64) -> u32 {
        let slot = &self.slots[(at & MASK) as usize];
        ports & !(slot.ports | slot.in_vain)
    }

    /// The lowest of `ports` that is free in a cycle of the calendar.
    #[inline(always)]
    fn lowest_free(&self, ports: u32, at: u64) -> Option<u8> {
        let free = self.free_in(ports, at);
        (free != 0).then_some(free.trailing_zeros() as u8)
    }

    /// The first cycle at or after `at` in which some of `ports` are free, and which; the end of the
    /// calendar when there is none.
    #[inline]
    fn free_of(&self, ports: u32, mut at: u64) -> (u64, u32) {
        let end = self.cycle + HORIZON;
        while at < end {
            let busy = &self.busy[(at & MASK) as usize / 64];
            let mut all = u64::MAX;
            for port in PortSet(ports).iter() {
                all &= busy[usize::from(port) & PORT_MASK];
            }
            let free = !all >> (at & 63);
            if free != 0 {
                at += u64::from(free.trailing_zeros());
                return (at, self.free_in(ports, at));
            }
            at = (at | 63) + 1;
        }
        (end, ports)
    }
}

impl Part for Unbound {
    fn reset(&mut self, _: &Moment) {
        self.passed = 0;
    }

    fn fingerprint(&self, _: &Moment, h: &mut Fingerprint) {
        let Self {
            ports: _,
            oldest_first: _,
            disorder: _,
            passed,
        } = self;
        h.add(u64::from(*passed));
    }
}
