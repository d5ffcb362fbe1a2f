//! The loop predictor: branches that go one way a constant number of times, then once the other
//! (Sherwood & Calder, PACT 2000; confidence and ageing as in TAGE-SC-L).

use super::history::spread;

const WAYS: usize = 4;
/// Longest loop that is told.
const MOST: u16 = 1023;
/// Equal loops in a row after which it is believed.
const SURE: u8 = 15;
/// It is believed as well when so many iterations have agreed.
const SURE_ITERATIONS: u32 = 128;
const FRESH: u8 = 7;

#[derive(Clone, Copy, Debug, Default)]
struct Loop {
    tag: u16,
    /// Iterations of the last complete loop; 0: none yet.
    count: u16,
    current: u16,
    confidence: u8,
    age: u8,
    /// Way it goes while in the loop.
    inside: bool,
}

/// The predictor.
#[derive(Clone)]
pub struct Loops {
    entries: Box<[Loop]>,
    /// Place of the last branch looked up, when it was found.
    hit: Option<usize>,
    set: usize,
    tag: u16,
    guess: Option<bool>,
    allocations: u32,
}

impl Loops {
    /// An empty predictor of so many entries; 0: one that predicts nothing.
    #[must_use]
    pub fn new(entries: u32) -> Self {
        let sets = entries as usize / WAYS;
        let sets = if sets == 0 { 0 } else { 1 << sets.ilog2() };
        Self {
            entries: vec![Loop::default(); sets * WAYS].into(),
            hit: None,
            set: 0,
            tag: 0,
            guess: None,
            allocations: 0,
        }
    }

    /// The direction of the branch at `pc`, if it is in a loop of known length.
    #[inline]
    pub fn predict(&mut self, pc: u64) -> Option<bool> {
        self.hit = None;
        self.guess = None;
        if self.entries.is_empty() {
            return None;
        }
        let x = spread(pc);
        self.set = (x as usize & (self.entries.len() / WAYS - 1)) * WAYS;
        self.tag = (x >> 50) as u16 | 1;
        let tag = self.tag;
        let ways = self.entries.get(self.set..self.set + WAYS)?;
        let way = ways.iter().position(|l| l.tag == tag)?;
        self.hit = Some(self.set + way);
        let l = ways.get(way)?;
        let sure =
            l.confidence == SURE || u32::from(l.confidence) * u32::from(l.count) > SURE_ITERATIONS;
        if sure {
            self.guess = Some(l.inside != (l.current + 1 == l.count));
        }
        self.guess
    }

    /// The branch looked up last went `taken`; `wrong`: and was not predicted so; `needed`: the
    /// other predictors said something else than this one.
    #[inline]
    pub fn update(&mut self, taken: bool, wrong: bool, needed: bool) {
        let guess = self.guess;
        let Some(l) = self.hit.and_then(|hit| self.entries.get_mut(hit)) else {
            if wrong && !self.entries.is_empty() {
                self.allocate(taken);
            }
            return;
        };
        if let Some(guess) = guess {
            if guess != taken {
                *l = Loop {
                    tag: l.tag,
                    inside: l.inside,
                    ..Loop::default()
                };
                return;
            }
            if needed {
                l.age = (l.age + 1).min(SURE);
            }
        }
        l.current += 1;
        if l.current > MOST || (l.count > 0 && l.current > l.count) {
            l.confidence = 0;
            l.count = 0;
            l.current = l.current.min(MOST);
        }
        if taken != l.inside {
            if l.current == l.count {
                l.confidence = (l.confidence + 1).min(SURE);
                if l.count < 3 {
                    // Loops of one or two iterations are patterns, better told by history.
                    *l = Loop {
                        tag: l.tag,
                        inside: taken,
                        ..Loop::default()
                    };
                }
            } else if l.count == 0 {
                l.confidence = 0;
                l.count = if l.current < MOST { l.current } else { 0 };
            } else {
                l.count = 0;
                l.confidence = 0;
            }
            l.current = 0;
        }
    }

    fn allocate(&mut self, taken: bool) {
        // One misprediction in four asks for room, at a way that moves on.
        self.allocations = self.allocations.wrapping_add(1);
        if !self.allocations.is_multiple_of(4) {
            return;
        }
        let way = (self.allocations / 4) as usize % WAYS;
        let tag = self.tag;
        if let Some(l) = self.entries.get_mut(self.set + way) {
            if l.age == 0 {
                *l = Loop {
                    tag,
                    // Most mispredictions are at a loop's end.
                    inside: !taken,
                    age: FRESH,
                    ..Loop::default()
                };
            } else {
                l.age -= 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wrong predictions in the last half of 100 loops of `count` iterations, where nothing
    /// else predicts.
    fn wrong(count: u32) -> u32 {
        let mut loops = Loops::new(32);
        let mut wrong = 0;
        for n in 0..100 {
            for i in 0..count {
                let taken = i + 1 < count;
                let guess = loops.predict(0x40).unwrap_or(true);
                if n >= 50 && guess != taken {
                    wrong += 1;
                }
                loops.update(taken, guess != taken, true);
            }
        }
        wrong
    }

    #[test]
    fn loops_of_constant_length_are_predicted_up_to_their_last_iteration() {
        for count in [4, 10, 100, 1000, 1022] {
            assert_eq!(wrong(count), 0, "{count}");
        }
        // Too long to be counted: each end is wrong.
        for count in [1024, 1500] {
            assert_eq!(wrong(count), 50, "{count}");
        }
    }
}
