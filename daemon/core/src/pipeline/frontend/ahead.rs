//! Fetch behind a branch predictor that runs ahead of it.
//!
//! The predictor goes from start to start (lines and targets of branches, [`super::predict::stream::Starts`]), each in a
//! cycle or a share of one, longer by the bubbles of the branch target buffer that had the branch.
//! It is stopped by its queue: a line is predicted when one a queue's length before it has been
//! fetched. Lines that miss the first-level cache are asked for when they are predicted, so that a
//! predictor far ahead hides misses, as far as that many may be on their way. A wrong branch's successor is fetched when the branch has been
//! executed and the front end refilled, the target of one that no buffer had when it has been
//! decoded; the queue is empty then.
//!
//! All stamps are of delivery: what lies between prediction and delivery in a pipeline that is
//! full counts only after a redirect, whose cost has it.

use super::predict::Steer;
use super::predict::stream::{LINE_SHIFT, Start, Way};
use crate::pipeline::backlog::Backlog;
use mcad_isa::machine::params::branch::{Branch, MAX_BTB_LEVELS};

/// Most lines that a predictor may be ahead.
const RING: usize = 256;

/// What fetch waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The predictor or a line.
    Fetch,
    /// The right path after a wrong prediction.
    RightPath,
}

/// Where the front end is.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// Number of the next instruction to be delivered.
    pub head: u64,
    /// Number behind the last one of which it is known where it comes from.
    pub released: u64,
    /// The cycle.
    pub clock: u64,
    /// Cycle in which the last µop that was delivered is executed.
    pub executed: u64,
}

impl Now {
    /// Everything before the start has been delivered.
    #[inline]
    fn reached(&self, start: &Start) -> bool {
        start.number <= self.head
    }
}

/// Fetch of a thread.
pub struct Ahead {
    redirect: u64,
    decode_redirect: u64,
    /// Starts that are predicted in a cycle.
    per_cycle: u64,
    bubbles: [u64; MAX_BTB_LEVELS],
    lines: usize,
    line_delay: u64,
    /// When the last lines that missed arrived, one for each that may be on its way.
    arrivals: Vec<u64>,
    misses: usize,
    /// When the last start was predicted, in shares of a cycle.
    at: u64,
    /// When the last start could be delivered.
    stamp: u64,
    /// Whether `stamp` is the next start's.
    known: bool,
    /// First instruction that could not be delivered when fetch was asked last, and until which cycle
    /// that stays so unless all before it are delivered.
    held: (u64, u64),
    /// Cycles in which the last starts were fetched.
    fetched: [u64; RING],
    count: usize,
    line: u64,
}

impl Ahead {
    /// At rest.
    #[must_use]
    pub fn new(p: &Branch) -> Self {
        let mut bubbles = [0; MAX_BTB_LEVELS];
        for (slot, level) in bubbles.iter_mut().zip(&p.btb) {
            *slot = level.bubbles;
        }
        Self {
            redirect: p.redirect,
            decode_redirect: p.decode_redirect,
            per_cycle: u64::from(p.starts_per_cycle),
            bubbles,
            lines: (p.ahead as usize).clamp(1, RING),
            line_delay: p.line_delay,
            arrivals: vec![0; p.line_misses.max(1) as usize],
            misses: 0,
            at: 0,
            stamp: 0,
            known: false,
            held: (0, 0),
            fetched: [0; RING],
            count: 0,
            line: u64::MAX,
        }
    }

    /// Finds out when `start` can be delivered; `false`: that cannot be known yet.
    fn know(&mut self, start: &Start, now: &Now, late: impl FnOnce(&Start, u64) -> u64) -> bool {
        let per_cycle = self.per_cycle;
        let restart = match start.way {
            Way::Branch(steer) if steer.is_wrong() => Some(now.executed + self.redirect),
            // Its branch was delivered in the cycle before.
            Way::Branch(Steer::Decoded) => Some(now.clock.saturating_sub(1) + self.decode_redirect),
            _ => None,
        };
        if let Some(cycle) = restart {
            if !now.reached(start) {
                return false;
            }
            self.at = self.at.max(cycle * per_cycle);
        } else {
            let bubbles = match start.way {
                Way::Branch(Steer::Taken(level)) => {
                    u64::from(start.bubbles)
                        + self.bubbles.get(usize::from(level)).copied().unwrap_or(0)
                }
                _ => 0,
            };
            let oldest = self.count.wrapping_sub(self.lines) % RING;
            let room = self.fetched.get(oldest).copied().unwrap_or(0);
            self.at = (self.at + 1 + bubbles * per_cycle).max(room * per_cycle);
        }
        let mut at = self.at / per_cycle;
        let line = start.address >> LINE_SHIFT;
        if line != self.line {
            self.line = line;
            at = self.arrival(at, late(start, at));
        }
        self.stamp = self.stamp.max(at);
        true
    }

