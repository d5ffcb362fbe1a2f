//! Core cycles: from a performance counter, or from the time-stamp counter over the core clock.
//!
//! Where the kernel or the hypervisor gives no counter, the core clock is found by timing a chain
//! of dependent multiplications, whose latency is three cycles on every x86-64 core since Nehalem
//! and Zen (uops.info; Fog, *Instruction tables*); a chain of exclusive-ors of one cycle each,
//! timed beside it, checks that. A core changes its clock, so a rate holds for as long as it is
//! found again afterwards: [`Rate::drift`].

mod affinity;
mod chain;
mod counter;
mod course;

use std::fmt;
use std::time::Duration;

pub use affinity::{AffinityError, Cpu, pin, pinned};
pub use counter::{CounterError, Scope, UserCycles};
pub use course::Course;

/// Chains timed for one [`Rate`].
const SAMPLES: usize = 31;
/// The largest deviation of the two chains' ratio from three that is noise.
const CROSS_CHECK: f64 = 0.01;

/// Where core cycles come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// The CPU's counter of cycles, user mode only.
    Counter,
    /// The time-stamp counter over the core clock.
    TimeStamp,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Counter => "performance counter",
            Self::TimeStamp => "time-stamp counter over the core clock",
        })
    }
}

/// The core clock as it was for a moment.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Rate {
    /// Core cycles per tick of the time-stamp counter, the median of repeated chains.
    pub cycles_per_tick: f64,
    /// Interquartile range of these, over the median.
    pub spread: f64,
    /// Latency of the multiplication in units of the exclusive-or's: three, or the clock means
    /// nothing on this CPU.
    pub check: f64,
}

impl Rate {
    /// Times the chains on the core that the thread runs on: about a millisecond.
    #[must_use]
    pub fn measure() -> Self {
        let mut rates = [0.0; SAMPLES];
        for rate in &mut rates {
            *rate = chain::multiplications();
        }
        let mut ones = [0.0; SAMPLES];
        for rate in &mut ones {
            *rate = chain::exclusive_ors();
        }
        let spread = Quartiles::of(&mut rates);
        let one = Quartiles::of(&mut ones);
        Self {
            cycles_per_tick: spread.median,
            spread: spread.relative(),
            check: 3.0 * one.median / spread.median,
        }
    }

    /// By how much the clock of two moments differs, relative.
    #[must_use]
    pub fn drift(&self, later: &Self) -> f64 {
        (later.cycles_per_tick / self.cycles_per_tick - 1.0).abs()
    }

    /// Whether both chains have the latencies that they are known for.
    #[must_use]
    pub fn plausible(&self) -> bool {
        (self.check / 3.0 - 1.0).abs() <= CROSS_CHECK
    }

    /// Core cycles in `ticks` of the time-stamp counter.
    #[must_use]
    pub fn cycles(&self, ticks: f64) -> f64 {
        ticks * self.cycles_per_tick
    }
}

/// Core cycles per tick of the time-stamp counter, from one chain: about ten microseconds, right to
/// half a per cent.
#[must_use]
pub fn cycles_per_tick() -> f64 {
    chain::multiplications()
}

/// How full the core of this thread is: the time that independent instructions take, by that of dependent ones. Only by what it is
/// at its least does it say something ([`crate::command`]); about a microsecond.
#[must_use]
pub fn fullness() -> f64 {
    chain::fullness()
}

/// The time-stamp counter of this thread's core.
#[must_use]
pub fn ticks() -> u64 {
    chain::ticks()
}

/// Ticks of the time-stamp counter per second, timed against the system's clock for `over`.
///
/// Ten milliseconds give about five digits.
#[must_use]
pub fn ticks_per_second(over: Duration) -> f64 {
    let (started, first) = (std::time::Instant::now(), ticks());
    std::thread::sleep(over);
    let (elapsed, last) = (started.elapsed(), ticks());
    last.wrapping_sub(first) as f64 / elapsed.as_secs_f64().max(1e-9)
}

/// Median and quartiles of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Quartiles {
    /// A quarter of the values is below.
    pub low: f64,
    /// Half of them.
    pub median: f64,
    /// Three quarters of them.
    pub high: f64,
}

impl Quartiles {
    /// Of these values, which get sorted; all zero when there are none.
    #[must_use]
    pub fn of(values: &mut [f64]) -> Self {
        values.sort_unstable_by(f64::total_cmp);
        let at = |quarter: f64| {
            let place = quarter * values.len().saturating_sub(1) as f64;
            let below = values.get(place.floor() as usize).copied();
            let above = values.get(place.ceil() as usize).copied();
            match (below, above) {
                (Some(below), Some(above)) => below + (above - below) * place.fract(),
                _ => 0.0,
            }
        };
        Self {
            low: at(0.25),
            median: at(0.5),
            high: at(0.75),
        }
    }

    /// The interquartile range over the median; zero when that is zero.
    #[must_use]
    pub fn relative(&self) -> f64 {
        if self.median == 0.0 {
            0.0
        } else {
            (self.high - self.low) / self.median
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_interpolated() {
        let quartiles = Quartiles::of(&mut [4.0, 1.0, 3.0, 2.0, 5.0]);
        let expected = Quartiles {
            low: 2.0,
            median: 3.0,
            high: 4.0,
        };
        assert_eq!(quartiles, expected);
        assert!((quartiles.relative() - 2.0 / 3.0).abs() < 1e-12);
        assert_eq!(Quartiles::of(&mut [1.0, 2.0]).median, 1.5);
        assert_eq!(Quartiles::of(&mut []), Quartiles::default());
        assert_eq!(Quartiles::default().relative(), 0.0);
    }

    #[test]
    fn drift_is_relative_and_has_no_sign() {
        let rate = |cycles_per_tick| Rate {
            cycles_per_tick,
            spread: 0.0,
            check: 3.0,
        };
        assert!((rate(2.0).drift(&rate(1.9)) - 0.05).abs() < 1e-12);
        assert!((rate(2.0).drift(&rate(2.1)) - 0.05).abs() < 1e-12);
        assert!(rate(1.0).plausible());
        let wrong = Rate {
            check: 2.0,
            ..rate(1.0)
        };
        assert!(!wrong.plausible());
        assert_eq!(rate(1.5).cycles(200.0), 300.0);
    }
}
