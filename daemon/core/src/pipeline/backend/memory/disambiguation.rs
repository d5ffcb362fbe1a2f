//! Memory disambiguation: which loads go ahead of older stores whose addresses are not known yet.
//!
//! A load that goes ahead and turns out to need such a store begins anew, with all that is behind it, once the address is
//! there; from then on it waits for the addresses of all older stores, until it has met none in its way so many times in a
//! row (Doweck, "Inside Intel Core Microarchitecture and Smart Memory Access", 2006; docs/ZEN4.md has the experiments).
//! Stores' addresses come in program order here, so the last of them to be known is one number.

use crate::pipeline::fold::Folding;
use crate::pipeline::state::{Fingerprint, Moment, Part};
use mcad_isa::machine::params::Disambiguation as Parameters;

/// Of what is remembered of a load: that it may have been learnt to have its data from a store's register.
const LEARNT: u8 = 1 << 7;

/// What a load does about older stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// It starts when it can.
    Ahead,
    /// It starts in this cycle, when all addresses have been known for long enough.
    Waits(u64),
    /// It had gone ahead in vain: it issues anew in this cycle, and what is behind it no sooner.
    Restarts(u64),
}

/// The predictor.
pub struct Disambiguation {
    p: Parameters,
    /// Of each load how many times it still waits, and whether it is [`LEARNT`]; empty where it is not modelled.
    waits: Box<[u8]>,
    /// When all addresses of stores so far are known.
    known: u64,
    /// When all were begun to be made.
    started: u64,
}

impl Disambiguation {
    /// Before the first load; without parameters loads always know what to do.
    #[must_use]
    pub fn new(p: Option<Parameters>) -> Self {
        let p = p.unwrap_or_default();
        Self {
            waits: vec![0; p.loads as usize].into(),
            p,
            known: 0,
            started: 0,
        }
    }

    /// Whether loads do not always know what to do.
    #[inline]
    #[must_use]
    pub fn is_modelled(&self) -> bool {
        !self.waits.is_empty()
    }

    /// Cycles from when a load turns out to have gone ahead in vain to when it issues anew.
    #[must_use]
    pub fn restart(&self) -> u64 {
        self.p.restart
    }

    /// When a load has its data, at the soonest, that starts in cycle `at` and needs a store whose address it does not know yet.
    #[must_use]
    pub fn again(&self, at: u64) -> u64 {
        at + self.p.again
    }

    /// A store's address is known in cycle `at`, which was begun to be made in cycle `started`.
    #[inline]
    pub fn store(&mut self, at: u64, started: u64) {
        self.known = self.known.max(at);
        self.started = self.started.max(started);
    }

    /// Cycle in which all addresses of older stores were begun to be made.
    #[inline]
    #[must_use]
    pub fn started(&self) -> u64 {
        self.started
    }

    /// The load at `pc` could start in cycle `at`, and no store has its bytes that has not been written.
    #[inline]
    pub fn load(&mut self, pc: u64, at: u64) -> Way {
        self.goes(pc, at, None, self.known)
    }

    /// The same of one whose bytes such a store has, whose address is known in cycle `known`; `between`: when those of all stores
    /// between it and the load are, its own among them.
    #[inline]
    pub fn load_behind(&mut self, pc: u64, at: u64, known: u64, between: impl Fn() -> u64) -> Way {
        let waits_for = match self.p.between_alone && self.of(pc).is_some_and(|w| *w & !LEARNT > 0)
        {
            true => between(),
            false => self.known,
        };
        self.goes(pc, at, Some(known), waits_for)
    }

    #[inline]
    fn goes(&mut self, pc: u64, at: u64, needs: Option<u64>, waits_for: u64) -> Way {
        let p = self.p;
        let Some(waits) = self.of(pc) else {
            return Way::Ahead;
        };
        let meets = needs.filter(|known| *known > at + p.early);
        let (left, learnt) = (*waits & !LEARNT, *waits & LEARNT);
        match (left, meets) {
            (0, None) => Way::Ahead,
            (0, Some(known)) => {
                *waits = p.waits | learnt;
                Way::Restarts(known + p.restart)
            }
            (_, meets) => {
                let left = match meets {
                    Some(_) => p.waits,
                    None => left - 1,
                };
                *waits = left | learnt;
                match waits_for > at {
                    true => Way::Waits(waits_for + p.delay),
                    false => Way::Ahead,
                }
            }
        }
    }

