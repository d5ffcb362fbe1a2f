//! The store buffer: writes retired stores to the first-level cache in program order.
//!
//! Two stores in a row to one line are written together, on some cores any two, or any number to one part of
//! a line; each other takes a cycle, on some cores also the first one behind a cycle without any. A store that finds the
//! buffer full cannot issue. docs/GOLDEN-COVE.md, docs/REDWOOD-COVE.md and docs/ZEN4.md have the measurements.

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
    /// The last store was written together with the one before it, or must be alone.
    paired: bool,
    /// One that is written after a cycle without any must be alone.
    first_alone: bool,
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
            first_alone: false,
            partial: (p.partial_stores.again > 0)
                .then(|| PartialWords::new(p.partial_stores, p.stores_together)),
        }
    }

    /// From now on a store that is written after a cycle without any is written alone, or not.
    pub fn writes_the_first_alone(&mut self, alone: bool) {
        self.first_alone = alone;
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
        let first = cycle > self.last + 1;
        self.paired = pairs && cycle == self.last || first && self.first_alone;
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
            first_alone: _,
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
            first_alone: _,
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

#[cfg(test)]
mod tests {
    use super::*;
    use mcad_isa::machine;

    /// Cycles in which stores to one line are written that retire in these.
    fn written(first_alone: bool, retired: &[u64]) -> Vec<u64> {
        let glc = machine::cpu("glc").unwrap();
        let mut buffer = StoreBuffer::new(64, &glc.core.execute);
        buffer.writes_the_first_alone(first_alone);
        let store = |(n, at): (usize, &u64)| {
            let access = Access::known(0x1000 + 8 * (n as u64 % 8), 8);
            buffer.retire(Some(&access), *at, 0);
            buffer.last()
        };
        retired.iter().enumerate().map(store).collect()
    }

    /// What a load of one, two, four and six stores' bytes waits for, docs/REDWOOD-COVE.md, "Vectors from memory".
    #[test]
    fn the_first_one_behind_a_cycle_without_any_is_written_alone() {
        let retired = [100; 6];
        assert_eq!(written(false, &retired), [101, 101, 102, 102, 103, 103]);
        assert_eq!(written(true, &retired), [101, 102, 102, 103, 103, 104]);
    }

    #[test]
    fn those_behind_others_go_in_pairs_all_the_same() {
        let steadily: Vec<u64> = (0..20).map(|n| 100 + n / 2).collect();
        let cycles = written(true, &steadily);
        assert_eq!(cycles.last(), Some(&111));
        let apart = [100, 110, 120];
        assert_eq!(written(true, &apart), [101, 111, 121]);
    }
}
