//! Random orders of directions that recur, turn by turn, as they were measured on a Redwood Cove (docs/BRANCHES.md, "Which entry").

use mcad_core::pipeline::frontend::predict::{Executed, Kind, Predictor};
use mcad_isa::machine::params::branch::Branch;

mod support;
use support::predictors::predictors_of;

/// Code of so many conditional branches in a row, 32 bytes apart, each over three bytes, in a loop.
struct Row {
    branches: u64,
    predictor: Predictor,
    random: fastrand::Rng,
}

impl Row {
    fn new(branch: &Branch, branches: u64) -> Self {
        Self {
            branches,
            predictor: Predictor::new(branch),
            random: fastrand::Rng::with_seed(3 + branches),
        }
    }

    fn directions(&mut self, length: usize) -> Vec<bool> {
        (0..length).map(|_| self.random.bool()).collect()
    }

    /// Share of wrong directions in one turn of an order.
    fn turn(&mut self, order: &[bool]) -> f64 {
        const BEGIN: u64 = 0x40_3000;
        let branch = |pc, bytes, target, taken| Executed {
            pc,
            next: pc + bytes,
            target,
            taken,
            kind: Kind::Conditional,
        };
        let (mut wrong, mut left) = (0, order.len());
        for row in order.chunks(self.branches as usize) {
            let mut at = BEGIN;
            for (n, &taken) in row.iter().enumerate() {
                at = BEGIN + 32 * n as u64 + if n == 0 { 5 } else { 6 };
                let steer = self.predictor.branch(&branch(at, 2, at + 5, taken));
                wrong += u32::from(steer.is_wrong());
            }
            left -= row.len();
            let bytes = if self.branches < 4 { 2 } else { 6 };
            self.predictor
                .branch(&branch(at + 13, bytes, BEGIN, left > 0));
        }
        f64::from(wrong) / order.len() as f64
    }

    /// Shares of wrong directions in so many turns of an order: medians of nine orders, each behind so many random directions.
    fn learn(&mut self, length: usize, turns: usize, random: usize) -> Vec<f64> {
        let mut all = vec![Vec::new(); turns];
        for _ in 0..9 {
            let noise = self.directions(random);
            self.turn(&noise);
            let order = self.directions(length);
            for wrong in &mut all {
                wrong.push(self.turn(&order));
            }
        }
        let median = |mut of: Vec<f64>| {
            of.sort_by(f64::total_cmp);
            of[of.len() / 2]
        };
        all.into_iter().map(median).collect()
    }
}

/// What random directions left behind is of no use, so that those who ask get it, and entries that are of use are never given up; what an order left
/// behind is of use, so that nobody gets any, and soon none is of use. Shares of the turns 2, 3, 4, 5, 7 and 10, by cycles less those of an order that is known for long, of which some are overridden predictions'.
#[test]
fn orders_are_learnt_turn_by_turn_as_measured() {
    const RANDOM: usize = 1 << 18;
    let branch = predictors_of("rwc");
    for (branches, length, random, measured) in [
        (8, 4096, 0, [0.20, 0.06, 0.02, 0.01, 0.01, 0.00]),
        (8, 4096, RANDOM, [0.23, 0.11, 0.06, 0.04, 0.02, 0.01]),
        (64, 8192, 0, [0.29, 0.15, 0.11, 0.07, 0.02, 0.00]),
        (64, 8192, RANDOM, [0.28, 0.16, 0.09, 0.05, 0.02, 0.01]),
        (8, 12_288, 0, [0.36, 0.24, 0.16, 0.11, 0.06, 0.03]),
        (8, 12_288, RANDOM, [0.42, 0.38, 0.36, 0.35, 0.34, 0.33]),
        (1, 4096, RANDOM, [0.47, 0.45, 0.43, 0.42, 0.41, 0.40]),
    ] {
        let wrong = Row::new(&branch, branches).learn(length, 10, random);
        let wrong = [1, 2, 3, 4, 6, 9].map(|turn: usize| wrong[turn]);
        let off = wrong.iter().zip(measured).map(|(a, b)| (a - b).abs());
        let off = off.sum::<f64>() / 6.0;
        let what = format!("{branches} branches, order of {length} behind {random}");
        assert!(off < 0.06, "{what}: {wrong:.3?}, measured {measured:?}");
    }
}
