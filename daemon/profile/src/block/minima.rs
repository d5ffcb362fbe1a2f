//! The figure of a loop from rounds of its two codes: the least that several rounds agree on, since
//! neighbours and the way a loop begins only slow it down. All in core cycles.

use super::Measured;
use crate::clock::Quartiles;

/// Rounds of a loop at most, and how many of them are to agree on the least cycles, within which share.
pub const MAX_LOOP_ROUNDS: usize = 30;
const CONFIRMATIONS: usize = 3;
const CONFIRMED: f64 = 0.005;
/// Cycles around a loop that do not depend on its iterations, at most.
const AROUND: f64 = 300.0;

/// Cycles that each of the two codes of a loop took at least, by round, where the clock was steady.
#[derive(Clone, Debug, Default)]
pub struct Minima {
    short: Vec<f64>,
    long: Vec<f64>,
}

/// The least figure that several rounds agree on, in the middle of theirs: a single one may come from a
/// clock that was off in that round.
fn confirmed(figures: &[f64]) -> Option<f64> {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let agree = |of: &&[f64]| match of {
        [least, .., most] => most / least <= 1.0 + CONFIRMED,
        _ => false,
    };
    let found = sorted.windows(CONFIRMATIONS).find(agree)?;
    found.get(CONFIRMATIONS / 2).copied()
}

impl Minima {
    pub fn add(&mut self, short: f64, long: f64) {
        self.short.push(short);
        self.long.push(long);
    }

    /// Rounds so far.
    pub fn rounds(&self) -> usize {
        self.short.len()
    }

    /// Whether several rounds found both.
    pub fn are_confirmed(&self) -> bool {
        confirmed(&self.short).is_some() && confirmed(&self.long).is_some()
    }

    /// Those of the shorter and of the longer code.
    fn both(&self) -> Option<(f64, f64)> {
        let least = |figures: &[f64]| {
            let median = || Some(Quartiles::of(&mut figures.to_vec()).median);
            confirmed(figures).or_else(median).filter(|f| *f > 0.0)
        };
        Some((least(&self.short)?, least(&self.long)?))
    }

    /// The figure of loops that differ by so many iterations, free of what is around them. Where only one
    /// of the two ran at its full rate, or for a part of its time, it is that one's.
    pub fn difference(&self, iterations: f64, drifted: usize) -> Option<Measured> {
        let (short, long) = self.both()?;
        let around = (2.0 * short - long).clamp(0.0, AROUND);
        let cycles = (short - around).min((long - around) / 2.0) / iterations;
        (cycles > 0.0).then_some(Measured {
            cycles,
            spread: (2.0 * short - long - around).abs() / iterations,
            rounds: self.short.len(),
            drifted,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A figure of two codes in three rounds, of which so many take this many times as long.
    fn of_loops(short: [f64; 3], long: [f64; 3]) -> f64 {
        let (around, cycles) = (80.0, 10_000.0);
        let mut minima = Minima::default();
        for (short, long) in short.into_iter().zip(long) {
            minima.add(around + cycles * short, around + 2.0 * cycles * long);
        }
        minima.difference(10_000.0, 0).unwrap().cycles
    }

    #[test]
    fn the_code_that_ran_at_its_full_rate_counts() {
        assert_eq!(of_loops([1.0; 3], [1.0; 3]), 1.0);
        assert_eq!(of_loops([1.0, 1.1, 1.0], [1.0, 1.0, 4.0]), 1.0);
        // The difference would be two thirds of the truth, or a tenth too much.
        assert!((of_loops([4.0 / 3.0; 3], [1.0; 3]) - 1.0).abs() < 0.012);
        assert!((of_loops([1.0; 3], [1.05; 3]) - 1.0).abs() < 0.012);
    }

    #[test]
    fn a_figure_that_one_round_alone_has_is_not_the_least() {
        assert_eq!(confirmed(&[0.5, 1.0, 1.001, 1.002, 1.3]), Some(1.001));
        assert_eq!(confirmed(&[0.5, 1.0, 1.5]), None);
        let mut minima = Minima::default();
        assert!(!minima.are_confirmed() && minima.difference(1.0, 0).is_none());
        for short in [9.0, 10.0, 10.01, 10.02] {
            minima.add(short, 20.0);
        }
        assert!(minima.are_confirmed());
    }
}
