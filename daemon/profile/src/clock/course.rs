//! The core clock, or another rate, over some time, from what it was at several moments of it.

use super::Quartiles;

/// Variance of the mean of so many moments, medians of three neighbours that share some, over what it
/// would be if they shared none and differed as much: found by simulation, to within a fifth, for
/// normal, uniform and two-sided exponential noise. Two moments are no medians.
fn shared(moments: f64) -> f64 {
    6.0 - 10.0 / moments
}

/// Rates of a core at moments in order, evenly spread over the time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Course(Vec<f64>);

impl Course {
    /// From cycles per tick of the time-stamp counter at each moment. An interrupt in the middle
    /// of one spoils it, so each but the first and the last is replaced by the median of it and
    /// its neighbours.
    #[must_use]
    pub fn new(rates: &[f64]) -> Self {
        let mut smooth = rates.to_vec();
        for (place, window) in smooth.iter_mut().skip(1).zip(rates.windows(3)) {
            *place = Quartiles::of(&mut window.to_vec()).median;
        }
        Self(smooth)
    }

    /// The mean; zero without a moment.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len().max(1) as f64
    }

    /// Twice the standard error of the mean, relative. What the clock does slowly is in the mean,
    /// so only differences between neighbours count: their mean square is twice the variance of one
    /// moment (von Neumann et al., *The mean square successive difference*, 1941), if none has part
    /// in another. Of two moments this is the difference.
    #[must_use]
    pub fn error(&self) -> f64 {
        let squares = self.0.windows(2).map(|pair| match pair {
            [a, b] => (b - a).powi(2),
            _ => 0.0,
        });
        let moments = self.0.len().max(2) as f64;
        let variance = shared(moments) * squares.sum::<f64>() / (moments - 1.0) / 2.0;
        match self.mean() {
            0.0 => 0.0,
            mean => 2.0 * (variance / moments).sqrt() / mean,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_moments_are_as_uncertain_as_they_differ() {
        let course = Course::new(&[0.99, 1.01]);
        assert!((course.mean() - 1.0).abs() < 1e-12);
        assert!((course.error() - 0.02).abs() < 1e-12);
        assert_eq!(Course::new(&[2.0]).error(), 0.0);
        assert_eq!(Course::default().error(), 0.0);
        assert_eq!(Course::default().mean(), 0.0);
    }

    #[test]
    fn an_interrupted_moment_does_not_count() {
        let mut rates = [1.5; 20];
        rates[7] = 0.3;
        let course = Course::new(&rates);
        assert!((course.mean() - 1.5).abs() < 1e-12);
        assert!(course.error() < 1e-12);
    }

    #[test]
    fn the_error_is_what_means_of_noise_differ_by() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut noise = || 1.0 + (random.f64() - 0.5) / 50.0;
        for moments in [2, 3, 5, 10, 100] {
            let mut course = || Course::new(&Vec::from_iter((0..moments).map(|_| noise())));
            let courses: Vec<Course> = (0..2000).map(|_| course()).collect();
            let squares =
                |of: fn(&Course) -> f64| courses.iter().map(|c| of(c).powi(2)).sum::<f64>();
            let (means, errors) = (squares(|c| c.mean() - 1.0), squares(|c| c.error() / 2.0));
            let ratio = (means / errors).sqrt();
            assert!((0.85..1.2).contains(&ratio), "{moments} {ratio}");
        }
    }

    #[test]
    fn what_changes_slowly_is_known_better_than_what_jumps() {
        let slow: Vec<f64> = (0..100).map(|n| 1.0 + f64::from(n) * 1e-3).collect();
        let mut jumping = slow.clone();
        // Pairs, which the median of three leaves alone.
        jumping.chunks_mut(4).for_each(|four| four.swap(1, 2));
        for pair in jumping.chunks_mut(4) {
            pair[..2].iter_mut().for_each(|rate| *rate += 0.05);
        }
        let (slow, jumping) = (Course::new(&slow), Course::new(&jumping));
        assert!((slow.mean() - 1.0495).abs() < 1e-4);
        assert!(slow.error() < 5e-4 && jumping.error() > 10.0 * slow.error());
    }
}