    /// When a line arrives that was asked for in cycle `at` and is `late`.
    fn arrival(&mut self, at: u64, late: u64) -> u64 {
        if late == 0 {
            return at;
        }
        let oldest = self.misses % self.arrivals.len();
        self.misses = self.misses.wrapping_add(1);
        let Some(slot) = self.arrivals.get_mut(oldest) else {
            return at + late;
        };
        *slot = at.max(*slot) + late + self.line_delay;
        *slot
    }

    /// Whether asking again says what it said last.
    #[inline(always)]
    #[must_use]
    pub fn is_held(&self, head: u64, clock: u64) -> bool {
        head < self.held.0 && clock < self.held.1
    }

    /// First instruction that cannot be delivered now; and, if that is the next one, when it can
    /// and what it waits for. `late` says how much later than from the first-level cache a start
    /// comes that is asked for in a cycle.
    #[inline]
    pub fn limit(
        &mut self,
        starts: &mut Backlog<Start>,
        now: &Now,
        mut late: impl FnMut(&Start, u64) -> u64,
    ) -> (u64, Option<(u64, Wait)>) {
        while let Some(&start) = starts.front() {
            if start.number >= now.released {
                self.held = (0, 0);
                return (start.number, None);
            }
            self.known = self.known || self.know(&start, now, &mut late);
            if !self.known {
                self.held = (start.number, u64::MAX);
                return (start.number, None);
            }
            if self.stamp > now.clock {
                self.held = (start.number, self.stamp);
                let wrong = matches!(start.way, Way::Branch(steer) if steer.is_wrong());
                let why = if wrong { Wait::RightPath } else { Wait::Fetch };
                return (
                    start.number,
                    now.reached(&start).then_some((self.stamp, why)),
                );
            }
            self.known = false;
            if let Some(slot) = self.fetched.get_mut(self.count % RING) {
                *slot = now.clock;
            }
            self.count = self.count.wrapping_add(1);
            starts.pop(1);
        }
        self.held = (0, 0);
        (u64::MAX, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cycles in which the predictor comes to the starts of turns of a loop: a call, a return and a
    /// jump back, all predicted and in the nearest buffer, with code in the first-level cache.
    fn cycles_a_turn(call: u32, back: u32) -> f64 {
        let mut p = mcad_isa::machine::cpu("zen5")
            .ok()
            .and_then(|model| model.core.branch.clone())
            .expect("zen5 has branch prediction");
        p.starts_per_cycle = 2;
        let mut ahead = Ahead::new(&p);
        let turns = 1000;
        let mut starts = Backlog::new();
        starts.extend((0..3 * turns).map(|n| Start {
            number: n,
            address: 0x1000 * (1 + n % 3),
            way: Way::Branch(Steer::Taken(0)),
            bubbles: [call, back, 0][n as usize % 3],
        }));
        let mut clock = 0;
        while starts.front().is_some() {
            let now = Now {
                head: u64::MAX,
                released: u64::MAX,
                clock,
                executed: 0,
            };
            if let (_, Some((at, _))) = ahead.limit(&mut starts, &now, |_, _| 0) {
                clock = at;
            }
        }
        clock as f64 / turns as f64
    }

    #[test]
    fn what_may_be_kept_as_uops_is_not_asked_for_before_that_is_known() {
        let p = mcad_isa::machine::cpu("zen5")
            .ok()
            .and_then(|model| model.core.branch.clone())
            .expect("zen5 has branch prediction");
        let mut ahead = Ahead::new(&p);
        let line = |n: u64| Start {
            number: 8 * n,
            address: 0x1000 + 64 * n,
            way: Way::Line,
            bubbles: 0,
        };
        let mut starts = Backlog::new();
        starts.extend((0..4).map(line));
        let mut asked = Vec::new();
        for (released, expected) in [(9, 16), (9, 16), (32, u64::MAX)] {
            let now = Now {
                head: 0,
                released,
                clock: 100,
                executed: 0,
            };
            let (limit, wait) = ahead.limit(&mut starts, &now, |start, _| {
                asked.push(start.number);
                0
            });
            assert_eq!((limit, wait), (expected, None));
        }
        assert_eq!(asked, [0, 8, 16, 24]);
    }

    #[test]
    fn bubbles_of_calls_and_returns_add_to_the_predictors_pace() {
        for (call, back) in [(0, 0), (1, 0), (1, 2), (3, 3)] {
            let expected = 1.5 + f64::from(call + back);
            let found = cycles_a_turn(call, back);
            assert!((found - expected).abs() < 0.01, "{call} {back}: {found}");
        }
    }
}
