//! Fetch by aligned groups, and the aligner that cuts them into instructions.
//!
//! Everything is a time stamp: a group has the cycle in which its fetch starts, an instruction
//! the one in which the aligner hands it to the queue before decode. A group starts when the one
//! before it has started, when its target is known and when an older group has been used up; an
//! instruction leaves the aligner when all its bytes are seen there, in order, when the queue has
//! room.

use mcad_isa::machine::hierarchy::LINE_BYTES;
use mcad_isa::machine::inorder::{Fetch as Params, InOrder, Predictor};

use super::Around;
use super::icache::ICache;
use super::predict::{GroupPredictor, Prediction};
use super::slots::Cause;

/// Entries of the rings for groups and for the queue.
const RING: usize = 64;

/// A fetch group.
#[derive(Clone, Copy, Debug)]
struct Group {
    /// Address of its first byte, aligned.
    base: u64,
    /// Address behind its last byte that is executed.
    end: u64,
    /// Cycle in which its fetch started, misses left out.
    start: u64,
    /// First cycle in which the aligner sees it.
    seen: u64,
    /// What it waited for.
    cause: Cause,
}

/// Where an instruction is on its way to decode.
#[derive(Clone, Copy, Debug, Default)]
pub struct Placed {
    /// First cycle in which it may issue.
    pub ready: u64,
    /// The group in which it ends.
    pub group: u64,
    /// Number of that group ([`FrontEnd::prediction`]).
    pub number: u64,
    /// The lane of that in which it ends.
    pub lane: u8,
    /// Where fetch goes on after it.
    pub next: u64,
    /// What to hold responsible for waiting until `ready`.
    pub cause: Cause,
}

/// The front end of an in-order core.
#[derive(Debug)]
pub struct FrontEnd {
    p: Params,
    pub(super) predictor: Option<GroupPredictor>,
    /// By group: how it was predicted; empty without a predictor.
    predictions: Vec<Option<Prediction>>,
    icache: Option<ICache>,
    /// The line of code that was asked for last.
    line: u64,
    /// Cycles without fetch behind the next jump that nothing here foresees.
    jump_bubble: u32,
    group: Group,
    /// Address behind the last instruction in it; `None` in a new group.
    behind: Option<u64>,
    /// Number of the current group.
    number: u64,
    /// Address to be fetched next, and from when on.
    next: u64,
    next_start: u64,
    next_cause: Cause,
    /// By group: cycle in which it was used up.
    used_up: [u64; RING],
    /// By instruction: cycle of issue.
    issued: [u64; RING],
    /// Instructions placed.
    placed: u64,
    /// Cycle of the aligner's last work, and how many it cut out in it.
    aligned: u64,
    in_cycle: u32,
}

impl FrontEnd {
    /// A front end at rest.
    #[must_use]
    pub fn new(core: &InOrder) -> Self {
        Self {
            p: core.fetch.clone(),
            predictor: match &core.predictor {
                Some(Predictor::GroupGshare(p)) => Some(GroupPredictor::new(p, core.fetch.bytes)),
                Some(Predictor::Gshare(_) | Predictor::Perfect) | None => None,
            },
            predictions: match core.predictor {
                Some(Predictor::GroupGshare(_)) => vec![None; RING],
                Some(Predictor::Gshare(_) | Predictor::Perfect) | None => Vec::new(),
            },
            line: u64::MAX,
            jump_bubble: core.fetch.taken_bubble,
            icache: core.icache.as_ref().map(ICache::new),
            group: Group {
                base: 0,
                end: 0,
                start: 0,
                seen: 0,
                cause: Cause::Fetch,
            },
            behind: None,
            number: 0,
            next: 0,
            next_start: 1,
            next_cause: Cause::Fetch,
            used_up: [0; RING],
            issued: [0; RING],
            placed: 0,
            aligned: 0,
            in_cycle: 0,
        }
    }

    fn base(&self, address: u64) -> u64 {
        address & !(u64::from(self.p.bytes) - 1)
    }

