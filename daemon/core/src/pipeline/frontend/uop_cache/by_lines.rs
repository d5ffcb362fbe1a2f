//! Delivery of whole lines, as AMD's op cache does it: two lines a cycle, which belong to one block of
//! code, or to two that follow one another when their µops are few enough. Behind a taken branch the
//! next lines of the same block come some cycles later; in code that goes straight on these cycles
//! are used for the blocks that follow. The target of a taken branch can come in the same cycle when
//! it does not lead back within its block. docs/ZEN5.md has the measurements.

use super::pack::{Entry, NO_UOP};
use crate::pipeline::frontend::microcode::Microcode;
use crate::pipeline::frontend::target::Target;
use crate::pipeline::inst::Source;
use crate::pipeline::observer::{Delivery, Observer};
use crate::pipeline::state::Fingerprint;

/// Where delivery is.
#[derive(Debug, Default)]
pub struct State {
    /// Cycles in which nothing is delivered.
    idle: u32,
    /// A block has been left since the last taken branch.
    beyond: bool,
    refills: Refills,
}

/// Blocks of code that come back into the µop cache after a page fault: the kernel's code has
/// pushed out all of them.
#[derive(Debug, Default)]
struct Refills {
    /// Page faults when the blocks below began to come back.
    faults: u64,
    /// Blocks that are back, by their number's low bits, each with the faults' low bits above.
    back: Vec<u64>,
    /// Blocks that came back so far.
    count: u64,
}

/// Blocks that are remembered, a power of two; as many as lines in a µop cache.
const BLOCKS: usize = 1024;

impl Refills {
    /// Whether delivery from `block` has to wait for it to come back.
    #[inline]
    fn refills(&mut self, block: u64, faults: u64) -> bool {
        if faults == 0 {
            return false;
        }
        if self.faults != faults {
            self.faults = faults;
            self.back.resize(BLOCKS, 0);
        }
        let known = block | faults << 44;
        match self.back.get_mut(block as usize % BLOCKS) {
            Some(slot) if *slot != known => {
                *slot = known;
                self.count += 1;
                true
            }
            _ => false,
        }
    }
}

/// What was delivered last in a cycle.
#[derive(Clone, Copy)]
struct Last {
    entry: Entry,
    /// Instruction, by number in the feed.
    number: u64,
}

/// How the entries of a line ended.
enum End {
    /// With the line.
    Line,
    /// At a taken branch.
    Taken,
    /// Nothing more can be delivered in this cycle.
    Cycle,
}

impl State {
    /// One cycle.
    pub fn cycle<O: Observer>(&mut self, t: &mut Target<'_, O>, microcode: &mut Microcode) {
        if self.idle > 0 {
            self.idle -= 1;
            return;
        }
        let bytes = u64::from(t.p.uop_cache_block_bytes.max(1));
        let block = |entry: &Entry| entry.address / bytes;
        if t.p.uop_cache_refill > 0
            && let Some(first) = t.queue.entries.front()
            && self.refills.refills(block(first), t.back.faults())
        {
            self.idle = t.p.uop_cache_refill - 1;
            return;
        }
        let mut last: Option<Last> = None;
        let mut delivered = 0;
        for _ in 0..t.p.uop_cache_lines_per_cycle {
            let (Some(&line), Some(first)) = (t.queue.lines.front(), t.queue.entries.front())
            else {
                return;
            };
            let count = u32::from(line.left);
            if let Some(last) = last {
                let number = line.from + u64::from(first.number);
                // The decoders may come in between.
                let follows = t.next_number(last.number) == number || last.number == number;
                let same = block(&last.entry) == block(first);
                let fits = delivered + count <= t.p.uop_cache_across_blocks;
                if last.entry.taken && last.entry.ends_instruction {
                    // A line is not read twice in a cycle.
                    let again = same && first.address <= last.entry.address;
                    if !t.p.uop_cache_follows_taken || again || !fits || !follows {
                        return;
                    }
                } else if !follows || !(same || fits) {
                    break;
                } else {
                    self.beyond |= !same;
                }
            }
            match self.line(t, microcode, &mut last) {
                End::Line | End::Taken => delivered += count,
                End::Cycle => return,
            }
        }
        let (Some(last), Some(next)) = (last, t.queue.entries.front()) else {
            return;
        };
        if last.entry.taken && last.entry.ends_instruction {
            return;
        }
        let same = block(&last.entry) == block(next);
        if same && !self.beyond {
            self.idle = t.p.uop_cache_same_block_stall;
        }
        self.beyond |= !same;
    }

    /// Delivers what is left of the line at the front.
    fn line<O: Observer>(
        &mut self,
        t: &mut Target<'_, O>,
        microcode: &mut Microcode,
        last: &mut Option<Last>,
    ) -> End {
        while let (Some(&line), Some(&entry)) = (t.queue.lines.front(), t.queue.entries.front()) {
            let number = line.from + u64::from(entry.number);
            if number >= t.queue.fetchable() {
                return End::Cycle;
            }
            if entry.laminated != NO_UOP {
                t.deliver(number, entry.laminated, Delivery::Of(Source::UopCache));
            }
            t.queue.entries.pop(1);
            match t.queue.lines.front_mut() {
                Some(front) if line.left > 1 => front.left -= 1,
                _ => t.queue.lines.pop(1),
            }
            *last = Some(Last { entry, number });
            if entry.microcode {
                microcode.start(entry.rest(), t.p.uop_cache_to_microcode_stall, 0);
                return End::Cycle;
            }
            if entry.taken && entry.ends_instruction {
                self.beyond = false;
                return End::Taken;
            }
            if line.left <= 1 {
                return End::Line;
            }
        }
        End::Cycle
    }

    /// Adds what later deliveries depend on.
    pub fn fingerprint(&self, h: &mut Fingerprint) {
        let Self {
            idle,
            beyond,
            refills,
        } = self;
        h.add(u64::from(*idle) << 1 | u64::from(*beyond));
        // What is back need not be: while blocks come back, no state recurs.
        h.add(refills.count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_block_comes_back_once_after_a_fault() {
        let mut refills = Refills::default();
        let mut come_back = |faults: u64, blocks: u64| {
            (0..blocks)
                .filter(|b| refills.refills(0x10_0000 + b, faults))
                .count() as u64
        };
        assert_eq!(come_back(0, 500), 0);
        assert_eq!(come_back(1, 500), 500);
        assert_eq!(come_back(1, 500), 0);
        assert_eq!(come_back(1, 600), 100);
        assert_eq!(come_back(2, 300), 300);
    }
}
