//! Words of the first-level cache that stores write in part.
//!
//! A cache that checks each word of four bytes as a whole must read a word of which it writes less. Zen and Zen 3 do so some
//! cycles before the write's turn, and once more if the word was written since (docs/ZEN3.md, "Stores of less than a word"; docs/ZEN1.md).

use crate::pipeline::access::{Access, Line};
use crate::pipeline::state::{Fingerprint, Moment, Part};
use mcad_isa::machine::params::{PartialStores, StoresTogether};

/// Writes that are remembered: the most that take their turns while a word that was read waits, of one a cycle.
const RECENT: usize = 8;

/// Stores that are written together, or one after the other to the same part of a line.
#[derive(Clone, Copy, Debug, Default)]
struct Write {
    part: Line,
    /// A bit for each byte of the part that is written.
    bytes: u32,
    /// Words that a store wrote in part, where each is written alone, a bit of four each.
    partly: u32,
    /// Cycle of its turn.
    due: u64,
}

impl Write {
    /// The words of which all bytes (`whole`) or some are written, a bit of four each.
    fn words(self, whole: bool) -> u32 {
        let any = |bits: u32| (bits | bits >> 1 | bits >> 2 | bits >> 3) & 0x1111_1111;
        if whole {
            any(self.bytes) & !any(!self.bytes)
        } else {
            any(self.bytes)
        }
    }
}

/// Which words are written in part, and when they were written before.
pub struct PartialWords {
    stores: PartialStores,
    /// Bytes of the part of a line that is written at once, at most 32.
    part: u64,
    /// Each store is written alone: what one of them leaves of a word the next does not make up for.
    alone: bool,
    now: Write,
    /// Those before, as a ring.
    recent: [Write; RECENT],
    next: usize,
    /// Cycle in which a word was last read once more, and all behind it with it.
    read: u64,
}

impl PartialWords {
    /// Nothing was written yet.
    #[must_use]
    pub fn new(stores: PartialStores, together: StoresTogether) -> Self {
        Self {
            stores,
            part: together.bytes().min(u64::from(u32::BITS)),
            alone: together == StoresTogether::Alone,
            now: Write::default(),
            recent: [Write::default(); RECENT],
            next: 0,
            read: 0,
        }
    }

    /// A store to `part` has its turn, the last one was written in cycle `last`: the cycles that what was written until
    /// then takes longer.
    #[inline]
    pub fn turn(&mut self, part: Line, last: u64) -> u64 {
        if self.now.bytes == 0 || part.shares(self.now.part, self.part) {
            return 0;
        }
        let ended = std::mem::take(&mut self.now);
        let in_part = match self.alone {
            true => ended.partly,
            false => ended.words(false) & !ended.words(true),
        };
        let read = self
            .read
            .max(ended.due.saturating_sub(u64::from(self.stores.ahead)));
        let again = in_part != 0
            && self.recent.iter().any(|before| {
                before.due >= read
                    && before.words(false) & in_part != 0
                    && before.part.shares(ended.part, self.part)
            });
        let longer = if again {
            u64::from(self.stores.again)
        } else {
            0
        };
        let due = last + longer;
        if again {
            self.read = due;
        }
        self.recent[self.next] = Write { due, ..ended };
        self.next = (self.next + 1) % RECENT;
        longer
    }

    /// The store is written in cycle `at`.
    #[inline]
    pub fn write(&mut self, part: Line, access: &Access, at: u64) {
        let first = u64::from(access.in_line()) % self.part;
        let size = u64::from(access.size).min(self.part - first);
        let bytes = (((1_u64 << size) - 1) << first) as u32;
        if self.now.bytes == 0 {
            (self.now.part, self.now.due) = (part, at);
        }
        self.now.bytes |= bytes;
        if self.alone {
            let own = Write { bytes, ..self.now };
            self.now.partly |= own.words(false) & !own.words(true);
        }
    }
}

impl Part for PartialWords {
    fn reset(&mut self, _: &Moment) {
        (self.now, self.recent) = (Write::default(), [Write::default(); RECENT]);
        (self.next, self.read) = (0, 0);
    }

    /// Places are not compared, as in the store buffer.
    fn fingerprint(&self, at: &Moment, h: &mut Fingerprint) {
        let Self {
            stores,
            part: _,
            alone: _,
            now,
            recent,
            next,
            read,
        } = self;
        h.add_future(*read, at.issue);
        h.add(u64::from(now.partly) << 32 | u64::from(now.bytes));
        h.add_future(now.due, at.issue);
        for back in 1..=RECENT {
            let before = recent[(next + RECENT - back) % RECENT];
            h.add_future(before.due + u64::from(stores.ahead), at.issue);
        }
    }
}
