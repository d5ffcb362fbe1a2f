//! How far a command's cycles are known: the interval that is true, whatever was hoped for.
//!
//! Three things are uncertain, and independent of each other: the median of the runs, of which the
//! order statistics give an interval without any assumption on their distribution but that the runs
//! are alike (David and Nagaraja, *Order Statistics*, 7.1); the share of user time, where it is found
//! by samples or the kernel's timer ticks, each of which hits user or kernel time (Wilson's score interval, which
//! holds for a handful of them and for shares of 0 and 1); and the clock. Deviations on each side
//! are added in quadrature. Runs under a load that comes and goes are not alike: then the medians of
//! the first and the second half are kept inside, too.

use crate::clock::Quartiles;

/// What intervals are asked to hold.
const LEVEL: f64 = 0.95;
/// Standard deviations of the normal distribution for [`LEVEL`].
const DEVIATIONS: f64 = 1.96;
/// Half-width of an interval, over its middle, that is good enough to end with.
pub const CLAIMED: f64 = 0.02;
/// Fewest runs whose halves say something.
const HALVES: usize = 8;

/// Where a command's cycles are, and with what probability.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Probability that the median of endless runs is inside, as far as runs are alike; below 0.95
    /// with fewer than six runs.
    pub level: f64,
    /// What makes most of its width.
    pub mostly: Doubt,
}

/// What makes a figure uncertain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Doubt {
    /// The runs differ.
    #[default]
    Runs,
    /// Timer ticks found the share of user time, and there were few.
    Ticks,
    /// Samples found it, and there were few.
    Samples,
    /// The core clock.
    Clock,
}

/// How the share of user time was found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Division {
    /// Share of user time.
    pub share: f64,
    /// Ticks that the processor time of all runs had, or samples.
    pub count: f64,
    /// Which of the two.
    pub by: Doubt,
}

impl Division {
    /// Wilson's score interval of the share.
    pub(super) fn interval(self) -> (f64, f64) {
        let (n, p) = (self.count, self.share.clamp(0.0, 1.0));
        if n <= 0.0 {
            return (0.0, 1.0);
        }
        let z2 = DEVIATIONS * DEVIATIONS;
        let middle = (p + z2 / (2.0 * n)) / (1.0 + z2 / n);
        let half = DEVIATIONS / (1.0 + z2 / n) * (p * (1.0 - p) / n + z2 / (4.0 * n * n)).sqrt();
        // Rounding must not push an end past the share itself.
        ((middle - half).clamp(0.0, p), (middle + half).clamp(p, 1.0))
    }
}

impl Interval {
    /// Of runs in the order in which they were made: user cycles where those were counted, else the
    /// cycles of all processor time with what divides it, and the clock's relative error.
    pub(super) fn of(runs: &[f64], division: Option<Division>, clock: f64) -> Self {
        let mut sorted = runs.to_vec();
        let whole = Quartiles::of(&mut sorted).median;
        let (mut low, mut high, level) = of_median(&sorted);
        if runs.len() >= HALVES {
            let (first, second) = runs.split_at(runs.len() / 2);
            for half in [first, second] {
                let half = Quartiles::of(&mut half.to_vec()).median;
                (low, high) = (low.min(half), high.max(half));
            }
        }
        let share = division.map_or(1.0, |division| division.share);
        let (least, most) = division.map_or((1.0, 1.0), Division::interval);
        let median = whole * share;
        let by_runs = (median - low * share, high * share - median);
        let by_share = (whole * (share - least), whole * (most - share));
        let by_clock = division.map_or(0.0, |_| median * clock);
        let sum = |a: f64, b: f64| (a * a + b * b + by_clock * by_clock).sqrt();
        let mut mostly = (by_runs.0.max(by_runs.1), Doubt::Runs);
        for other in [
            (
                by_share.0.max(by_share.1),
                division.map_or(Doubt::Ticks, |division| division.by),
            ),
            (by_clock, Doubt::Clock),
        ] {
            if other.0 > mostly.0 {
                mostly = other;
            }
        }
        Self {
            low: (median - sum(by_runs.0, by_share.0)).max(0.0),
            high: median + sum(by_runs.1, by_share.1),
            level,
            mostly: mostly.1,
        }
    }

    /// Whether a figure is known as well as is claimed: with 95 %, [`CLAIMED`] to both sides.
    #[must_use]
    pub fn holds(&self, figure: f64) -> bool {
        let most = CLAIMED * figure;
        self.level >= LEVEL && figure - self.low <= most && self.high - figure <= most
    }
}

