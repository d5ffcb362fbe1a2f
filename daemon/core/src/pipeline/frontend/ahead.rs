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

mod arrivals;
mod page_turns;
mod translations;

use super::predict::Steer;
use super::predict::frames::Frames;
use super::predict::stream::{LINE_SHIFT, Start, Way};
use crate::memory::CodeLate;
use crate::pipeline::backlog::Backlog;
use arrivals::Arrivals;
use mcad_isa::machine::params::branch::{Branch, MAX_BTB_LEVELS};
use page_turns::PageTurns;
use translations::Translations;

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
    /// How often the kernel has run so far.
    pub visits: u64,
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
    /// How much later the right path comes where that is decoded.
    decoded_redirect: u64,
    decode_redirect: u64,
    decode_redirect_conditional: u64,
    /// Starts that are predicted in a cycle.
    per_cycle: u64,
    bubbles: [u64; MAX_BTB_LEVELS],
    /// Those behind a branch that the quick predictor had wrong.
    overridden: u64,
    /// Those behind one that is not taken though the nearest buffer has it.
    passed: u64,
    lines: usize,
    line_delay: u64,
    line_spacing: u64,
    /// It goes on behind branches that it does not know.
    runs_on: bool,
    /// Lines behind a branch for which any number may be on its way, and how many may be further on.
    straight: (u32, usize),
    /// Lines since the last branch that was taken.
    behind: u32,
    /// When the last lines that missed arrived, one for each that may be on its way.
    arrivals: Arrivals,
    /// The same of translations that the nearest buffer had not.
    translations: Translations,
    /// Those of the nearest buffer.
    pages: PageTurns,
    /// Hundredths of a cycle that a start of a line which misses takes, when the last one was done with, and whether the line has missed.
    missed_starts: u64,
    missed_at: u64,
    missed: bool,
    /// When the last start was predicted, in shares of a cycle.
    at: u64,
    /// When the last start could be delivered.
    stamp: u64,
    /// Cycles from one start to the next at least: where the predictor makes up for what it had lost, fetch takes one a cycle.
    spacing: u64,
    /// Whether `stamp` is the next start's.
    known: bool,
    /// Whether that is on the right path after a wrong prediction.
    right_path: bool,
    /// First instruction that could not be delivered when fetch was asked last, and until which cycle
    /// that stays so unless all before it are delivered.
    held: (u64, u64),
    /// Cycles in which the last starts were fetched.
    fetched: [u64; RING],
    count: usize,
    line: u64,
    /// Times that fetch was sent elsewhere than it had gone.
    steered: u64,
    /// A branch that was predicted wrongly has been executed.
    redirected: bool,
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
            decoded_redirect: p.decoded_redirect,
            decode_redirect: p.decode_redirect,
            decode_redirect_conditional: p.decode_redirect_conditional,
            per_cycle: u64::from(p.starts_per_cycle),
            bubbles,
            overridden: p.quick.as_ref().map_or(0, |quick| quick.bubbles),
            passed: p.btb.first().map_or(0, |level| level.passed_bubbles),
            lines: (p.ahead as usize).clamp(1, RING),
            line_delay: p.line_delay,
            line_spacing: p.line_spacing,
            runs_on: p.runs_on,
            straight: match p.straight_lines {
                0 => (u32::MAX, usize::MAX),
                lines => (lines, p.straight_misses as usize),
            },
            behind: 0,
            arrivals: Arrivals::new(p.line_misses),
            translations: Translations::new(p),
            pages: PageTurns::new(p),
            missed_starts: p.missed_starts,
            missed_at: 0,
            missed: false,
            at: 0,
            stamp: 0,
            spacing: u64::from(p.branches_in_pairs || p.makes_up_behind_chosen),
            known: false,
            right_path: false,
            held: (0, 0),
            fetched: [0; RING],
            count: 0,
            line: u64::MAX,
            steered: 0,
            redirected: false,
        }
    }

    /// Times that fetch was sent elsewhere than it had gone.
    #[inline]
    #[must_use]
    pub fn steered(&self) -> u64 {
        self.steered
    }

    /// Whether a branch has been executed, since this was asked last, that was predicted wrongly: the right path is next.
    #[inline]
    pub fn take_redirected(&mut self) -> bool {
        std::mem::take(&mut self.redirected)
    }

    /// Finds out when `start` can be delivered; `false`: that cannot be known yet.
    // By itself, so that who asks for few starts at a time need not load what this needs.
    #[inline(never)]
    fn know(
        &mut self,
        start: &Start,
        frames: &mut Frames,
        now: &Now,
        decoded: impl Fn(&Start) -> bool,
        late: impl FnOnce(&Start, u64) -> CodeLate,
    ) -> bool {
        let per_cycle = self.per_cycle;
        self.right_path = frames.loses(start.frame, now.visits) || start.is_right_path();
        let restart = match start.way {
            _ if self.right_path && self.decoded_redirect > 0 && decoded(start) => {
                Some(now.executed + self.redirect + self.decoded_redirect)
            }
            _ if self.right_path => Some(now.executed + self.redirect),
            Way::String | Way::Kernel => Some(now.executed),
            // Its branch was delivered in the cycle before.
            Way::Branch(steer) if steer.is_decoded() => {
                let more = match steer {
                    Steer::DecodedConditional => self.decode_redirect_conditional,
                    _ => 0,
                };
                Some(now.clock.saturating_sub(1) + self.decode_redirect + more)
            }
            _ => None,
        };
        let passed = self.at / per_cycle;
        if let Some(cycle) = restart {
            if !now.reached(start) {
                return false;
            }
            self.at = self.at.max(cycle * per_cycle);
            self.pages.restart();
            self.redirected = start.is_right_path();
        } else {
            let of = |level: u8| self.bubbles.get(usize::from(level)).copied().unwrap_or(0);
            let bubbles = match start.way {
                Way::Branch(
                    Steer::Taken(level)
                    | Steer::Always(level)
                    | Steer::Chosen(level)
                    | Steer::Led(level),
                ) => of(level),
                Way::Branch(Steer::Overridden(level)) => of(level).max(self.overridden),
                Way::Branch(Steer::OverriddenStraight) => self.overridden,
                Way::Branch(Steer::Held) => self.passed,
                _ => 0,
            };
            let oldest = self.count.wrapping_sub(self.lines) % RING;
            let room = self.fetched.get(oldest).copied().unwrap_or(0);
            self.at =
                (self.at + u64::from(start.shares) + bubbles * per_cycle).max(room * per_cycle);
        }
        frames.pass(start.frame, now.visits);
        self.at += frames.waits(start.frame) * per_cycle;
        // Divisions take long.
        let mut at = match per_cycle {
            1 => self.at,
            2 => self.at / 2,
            _ => self.at / per_cycle,
        };
        let line = start.address >> LINE_SHIFT;
        let turned = match start.way {
            Way::Line if line == self.line => 0,
            _ => self.pages.pass(start.address, at),
        };
        if line != self.line {
            let before = std::mem::replace(&mut self.line, line);
            self.behind = match start.way {
                Way::Line | Way::Branch(Steer::OverriddenStraight | Steer::Held) => {
                    self.behind.saturating_add(1)
                }
                Way::Branch(_) | Way::String | Way::Kernel => 1,
            };
            let most = match self.behind > self.straight.0 {
                true => self.straight.1,
                false => usize::MAX,
            };
            // What it has come to already, going on straight, was asked for then.
            let asked = match start.way {
                Way::Branch(steer) if steer.is_decoded() && self.runs_on && !self.right_path => {
                    let lines = line.wrapping_sub(before);
                    at.min(passed.saturating_add(lines))
                }
                _ => at,
            };
            let late = late(start, asked);
            let begins = match late.translation {
                0 => asked,
                _ => self.translations.begin(asked, self.arrivals.latest()),
            };
            let translated = self
                .translations
                .come(start.address, begins, late.translation);
            let there = match late.line {
                0 => translated,
                line => {
                    let cycles = line + self.line_delay;
                    (self.arrivals).come(translated, cycles, self.line_spacing, most)
                }
            };
            self.missed = late.line > 0;
            at = at.max(there);
        }
        self.stamp = at.max(turned).max(self.stamp + self.spacing);
        if self.missed && self.missed_starts > 0 && decoded(start) {
            self.missed_at = (100 * self.stamp).max(self.missed_at + self.missed_starts);
            self.stamp = self.missed_at / 100;
        }
        true
    }

    /// Whether asking again says what it said last.
    #[inline(always)]
    #[must_use]
    pub fn is_held(&self, head: u64, clock: u64) -> bool {
        head < self.held.0 && clock < self.held.1
    }

    /// First instruction that cannot be delivered now; and, if that is the next one, when it can
    /// and what it waits for. `decoded` says whether a start comes from the decoders, `late` how much later than from the first-level
    /// cache one comes that is asked for in a cycle.
    #[inline]
    pub fn limit(
        &mut self,
        (starts, frames): (&mut Backlog<Start>, &mut Frames),
        now: &Now,
        decoded: impl Fn(&Start) -> bool,
        mut late: impl FnMut(&Start, u64) -> CodeLate,
    ) -> (u64, Option<(u64, Wait)>) {
        while let Some(start) = starts.front() {
            if start.number >= now.released {
                self.held = (0, 0);
                return (start.number, None);
            }
            self.known = self.known || self.know(start, frames, now, &decoded, &mut late);
            if !self.known {
                self.held = (start.number, u64::MAX);
                return (start.number, None);
            }
            if self.stamp > now.clock {
                self.held = (start.number, self.stamp);
                let why = match self.right_path {
                    true => Wait::RightPath,
                    false => Wait::Fetch,
                };
                return (
                    start.number,
                    now.reached(start).then_some((self.stamp, why)),
                );
            }
            self.known = false;
            let found_late = matches!(
                start.way,
                Way::Branch(steer) if steer.is_overridden() || steer.is_decoded()
            );
            self.steered += u64::from(self.right_path || found_late);
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
mod tests;
