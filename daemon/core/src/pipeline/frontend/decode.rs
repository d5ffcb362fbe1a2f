//! The decoders ("MITE"): from the instruction queue to µops.

use super::microcode::Microcode;
use super::predecode::Predecoder;
use super::target::Target;
use crate::pipeline::inst::Source;
use crate::pipeline::observer::{Delivery, Observer};
use crate::pipeline::state::{Fingerprint, Moment, Part};
use mcad_isa::program::flag;

/// The decoders behind the instruction queue.
#[derive(Debug, Default)]
pub struct Decoders {
    /// Next instruction.
    next: u64,
}

impl Decoders {
    /// One cycle of the predecoder and the decoders.
    pub fn cycle<O: Observer>(
        &mut self,
        t: &mut Target<'_, O>,
        predecoder: &mut Predecoder,
        microcode: &mut Microcode,
    ) {
        let head = t.queue.head();
        predecoder.restart(head, t.queue.ahead_of(t.clock));
        let waiting = predecoder.queued.saturating_sub(head.max(self.next));
        predecoder.cycle(t.clock, t.p, t.queue, waiting);
        self.decode(t, predecoder, microcode);
    }

    /// Whether the instruction after `number`, which could be the other half of a pair, can be
    /// seen.
    fn sees_next<O: Observer>(t: &Target<'_, O>, predecoder: &Predecoder, number: u64) -> bool {
        match t.queue.get(number + 1) {
            Some(next) if number + 1 < predecoder.queued => {
                next.predecoded + t.p.predecode_to_decode <= t.clock
            }
            Some(next) if number + 1 < t.queue.released() => next.source != Source::Decoders,
            _ => t.last,
        }
    }

    fn decode<O: Observer>(
        &mut self,
        t: &mut Target<'_, O>,
        predecoder: &Predecoder,
        microcode: &mut Microcode,
    ) {
        let from = Delivery::Of(Source::Decoders);
        let program = t.program;
        let mut delivered = false;
        let mut decoded = 0;
        let mut remaining = t.p.decoders;
        let mut branches = t.p.decoded_branches.max(1);
        self.next = self.next.max(t.queue.head());
        while self.next < predecoder.queued {
            let number = self.next;
            let Some(inst) = t.queue.get(number) else {
                break;
            };
            let Some(instr) = program.instrs.get(inst.instr as usize) else {
                break;
            };
            let predecoded = inst.predecoded;
            if instr.is(flag::FUSED_PREVIOUS) {
                t.queue.pop();
                self.next += 1;
                continue;
            }
            if predecoded + t.p.predecode_to_decode > t.clock {
                break;
            }
            if delivered && instr.is(flag::COMPLEX) {
                break;
            }
            if instr.is(flag::FUSIBLE) {
                if !t.p.fusible_may_decode_last && decoded + 1 == t.p.decoders {
                    break;
                }
                // It waits to see whether a jump follows.
                if !Self::sees_next(t, predecoder, number) {
                    break;
                }
            }
            self.next += 1;
            delivered = true;
            let (mite, all) = (instr.laminated_mite, instr.laminated_len);
            for n in 0..mite {
                t.deliver_here(number, n, instr.laminated + u32::from(n), from);
            }
            if instr.microcoded {
                let stall = t.p.decoder_to_microcode_stall;
                if mite < all {
                    microcode.start(mite, stall, stall);
                } else {
                    microcode.pass(stall);
                }
                break;
            }
            remaining = if instr.is(flag::COMPLEX) {
                remaining
                    .saturating_sub(1)
                    .min(u32::from(instr.simple_decoders))
            } else {
                remaining - 1
            };
            decoded += 1;
            branches -= u32::from(instr.is(flag::BRANCH | flag::FUSED_NEXT));
            if remaining == 0 || branches == 0 {
                break;
            }
        }
    }
}

impl Part for Decoders {
    fn reset(&mut self, _: &Moment) {
        *self = Self::default();
    }

    fn fingerprint(&self, at: &Moment, h: &mut Fingerprint) {
        let Self { next } = self;
        h.add(next.saturating_sub(at.next));
    }
}
