//! The predecoder: finds instruction boundaries in aligned blocks of code bytes.
//!
//! An instruction that crosses the end of its block belongs to the next one; if its nominal opcode
//! lies in the earlier block it still takes a slot there. Length-changing prefixes stall (uiCA,
//! section 4.1.1).

use super::feed::Feed;
use super::inst::Source;
use super::state::Fingerprint;
use crate::isa::program::{Program, flag};
use crate::machine::params::Frontend;

/// State of the predecoder. All queues are ranges of instruction numbers:
/// `[.., queued)` is in the instruction queue, `[queued, ready)` predecoded and waiting for a
/// stall to end, then one that crosses the block's end (`partial`), then the rest of the block up
/// to `block_end`.
#[derive(Debug, Default)]
pub struct Predecoder {
    /// One past the last instruction in the instruction queue.
    pub queued: u64,
    ready: u64,
    partial: bool,
    block_end: u64,
    stalled: u32,
    busy_cycles: u32,
    empty_block: bool,
}

impl Predecoder {
    /// One past the last instruction that was fetched.
    #[inline]
    #[must_use]
    pub fn fetched(&self) -> u64 {
        self.block_end.max(self.ready + u64::from(self.partial))
    }

    /// Starts anew at instruction `number`, when the µop cache or loop stream hand back.
    #[inline]
    pub fn restart(&mut self, number: u64) {
        if self.queued < number {
            self.queued = number;
            self.ready = number;
            self.block_end = number;
            self.partial = false;
            self.empty_block = false;
        }
    }

    /// Adds all queues, relative to instruction `head`.
    pub fn fingerprint(&self, head: u64, h: &mut Fingerprint) {
        // Queues that the decoders have left behind are restarted before they are used.
        if self.queued < head {
            h.add(0);
        } else {
            h.add(1 + self.queued - head);
            h.add(self.ready - self.queued);
            h.add(self.block_end.wrapping_sub(self.ready));
            h.add(u64::from(self.partial) | u64::from(self.empty_block) << 1);
        }
        h.add(u64::from(self.stalled));
        h.add(u64::from(self.busy_cycles));
    }

    /// One cycle; `waiting` instructions are in the instruction queue.
    pub fn cycle(
        &mut self,
        clock: u64,
        program: &Program,
        p: &Frontend,
        feed: &mut Feed,
        waiting: u64,
    ) {
        if self.stalled == 0 {
            let room = u64::from(p.instruction_queue).saturating_sub(waiting);
            let fills = p.predecoder_fills_queue;
            if self.ready == self.queued && (fills || u64::from(p.predecode_width) <= room) {
                self.take(program, p, feed);
            }
            if fills && self.ready - self.queued > room {
                return;
            }
            if self.stalled == 0 {
                for number in self.queued..self.ready {
                    if let Some(inst) = feed.get_mut(number) {
                        inst.predecoded = clock;
                    }
                }
                self.queued = self.ready;
            }
        }
        self.stalled = self.stalled.saturating_sub(1);
    }

    fn take(&mut self, program: &Program, p: &Frontend, feed: &Feed) {
        let block = u64::from(p.predecode_block_bytes);
        if self.partial {
            self.partial = false;
            self.ready += 1;
        }
        if self.block_end <= self.ready {
            self.block_end = self.ready;
            if self.empty_block {
                // Bytes behind a branch that ended in this block.
                self.empty_block = false;
            } else if !self.fetch(program, feed, block) {
                return;
            }
            let prefixes = (self.ready..self.block_end)
                .filter(|n| {
                    feed.get(*n)
                        .and_then(|i| program.instrs.get(i.instr as usize))
                        .is_some_and(|i| i.is(flag::LCP))
                })
                .count() as u32;
            let hidden = self.busy_cycles.saturating_sub(1);
            self.stalled = (p.lcp_stall * prefixes).saturating_sub(hidden);
            self.busy_cycles = 0;
        }
        let crosses = |number: u64| {
            feed.get(number).and_then(|i| {
                let instr = program.instrs.get(i.instr as usize)?;
                let offset = i.address % block;
                (offset + u64::from(instr.len) > block)
                    .then(|| offset + u64::from(instr.nominal_opcode) >= block)
            })
        };
        let width = u64::from(p.predecode_width);
        while self.ready < self.block_end && self.ready - self.queued < width {
            if crosses(self.ready).is_some() {
                break;
            }
            self.ready += 1;
        }
        if self.block_end - self.ready == 1
            && let Some(opcode_in_next) = crosses(self.ready)
            && (self.ready - self.queued < width || opcode_in_next)
        {
            self.partial = true;
            self.block_end = self.ready;
        }
        self.busy_cycles += 1;
    }

    /// Fetches the next block; `false` when there is none for the decoders.
    fn fetch(&mut self, program: &Program, feed: &Feed, block: u64) -> bool {
        let Some(first) = feed.get(self.ready) else {
            return false;
        };
        if self.ready >= feed.released() || first.source != Source::Decoders {
            return false;
        }
        let window = first.address / block;
        let mut end = self.ready;
        while end < feed.released()
            && let Some(inst) = feed.get(end)
            && inst.source == Source::Decoders
            && inst.address / block == window
        {
            end += 1;
            if inst.taken {
                let len = program.instrs.get(inst.instr as usize).map_or(0, |i| i.len);
                self.empty_block = inst.address % block + u64::from(len) > block;
                break;
            }
        }
        self.block_end = end;
        end > self.ready
    }
}
