//! Loads that rename gives the register of a store in whole programs: those that met one many times on end while fetch
//! was never sent elsewhere than it had gone.
//!
//! On Redwood Cove a chain of three cycles through memory takes three a turn in a loop whose branches are foreseen by the
//! quick predictor, and eight for as long as one of them is not taken every 16 or 32 turns;
//! three again from 128 on, and either for 64 (docs/REDWOOD-COVE.md, "Renaming in programs").

use crate::pipeline::fold::Folding;
use crate::pipeline::state::{Fingerprint, Moment, Part};

/// Loads that are known at once, by the lowest bits of their addresses: assumed.
const LOADS: usize = 1 << 12;

/// What a load that is renamed loses when fetch was sent elsewhere: assumed, so that it makes up for it in 128 turns and not in 16.
const LOST: u8 = 32;

/// Times that a load has met a store on end.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Load {
    address: u64,
    times: u8,
    /// Times that fetch had been sent elsewhere then.
    steered: u64,
}

/// The loads.
pub struct Steady {
    /// Times after which one is renamed; 0: all are.
    after: u8,
    loads: Box<[Load]>,
    steered: u64,
}

impl Steady {
    /// Of loads that are renamed after so many times.
    #[must_use]
    pub fn new(after: u8) -> Self {
        let loads = match after {
            0 => Box::default(),
            _ => vec![Load::default(); LOADS].into(),
        };
        Self {
            after,
            loads,
            steered: 0,
        }
    }

    /// Fetch has been sent elsewhere than it had gone so many times.
    #[inline]
    pub fn steered(&mut self, times: u64) {
        self.steered = times;
    }

    /// Whether the load at `address`, which meets a store, is renamed for that.
    #[inline]
    pub fn meets(&mut self, address: u64) -> bool {
        let Some(load) = self.loads.get_mut(address as usize % LOADS) else {
            return true;
        };
        let is_known = load.address == address;
        let times = match load.times {
            _ if !is_known => 0,
            times if load.steered == self.steered => times,
            times if times >= self.after => times.saturating_sub(LOST),
            _ => 0,
        };
        *load = Load {
            address,
            times: times.saturating_add(1),
            steered: self.steered,
        };
        times >= self.after
    }
}

impl Part for Steady {
    fn fold(&mut self, folding: &mut Folding) {
        folding.table(&mut self.loads, Load::default());
    }

    fn reset(&mut self, _: &Moment) {
        let Self {
            after: _,
            loads,
            steered,
        } = self;
        loads.fill(Load::default());
        *steered = 0;
    }

    /// Not where states are compared: all loads of single blocks are renamed.
    fn fingerprint(&self, _: &Moment, _: &mut Fingerprint) {
        let Self {
            after: _,
            loads: _,
            steered: _,
        } = self;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of so many turns, how many are renamed, where fetch is sent elsewhere in each `period`th.
    fn renamed(period: u64, turns: u64) -> usize {
        let mut steady = Steady::new(96);
        let of_turn = |turn: u64| {
            steady.steered(turn / period);
            steady.meets(0x1000)
        };
        (0..turns).map(of_turn).filter(|is| *is).count()
    }

    #[test]
    fn a_load_is_renamed_after_as_many_turns_on_end() {
        assert_eq!(renamed(1 << 20, 1000), 1000 - 96);
        for period in [1, 16, 64, 90] {
            assert_eq!(renamed(period, 10_000), 0, "{period}");
        }
        // And stays so.
        assert_eq!(renamed(128, 12_800), 12_800 - 96);
    }

    #[test]
    fn one_that_is_renamed_is_not_any_more_where_fetch_is_sent_elsewhere_often() {
        let mut steady = Steady::new(96);
        assert!((0..300).any(|_| steady.meets(0x1000)));
        let often = |turn: u64| {
            steady.steered(turn / 16);
            steady.meets(0x1000)
        };
        let last: Vec<bool> = (0..1600).map(often).skip(1500).collect();
        assert!(last.iter().all(|is| !is));
    }

    #[test]
    fn all_are_where_it_is_not_modelled() {
        assert!(Steady::new(0).meets(0x1000));
    }
}