/// The narrowest interval of sorted values' order statistics, alike far from both ends, that holds
/// the median with [`LEVEL`]; all of them where there are too few. With its true level.
pub(super) fn of_median(sorted: &[f64]) -> (f64, f64, f64) {
    let (Some(&first), Some(&last)) = (sorted.first(), sorted.last()) else {
        return (0.0, 0.0, 0.0);
    };
    let n = sorted.len();
    // Probability that fewer than `rank` of n lie below the median, from the binomial distribution:
    // each does with one half. In logarithms, since halves to the n vanish.
    let mut term = -(n as f64) * std::f64::consts::LN_2;
    let mut below = 0.0;
    let mut best = (first, last, 0.0);
    for rank in 0..n.div_ceil(2) {
        below += term.exp();
        let level = 1.0 - 2.0 * below;
        if rank > 0 && level < LEVEL {
            break;
        }
        let at = |place: usize| sorted.get(place).copied().unwrap_or(last);
        best = (at(rank), at(n - 1 - rank), level.max(0.0));
        term += ((n - rank) as f64 / (rank + 1) as f64).ln();
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_those_of_the_binomial_distribution() {
        let values: Vec<f64> = (1..=20).map(f64::from).collect();
        // Published: ranks 6 and 15 of 20 hold the median with 95.86 %, 2 and 9 of 10 with 97.85 %.
        let (low, high, level) = of_median(&values);
        assert_eq!((low, high), (6.0, 15.0));
        assert!((level - 0.9586).abs() < 1e-4, "{level}");
        let (low, high, level) = of_median(&values[..10]);
        assert_eq!((low, high), (2.0, 9.0));
        assert!((level - 0.9785).abs() < 1e-4, "{level}");
        // Two runs have it between them every other time; one says nothing.
        assert_eq!(of_median(&values[..2]), (1.0, 2.0, 0.5));
        assert_eq!(of_median(&values[..1]), (1.0, 1.0, 0.0));
        assert_eq!(of_median(&[]), (0.0, 0.0, 0.0));
        let (_, _, level) = of_median(&vec![1.0; 5000]);
        assert!((LEVEL..0.97).contains(&level), "{level}");
    }

    /// The interval holds the truth as often as it says, with few ticks too: what a short program
    /// under load is measured by. Pseudo-random with a fixed seed, so it cannot fail by chance.
    #[test]
    fn the_interval_holds_as_often_as_it_says() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        for (count, share) in [(5, 0.7), (20, 0.7), (200, 0.9), (20, 0.98)] {
            const TRIED: usize = 2000;
            let mut held = 0;
            for _ in 0..TRIED {
                let hits = (0..count).filter(|_| random() < share).count();
                let found = Division {
                    share: hits as f64 / f64::from(count),
                    count: f64::from(count),
                    by: Doubt::Ticks,
                };
                // Runs differ by up to 5 % to both sides of a million cycles of processor time.
                let runs: Vec<f64> = (0..10).map(|_| 1e6 * (0.95 + 0.1 * random())).collect();
                let interval = Interval::of(&runs, Some(found), 0.0);
                held += usize::from((interval.low..=interval.high).contains(&(1e6 * share)));
            }
            let held = held as f64 / TRIED as f64;
            assert!(held >= 0.93, "{count} ticks at {share}: {held}");
        }
    }

    #[test]
    fn a_few_ticks_say_little_though_all_agree() {
        let few = Division {
            share: 1.0,
            count: 3.0,
            by: Doubt::Ticks,
        };
        let runs = [1e6; 10];
        let interval = Interval::of(&runs, Some(few), 0.001);
        assert!(interval.low < 0.5e6, "{interval:?}");
        assert_eq!(interval.mostly, Doubt::Ticks);
        assert!(!interval.holds(1e6));
        // A counter asks no tick.
        let interval = Interval::of(&runs, None, 0.001);
        assert_eq!((interval.low, interval.high), (1e6, 1e6));
        assert!(interval.holds(1e6));
        assert_eq!(few.interval().1, 1.0);
        // What no tick has hit is unknown, not nothing.
        let none = Division {
            share: 0.0,
            count: 2.0,
            by: Doubt::Ticks,
        };
        let interval = Interval::of(&runs, Some(none), 0.001);
        assert!(interval.low == 0.0 && interval.high > 0.5e6, "{interval:?}");
        assert_eq!(Division { count: 0.0, ..none }.interval(), (0.0, 1.0));
    }

    #[test]
    fn a_load_that_comes_in_between_widens_it() {
        let mut runs = vec![1.0e6; 14];
        runs.extend([2.0e6; 16]);
        let steady = Interval::of(&[1.5e6; 30], None, 0.0);
        let interval = Interval::of(&runs, None, 0.0);
        assert!(steady.holds(1.5e6) && !interval.holds(2.0e6));
        assert!(
            interval.low <= 1.0e6 && interval.high >= 2.0e6,
            "{interval:?}"
        );
        assert_eq!(interval.mostly, Doubt::Runs);
    }
}
