//! How slow memory is while a command runs, and what that does to it.
//!
//! Caches of the last level and memory are shared with all that runs on the machine, other guests
//! of a virtual one included. What a load takes that misses the core's own caches therefore
//! changes, and with it the cycles of programs that make such loads.

use memmap2::{Advice, MmapMut};

use crate::clock::{Quartiles, ticks};

/// Size of a cache line and of a pointer.
const LINE: usize = 64;
const WORD: usize = 8;
/// Lines of the area: 64 MiB, so that they are no longer in the core's caches when their turn comes
/// again.
const LINES: usize = 1 << 20;
/// Loads of one moment.
const LOADS: u32 = 8;
/// Factor and summand of a full-period congruential sequence modulo [`LINES`] (Hull and Dobell,
/// 1962: the factor is one more than a multiple of four, the summand odd).
const FACTOR: usize = 0x9_e375;
const SUMMAND: usize = 0x5_1ed3;

/// A chain of loads through memory, in an order that no prefetcher follows.
#[derive(Debug)]
pub(super) struct PointerChase {
    area: MmapMut,
    line: usize,
}

impl PointerChase {
    /// Sets the area up; none where there is no memory for it.
    pub(super) fn new() -> Option<Self> {
        let mut area = MmapMut::map_anon(LINES * LINE).ok()?;
        // Else each command would begin with a copy of its page table.
        area.advise(Advice::DontFork).ok()?;
        for (line, place) in area.chunks_exact_mut(LINE).enumerate() {
            let word = place.first_chunk_mut::<WORD>()?;
            *word = following(line).to_ne_bytes();
        }
        Some(Self { area, line: 0 })
    }

    /// Ticks of the time-stamp counter that one load takes now.
    pub(super) fn load(&mut self) -> f64 {
        let (started, mut line) = (ticks(), self.line);
        for _ in 0..LOADS {
            let word = self.area.get(line * LINE..).and_then(<[u8]>::first_chunk);
            line = word.map_or(0, |word| usize::from_ne_bytes(*word));
        }
        self.line = std::hint::black_box(line);
        ticks().wrapping_sub(started) as f64 / f64::from(LOADS)
    }
}

fn following(line: usize) -> usize {
    (line.wrapping_mul(FACTOR).wrapping_add(SUMMAND)) % LINES
}

/// What memory had to do with the differences between runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Memory {
    /// Nanoseconds that a load from memory took, one that no other could overlap, the page walk
    /// included: quartiles over the runs.
    pub load_ns: Quartiles,
    /// Rank correlation (Spearman's) of that and the run's cycles.
    pub correlation: f64,
    /// Interquartile range over the median that is left when the cycles of each run are moved along
    /// the line through all (Theil and Sen's) to the median load.
    pub spread_at_median: f64,
}

impl Memory {
    /// From the load and the cycles of each run; none of fewer than three.
    pub(super) fn of(runs: &[(f64, f64)]) -> Option<Self> {
        if runs.len() < 3 {
            return None;
        }
        let load_ns = Quartiles::of(&mut runs.iter().map(|run| run.0).collect::<Vec<_>>());
        let slope = slope(runs);
        let moved = runs.iter().map(|(l, c)| c - slope * (l - load_ns.median));
        let loads: Vec<f64> = runs.iter().map(|run| run.0).collect();
        let cycles: Vec<f64> = runs.iter().map(|run| run.1).collect();
        Some(Self {
            load_ns,
            correlation: correlation(&ranks(&loads), &ranks(&cycles)),
            spread_at_median: Quartiles::of(&mut moved.collect::<Vec<_>>()).relative(),
        })
    }
}

/// Median of the slopes between all pairs.
fn slope(points: &[(f64, f64)]) -> f64 {
    let pairs = points
        .iter()
        .enumerate()
        .flat_map(|(n, a)| points.iter().skip(n + 1).map(move |b| (a, b)));
    let slopes = pairs
        .filter(|(a, b)| a.0 != b.0)
        .map(|(a, b)| (b.1 - a.1) / (b.0 - a.0));
    Quartiles::of(&mut slopes.collect::<Vec<_>>()).median
}

/// Place of each value in order; equal ones share theirs.
fn ranks(values: &[f64]) -> Vec<f64> {
    let rank = |value: &f64| {
        let below = values.iter().filter(|v| *v < value).count();
        let same = values.iter().filter(|v| *v == value).count();
        below as f64 + (same as f64 - 1.0) / 2.0
    };
    values.iter().map(rank).collect()
}

fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let (mean_a, mean_b) = (mean(a), mean(b));
    let sum = |of: &dyn Fn(f64, f64) -> f64| -> f64 {
        a.iter()
            .zip(b)
            .map(|(a, b)| of(a - mean_a, b - mean_b))
            .sum()
    };
    let scale = (sum(&|a, _| a * a) * sum(&|_, b| b * b)).sqrt();
    if scale == 0.0 {
        0.0
    } else {
        sum(&|a, b| a * b) / scale
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_goes_through_every_line() {
        let (mut line, mut steps) = (0, 0);
        loop {
            line = following(line);
            steps += 1;
            if line == 0 {
                break;
            }
        }
        assert_eq!(steps, LINES);
        let mut chase = PointerChase::new().unwrap();
        assert!(chase.load() > 0.0 && chase.line != 0);
    }

    #[test]
    fn what_follows_memory_is_told_from_what_does_not() {
        let following: Vec<_> = (0..30)
            .map(|n| (100.0 + f64::from(n), 1e6 + 1e4 * f64::from(n)))
            .collect();
        let memory = Memory::of(&following).unwrap();
        assert!((memory.correlation - 1.0).abs() < 1e-12);
        assert!(memory.spread_at_median < 1e-12);
        // Taking turns.
        let turns: Vec<_> = (0..30)
            .map(|n| (100.0 + f64::from(n), 1e6 + 1e4 * f64::from(n % 2)))
            .collect();
        let memory = Memory::of(&turns).unwrap();
        assert!(memory.correlation.abs() < 0.2);
        assert!(memory.spread_at_median > 0.005);
        assert_eq!(Memory::of(&turns[..2]), None);
    }
}
