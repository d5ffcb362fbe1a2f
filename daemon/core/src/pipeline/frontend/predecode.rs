//! The predecoder: finds instruction boundaries in aligned blocks of code bytes.
//!
//! An instruction that crosses the end of its block belongs to the next one; if its nominal opcode
//! lies in the earlier block it still takes a slot there. Length-changing prefixes stall (uiCA,
//! section 4.1.1).

use super::feed::Feed;
use crate::pipeline::inst::{Inst, Source};
use crate::pipeline::state::Fingerprint;
use mcad_isa::machine::params::Frontend;
use mcad_isa::program::{Instr, flag};

/// How an instruction lies in the predecoder's blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout(u8);

impl Layout {
    const CROSSES: u8 = 1;
    const OPCODE_IN_NEXT: u8 = 2;
    const LCP: u8 = 4;

    /// Of an instruction at `address`, with blocks of `block` bytes, a power of two.
    #[inline]
    #[must_use]
    pub fn new(instr: &Instr, address: u64, block: u32) -> Self {
        let offset = address as u32 & (block - 1);
        let crosses = offset + u32::from(instr.len) > block;
        let in_next = crosses && offset + u32::from(instr.nominal_opcode) >= block;
        Self(
            (u8::from(crosses) * Self::CROSSES)
                | (u8::from(in_next) * Self::OPCODE_IN_NEXT)
                | (u8::from(instr.is(flag::LCP)) * Self::LCP),
        )
    }

    /// It goes on in the next block.
    #[inline]
    fn crosses(self) -> bool {
        self.0 & Self::CROSSES != 0
    }

    /// It goes on in the next block, where its nominal opcode lies.
    #[inline]
    fn opcode_in_next(self) -> bool {
        self.0 & Self::OPCODE_IN_NEXT != 0
    }

    /// It has a length-changing prefix.
    #[inline]
    fn lcp(self) -> bool {
        self.0 & Self::LCP != 0
    }
}

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
    pub fn cycle(&mut self, clock: u64, p: &Frontend, feed: &mut Feed, waiting: u64) {
        if self.stalled == 0 {
            let room = u64::from(p.instruction_queue).saturating_sub(waiting);
            let fills = p.predecoder_fills_queue;
            if self.ready == self.queued && (fills || u64::from(p.predecode_width) <= room) {
                self.take(p, feed);
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

    fn take(&mut self, p: &Frontend, feed: &Feed) {
        if self.partial {
            self.partial = false;
            self.ready += 1;
        }
        if self.block_end <= self.ready {
            self.block_end = self.ready;
            let mut prefixes = 0;
            if self.empty_block {
                // Bytes behind a branch that ended in this block.
                self.empty_block = false;
            } else {
                match self.fetch(p, feed) {
                    Some(found) => prefixes = found,
                    None => return,
                }
            }
            let hidden = self.busy_cycles.saturating_sub(1);
            self.stalled = (p.lcp_stall * prefixes).saturating_sub(hidden);
            self.busy_cycles = 0;
        }
        let end = self
            .block_end
            .min(self.queued + u64::from(p.predecode_width));
        while self.ready < end && feed.get(self.ready).is_some_and(|i| !i.layout.crosses()) {
            self.ready += 1;
        }
        if self.block_end - self.ready == 1
            && let Some(last) = feed.get(self.ready)
            && last.layout.crosses()
            && (self.ready < end || last.layout.opcode_in_next())
        {
            self.partial = true;
            self.block_end = self.ready;
        }
        self.busy_cycles += 1;
    }

    /// Fetches the next block; returns how many of its instructions have length-changing
    /// prefixes, `None` when there is no block for the decoders.
    fn fetch(&mut self, p: &Frontend, feed: &Feed) -> Option<u32> {
        let shift = p.predecode_block_bytes.trailing_zeros();
        let mut window = None;
        let mut prefixes = 0;
        while self.block_end < feed.released()
            && let Some(inst) = feed.get(self.block_end)
            && inst.source == Source::Decoders
            && *window.get_or_insert(inst.address >> shift) == inst.address >> shift
        {
            self.block_end += 1;
            prefixes += u32::from(inst.layout.lcp());
            if inst.taken {
                self.empty_block = inst.layout.crosses();
                break;
            }
        }
        window.is_some().then_some(prefixes)
    }
}

impl Inst {
    /// The same, with how it lies in the predecoder's blocks of `block` bytes.
    #[inline]
    pub(super) fn laid_out(self, instr: &Instr, block: u32) -> Self {
        Self {
            layout: Layout::new(instr, self.address, block),
            ..self
        }
    }
}
