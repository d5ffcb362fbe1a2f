//! Direction of conditional branches by a hashed perceptron: a sum of weights, one of each table, chosen by
//! a hash of the branch's address and of one part of the history, of which each table has another (Tarjan &
//! Skadron, "Merging path and gshare indexing in perceptron branch prediction", TACO 2005).
//!
//! Unlike tagged tables ([`super::tage`]) it has no entries that belong to one history: what it forgets
//! it forgets by degrees, and an order too long for it is still foreseen in part.

use mcad_isa::machine::params::branch::{Direction, MAX_TABLES, Weights};

use super::history::{Path, place, spread};
use super::tage::{Confidence, Guess, base};
use crate::pipeline::fold::Folding;

/// The predictor.
#[derive(Clone)]
pub struct Perceptron {
    /// Tables with a history; one without comes before them.
    tables: usize,
    first_length: usize,
    /// Binary logarithm of a table's weights.
    log: u32,
    most: i8,
    /// What is known of each branch: whether it has gone two ways.
    ways: Box<[u8]>,
    weights: Box<[i8]>,
    /// Sums of this size or below are trained, though they are right.
    threshold: i32,
    // Of the branch predicted last.
    way: usize,
    places: [u32; MAX_TABLES as usize + 1],
    sum: i32,
}

impl Perceptron {
    /// An empty predictor, whose tables' parts of the history end at its lengths from this one on.
    #[must_use]
    pub fn new(p: &Direction, weights: Weights, first_length: usize) -> Self {
        let tables = p.tables.min(MAX_TABLES) as usize;
        Self {
            tables,
            first_length,
            log: p.table_entries.trailing_zeros(),
            most: i8::MAX >> (8 - weights.bits),
            ways: vec![base::UNSEEN; p.base_entries as usize].into(),
            weights: vec![0; (tables + 1) << p.table_entries.trailing_zeros()].into(),
            threshold: i32::from(weights.threshold),
            way: 0,
            places: [0; MAX_TABLES as usize + 1],
            sum: 0,
        }
    }

    /// Shows its tables.
    pub fn fold(&mut self, folding: &mut Folding) {
        folding.table(&mut self.ways, base::UNSEEN);
        folding.table(&mut self.weights, 0);
    }

    /// Predicts the branch at `pc`; `history` has a length for each table but the first.
    #[inline]
    pub fn predict(&mut self, pc: u64, history: &Path) -> Guess {
        let key = spread(pc);
        self.way = key as usize & (self.ways.len() - 1);
        let known = self.ways.get(self.way).copied().unwrap_or(base::UNSEEN);
        let mut guess = Guess {
            taken: known == base::TAKEN,
            settled: known < base::BOTH,
            confidence: Confidence::High,
            table: 0,
            torn: false,
        };
        if guess.settled {
            return guess;
        }
        self.places[0] = place(key, self.log) as u32;
        let mut nearer = 0;
        for table in 1..=self.tables {
            let hash = history.hash(self.first_length + table - 1);
            // Less that of the branches that other tables see; it is a sum over all.
            let part = hash.wrapping_sub(nearer);
            let place = place(spread(part) ^ key, self.log);
            self.places[table] = ((table << self.log) + place) as u32;
            nearer = hash;
        }
        let weight = |place: &u32| {
            self.weights
                .get(*place as usize)
                .copied()
                .map_or(0, i32::from)
        };
        self.sum = self.places[..=self.tables].iter().map(weight).sum();
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
        for place in &self.places[..=self.tables] {
            if let Some(weight) = self.weights.get_mut(*place as usize) {
                *weight = match taken {
                    true => weight.saturating_add(1).min(self.most),
                    false => weight.saturating_sub(1).max(-self.most - 1),
                };
            }
        }
    }
}
