//! The microcode sequencer ("MS"): takes over for the rest of an instruction's µops.

use super::target::Target;
use crate::pipeline::observer::{Delivery, Observer};
use crate::pipeline::state::{Fingerprint, Moment, Part};

/// State of the sequencer. It works on the next instruction to be delivered.
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

    /// Whether the other sources must wait.
    #[inline]
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.next.is_some() || self.stalled > 0
    }
}

impl Microcode {
    /// One cycle of delivery from microcode.
    pub fn cycle<O: Observer>(&mut self, t: &mut Target<'_, O>) {
        if self.stalled > 0 {
            self.stalled -= 1;
            return;
        }
        let Some(mut next) = self.next else {
            return;
        };
        let Some(len) = t
            .queue
            .front()
            .and_then(|i| t.program.instrs.get(i.instr as usize))
            .map(|i| i.laminated_len)
        else {
            self.next = None;
            return;
        };
        let number = t.queue.head();
        for _ in 0..t.p.microcode_width {
            if next >= len {
                break;
            }
            t.deliver_one(number, next, Delivery::Microcode);
            next += 1;
        }
        if next >= len {
            self.next = None;
            self.stalled = self.after;
        } else {
            self.next = Some(next);
        }
    }
}

impl Part for Microcode {
    fn reset(&mut self, _: &Moment) {
        *self = Self::default();
    }

    /// Between instructions.
    fn fingerprint(&self, _: &Moment, h: &mut Fingerprint) {
        let Self {
            next: _,
            stalled,
            after: _,
        } = self;
        h.add(u64::from(*stalled));
    }
}
