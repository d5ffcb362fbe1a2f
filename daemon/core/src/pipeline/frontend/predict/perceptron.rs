//! Direction of conditional branches by a hashed perceptron: a sum of weights, one of each table, chosen by
//! a hash of the branch's address and of a part of the history, of which each table has another (Tarjan &
//! Skadron, "Merging path and gshare indexing in perceptron branch prediction", TACO 2005), as found in Zen (docs/ZEN1.md, "Branches").
//!
//! Unlike tagged tables ([`super::tage`]) it has no entries that belong to one history: what it forgets
//! it forgets by degrees, and an order too long for it is still foreseen in part.

use mcad_isa::machine::params::branch::{Direction, WEIGHT_TABLES, Weights};

use super::addresses::{AddressRegisters, turns};
use super::history::spread;
use super::tage::{Confidence, Guess, base};
use crate::pipeline::fold::Folding;

/// One table without a history comes before those with one.
const TABLES: usize = WEIGHT_TABLES as usize + 1;

/// The predictor.
#[derive(Clone)]
pub struct Perceptron {
    /// Binary logarithm of a table's weights.
    log: u32,
    near_bits: u32,
    long_bits: u32,
    most: i8,
    /// What is known of each branch: whether it has gone two ways.
    ways: Box<[u8]>,
    weights: Box<[i8]>,
    /// Sums of this size or below are trained, though they are right.
    threshold: i32,
    // Of the branch predicted last.
    way: usize,
    places: [u32; TABLES],
    sum: i32,
}

impl Perceptron {
    /// An empty predictor.
    #[must_use]
    pub fn new(p: &Direction, weights: Weights) -> Self {
        Self {
            log: p.table_entries.trailing_zeros(),
            near_bits: weights.near_bits,
            long_bits: p.longest_history,
            most: i8::MAX >> (8 - weights.bits),
            ways: vec![base::UNSEEN; p.base_entries as usize].into(),
            weights: vec![0; TABLES << p.table_entries.trailing_zeros()].into(),
            threshold: i32::from(weights.threshold),
            way: 0,
            places: [0; TABLES],
            sum: 0,
        }
    }

    /// Shows its tables.
    pub fn fold(&mut self, folding: &mut Folding) {
        folding.table(&mut self.ways, base::UNSEEN);
        folding.table(&mut self.weights, 0);
    }

    /// Predicts the branch at `pc`, to which that path led.
    #[inline]
    pub fn predict(&mut self, pc: u64, path: &AddressRegisters) -> Guess {
        self.way = spread(pc) as usize & (self.ways.len() - 1);
        let known = self.ways.get(self.way).copied().unwrap_or(base::UNSEEN);
        let mut guess = Guess {
            taken: known == base::TAKEN,
            settled: known < base::BOTH,
            confidence: Confidence::High,
            table: 0,
            torn: false,
            base: known == base::TAKEN,
        };
        if guess.settled {
            return guess;
        }
        let (near, long) = (path.near(self.near_bits), path.long(self.long_bits));
        let parts = [0, path.near(self.log), near >> self.log, long];
        // The highest bit of the lowest turn has no part in it.
        let key = turns(pc & !(1 << (self.log - 1)), self.log);
        for (table, (place, part)) in self.places.iter_mut().zip(parts).enumerate() {
            *place = ((table as u64) << self.log | (turns(part, self.log) ^ key)) as u32;
        }
        let weight = |place: &u32| {
            self.weights
                .get(*place as usize)
                .copied()
                .map_or(0, i32::from)
        };
        self.sum = self.places.iter().map(weight).sum();
        guess.taken = self.sum >= 0;
        if self.sum.abs() <= self.threshold {
            guess.confidence = Confidence::Low;
        }
        guess
    }

    /// The branch predicted last went `taken`.
    #[inline]
    pub fn update(&mut self, taken: bool) {
        if let Some(known) = self.ways.get_mut(self.way) {
            match *known {
                base::BOTH => self.train(taken),
                base::UNSEEN if taken => *known = base::TAKEN,
                base::UNSEEN => *known = base::NOT_TAKEN,
                base::TAKEN if taken => {}
                base::NOT_TAKEN if !taken => {}
                _ => *known = base::BOTH,
            }
        }
    }

    #[inline]
    fn train(&mut self, taken: bool) {
        let wrong = (self.sum >= 0) != taken;
        if !wrong && self.sum.abs() > self.threshold {
            return;
        }
        for place in &self.places {
            if let Some(weight) = self.weights.get_mut(*place as usize) {
                *weight = match taken {
                    true => weight.saturating_add(1).min(self.most),
                    false => weight.saturating_sub(1).max(-self.most - 1),
                };
            }
        }
    }
}
