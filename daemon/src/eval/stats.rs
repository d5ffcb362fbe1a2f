//! Error measures: mean absolute percentage error, median, Kendall's τ-b, shares within bounds.

use serde::Serialize;

use super::Pair;

/// Differences up to this many cycles count as within every bound: files have two decimals.
pub const ROUNDING: f64 = 0.005;

/// How far apart labels are, as a fraction of the smaller, whose order a measurement can tell: two
/// measurements of a block agree within 2 % in all shared data.
pub const APART: f64 = 0.02;

/// Measures of a set of blocks. Errors are relative to the label: 0.01 is 1 %.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Measures {
    /// Blocks.
    pub blocks: usize,
    /// Blocks without a prediction.
    pub missing: usize,
    /// Mean absolute percentage error, as a fraction.
    pub mape: f64,
    /// Median error.
    pub median: f64,
    /// Kendall's τ-b of predictions and labels; 0 when one of them is constant.
    pub tau: f64,
    /// The same over the pairs whose labels differ by more than [`APART`]: the order of labels that
    /// are nearer to each other than they are to themselves measured again is chance.
    pub tau_apart: f64,
    /// τ-b if every prediction that is off by more than [`APART`] were its label: about what these labels allow. Blocks
    /// of one throughput have labels that differ a little, which no model can put in order.
    pub tau_allowed: f64,
    /// Share of blocks within 1 % (or [`ROUNDING`]).
    pub within_1_percent: f64,
    /// Share of blocks within 5 % (or [`ROUNDING`]).
    pub within_5_percent: f64,
}

impl Measures {
    /// The measures of these pairs; all zero when there are none.
    #[must_use]
    pub fn of<'a>(pairs: impl Iterator<Item = &'a Pair>) -> Self {
        let pairs: Vec<&Pair> = pairs.collect();
        let blocks = pairs.len();
        if blocks == 0 {
            return Self::default();
        }
        let n = blocks as f64;
        let mut errors: Vec<f64> = pairs.iter().map(|p| p.error()).collect();
        let mape = errors.iter().sum::<f64>() / n;
        let within = |bound: f64| pairs.iter().filter(|p| p.is_within(bound)).count() as f64 / n;
        let (one, five) = (within(0.01), within(0.05));
        errors.sort_by(f64::total_cmp);
        let median = (errors[(blocks - 1) / 2] + errors[blocks / 2]) / 2.0;
        let points: Vec<(f64, f64)> = pairs
            .iter()
            .map(|p| (p.prediction.unwrap_or(0.0), p.label))
            .collect();
        let right = |p: &&Pair| match p.prediction {
            Some(prediction) if p.is_within(APART) => (prediction, p.label),
            _ => (p.label, p.label),
        };
        let allowed: Vec<_> = pairs.iter().map(right).collect();
        Self {
            blocks,
            missing: pairs.iter().filter(|p| p.prediction.is_none()).count(),
            mape,
            median,
            tau: tau_b(&points),
            tau_apart: tau_apart(&points, APART),
            tau_allowed: tau_b(&allowed),
            within_1_percent: one,
            within_5_percent: five,
        }
    }
}

/// Kendall's τ-b in O(n log n) (Knight 1966): concordant minus discordant pairs over the geometric
/// mean of the pairs untied in each coordinate.
#[must_use]
pub fn tau_b(points: &[(f64, f64)]) -> f64 {
    let mut points = points.to_vec();
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let pairs = |n: u64| n * n.saturating_sub(1) / 2;
    let all = pairs(points.len() as u64);
    let tied_x = ties(points.iter().map(|p| p.0.to_bits()));
    let tied_both = ties(points.iter().map(|p| (p.0.to_bits(), p.1.to_bits())));
    let mut ys: Vec<f64> = points.iter().map(|p| p.1).collect();
    let discordant = inversions(&mut ys);
    let tied_y = ties(ys.iter().map(|y| y.to_bits()));
    let concordant = (all + tied_both - tied_x - tied_y).saturating_sub(discordant);
    let scale = ((all - tied_x) as f64 * (all - tied_y) as f64).sqrt();
    if scale == 0.0 {
        return 0.0;
    }
    (concordant as f64 - discordant as f64) / scale
}

/// Kendall's τ over the pairs whose second coordinates differ by more than the fraction `apart` of the
/// smaller: concordant minus discordant ones over all of them, 0 without any. In O(n log n), by a
/// tree of sums over the ranks of the first coordinate (Fenwick 1994).
#[must_use]
pub fn tau_apart(points: &[(f64, f64)], apart: f64) -> f64 {
    let mut ranks: Vec<f64> = points.iter().map(|p| p.0).collect();
    ranks.sort_by(f64::total_cmp);
    ranks.dedup();
    let rank = |x: f64| ranks.partition_point(|r| *r < x);
    let mut points = points.to_vec();
    points.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut below = Sums::new(ranks.len());
    let (mut score, mut all, mut taken) = (0i64, 0u64, 0usize);
    for (x, y) in &points {
        while let Some(smaller) = points.get(taken)
            && smaller.1 * (1.0 + apart) < *y
        {
            below.add(rank(smaller.0));
            taken += 1;
        }
        let (less, not_more) = (below.before(rank(*x)), below.before(rank(*x) + 1));
        score += less as i64 - (taken as i64 - not_more as i64);
        all += taken as u64;
    }
    if all == 0 {
        return 0.0;
    }
    score as f64 / all as f64
}

