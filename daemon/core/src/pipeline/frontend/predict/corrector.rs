//! The statistical corrector: a sum of counters that sees where TAGE is wrong more often than
//! not, over biases, directions, paths and local histories (Seznec, "TAGE-SC-L", CBP-5 2016, with
//! the inner-most loop's iteration count of Seznec, San Miguel & Albericio, MICRO 2015).

use super::history::{Path, place, spread};
use super::tage::{Confidence, Guess};
use crate::pipeline::fold::Folding;

/// Counters of six bits.
const MOST: i8 = 31;
const LEAST: i8 = -32;

const BIASES: usize = 3;
/// Histories of each kind, in branches.
const DIRECTIONS: [u32; 3] = [40, 24, 10];
const LOCALS: [u32; 3] = [11, 6, 3];
const SECOND_LOCALS: [u32; 3] = [16, 11, 6];
const ITERATION_LOCALS: [u32; 2] = [10, 4];
/// Which of TAGE's histories are looked at.
const PATHS: [usize; 3] = [1, 3, 5];
const TABLES: usize = BIASES + 3 + 3 + 3 + 3 + 1 + 2;

const LOCAL_HISTORIES: usize = 256;
const SECOND_HISTORIES: usize = 16;
const MOST_ITERATIONS: usize = 255;
/// Own thresholds.
const THRESHOLDS: usize = 64;

/// The corrector.
#[derive(Clone)]
pub struct Corrector {
    log: u32,
    counters: Box<[i8]>,
    directions: u64,
    local: Box<[u16; LOCAL_HISTORIES]>,
    second: [u16; SECOND_HISTORIES],
    /// Iterations of the inner-most loop so far.
    iteration: usize,
    /// What branches did in that iteration.
    by_iteration: Box<[u16; MOST_ITERATIONS + 1]>,
    threshold: i32,
    thresholds: [i8; THRESHOLDS],
    /// Whether to believe TAGE or the sum: for sure predictions, and for fairly sure ones.
    believe: [i8; 2],
    // Of the branch predicted last.
    places: [u32; TABLES],
    sum: i32,
    limit: i32,
    base: bool,
    confidence: Confidence,
    own: usize,
    local_place: usize,
    second_place: usize,
}

#[inline]
fn step(counter: i8, up: bool) -> i8 {
    if up {
        (counter + 1).min(MOST)
    } else {
        (counter - 1).max(LEAST)
    }
}

#[inline]
fn last(history: u64, count: u32) -> u64 {
    history & ((1 << count) - 1)
}

/// What the counter at a place of tables of `1 << log` entries is to begin with: biases say what TAGE
/// says, which is the lowest bit of their place.
fn first(place: usize, log: u32) -> i8 {
    let biased = place >> log < BIASES;
    match (biased, place & 1 == 1) {
        (true, true) => MOST,
        (true, false) => LEAST,
        (false, true) => 0,
        (false, false) => -1,
    }
}

impl Corrector {
    /// Shows its counters.
    pub fn fold(&mut self, folding: &mut Folding) {
        let log = self.log;
        folding.table_by(&mut self.counters, |place| first(place, log));
    }

    /// With tables of so many entries, a power of two.
    #[must_use]
    pub fn new(entries: u32) -> Self {
        let log = entries.max(2).trailing_zeros();
        Self {
            log,
            counters: (0..TABLES << log).map(|place| first(place, log)).collect(),
            directions: 0,
            local: Box::new([0; LOCAL_HISTORIES]),
            second: [0; SECOND_HISTORIES],
            iteration: 0,
            by_iteration: Box::new([0; MOST_ITERATIONS + 1]),
            threshold: 35 << 3,
            thresholds: [0; THRESHOLDS],
            believe: [0; 2],
            places: [0; TABLES],
            sum: 0,
            limit: 0,
            base: false,
            confidence: Confidence::Low,
            own: 0,
            local_place: 0,
            second_place: 0,
        }
    }

