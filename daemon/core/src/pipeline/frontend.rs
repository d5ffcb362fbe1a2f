//! The front end, stepped cycle by cycle: who delivers µops to the instruction decode queue.

pub mod decode;
pub mod feed;
pub mod loop_stream;
pub mod microcode;
pub mod predecode;
pub mod predict;
pub mod stack_engine;
pub mod uop_cache;

use std::sync::Arc;

use super::backend::{Backend, Delivered};
use super::inst::Source;
use super::observer::{Delivery, Observer};
use super::state::Fingerprint;
use feed::{Feed, LOOKAHEAD};
use mcad_isa::machine::CpuModel;
use mcad_isa::machine::params::Frontend;
use mcad_isa::program::{Program, flag};
use microcode::Microcode;
use predecode::Predecoder;
use stack_engine::StackEngine;

/// State of the front end.
pub struct FrontEnd {
    pub(super) p: Frontend,
    pub(super) clock: u64,
    pub(super) predecoder: Predecoder,
    /// Next instruction for the decoders.
    pub(super) decode_head: u64,
    pub(super) microcode: Microcode,
    /// The µop cache delivered an entry of double size in the last cycle.
    pub(super) uop_cache_delay: bool,
    stack: StackEngine,
}

/// What the front end works on and delivers to.
pub(super) struct Target<'a, O> {
    pub(super) program: &'a Program,
    pub(super) feed: &'a mut Feed,
    pub(super) back: &'a mut Backend,
    pub(super) observer: &'a mut O,
    /// Nothing follows what is in the feed.
    pub(super) last: bool,
}

impl FrontEnd {
    /// A front end at rest.
    #[must_use]
    pub fn new(model: &Arc<CpuModel>) -> Self {
        Self {
            p: model.core.frontend.clone(),
            clock: 0,
            predecoder: Predecoder::default(),
            decode_head: 0,
            microcode: Microcode::default(),
            uop_cache_delay: false,
            stack: StackEngine::default(),
        }
    }

    /// Brings the front end to rest.
    pub fn reset(&mut self) {
        self.clock = 0;
        self.predecoder = Predecoder::default();
        self.decode_head = 0;
        self.microcode = Microcode::default();
        self.uop_cache_delay = false;
        self.stack = StackEngine::default();
    }

    /// Adds the front end's own state.
    pub(super) fn fingerprint(&self, feed: &Feed, h: &mut Fingerprint) {
        let head = feed.head();
        self.predecoder.fingerprint(head, h);
        for number in head..self.predecoder.queued {
            if let Some(inst) = feed.get(number) {
                h.add_future(inst.predecoded + self.p.predecode_to_decode, self.clock);
            }
        }
        h.add(self.decode_head.saturating_sub(head));
        h.add(u64::from(self.microcode.stalled()) << 1 | u64::from(self.uop_cache_delay));
        h.add(self.stack.offset() as u64);
    }

    /// Steps until too little is released to know what a cycle does, or, with `last`, to the end.
    pub fn run<O: Observer>(
        &mut self,
        program: &Program,
        feed: &mut Feed,
        back: &mut Backend,
        observer: &mut O,
        last: bool,
    ) {
        let mut t = Target {
            program,
            feed,
            back,
            observer,
            last,
        };
        loop {
            if O::STATES {
                if t.observer.wants_state()
                    && let Some(state) = self.state(&t)
                {
                    t.observer.state(state);
                }
                if t.observer.satisfied() {
                    return;
                }
            }
            let seen = t.feed.head().max(self.predecoder.fetched());
            let streaming = t
                .feed
                .front()
                .is_some_and(|i| i.source == Source::LoopStream);
            let known = t.feed.released().saturating_sub(seen);
            if t.feed.head() >= t.feed.released() || (!last && !streaming && known < LOOKAHEAD) {
                return;
            }
            self.cycle(&mut t);
            self.clock += 1;
        }
    }