/// How many of some ranks lie before a rank.
struct Sums(Vec<u64>);

impl Sums {
    fn new(ranks: usize) -> Self {
        Self(vec![0; ranks + 1])
    }

    fn add(&mut self, rank: usize) {
        let mut at = rank + 1;
        while let Some(sum) = self.0.get_mut(at) {
            *sum += 1;
            at += at & at.wrapping_neg();
        }
    }

    fn before(&self, rank: usize) -> u64 {
        let (mut at, mut sum) = (rank, 0);
        while at > 0 {
            sum += self.0.get(at).copied().unwrap_or(0);
            at &= at - 1;
        }
        sum
    }
}

/// Pairs of equal neighbours in a sorted sequence, over all runs.
fn ties<T: PartialEq>(sorted: impl Iterator<Item = T>) -> u64 {
    let (mut last, mut run, mut sum) = (None, 0u64, 0u64);
    for item in sorted {
        run = if last.as_ref() == Some(&item) {
            run + 1
        } else {
            0
        };
        sum += run;
        last = Some(item);
    }
    sum
}

/// Pairs in the wrong order; sorts on the way.
fn inversions(values: &mut [f64]) -> u64 {
    let n = values.len();
    let mut count = 0;
    let mut from = values.to_vec();
    let mut to = vec![0.0; n];
    let mut width = 1;
    while width < n {
        for start in (0..n).step_by(2 * width) {
            let (middle, end) = ((start + width).min(n), (start + 2 * width).min(n));
            let (mut left, mut right) = (start, middle);
            for slot in &mut to[start..end] {
                let take_left = right >= end || (left < middle && from[left] <= from[right]);
                if take_left {
                    *slot = from[left];
                    left += 1;
                } else {
                    *slot = from[right];
                    right += 1;
                    count += (middle - left) as u64;
                }
            }
        }
        std::mem::swap(&mut from, &mut to);
        width *= 2;
    }
    values.copy_from_slice(&from);
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slow_tau(points: &[(f64, f64)]) -> f64 {
        let (mut score, mut x, mut y) = (0i64, 0u64, 0u64);
        for (n, a) in points.iter().enumerate() {
            for b in &points[..n] {
                let dx = a.0.total_cmp(&b.0) as i64;
                let dy = a.1.total_cmp(&b.1) as i64;
                score += dx * dy;
                x += u64::from(dx != 0);
                y += u64::from(dy != 0);
            }
        }
        score as f64 / (x as f64 * y as f64).sqrt()
    }

    #[test]
    fn tau_is_that_of_the_definition() {
        let mut random = fastrand::Rng::with_seed(1);
        for n in [2usize, 3, 10, 101, 256] {
            let points: Vec<(f64, f64)> = (0..n)
                .map(|_| (f64::from(random.u8(..12)), f64::from(random.u8(..9))))
                .collect();
            let (fast, slow) = (tau_b(&points), slow_tau(&points));
            assert!((fast - slow).abs() < 1e-12, "{n}: {fast} {slow}");
        }
        assert_eq!(tau_b(&[(1.0, 2.0), (2.0, 4.0), (3.0, 8.0)]), 1.0);
        assert_eq!(tau_b(&[(1.0, 8.0), (2.0, 4.0), (3.0, 2.0)]), -1.0);
        assert_eq!(tau_b(&[(1.0, 1.0), (1.0, 2.0)]), 0.0);
    }

    #[test]
    fn tau_of_pairs_apart_is_that_of_the_definition() {
        let mut random = fastrand::Rng::with_seed(2);
        for n in [2usize, 3, 10, 101, 256] {
            let points: Vec<(f64, f64)> = (0..n)
                .map(|_| (f64::from(random.u8(..12)), f64::from(random.u8(90..110))))
                .collect();
            let (mut score, mut all) = (0i64, 0i64);
            for a in &points {
                for b in points.iter().filter(|b| a.1 * 1.05 < b.1) {
                    score += b.0.total_cmp(&a.0) as i64;
                    all += 1;
                }
            }
            let slow = if all == 0 {
                0.0
            } else {
                score as f64 / all as f64
            };
            assert!((tau_apart(&points, 0.05) - slow).abs() < 1e-12, "{n}");
        }
        // Labels of which nobody knows which is larger say nothing.
        assert_eq!(tau_apart(&[(1.0, 1.01), (2.0, 1.0)], 0.02), 0.0);
        assert_eq!(tau_apart(&[(1.0, 1.01), (2.0, 1.0), (3.0, 2.0)], 0.02), 1.0);
    }

    #[test]
    fn missing_blocks_are_a_whole_error() {
        let pair = |label, prediction| Pair {
            hex: "90".into(),
            label,
            prediction,
            reason: None,
        };
        let pairs = [
            pair(1.0, Some(1.004)),
            pair(2.0, None),
            pair(4.0, Some(5.0)),
            pair(0.33, Some(0.335)),
        ];
        let m = Measures::of(pairs.iter());
        assert_eq!((m.blocks, m.missing), (4, 1));
        assert!((m.mape - (0.004 + 1.0 + 0.25 + 0.005 / 0.33) / 4.0).abs() < 1e-9);
        assert_eq!(m.within_1_percent, 0.5);
        assert_eq!(m.within_5_percent, 0.5);
        assert!((m.median - (0.25 + 0.005 / 0.33) / 2.0).abs() < 1e-9);
    }
}
