//! What of the processor time that a program is charged with is not the program's: interrupts, and what the host of a
//! virtual machine takes without the kernel's knowing.
//!
//! Chains of dependent instructions, each of some ten microseconds, take one time when nothing comes between. What they
//! are charged with beyond that is lost, as it is to a program that runs as long on the same CPU.

use rustix::time::{ClockId, clock_gettime};

use crate::clock::{Quartiles, cycles_per_tick, ticks};

/// Chains timed at once, some four milliseconds: as often as most kernels' timers tick.
const CHAINS: usize = 400;
/// How much longer than the median a chain may take into which nothing came.
const FREE: f64 = 1.02;

/// Processor time of chains, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Lost {
    charged: f64,
    lost: f64,
}

impl Lost {
    /// Times chains, on a machine with so many ticks a second.
    pub(super) fn measure(ticks_per_second: f64) -> Self {
        let mut chains = [0.0; CHAINS];
        let (charged, mut last) = (spent(), ticks());
        for chain in &mut chains {
            let _ = cycles_per_tick();
            let now = ticks();
            *chain = now.wrapping_sub(last) as f64;
            last = now;
        }
        Self::of(spent() - charged, &mut chains, ticks_per_second)
    }

    /// Of chains that took so many ticks each and were charged with so many seconds together.
    fn of(charged: f64, chains: &mut [f64], ticks_per_second: f64) -> Self {
        let most = FREE * Quartiles::of(chains).median;
        let free: Vec<f64> = chains.iter().copied().filter(|c| *c <= most).collect();
        let mean = free.iter().sum::<f64>() / free.len().max(1) as f64;
        Self {
            charged,
            lost: charged - mean * chains.len() as f64 / ticks_per_second,
        }
    }

    /// And those of another time.
    pub(super) fn add(&mut self, other: Self) {
        self.charged += other.charged;
        self.lost += other.lost;
    }

    /// Share of the time that is lost.
    pub(super) fn share(&self) -> f64 {
        (self.lost / self.charged.max(1e-9)).clamp(0.0, 1.0)
    }
}

/// Processor time of this thread in seconds.
pub(super) fn spent() -> f64 {
    super::seconds(clock_gettime(ClockId::ThreadCPUTime))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_chains_are_charged_with_beyond_their_time_is_lost() {
        // 100 chains of ten microseconds, of which two were interrupted for 50 each; the clock wanders by half a per cent.
        let mut chains: Vec<f64> = (0..100)
            .map(|n| 10_000.0 + f64::from(n % 2) * 50.0)
            .collect();
        chains[3] += 50_000.0;
        chains[60] += 50_000.0;
        let charged = chains.iter().sum::<f64>() / 1e9;
        let lost = Lost::of(charged, &mut chains, 1e9);
        assert!((lost.share() * charged - 100e-6).abs() < 1e-6, "{lost:?}");
        let mut twice = lost;
        twice.add(lost);
        assert!((twice.share() - lost.share()).abs() < 1e-12);
    }

    #[test]
    fn nothing_is_lost_of_nothing_and_never_less_than_nothing() {
        assert_eq!(Lost::default().share(), 0.0);
        assert_eq!(Lost::of(0.9e-3, &mut [1e4; 100], 1e9).share(), 0.0);
    }

    #[test]
    fn most_of_the_time_here_is_the_programs() {
        let share = Lost::measure(crate::clock::ticks_per_second(super::super::COMPARED)).share();
        assert!(share < 0.5, "{share}");
    }
}