    /// The prediction after correction; `base` is what TAGE and the loop predictor say.
    #[inline]
    pub fn predict(&mut self, pc: u64, base: bool, guess: &Guess, history: &Path) -> bool {
        let key = spread(pc);
        let bit = u64::from(base);
        self.own = (key >> 20) as usize % THRESHOLDS;
        self.local_place = (key >> 28) as usize % LOCAL_HISTORIES;
        self.second_place = (key >> 40) as usize % SECOND_HISTORIES;
        let local = u64::from(self.local[self.local_place]);
        let second = u64::from(self.second[self.second_place]);
        let iterated = u64::from(self.by_iteration[self.iteration.min(MOST_ITERATIONS)]);
        let log = self.log;
        // Table by table.
        let (mut n, mut first, size) = (0, 0, 1 << log);
        let mut sum = 0i32;
        let counters = &self.counters;
        let places = &mut self.places;
        let mut add = |at: usize| {
            let place = first + at;
            places[n] = place as u32;
            sum += i32::from(counters.get(place).copied().unwrap_or(0));
            n += 1;
            first += size;
        };
        let sure = guess.confidence == Confidence::High;
        let low = guess.confidence == Confidence::Low;
        let bias = |facts: u64| place(key ^ facts, log - 1) << 1 | usize::from(base);
        add(bias(u64::from(low && guess.torn)));
        add(bias(2 | u64::from(sure)));
        add(bias(
            (guess.table as u64 / 4) << 2 | u64::from(sure) << 1 | u64::from(low),
        ));
        for length in DIRECTIONS {
            add(place(last(self.directions, length) ^ key << 1 ^ bit, log));
        }
        for path in PATHS {
            add(place(history.hash(path) ^ key, log));
        }
        for length in LOCALS {
            add(place(last(local, length) ^ key, log));
        }
        for length in SECOND_LOCALS {
            add(place(last(second, length) ^ key, log));
        }
        add(place(self.iteration as u64 ^ key, log));
        for length in ITERATION_LOCALS {
            add(place(last(iterated, length) ^ key, log));
        }
        // Counters stand for odd numbers.
        let sum = 2 * sum + TABLES as i32;
        self.sum = sum;
        self.base = base;
        self.confidence = guess.confidence;
        self.limit = (self.threshold >> 3) + i32::from(self.thresholds[self.own]);
        let corrected = sum >= 0;
        if corrected == base {
            return base;
        }
        let doubt = sum.abs();
        match self.confidence {
            Confidence::High if doubt < self.limit / 4 => base,
            Confidence::High if doubt < self.limit / 2 => {
                if self.believe[0] < 0 {
                    corrected
                } else {
                    base
                }
            }
            Confidence::Medium if doubt < self.limit / 4 => {
                if self.believe[1] < 0 {
                    corrected
                } else {
                    base
                }
            }
            _ => corrected,
        }
    }

    /// A branch went `taken` that needed no correction.
    #[inline]
    pub fn pass(&mut self, taken: bool) {
        self.directions = self.directions << 1 | u64::from(taken);
    }

    /// The branch predicted last went `taken`; `back`: its target lies before it.
    #[inline]
    pub fn update(&mut self, taken: bool, back: bool) {
        let corrected = self.sum >= 0;
        let doubt = self.sum.abs();
        if corrected != self.base && doubt < self.limit {
            let right = self.base == taken;
            let which = match self.confidence {
                Confidence::High if doubt < self.limit / 2 && doubt >= self.limit / 4 => Some(0),
                Confidence::Medium if doubt < self.limit / 4 => Some(1),
                _ => None,
            };
            if let Some(b) = which.and_then(|w| self.believe.get_mut(w)) {
                *b = if right {
                    (*b + 1).min(63)
                } else {
                    (*b - 1).max(-64)
                };
            }
        }
        if corrected != taken || doubt < self.limit {
            let wrong = corrected != taken;
            let own = &mut self.thresholds[self.own];
            *own = if wrong {
                own.saturating_add(1)
            } else {
                own.saturating_sub(1)
            };
            self.threshold =
                (self.threshold + if wrong { 1 } else { -1 }).clamp(-(1 << 11), (1 << 11) - 1);
            for place in self.places {
                if let Some(counter) = self.counters.get_mut(place as usize) {
                    *counter = step(*counter, taken);
                }
            }
        }
        let bit = u16::from(taken);
        let by_iteration = &mut self.by_iteration[self.iteration.min(MOST_ITERATIONS)];
        *by_iteration = *by_iteration << 1 | bit;
        if back {
            self.iteration = if taken {
                (self.iteration + 1).min(MOST_ITERATIONS)
            } else {
                0
            };
        }
        self.directions = self.directions << 1 | u64::from(bit);
        let local = &mut self.local[self.local_place];
        *local = *local << 1 | bit;
        let second = &mut self.second[self.second_place];
        *second = *second << 1 | bit;
    }
}
