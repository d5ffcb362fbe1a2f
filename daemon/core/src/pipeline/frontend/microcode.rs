//! The microcode sequencer ("MS"): takes over for the rest of an instruction's µops.

use super::{FrontEnd, Target};
use crate::pipeline::observer::{Delivery, Observer};

/// State of the sequencer. It works on the instruction at the head of the feed.
#[derive(Debug, Default)]
pub struct Microcode {
    /// Next laminated µop of the instruction, while one is under way.
    next: Option<u16>,
    stalled: u32,
    after: u32,
}

impl Microcode {
    /// Starts with laminated µop `first` after `stall` cycles; `after` cycles pass at the end.
    pub fn start(&mut self, first: u16, stall: u32, after: u32) {
        self.next = Some(first);
        self.stalled = stall;
        self.after = after;
    }

    /// Switches without µops: only the stall.
    pub fn pass(&mut self, stall: u32) {
        self.stalled = stall;
    }

    /// Whether some but not all µops of an instruction are delivered.
    #[must_use]
    pub fn within_instruction(&self) -> bool {
        self.next.is_some()
    }

    /// Cycles for which the other sources still wait.
    #[must_use]
    pub fn stalled(&self) -> u32 {
        self.stalled
    }

    /// Whether the other sources must wait.
    #[inline]
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.next.is_some() || self.stalled > 0
    }
}

impl FrontEnd {
    /// One cycle of delivery from microcode.
    pub(super) fn microcode_cycle<O: Observer>(&mut self, t: &mut Target<'_, O>) {
        if self.microcode.stalled > 0 {
            self.microcode.stalled -= 1;
            return;
        }
        let Some(mut next) = self.microcode.next else {
            return;
        };
        let Some(len) = t
            .feed
            .front()
            .and_then(|i| t.program.instrs.get(i.instr as usize))
            .map(|i| i.laminated_len)
        else {
            self.microcode.next = None;
            return;
        };
        let number = t.feed.head();
        for _ in 0..self.p.microcode_width {
            if next >= len {
                break;
            }
            self.deliver(t, number, next, Delivery::Microcode);
            next += 1;
        }
        if next >= len {
            self.microcode.next = None;
            self.microcode.stalled = self.microcode.after;
        } else {
            self.microcode.next = Some(next);
        }
    }
}