    fn cycle<O: Observer>(&mut self, t: &mut Target<'_, O>) {
        let room = self.p.idq.saturating_sub(self.p.uop_cache_width) as usize;
        if t.back.idq_len(self.clock) > room {
            // Nothing moves until rename has made room.
            if let Some(cycle) = t.back.idq_down_to(room) {
                self.clock = cycle;
            }
            t.back.idq_len(self.clock);
        }
        if self.p.ideal {
            self.ideal_cycle(t);
            return;
        }
        if self.microcode.is_busy() {
            self.microcode_cycle(t);
            return;
        }
        match self.next_source(t) {
            Some(Source::Decoders) => self.decoders_cycle(t),
            Some(Source::UopCache) => self.uop_cache_cycle(t),
            Some(Source::LoopStream) => {
                if let Some(cycle) = t.back.idq_down_to(0) {
                    self.clock = cycle;
                }
                t.back.idq_len(self.clock);
                self.loop_stream_cycle(t);
            }
            None => {}
        }
    }

    /// Delivers instructions until the queue is full.
    fn ideal_cycle<O: Observer>(&mut self, t: &mut Target<'_, O>) {
        let room = self.p.idq.saturating_sub(self.p.uop_cache_width) as usize;
        let mut left = self.p.idq;
        t.feed.entries.clear();
        t.feed.lines.clear();
        while left > 0 && t.back.idq_len(self.clock) <= room {
            let Some(source) = self.next_source(t) else {
                return;
            };
            let number = t.feed.head();
            let Some(instr) = t
                .feed
                .front()
                .and_then(|i| t.program.instrs.get(i.instr as usize))
            else {
                return;
            };
            if instr.is(flag::FUSED_PREVIOUS) {
                t.feed.pop();
                continue;
            }
            if number >= t.feed.released() {
                return;
            }
            for n in 0..instr.laminated_len {
                self.deliver(t, number, n, Delivery::Of(source));
                left = left.saturating_sub(1);
            }
        }
    }

    /// Source of the next instruction; second halves of fused pairs are dropped on the way.
    fn next_source<O: Observer>(&mut self, t: &mut Target<'_, O>) -> Option<Source> {
        loop {
            let inst = t.feed.front()?;
            let instr = t.program.instrs.get(inst.instr as usize)?;
            let source = inst.source;
            if !instr.is(flag::FUSED_PREVIOUS) {
                return Some(source);
            }
            let next = t.feed.get(t.feed.head() + 1).map(|i| i.source);
            let stays = source == Source::Decoders && next == Some(Source::Decoders);
            if stays && t.feed.head() + 1 < t.feed.released() {
                // The decoders drop it themselves: until then it is in the instruction queue.
                return Some(source);
            }
            t.feed.pop();
            if t.feed.head() >= t.feed.released() {
                return None;
            }
        }
    }

    /// Number of the instruction after `number`, second halves of fused pairs left out.
    pub(super) fn next_number<O: Observer>(&self, t: &Target<'_, O>, number: u64) -> u64 {
        let next = number + 1;
        let fused = t
            .feed
            .get(next)
            .and_then(|i| t.program.instrs.get(i.instr as usize))
            .is_some_and(|i| i.is(flag::FUSED_PREVIOUS));
        if fused { next + 1 } else { next }
    }

    /// Delivers one laminated µop of instruction `number`, which is the next one.
    #[inline]
    pub(super) fn deliver<O: Observer>(
        &mut self,
        t: &mut Target<'_, O>,
        number: u64,
        laminated: u16,
        from: Delivery,
    ) {
        // Second halves of fused pairs.
        while t.feed.head() < number {
            t.feed.pop();
        }
        let Some(inst) = t.feed.front() else { return };
        let Some(instr) = t.program.instrs.get(inst.instr as usize) else {
            return;
        };
        if laminated == 0
            && !matches!(from, Delivery::Of(Source::LoopStream))
            && let Some(offset) = self.stack.pass(instr)
        {
            t.back.stack_sync(inst, offset, self.clock, t.observer);
        }
        let delivered = Delivered {
            number: laminated,
            cycle: self.clock,
            from,
        };
        t.back.laminated(
            t.program,
            inst,
            instr,
            delivered,
            t.feed.front_accesses(),
            t.observer,
        );
        if laminated + 1 >= instr.laminated_len {
            t.feed.pop();
        }
    }
}
