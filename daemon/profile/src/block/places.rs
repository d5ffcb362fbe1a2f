//! At how many places of the code a block is measured, and for loops in how many processes: some code has
//! a slow way to run and a quick one, and keeps to it where it lies.

use super::Notion;

/// How far the places at which a block is measured are from each other in bytes.
pub const DISTANCE: usize = 17 * 64;

/// At how many places a block is measured.
#[derive(Clone, Copy)]
pub struct Places {
    /// At most.
    pub most: usize,
    /// The least figure is taken when so many have it,
    agree: usize,
    /// within this share.
    within: f64,
}

impl Places {
    /// Those of a notion of throughput.
    pub const fn of(notion: Notion) -> Self {
        match notion {
            Notion::Unrolled => Self {
                most: 4,
                agree: 2,
                within: 0.01,
            },
            Notion::Loop => Self {
                most: 6,
                agree: 2,
                within: 0.005,
            },
        }
    }

    /// Whether enough of these figures are the least of them.
    pub fn settled(self, figures: &[f64]) -> bool {
        let least = figures.iter().copied().fold(f64::INFINITY, f64::min);
        let near = figures
            .iter()
            .filter(|f| **f <= least * (1.0 + self.within));
        near.count() >= self.agree
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_that_have_the_least_settle_it() {
        let settled = |figures: &[f64]| Places::of(Notion::Loop).settled(figures);
        assert!(!settled(&[1.5]));
        assert!(!settled(&[2.064, 1.5]));
        assert!(!settled(&[2.064, 1.5, 2.064]));
        assert!(settled(&[2.064, 1.5, 1.503]));
        assert!(!settled(&[1.0, 1.009]));
        assert!(Places::of(Notion::Unrolled).settled(&[1.0, 1.009]));
    }
}
