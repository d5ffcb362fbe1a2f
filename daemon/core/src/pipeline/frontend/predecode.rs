//! The predecoder: finds instruction boundaries in aligned blocks of code bytes.
//!
//! An instruction that crosses the end of its block belongs to the next one; if its nominal opcode
//! lies in the earlier block it still takes a slot there. Length-changing prefixes stall (uiCA,
//! section 4.1.1).

use super::fetch::FetchQueue;
use super::predict::stream::LINE_SHIFT;
use crate::pipeline::inst::{Inst, Source};
use crate::pipeline::state::{Fingerprint, Moment, Part};
use mcad_isa::machine::params::Frontend;

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
    /// The last block ended with a branch that was taken, or what comes is no longer kept as µops.
    jumped: bool,
    /// Line to which that branch went.
    target_line: u64,
    /// Cycles that it was ahead when the µop cache handed back.
    early: u64,
}

impl Predecoder {
    /// One past the last instruction that was fetched.
    #[inline]
    #[must_use]
    pub fn fetched(&self) -> u64 {
        self.block_end.max(self.ready + u64::from(self.partial))
    }

    /// Starts anew at instruction `number`, when the µop cache or loop stream hand back, so many cycles ahead.
    #[inline]
    pub fn restart(&mut self, number: u64, early: u64) {
        if self.queued < number {
            self.queued = number;
            self.ready = number;
            self.block_end = number;
            self.partial = false;
            self.empty_block = false;
            self.jumped = true;
            self.early = early;
        }
    }

    /// One cycle; `waiting` instructions are in the instruction queue.
    pub fn cycle(&mut self, clock: u64, p: &Frontend, queue: &mut FetchQueue, waiting: u64) {
        if self.stalled == 0 {
            let room = u64::from(p.instruction_queue).saturating_sub(waiting);
            let fills = p.predecoder_fills_queue;
            if self.ready == self.queued && (fills || u64::from(p.predecode_width) <= room) {
                self.take(p, queue);
            }
            if fills && self.ready - self.queued > room {
                return;
            }
            if self.stalled == 0 {
                for inst in queue.range_mut(self.queued, self.ready) {
                    inst.predecoded = clock.saturating_sub(self.early);
                }
                self.queued = self.ready;
            }
        }
        self.stalled = self.stalled.saturating_sub(1);
    }

    fn take(&mut self, p: &Frontend, queue: &FetchQueue) {
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
                match self.fetch(p, queue) {
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
        let first = queue.get(self.ready).map_or(0, |inst| inst.address);
        let bytes = match first >> LINE_SHIFT == self.target_line {
            true => 0,
            false => u64::from(p.decoded_alone_bytes),
        };
        let is_whole = |inst: &&Inst| {
            !inst.layout.crosses() && (bytes == 0 || inst.address.wrapping_sub(first) < bytes)
        };
        let block = queue.range(self.ready, end.max(self.ready));
        let whole = block.iter().take_while(is_whole);
        self.ready += whole.count() as u64;
        if self.block_end - self.ready == 1
            && let Some(last) = queue.get(self.ready)
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
    fn fetch(&mut self, p: &Frontend, queue: &FetchQueue) -> Option<u32> {
        let shift = p.predecode_block_bytes.trailing_zeros();
        let mut window = None;
        let mut prefixes = 0;
        let end = queue.fetchable().max(self.block_end);
        if self.jumped
            && let Some(inst) = queue.get(self.block_end)
        {
            self.jumped = false;
            self.target_line = inst.address >> LINE_SHIFT;
        }
        for inst in queue.range(self.block_end, end) {
            if inst.source != Source::Decoders
                || *window.get_or_insert(inst.address >> shift) != inst.address >> shift
            {
                break;
            }
            self.block_end += 1;
            prefixes += u32::from(inst.layout.lcp());
            if inst.taken {
                self.jumped = true;
                self.empty_block = inst.layout.crosses();
                break;
            }
        }
        window.is_some().then_some(prefixes)
    }
}

impl Part for Predecoder {
    fn reset(&mut self, _: &Moment) {
        *self = Self::default();
    }

    /// All queues, relative to the next instruction; in what cycle its instructions were predecoded
    /// is theirs.
    fn fingerprint(&self, at: &Moment, h: &mut Fingerprint) {
        let Self {
            queued,
            ready,
            partial,
            block_end,
            stalled,
            busy_cycles,
            empty_block,
            jumped,
            target_line,
            early,
        } = self;
        h.add(*early);
        // Queues that the decoders have left behind are restarted before they are used.
        if *queued < at.next {
            h.add(0);
        } else {
            h.add(1 + queued - at.next);
            h.add(ready - queued);
            h.add(block_end.wrapping_sub(*ready));
            h.add(u64::from(*partial) | u64::from(*empty_block) << 1 | u64::from(*jumped) << 2);
            h.add(*target_line);
        }
        h.add(u64::from(*stalled));
        h.add(u64::from(*busy_cycles));
    }
}
