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
            && t.queue.refills.come(block(first), t.back.faults())
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
                let first = *first;
                let same = block(&last.entry) == block(&first);
                let there = same
                    || t.p.uop_cache_refill == 0
                    || !t.queue.refills.lacks(block(&first), t.back.faults());
                let fits = delivered + count <= t.p.uop_cache_across_blocks && there;
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
        let Self { idle, beyond } = self;
        h.add(u64::from(*idle) << 1 | u64::from(*beyond));
    }
}
