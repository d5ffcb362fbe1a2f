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

mod page_turns;

use super::predict::Steer;
use super::predict::frames::Frames;
use super::predict::stream::{LINE_SHIFT, PAGE_SHIFT, Start, Way};
use crate::memory::CodeLate;
use crate::pipeline::backlog::Backlog;
use mcad_isa::machine::params::branch::{Branch, MAX_BTB_LEVELS};
use page_turns::PageTurns;

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

/// What may be on its way at once, a limited number.
struct Arrivals {
    /// When the last ones arrived.
    last: Vec<u64>,
    count: usize,
}

impl Arrivals {
    /// So many at once.
    fn new(at_once: u32) -> Self {
        Self {
            last: vec![0; at_once.max(1) as usize],
            count: 0,
        }
    }

    /// When the next one arrives, which is asked for in cycle `at` and takes so many cycles, at least
    /// `spacing` behind the last one. No more than `most` are on their way then, if that is less than
    /// may be at all.
    fn come(&mut self, at: u64, cycles: u64, spacing: u64, most: usize) -> u64 {
        let places = self.last.len();
        let place = |back: usize| (self.count + places - back) % places;
        let arrival = |back| self.last.get(place(back)).copied().unwrap_or(0);
        let room = arrival(most.clamp(1, places));
        let arrives = (at.max(room) + cycles).max(arrival(1) + spacing);
        let own = place(0);
        self.count = (self.count + 1) % places;
        if let Some(slot) = self.last.get_mut(own) {
            *slot = arrives;
        }
        arrives
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
    translations: Arrivals,
    /// The last page of these, and when it was there.
    translated: (u64, u64),
    /// Those of the nearest buffer.
    pages: PageTurns,
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
            translations: Arrivals::new(p.translations),
            translated: (u64::MAX, 0),
            pages: PageTurns::new(p),
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

    /// When the translation of a page is there, which is asked for in cycle `at` and takes so many cycles: who asks for the same
    /// page again waits for the same one.
    fn translate(&mut self, page: u64, at: u64, cycles: u64) -> u64 {
        if page != self.translated.0 {
            let there = self.translations.come(at, cycles, 0, usize::MAX);
            self.translated = (page, there);
        }
        self.translated.1.max(at)
    }

    /// Finds out when `start` can be delivered; `false`: that cannot be known yet.
    // By itself, so that who asks for few starts at a time need not load what this needs.
    #[inline(never)]
    fn know(
        &mut self,
        start: &Start,
        frames: &mut Frames,
        now: &Now,
        decoded: impl FnOnce(&Start) -> bool,
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
            let translated = match late.translation {
                0 => asked,
                cycles => self.translate(start.address >> PAGE_SHIFT, asked, cycles),
            };
            let there = match late.line {
                0 => translated,
                line => {
                    let cycles = line + self.line_delay;
                    (self.arrivals).come(translated, cycles, self.line_spacing, most)
                }
            };
            at = at.max(there);
        }
        self.stamp = at.max(turned).max(self.stamp + self.spacing);
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
mod tests {
    use super::*;
    use crate::pipeline::frontend::predict::branches_of;
    use crate::pipeline::frontend::predict::frames::Frame;

    fn coming(line: u64) -> CodeLate {
        CodeLate {
            line,
            ..CodeLate::default()
        }
    }

    /// Cycles until fetch has begun everywhere, where each line comes so late.
    fn cycles(p: &Branch, mut starts: Backlog<Start>, late: CodeLate) -> u64 {
        let mut ahead = Ahead::new(p);
        let mut frames = Frames::new(p);
        let mut clock = 0;
        while starts.front().is_some() {
            let now = Now {
                head: u64::MAX,
                released: u64::MAX,
                clock,
                executed: 0,
                visits: 0,
            };
            let waiting = (&mut starts, &mut frames);
            if let (_, Some((at, _))) = ahead.limit(waiting, &now, |_| false, |_, _| late) {
                clock = at;
            }
        }
        clock
    }

    /// Cycles in which the predictor comes to the starts of turns of a loop: a call, a return and a
    /// jump back, all predicted and in the nearest buffer, with code in the first-level cache.
    fn cycles_a_turn(call: u32, back: u32) -> f64 {
        let mut p = branches_of("zen5");
        p.starts_per_cycle = 2;
        p.page_turn = None;
        let turns = 1000;
        let mut starts = Backlog::new();
        starts.extend((0..3 * turns).map(|n| Start {
            number: n,
            address: 0x1000 * (1 + n % 3),
            way: Way::Branch(Steer::Taken(0)),
            shares: 1 + 2 * [call, back, 0][n as usize % 3],
            frame: Frame::Stays,
        }));
        cycles(&p, starts, CodeLate::default()) as f64 / turns as f64
    }

    #[test]
    fn what_may_be_kept_as_uops_is_not_asked_for_before_that_is_known() {
        let p = branches_of("zen5");
        let mut ahead = Ahead::new(&p);
        let mut frames = Frames::new(&p);
        let line = |n: u64| Start {
            number: 8 * n,
            address: 0x1000 + 64 * n,
            way: Way::Line,
            shares: 1,
            frame: Frame::Stays,
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
                visits: 0,
            };
            let (limit, wait) = ahead.limit(
                (&mut starts, &mut frames),
                &now,
                |_| false,
                |start, _| {
                    asked.push(start.number);
                    CodeLate::default()
                },
            );
            assert_eq!((limit, wait), (expected, None));
        }
        assert_eq!(asked, [0, 8, 16, 24]);
    }

    /// Cycles a line of code that misses the first level, in runs of so many lines between jumps.
    fn cycles_a_line(p: &Branch, run: u64, late: u64) -> f64 {
        let lines = 4000;
        let mut starts = Backlog::new();
        starts.extend((0..lines).map(|n| Start {
            number: n,
            address: 64 * n,
            way: match n % run {
                0 => Way::Branch(Steer::Taken(0)),
                _ => Way::Line,
            },
            shares: 1,
            frame: Frame::Stays,
        }));
        cycles(p, starts, coming(late)) as f64 / lines as f64
    }

    #[test]
    fn fewer_lines_of_straight_code_than_of_jumps_are_on_their_way_at_once() {
        let mut p = branches_of("zen5");
        p.line_delay = 0;
        p.line_misses = 12;
        p.line_spacing = 3;
        p.straight_lines = 4;
        p.straight_misses = 6;
        for (run, late, expected) in [
            // As many as may be on their way share the time that one takes.
            (1, 60, 60.0 / 12.0),
            (4, 60, 60.0 / 12.0),
            (4000, 60, 60.0 / 6.0),
            // No faster than one behind the other.
            (1, 12, 3.0),
            (4000, 12, 3.0),
        ] {
            let found = cycles_a_line(&p, run, late);
            assert!((found - expected).abs() < 0.1, "{run} {late}: {found}");
        }
        // Each run of eight has some that wait.
        let mixed = cycles_a_line(&p, 8, 60);
        assert!((5.5..9.5).contains(&mixed), "{mixed}");
        p.straight_lines = 0;
        let found = cycles_a_line(&p, 4000, 60);
        assert!((found - 5.0).abs() < 0.1, "{found}");
    }

    /// Cycles a jump to another page, each of whose translations takes so long, before a line that misses or not.
    fn cycles_a_page(p: &Branch, late: CodeLate) -> f64 {
        let pages = 4000;
        let mut starts = Backlog::new();
        starts.extend((0..pages).map(|n| Start {
            number: n,
            address: 4160 * n,
            way: Way::Branch(Steer::Taken(0)),
            shares: 1,
            frame: Frame::Stays,
        }));
        cycles(p, starts, late) as f64 / pages as f64
    }

    #[test]
    fn translations_come_before_lines_and_only_so_many_at_once() {
        let mut p = branches_of("zen5");
        (p.line_delay, p.line_misses, p.line_spacing) = (0, 12, 0);
        for (at_once, translation, line, expected) in [
            (1, 80, 0, 80.0),
            (4, 80, 0, 20.0),
            // Lines are on their way meanwhile.
            (1, 80, 60, 80.0),
            (4, 80, 360, 30.0),
        ] {
            p.translations = at_once;
            let found = cycles_a_page(&p, CodeLate { translation, line });
            assert!(
                (found - expected).abs() < 0.03 * expected,
                "{at_once} {translation} {line}: {found}"
            );
        }
    }

    #[test]
    fn lines_of_one_page_wait_for_one_translation() {
        let mut p = branches_of("zen5");
        p.translations = 1;
        let lines = 64 * 100;
        let mut starts = Backlog::new();
        starts.extend((0..lines).map(|n| Start {
            number: n,
            address: 64 * n,
            way: Way::Line,
            shares: 1,
            frame: Frame::Stays,
        }));
        let late = CodeLate {
            translation: 80,
            line: 0,
        };
        let found = cycles(&p, starts, late) as f64 / 100.0;
        assert!((80.0..150.0).contains(&found), "{found} cycles a page");
    }

    #[test]
    fn bubbles_of_calls_and_returns_add_to_the_predictors_pace() {
        for (call, back) in [(0, 0), (1, 0), (1, 2), (3, 3)] {
            let expected = 1.5 + f64::from(call + back);
            let found = cycles_a_turn(call, back);
            assert!((found - expected).abs() < 0.01, "{call} {back}: {found}");
        }
    }

    #[test]
    fn each_return_of_a_call_from_before_the_kernel_ran_is_a_wrong_prediction() {
        let p = branches_of("zen5");
        assert!(p.kernel_empties_returns);
        let depth = 20;
        let cycles = |visit: bool| {
            let mut ahead = Ahead::new(&p);
            let mut frames = Frames::new(&p);
            let mut starts = Backlog::new();
            starts.extend((0..2 * depth).map(|n| Start {
                number: n,
                address: 0x40 * (1 + n),
                way: Way::Branch(Steer::Taken(0)),
                shares: 1,
                frame: if n < depth {
                    Frame::Opens
                } else {
                    Frame::Closes
                },
            }));
            let mut clock = 0;
            while let Some(start) = starts.front() {
                let number = start.number;
                let now = Now {
                    head: number,
                    released: if number < depth { depth } else { u64::MAX },
                    clock,
                    // A branch is executed when it is delivered.
                    executed: clock,
                    visits: u64::from(visit && number >= depth),
                };
                let waiting = (&mut starts, &mut frames);
                if let (_, Some((at, _))) =
                    ahead.limit(waiting, &now, |_| false, |_, _| CodeLate::default())
                {
                    clock = at;
                }
            }
            (clock, frames.lost)
        };
        let (kept, lost) = (cycles(false), cycles(true));
        assert_eq!((kept.1, lost.1), (0, depth));
        let per_start = 1.0 / p.starts_per_cycle as f64;
        let more = depth as f64 * (p.redirect as f64 - per_start);
        let found = (lost.0 - kept.0) as f64;
        assert!((found - more).abs() <= 1.0, "{found} {more}");
    }

    /// Cycles a jump that no buffer has, each so many lines behind the last one and its line so late.
    fn cycles_a_decoded_jump(p: &Branch, lines: u64, late: u64) -> f64 {
        let jumps = 1000;
        let mut starts = Backlog::new();
        starts.extend((0..jumps).map(|n| Start {
            number: n,
            address: 64 * lines * n,
            way: Way::Branch(Steer::Decoded),
            shares: 1,
            frame: Frame::Stays,
        }));
        cycles(p, starts, coming(late)) as f64 / jumps as f64
    }

    #[test]
    fn lines_behind_a_branch_that_no_buffer_has_are_on_their_way_when_it_is_decoded() {
        let mut p = branches_of("zen5");
        (p.starts_per_cycle, p.line_delay, p.line_spacing) = (1, 0, 0);
        let decoded = (p.decode_redirect - 1) as f64;
        for (runs_on, lines, late, expected) in [
            (false, 1, 0, decoded),
            (false, 1, 30, decoded + 30.0),
            // Asked for so many cycles after the predictor began anew behind the branch before, one
            // branch's decoding before that one's line arrived.
            (true, 1, 0, decoded),
            (true, 1, 30, (31.0 + decoded) / 2.0),
            (true, 4, 30, (34.0 + decoded) / 2.0),
            // Nobody had come there when it was decoded.
            (true, 100, 30, decoded + 30.0),
        ] {
            p.runs_on = runs_on;
            let found = cycles_a_decoded_jump(&p, lines, late);
            assert!(
                (found - expected).abs() < 1.1,
                "{runs_on} {lines} {late}: {found}"
            );
        }
    }

    #[test]
    fn the_right_path_comes_later_where_it_is_decoded() {
        let mut p = branches_of("glc");
        p.decoded_redirect = 4;
        let cycles = |from_decoders: bool| {
            let mut ahead = Ahead::new(&p);
            let mut frames = Frames::new(&p);
            let mut starts = Backlog::new();
            starts.extend((0..1000).map(|n| Start {
                number: n,
                address: 64 * n,
                way: Way::Branch(Steer::WrongTarget),
                shares: 1,
                frame: Frame::Stays,
            }));
            let mut clock = 0;
            while let Some(start) = starts.front() {
                let now = Now {
                    head: start.number,
                    released: u64::MAX,
                    clock,
                    // A branch is executed when it is delivered.
                    executed: clock,
                    visits: 0,
                };
                let waiting = (&mut starts, &mut frames);
                let late = |_: &Start, _| CodeLate::default();
                if let (_, Some((at, _))) = ahead.limit(waiting, &now, |_| from_decoders, late) {
                    clock = at;
                }
            }
            clock
        };
        assert_eq!(cycles(false), 1000 * p.redirect);
        assert_eq!(cycles(true), 1000 * (p.redirect + p.decoded_redirect));
    }
}