    /// Fetches the group from `self.next` on, if it comes before fetch is called back in cycle `until`.
    fn fetch(&mut self, until: u64, around: &mut impl Around) {
        let number = self.number + 1;
        let base = self.base(self.next);
        // Room: the group so many before has been used up, at the latest in this cycle.
        let room = number.checked_sub(u64::from(self.p.groups));
        let room = room.map_or(0, |n| self.used_up[n as usize % RING]);
        let mut start = self.next_start.max(room);
        let mut cause = self.next_cause;
        let wanted = start;
        let lane = ((self.next - base) / 2) as u8;
        let mut next_start = start + 1;
        if let Some(icache) = &mut self.icache {
            let fetched = icache.fetch(base, start, until);
            if fetched.start > start {
                cause = Cause::InstructionCache;
            }
            // A fetch that misses asks the predictor, too, and moves it on.
            for at in fetched.missed.into_iter().flatten() {
                if let Some(predictor) = self.predictor.as_mut().filter(|_| at + 1 < until) {
                    predictor.fetch(base, lane, at);
                }
            }
            (start, next_start) = (fetched.start, fetched.next.max(fetched.start + 1));
        }
        let line = base / LINE_BYTES;
        if line != std::mem::replace(&mut self.line, line) {
            let late = around.fetch(base, start);
            if late > 0 {
                cause = Cause::InstructionCache;
                start += late;
                next_start = start + 1;
            }
        }
        let predictor = self.predictor.as_mut().filter(|_| start + 1 < until);
        let prediction = predictor.map(|predictor| predictor.fetch(base, lane, start));
        let taken = prediction.and_then(|p| p.taken);
        if let Some(place) = self.predictions.get_mut(number as usize % RING) {
            *place = prediction;
        }
        self.next_cause = Cause::Fetch;
        self.group = match taken {
            Some((lane, target)) => {
                self.next = target;
                next_start = next_start.max(start + 1 + u64::from(self.p.taken_bubble));
                Group {
                    base,
                    end: base.wrapping_add(2 * (u64::from(lane) + 1)),
                    start: wanted,
                    seen: start + u64::from(self.p.to_align),
                    cause,
                }
            }
            None => {
                self.next = base.wrapping_add(u64::from(self.p.bytes));
                Group {
                    base,
                    end: self.next,
                    start: wanted,
                    seen: start + u64::from(self.p.to_align),
                    cause,
                }
            }
        };
        self.next_start = next_start;
        self.behind = None;
        self.number = number;
        self.used_up[number as usize % RING] = u64::MAX;
    }

    /// First cycle in which the aligner can reach into the current group.
    fn reachable(&self) -> u64 {
        let hidden = self.number.checked_sub(u64::from(self.p.visible_groups));
        let before = hidden.map_or(0, |n| self.used_up[n as usize % RING].saturating_add(1));
        self.group.seen.max(before)
    }

    /// Whether an instruction lies behind the last one in the current group.
    fn continues(&self, address: u64) -> bool {
        self.used_up[self.number as usize % RING] == u64::MAX
            && address < self.group.end
            && self.behind.is_none_or(|behind| behind == address)
    }

    /// Takes the next instruction of the program, which lies where fetch is.
    #[inline]
    pub fn place(&mut self, address: u64, len: u8, placed: &mut Placed, around: &mut impl Around) {
        self.place_until(address, len, u64::MAX, placed, around);
    }

