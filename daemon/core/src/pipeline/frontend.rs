//! The front end, stepped cycle by cycle: who delivers µops to the instruction decode queue.
//!
//! [`FrontEnd`] owns the sources (decoders behind the predecoder, µop cache, microcode sequencer,
//! loop stream detector) and decides which one works in a cycle. They take from the [`FetchQueue`]
//! and deliver to a [`Target`]; they know nothing of the front end.

pub mod ahead;
pub mod decode;
pub mod fetch;
pub mod loop_stream;
pub mod microcode;
pub mod plan;
pub mod predecode;
pub mod predict;
pub mod stack_engine;
pub mod target;
pub mod uop_cache;
pub mod wrong_path;

use std::sync::Arc;

use super::backend::Backend;
use super::backend::topdown::Stall;
use super::inst::Source;
use super::observer::{Delivery, Observer};
use super::state::{Fingerprint, Moment, Part, State, parts};
use ahead::{Ahead, Wait};
use decode::Decoders;
use fetch::{FetchQueue, LOOKAHEAD};
use mcad_isa::machine::CpuModel;
use mcad_isa::machine::params::Frontend;
use mcad_isa::machine::params::branch::Branch;
use mcad_isa::program::{Program, flag};
use microcode::Microcode;
use predecode::Predecoder;
use predict::stream::Starts;
use stack_engine::StackEngine;
use target::Target;
use uop_cache::UopCacheDelivery;
use wrong_path::WrongPaths;

/// State of the front end.
pub struct FrontEnd {
    p: Frontend,
    clock: Clock,
    /// What is to be delivered.
    pub queue: FetchQueue,
    predecoder: Predecoder,
    decoders: Decoders,
    uop_cache: UopCacheDelivery,
    microcode: Microcode,
    stack: StackEngine,
    /// Fetch of a whole program, which is never brought to rest.
    ahead: Option<Box<Ahead>>,
    wrong_paths: Option<WrongPaths>,
    /// Cycle in which the µop that was delivered last is executed.
    executed: u64,
}

parts! {
    FrontEnd { clock, predecoder, decoders, uop_cache, microcode, stack }
    remembers { queue }
    fixed { p, ahead, wrong_paths, executed }
}

/// The cycle that the front end is in.
#[derive(Default)]
struct Clock(u64);

impl Part for Clock {
    fn reset(&mut self, _: &Moment) {
        *self = Self::default();
    }

    fn fingerprint(&self, at: &Moment, h: &mut Fingerprint) {
        let Self(cycle) = self;
        h.add(cycle.wrapping_sub(at.issue));
    }
}

impl FrontEnd {
    /// A front end at rest; `warm`: everything that can be in the µop cache is.
    #[must_use]
    pub fn new(model: &Arc<CpuModel>, warm: bool) -> Self {
        Self {
            p: model.core.frontend.of_blocks(),
            clock: Clock::default(),
            queue: FetchQueue::new(model, warm),
            predecoder: Predecoder::default(),
            decoders: Decoders::default(),
            uop_cache: UopCacheDelivery::default(),
            microcode: Microcode::default(),
            stack: StackEngine::new(&model.core.rename),
            ahead: None,
            wrong_paths: None,
            executed: 0,
        }
    }

    /// Fetches behind a branch predictor from now on, which is here, or told of by somebody else.
    pub fn run_ahead(&mut self, p: &Branch, is_told: bool) {
        let starts = if is_told {
            Starts::told(p)
        } else {
            Starts::new(p)
        };
        self.queue.prediction = Some(Box::new(starts));
        self.ahead = Some(Box::new(Ahead::new(p)));
    }

    /// Follows wrong paths from now on, where the core has them.
    pub fn follow_wrong_paths(&mut self, model: &CpuModel) {
        self.wrong_paths = WrongPaths::new(model);
    }

    /// Decodes as in whole programs from now on.
    pub fn decode_alone(&mut self, p: &Frontend) {
        self.p = p.of_programs();
        self.queue.decode_alone(p);
    }

    /// The cycle that it is in.
    #[must_use]
    pub fn clock(&self) -> u64 {
        self.clock.0
    }

    /// The state of the core, unless an instruction is under way.
    fn state(&self, program: &Program, back: &Backend) -> Option<State> {
        let next = self.queue.front()?;
        let instr = program.instrs.get(next.instr as usize)?;
        if self.microcode.within_instruction() || !self.queue.between_instructions() {
            return None;
        }
        let at = back.moment(self.clock.0, self.queue.head());
        let mut h = Fingerprint::default();
        h.add(u64::from(next.instr) << 8 | next.source as u64);
        h.add(u64::from(instr.is(flag::FUSED_PREVIOUS)));
        // Behind the decoders code has no addresses; from them, only the place in a block counts.
        h.add(match next.source {
            Source::Decoders => next.address % u64::from(self.p.predecode_block_bytes),
            Source::UopCache | Source::LoopStream => next.address,
        });
        for number in self.queue.head()..self.predecoder.queued {
            if let Some(inst) = self.queue.get(number) {
                h.add_future(inst.predecoded + self.p.predecode_to_decode, at.clock);
            }
        }
        self.fingerprint(&at, &mut h);
        back.fingerprint(&at, &mut h);
        Some(State {
            fingerprint: h,
            cycle: at.issue,
            tag: next.tag,
        })
    }

