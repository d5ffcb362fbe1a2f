//! The steady rate of iterations whose retirement shows no period.

/// Iterations at least; fewer do not tell a rate from its jitter.
const MIN_POINTS: usize = 12;
/// Share of the rate that the fraction may differ by at most, however irregular iterations are.
const MAX_ERROR: f64 = 0.005;
/// Continued fractions are followed no further: two neighbouring `f64` are reached long before.
const MAX_TERMS: u32 = 40;

/// Cycles per iteration, given the cycle in which each iteration retired.
///
/// The rate is the slope of the least-squares line, which depends less on the phase in which the
/// first and the last iteration happen to retire than the difference between the two does. No
/// iteration being further from the line than d cycles, the slope of n iterations is taken to be
/// known within d / n (deviations that all conspire could shift it by 3 d / n). In the steady state
/// it is a ratio of whole numbers, a few cycles for a few iterations, so the simplest fraction within
/// that is taken: blocks with the same limit get the same rate.
pub(super) fn steady(cycles: impl ExactSizeIterator<Item = u64> + Clone) -> Option<f64> {
    let count = cycles.len();
    if count < MIN_POINTS {
        return None;
    }
    let n = count as f64;
    let origin = cycles.clone().next()?;
    // Twice the distance of each from the middle one, and its cycle.
    let middle = count as i64 - 1;
    let points = (cycles.enumerate())
        .map(|(x, cycle)| (2 * x as i64 - middle, cycle.saturating_sub(origin) as i64));
    // These sums are of whole numbers; that of the squares is known.
    let (sum, products) = (points.clone()).fold((0i64, 0i64), |(sum, products), (x, y)| {
        (sum + y, products.wrapping_add(x.wrapping_mul(y)))
    });
    let squares = n * (n * n - 1.0) / 12.0;
    let (mean, slope) = (sum as f64 / n, products as f64 / 2.0 / squares);
    let mut furthest = 0.0;
    for (x, y) in points {
        let distance = (y as f64 - mean - slope * (x as f64 / 2.0)).abs();
        furthest = if distance > furthest {
            distance
        } else {
            furthest
        };
    }
    let error = (furthest / n).min(MAX_ERROR * slope);
    Some(simplest(slope - error, slope + error, MAX_TERMS))
}

/// The fraction with the least denominator from `low` to `high` (Stern and Brocot's tree, walked
/// by continued fractions).
fn simplest(low: f64, high: f64, terms: u32) -> f64 {
    let whole = low.ceil();
    if whole <= high {
        return whole;
    }
    let whole = low.floor();
    if terms == 0 || high - low < f64::EPSILON * high {
        return low;
    }
    whole + 1.0 / simplest(1.0 / (high - whole), 1.0 / (low - whole), terms - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simplest_fractions_lie_in_their_interval() {
        for (low, high, expected) in [
            (1.16, 1.17, 7.0 / 6.0),
            (0.99, 1.01, 1.0),
            (1.33, 1.34, 4.0 / 3.0),
            (2.71, 2.715, 19.0 / 7.0),
            (0.24, 0.26, 0.25),
            (2.5, 2.5, 2.5),
        ] {
            let fraction = simplest(low, high, MAX_TERMS);
            assert!(
                (fraction - expected).abs() < 1e-9,
                "{low} {high} {fraction}"
            );
        }
    }

    #[test]
    fn a_rate_is_found_through_jitter() {
        // 7 cycles for 6 iterations, without and with a disturbance.
        for disturbed in [false, true] {
            let cycles = (0..200).map(|n: u64| n * 7 / 6 + u64::from(disturbed && n % 97 == 96));
            let rate = steady(cycles.collect::<Vec<_>>().into_iter());
            assert!(
                rate.is_some_and(|r| (r - 7.0 / 6.0).abs() < 1e-9),
                "{rate:?}"
            );
        }
        assert_eq!(steady([1, 2, 3].into_iter()), None);
    }
}