    /// The same, where fetch is called back in cycle `until`.
    fn place_until(
        &mut self,
        address: u64,
        len: u8,
        until: u64,
        placed: &mut Placed,
        around: &mut impl Around,
    ) {
        let end = address.wrapping_add(u64::from(len));
        if self.p.ideal {
            *placed = Placed {
                ready: 1,
                group: 0,
                number: 0,
                lane: 0,
                next: end,
                cause: Cause::Fetch,
            };
            return;
        }
        let mut at = 0;
        let mut used = None;
        if !self.continues(address) {
            if self.next != address {
                // Nothing foresaw this jump: without a predictor it counts as foreseen.
                self.next_start = self
                    .next_start
                    .max(self.group.start + 1 + u64::from(self.jump_bubble));
                self.next = address;
            }
            self.jump_bubble = self.p.taken_bubble;
            self.close();
            self.fetch(until, around);
        }
        if end > self.group.end {
            at = self.reachable();
            used = Some(self.number);
            self.next = self.group.end;
            self.fetch(until, around);
        }
        at = at.max(self.reachable()).max(self.aligned);
        let mut cause = self.group.cause;
        if self.in_cycle >= self.p.align_width {
            at = at.max(self.aligned + 1);
        }
        // The queue has room for it when an older one has left.
        let older = self.placed.checked_sub(u64::from(self.p.queue));
        let left = older.map_or(0, |n| self.issued[n as usize % RING].saturating_add(1));
        if left > at {
            at = left;
            cause = Cause::Fetch;
        }
        if at > self.aligned {
            self.aligned = at;
            self.in_cycle = 0;
        }
        self.in_cycle += 1;
        if let Some(number) = used {
            self.used_up[number as usize % RING] = at;
        }
        self.behind = Some(end);
        if end >= self.group.end {
            self.used_up[self.number as usize % RING] = at;
        }
        let slot = self.placed as usize % RING;
        self.issued[slot] = u64::MAX;
        self.placed += 1;
        let next = if end == self.group.end {
            self.next
        } else {
            end
        };
        placed.ready = at + u64::from(self.p.align_to_issue);
        placed.group = self.group.base;
        placed.number = self.number;
        placed.lane = (end.saturating_sub(self.group.base.saturating_add(1)) / 2) as u8;
        placed.next = next;
        placed.cause = cause;
    }

    /// How a group was predicted, one of the last ones.
    #[must_use]
    pub fn prediction(&self, number: u64) -> Option<Prediction> {
        self.predictions.get(number as usize % RING).copied()?
    }

    /// Leaves the current group, whose rest is not executed.
    fn close(&mut self) {
        let used_up = &mut self.used_up[self.number as usize % RING];
        if *used_up == u64::MAX {
            *used_up = self.aligned;
        }
    }

    /// The `back`th last instruction that was placed (0: the last) issues.
    pub fn issued(&mut self, back: u64, cycle: u64) {
        if let Some(n) = self.placed.checked_sub(1 + back) {
            self.issued[n as usize % RING] = cycle;
        }
    }

    /// Only decode finds where the jump goes that comes next, behind which nothing is fetched for so many
    /// cycles.
    pub fn found_by_decode(&mut self, bubble: u32) {
        self.jump_bubble = bubble.max(self.p.taken_bubble);
    }

    /// Fetch starts anew at `address` in `cycle`.
    pub fn restart(&mut self, address: u64, cycle: u64) {
        if let Some(predictor) = &mut self.predictor {
            predictor.restart();
        }
        let start = self.icache.as_mut().map_or(cycle, |c| c.redirected(cycle));
        self.next = address;
        self.next_start = start;
        self.next_cause = Cause::Misprediction;
        // All groups are dropped.
        for n in 0..u64::from(self.p.groups.max(self.p.visible_groups)) {
            if let Some(n) = self.number.checked_sub(n) {
                let used_up = &mut self.used_up[n as usize % RING];
                *used_up = (*used_up).min(cycle);
            }
        }
        for n in 1..=u64::from(self.p.queue) {
            if let Some(n) = self.placed.checked_sub(n) {
                let issued = &mut self.issued[n as usize % RING];
                *issued = (*issued).min(cycle);
            }
        }
        self.group.end = self.group.base;
        self.aligned = cycle;
        self.in_cycle = 0;
    }

    /// Places an instruction that will not be executed, unless its bytes come to be fetched so
    /// late that fetch is called back in `cycle` before they are of any effect.
    pub fn place_astray(&mut self, address: u64, len: u8, cycle: u64) -> Option<Placed> {
        let crosses = address.wrapping_add(u64::from(len)) > self.group.end;
        if (!self.continues(address) || crosses) && self.next_fetch().saturating_add(1) >= cycle {
            return None;
        }
        let mut placed = Placed::default();
        self.place_until(address, len, cycle, &mut placed, &mut ());
        Some(placed)
    }

    /// Lets fetch go on as far as there is room, until it is called back in `cycle`.
    pub fn go_astray(&mut self, cycle: u64) {
        while self.next_fetch().saturating_add(1) < cycle {
            self.fetch(cycle, &mut ());
        }
    }

    /// When the next fetch can start, as far as known.
    fn next_fetch(&self) -> u64 {
        let room = (self.number + 1).checked_sub(u64::from(self.p.groups));
        let room = room.map_or(0, |n| self.used_up[n as usize % RING]);
        self.next_start.max(room)
    }
}