    /// Steps until too little is released to know what a cycle does, or, with `last`, to the end.
    #[inline(never)]
    pub fn run<O: Observer>(
        &mut self,
        program: &Program,
        back: &mut Backend,
        observer: &mut O,
        last: bool,
    ) {
        loop {
            if O::STATES {
                if observer.wants_state()
                    && let Some(state) = self.state(program, back)
                {
                    observer.state(state);
                }
                if observer.satisfied() {
                    return;
                }
            }
            let queue = &self.queue;
            let seen = queue.head().max(self.predecoder.fetched());
            let streaming = (queue.front()).is_some_and(|i| i.source == Source::LoopStream);
            let known = queue.released().saturating_sub(seen);
            let wanted = match &self.wrong_paths {
                Some(paths) if paths.are_followed() => wrong_path::LOOKAHEAD,
                _ => LOOKAHEAD,
            };
            if queue.head() >= queue.released() || (!last && !streaming && known < wanted) {
                return;
            }
            self.cycle(program, back, observer, last);
        }
    }

    /// One cycle, or those up to the next in which something happens.
    #[inline(always)]
    fn cycle<O: Observer>(
        &mut self,
        program: &Program,
        back: &mut Backend,
        observer: &mut O,
        last: bool,
    ) {
        let room = self.p.idq.saturating_sub(self.p.uop_cache_width) as usize;
        let mut clock = self.clock.0;
        if back.queue().len_at(clock) > room {
            // Nothing moves until rename has made room.
            clock = back.queue().down_to(room).unwrap_or(clock);
            back.queue().len_at(clock);
        }
        if let Some(ahead) = &mut self.ahead
            && !ahead.is_held(self.queue.head(), clock)
            && !self.microcode.is_busy()
        {
            let way = (&mut **ahead, self.wrong_paths.as_mut());
            clock = fetch(way, program, &mut self.queue, clock, self.executed, back);
        }
        let mut target = Target {
            p: &self.p,
            clock,
            program,
            queue: &mut self.queue,
            stack: &mut self.stack,
            back,
            observer,
            last,
            executed: self.executed,
        };
        let t = &mut target;
        if t.p.ideal {
            ideal_cycle(t, room);
        } else if self.microcode.is_busy() {
            self.microcode.cycle(t);
        } else {
            match next_source(t) {
                Some(Source::Decoders) => {
                    (self.decoders).cycle(t, &mut self.predecoder, &mut self.microcode);
                }
                Some(Source::UopCache) => self.uop_cache.cycle(t, &mut self.microcode),
                Some(Source::LoopStream) => {
                    // It fills the queue only when that is empty.
                    t.clock = t.back.queue().down_to(0).unwrap_or(t.clock);
                    t.back.queue().len_at(t.clock);
                    loop_stream::cycle(t);
                }
                None => {}
            }
        }
        let (clock, executed) = (target.clock, target.executed);
        self.executed = executed;
        self.clock.0 = clock + 1;
    }
}

/// Finds the cycle, from `clock` on, in which the next instruction has been fetched, and tells the
/// queue how far the sources may go in it.
fn fetch(
    (ahead, mut wrong_paths): (&mut Ahead, Option<&mut WrongPaths>),
    program: &Program,
    queue: &mut FetchQueue,
    mut clock: u64,
    executed: u64,
    back: &mut Backend,
) -> u64 {
    loop {
        let held = queue.fetch(ahead, clock, executed, back);
        if ahead.take_redirected()
            && let Some(wrong_paths) = &mut wrong_paths
        {
            wrong_paths.redirected(program, queue, executed, back);
        }
        let Some((cycle, why)) = held else {
            break;
        };
        if why == Wait::RightPath {
            back.issue().late_for(Stall::BadSpeculation);
        }
        clock = cycle;
        back.queue().len_at(clock);
    }
    back.memory().steered(ahead.steered());
    clock
}

/// Delivers instructions until the queue is full.
fn ideal_cycle<O: Observer>(t: &mut Target<'_, O>, room: usize) {
    let mut left = t.p.idq;
    t.queue.entries.clear();
    t.queue.lines.clear();
    while left > 0 && t.back.queue().len_at(t.clock) <= room {
        let Some(source) = next_source(t) else {
            return;
        };
        let number = t.queue.head();
        let front = t.queue.front();
        let Some(instr) = front.and_then(|i| t.program.instrs.get(i.instr as usize)) else {
            return;
        };
        if instr.is(flag::FUSED_PREVIOUS) {
            t.queue.pop();
            continue;
        }
        if number >= t.queue.fetchable() {
            return;
        }
        for n in 0..instr.laminated_len {
            t.deliver_one(number, n, Delivery::Of(source));
            left = left.saturating_sub(1);
        }
    }
}

/// Source of the next instruction; second halves of fused pairs are dropped on the way.
#[inline(always)]
fn next_source<O: Observer>(t: &mut Target<'_, O>) -> Option<Source> {
    match t.queue.begins_with_entry() {
        true => Some(Source::UopCache),
        false => source_without_entry(t),
    }
}

/// The same where it is not the µop cache's next entry.
#[inline(never)]
fn source_without_entry<O: Observer>(t: &mut Target<'_, O>) -> Option<Source> {
    loop {
        let inst = t.queue.front()?;
        let instr = t.program.instrs.get(inst.instr as usize)?;
        let source = inst.source;
        if !instr.is(flag::FUSED_PREVIOUS) {
            return Some(source);
        }
        let next = t.queue.get(t.queue.head() + 1).map(|i| i.source);
        let stays = source == Source::Decoders && next == Some(Source::Decoders);
        if stays && t.queue.head() + 1 < t.queue.released() {
            // The decoders drop it themselves: until then it is in the instruction queue.
            return Some(source);
        }
        t.queue.pop();
        if t.queue.head() >= t.queue.released() {
            return None;
        }
    }
}
