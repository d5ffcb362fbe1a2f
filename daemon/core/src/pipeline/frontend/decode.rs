//! The decoders ("MITE"): from the instruction queue to µops.

use super::{FrontEnd, Target};
use crate::pipeline::inst::Source;
use crate::pipeline::observer::{Delivery, Observer};
use mcad_isa::program::flag;

impl FrontEnd {
    /// One cycle of the predecoder and the decoders.
    pub(super) fn decoders_cycle<O: Observer>(&mut self, t: &mut Target<'_, O>) {
        let head = t.feed.head();
        self.predecoder.restart(head);
        let waiting = self
            .predecoder
            .queued
            .saturating_sub(head.max(self.decode_head));
        self.predecoder.cycle(self.clock, &self.p, t.feed, waiting);
        self.decode(t);
    }

    fn decode<O: Observer>(&mut self, t: &mut Target<'_, O>) {
        let from = Delivery::Of(Source::Decoders);
        let program = t.program;
        let mut delivered = false;
        let mut decoded = 0;
        let mut remaining = self.p.decoders;
        self.decode_head = self.decode_head.max(t.feed.head());
        while self.decode_head < self.predecoder.queued {
            let number = self.decode_head;
            let Some(inst) = t.feed.get(number) else {
                break;
            };
            let Some(instr) = program.instrs.get(inst.instr as usize) else {
                break;
            };
            let predecoded = inst.predecoded;
            if instr.is(flag::FUSED_PREVIOUS) {
                t.feed.pop();
                self.decode_head += 1;
                continue;
            }
            if predecoded + self.p.predecode_to_decode > self.clock {
                break;
            }
            if delivered && instr.is(flag::COMPLEX) {
                break;
            }
            if instr.is(flag::FUSIBLE) {
                if !self.p.fusible_may_decode_last && decoded + 1 == self.p.decoders {
                    break;
                }
                // It waits to see whether a jump follows.
                let next_is_there = match t.feed.get(number + 1) {
                    Some(next) if number + 1 < self.predecoder.queued => {
                        next.predecoded + self.p.predecode_to_decode <= self.clock
                    }
                    Some(next) if number + 1 < t.feed.released() => next.source != Source::Decoders,
                    _ => t.last,
                };
                if !next_is_there {
                    break;
                }
            }
            self.decode_head += 1;
            delivered = true;
            let (mite, all) = (instr.laminated_mite, instr.laminated_len);
            for n in 0..mite {
                self.deliver(t, number, n, from);
            }
            if instr.microcoded {
                let stall = self.p.decoder_to_microcode_stall;
                if mite < all {
                    self.microcode.start(mite, stall, stall);
                } else {
                    self.microcode.pass(stall);
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
            if remaining == 0 || instr.is(flag::BRANCH | flag::FUSED_NEXT) {
                break;
            }
        }
    }
}
