//! The loop stream detector ("LSD"): replays a small loop from the decode queue.
//!
//! It refills the queue only when that has run empty, with several copies of a small loop; so the
//! first µop of a refill never issues together with the last one before it.

use super::frontend::{FrontEnd, Target};
use super::inst::Source;
use super::observer::{Delivery, Observer};
use crate::isa::program::flag;
use crate::machine::params::Frontend;

/// Copies that the detector makes of a loop of so many µops.
#[must_use]
pub fn copies(p: &Frontend, uops: u32) -> u32 {
    p.loop_stream_unroll
        .get(&uops.to_string())
        .copied()
        .unwrap_or(1)
}

impl FrontEnd {
    /// Delivers one refill.
    pub(super) fn loop_stream_cycle<O: Observer>(&mut self, t: &mut Target<'_, O>) {
        while let Some(inst) = t.feed.front().copied() {
            if inst.source != Source::LoopStream || t.feed.head() >= t.feed.released() {
                break;
            }
            let Some(instr) = t.program.instrs.get(inst.instr as usize) else {
                break;
            };
            if instr.is(flag::FUSED_PREVIOUS) {
                t.feed.pop();
            } else {
                let number = t.feed.head();
                for n in 0..instr.laminated_len {
                    self.deliver(t, number, n, Delivery::Of(Source::LoopStream));
                }
            }
            if inst.stream_end {
                break;
            }
        }
    }
}
