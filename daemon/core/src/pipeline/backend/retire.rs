//! Re-order buffer and retirement: fused µops leave in program order, so many per cycle, at the
//! earliest one cycle after all their µops have executed.

use super::topdown::Cause;
use crate::lists::part;
use crate::pipeline::fold::Folding;
use crate::pipeline::state::{Fingerprint, Moment, Part};
use crate::pipeline::window::last;
use mcad_isa::machine::params::Retire;

/// A fused µop.
#[derive(Clone, Copy, Default, PartialEq)]
struct Entry {
    /// When it retires, and what decided that.
    stamp: u64,
    /// Whose it is: the instruction's place in the program.
    instr: u32,
}

impl Entry {
    #[inline]
    fn cycle(&self) -> u64 {
        self.stamp >> Cause::BITS
    }
}

/// The re-order buffer as a ring of retirement cycles.
pub struct Retirement {
    /// A power of two.
    ring: Box<[Entry]>,
    entries: u64,
    width: u32,
    count: u64,
    last: u64,
    in_cycle: u32,
    /// The oldest µop that may not have retired when it was last asked for.
    oldest: u64,
}

impl Retirement {
    /// An empty buffer.
    #[must_use]
    pub fn new(p: &Retire, issue_width: u32) -> Self {
        let size = u64::from(p.reorder_buffer + issue_width).next_power_of_two();
        Self {
            ring: vec![Entry::default(); size as usize].into(),
            entries: u64::from(p.reorder_buffer),
            width: p.width,
            count: 0,
            last: 0,
            in_cycle: 0,
            oldest: 0,
        }
    }

    /// Where a µop is, by number.
    #[inline(always)]
    fn place(&self, number: u64) -> usize {
        number as usize & self.ring.len().wrapping_sub(1)
    }

    /// Retires the next fused µop, of the program's instruction `instr`, which has executed at
    /// `executed`; `cause` is what decided that. Returns the cycle and how many retired before it in
    /// that cycle.
    #[inline(always)]
    pub fn retire(&mut self, executed: u64, cause: Cause, instr: u32) -> (u64, u32) {
        let mut cycle = executed + 1;
        if cycle <= self.last {
            cycle = self.last;
            if self.in_cycle >= self.width {
                cycle += 1;
                self.in_cycle = 0;
            }
        } else {
            self.in_cycle = 0;
        }
        let slot = self.in_cycle;
        self.in_cycle += 1;
        self.last = cycle;
        let place = self.place(self.count);
        self.ring[place] = Entry {
            stamp: cycle << Cause::BITS | cause.bits(),
            instr,
        };
        self.count += 1;
        (cycle, slot)
    }

    /// First cycle in which a group of `width` may be issued after the µops so far. The buffer must
    /// have room for a whole group at the cycle's start.
    #[inline]
    #[must_use]
    pub fn room_for(&self, width: u64) -> u64 {
        match (self.count + width).checked_sub(self.entries) {
            None | Some(0) => 0,
            Some(must_be_gone) => self.ring[self.place(must_be_gone - 1)].cycle() + 1,
        }
    }

    /// The oldest µop that has not retired in `cycle`, which never falls: what it waits for, whose it
    /// is, and when it retires.
    pub fn oldest(&mut self, cycle: u64) -> (Cause, u32, u64) {
        // What has left the ring has retired.
        self.oldest = self
            .oldest
            .max(self.count.saturating_sub(self.ring.len() as u64 - 1));
        while self.oldest < self.count {
            let entry = self.ring[self.place(self.oldest)];
            if entry.cycle() > cycle {
                return (Cause::from_bits(entry.stamp), entry.instr, entry.cycle());
            }
            self.oldest += 1;
        }
        (Cause::CORE, 0, u64::MAX)
    }

    /// Cycle of the last retirement.
    #[inline]
    #[must_use]
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Fused µops that are not yet retired at `now`.
    #[must_use]
    pub fn in_flight(&self, now: u64) -> u64 {
        let (older, younger) = self.waiting(now);
        (older.len() + younger.len()) as u64
    }

    /// The stamps that lie behind `now`.
    fn waiting(&self, now: u64) -> (&[Entry], &[Entry]) {
        let known = self.count.min(self.entries) as usize;
        let (older, younger) = last(&self.ring, self.count, known);
        (waiting(older, now), waiting(younger, now))
    }

    /// Fused µops so far.
    #[inline]
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }
}

impl Part for Retirement {
    fn fold(&mut self, folding: &mut Folding) {
        folding.table(&mut self.ring, Entry::default());
    }

    fn reset(&mut self, _: &Moment) {
        let Self {
            ring: _,
            entries: _,
            width: _,
            count,
            last,
            in_cycle,
            oldest,
        } = self;
        (*count, *last, *in_cycle, *oldest) = (0, 0, 0, 0);
    }

    fn fingerprint(&self, at: &Moment, h: &mut Fingerprint) {
        let Self {
            ring: _,
            entries: _,
            width: _,
            count: _,
            last,
            in_cycle,
            oldest: _,
        } = self;
        let now = at.issue;
        h.add_future(*last, now);
        h.add(if *last > now { u64::from(*in_cycle) } else { 0 });
        let (older, younger) = self.waiting(now);
        let entries = older.iter().chain(younger);
        h.add_distances(entries.map(|entry| entry.cycle() - now));
    }
}

/// Those of the ring's entries, whose cycles never fall, that lie behind `now`.
fn waiting(entries: &[Entry], now: u64) -> &[Entry] {
    let gone = entries.partition_point(|entry| entry.cycle() <= now);
    part(entries, gone..entries.len())
}
