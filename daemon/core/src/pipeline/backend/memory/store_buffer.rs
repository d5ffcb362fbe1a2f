//! The store buffer: writes retired stores to the first-level cache in program order.
//!
//! Two stores in a row to one line are written together, on some cores any two, or any number to one part of
//! a line; each other takes a cycle. A store that finds the buffer full cannot issue. docs/GOLDEN-COVE.md and
//! docs/ZEN4.md have the measurements.

use super::partial_words::PartialWords;
use crate::pipeline::access::{Access, Line};
use crate::pipeline::fold::Folding;
use crate::pipeline::state::{Fingerprint, Moment, Part};
use mcad_isa::machine::params::{Execute, StoresTogether};

/// Stores whose cycles are kept, a power of two above the size of any buffer.
const RING: u64 = 1 << 10;

/// Cycles in which stores are written.
pub struct StoreBuffer {
    entries: u64,
    /// Which stores are written in one cycle, and the bytes of the part of a line that they share.
    together: StoresTogether,
    part: u64,
    ring: Box<[u64]>,
    count: u64,
    last: u64,
    line: Line,
    /// The last store was written together with the one before it.
    paired: bool,
    /// Words that are written in part, if that takes longer.
    partial: Option<PartialWords>,
}

impl StoreBuffer {
    /// An empty buffer of so many entries; 0: it is not modelled.
    #[must_use]
    pub fn new(entries: u32, p: &Execute) -> Self {
        Self {
            entries: u64::from(entries).min(RING / 2),
            together: p.stores_together,
            part: p.stores_together.bytes(),
            ring: vec![0; RING as usize].into(),
            count: 0,
            last: 0,
            line: Line::NONE,
            paired: false,
            partial: (p.partial_stores.again > 0)
                .then(|| PartialWords::new(p.partial_stores, p.stores_together)),
        }
    }

    /// Stores that have retired so far.
    #[inline]
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Cycle in which the last store is written.
    #[inline]
    #[must_use]
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Whether the buffer is modelled.
    #[inline]
    #[must_use]
    pub fn is_modelled(&self) -> bool {
        self.entries > 0
    }

    /// First cycle in which `stores` more can issue.
    #[inline]
    #[must_use]
    pub fn room_for(&self, stores: u64) -> u64 {
        match (self.count + stores).checked_sub(self.entries) {
            None | Some(0) => 0,
            Some(must_be_gone) => self.written(must_be_gone) + 1,
        }
    }

    /// Cycle in which store number `number` (from 1) is written.
    #[inline]
    #[must_use]
    pub fn written(&self, number: u64) -> u64 {
        if number == 0 || number > self.count || number + RING <= self.count {
            return 0;
        }
        self.ring[(number % RING) as usize]
    }

    /// Whether store number `number` is not written yet in cycle `at`.
    #[inline]
    #[must_use]
    pub fn holds(&self, number: u64, at: u64) -> bool {
        number > self.count || self.written(number) > at
    }

    /// So many cycles go by in which no store is written.
    #[inline]
    pub fn hold_up(&mut self, cycles: u64) {
        self.last += cycles;
    }

    /// The next store in program order retires at `retired`; its line is there, to be written, at
    /// `owned`.
    #[inline]
    pub fn retire(&mut self, access: Option<&Access>, retired: u64, owned: u64) {
        match access.filter(|_| self.together == StoresTogether::Alone) {
            Some(access) => {
                for piece in access.pieces(self.part) {
                    self.write(Some(&piece), retired, owned);
                }
            }
            None => self.write(access, retired, owned),
        }
        self.count += 1;
        self.ring[(self.count % RING) as usize] = self.last;
    }

    /// What is written together of a store.
    #[inline(always)]
    fn write(&mut self, access: Option<&Access>, retired: u64, owned: u64) {
        let line = access.map_or(Line::NONE, |access| access.part(self.part));
        if let Some(partial) = &mut self.partial {
            self.last += partial.turn(line, self.last);
        }
        let alone = self.together == StoresTogether::Alone;
        let room = self.together.any_number() || !self.paired && !alone;
        let pairs = room && (!self.together.by_line() || line.shares(self.line, self.part));
        let mut cycle = (self.last + u64::from(!pairs)).max(retired + 1).max(owned);
        self.paired = pairs && cycle == self.last;
        self.line = line;
        if access.is_some_and(Access::crosses_line) {
            // Written line by line.
            cycle += 1;
            self.paired = false;
            self.line = self.line.next();
        }
        if let (Some(partial), Some(access)) = (&mut self.partial, access) {
            partial.write(line, access, cycle);
        }
        self.last = cycle;
    }
}

impl Part for StoreBuffer {
    fn fold(&mut self, folding: &mut Folding) {
        folding.table(&mut self.ring, 0);
    }

    fn reset(&mut self, at: &Moment) {
        let Self {
            entries: _,
            together: _,
            part: _,
            ring: _,
            count,
            last,
            line,
            paired,
            partial,
        } = self;
        if let Some(partial) = partial {
            partial.reset(at);
        }
        (*count, *last, *line, *paired) = (0, 0, Line::NONE, false);
    }

    /// Lines are not compared: which stores share one must be the same in every iteration.
    fn fingerprint(&self, at: &Moment, h: &mut Fingerprint) {
        let Self {
            entries,
            together: _,
            part: _,
            ring,
            count,
            last,
            line: _,
            paired,
            partial,
        } = self;
        let now = at.issue;
        h.add_future(*last, now);
        h.add(u64::from(*paired));
        if let Some(partial) = partial {
            partial.fingerprint(at, h);
        }
        for back in 0..*entries.min(count) {
            let written = ring[((count - back) % RING) as usize];
            if written <= now {
                break;
            }
            h.add(written - now);
        }
    }
}