    /// The load at `pc` met a store from whose register it may have its data from now on.
    #[inline]
    pub fn learns(&mut self, pc: u64) {
        if let Some(waits) = self.of(pc) {
            *waits |= LEARNT;
        }
    }

    /// The load at `pc` met no store; whether it may have been learnt to meet one, which is forgotten.
    #[inline]
    pub fn met_none(&mut self, pc: u64) -> bool {
        let Some(waits) = self.of(pc).filter(|waits| **waits & LEARNT != 0) else {
            return false;
        };
        *waits &= !LEARNT;
        true
    }

    /// What is remembered of the load at `pc`.
    #[inline]
    fn of(&mut self, pc: u64) -> Option<&mut u8> {
        let place = (pc as usize) & self.waits.len().wrapping_sub(1);
        self.waits.get_mut(place)
    }
}

impl Part for Disambiguation {
    fn fold(&mut self, folding: &mut Folding) {
        folding.table(&mut self.waits, 0);
    }

    fn reset(&mut self, _: &Moment) {
        let Self {
            p: _,
            waits,
            known,
            started,
        } = self;
        waits.fill(0);
        (*known, *started) = (0, 0);
    }

    /// Single blocks, whose states are compared, know all addresses.
    fn fingerprint(&self, at: &Moment, h: &mut Fingerprint) {
        let Self {
            p: _,
            waits: _,
            known,
            started,
        } = self;
        h.add_future(*known, at.issue);
        h.add_future(*started, at.issue);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn predictor() -> Disambiguation {
        Disambiguation::new(Some(Parameters {
            loads: 64,
            waits: 3,
            renamed_after: 1,
            delay: 10,
            restart: 20,
            ..Parameters::default()
        }))
    }

    #[test]
    fn a_load_waits_for_all_addresses_until_it_met_none_so_many_times() {
        let mut d = predictor();
        d.store(50, 50);
        assert_eq!(d.load(7, 40), Way::Ahead);
        assert_eq!(d.load_behind(7, 40, 50, || 50), Way::Restarts(70));
        d.store(60, 60);
        for _ in 0..3 {
            assert_eq!(d.load(7, 40), Way::Waits(70));
        }
        assert_eq!(d.load(7, 40), Way::Ahead);
        // Another load never met one.
        assert_eq!(d.load(8, 40), Way::Ahead);
    }

    #[test]
    fn one_that_waits_and_meets_a_store_goes_on_to_wait() {
        let mut d = predictor();
        d.store(50, 50);
        assert_eq!(d.load_behind(7, 40, 50, || 50), Way::Restarts(70));
        for _ in 0..10 {
            assert_eq!(d.load_behind(7, 40, 50, || 50), Way::Waits(60));
        }
    }

    #[test]
    fn one_that_waits_need_not_know_stores_before_the_one_that_it_meets() {
        for (between_alone, starts) in [(false, 70), (true, 65)] {
            let mut d = predictor();
            d.p.between_alone = between_alone;
            d.store(50, 50);
            assert_eq!(d.load_behind(7, 40, 50, || 50), Way::Restarts(70));
            d.store(60, 60);
            assert_eq!(d.load_behind(7, 40, 50, || 55), Way::Waits(starts));
        }
    }

    #[test]
    fn addresses_that_are_known_hold_nobody_up() {
        let mut d = predictor();
        d.store(30, 30);
        assert_eq!(d.load_behind(7, 40, 30, || 30), Way::Ahead);
        assert_eq!(d.load_behind(7, 20, 30, || 30), Way::Restarts(50));
        assert_eq!(d.load(7, 40), Way::Ahead);
        assert_eq!(
            Disambiguation::new(None).load_behind(7, 20, 30, || 30),
            Way::Ahead
        );
    }
}
