//! How a block is fed to a pipeline, iteration by iteration: as a loop, straight on, or as the loop
//! stream detector replays it, with the accesses that aliases or values say.

use super::alias::{Accesses, Aliases};
use super::exact::Exact;
use super::rounds::Rounds;
use super::{Block, Mode};
use crate::lists::part;
use crate::pipeline::Pipeline;
use crate::pipeline::access::{Access, Span};
use crate::pipeline::frontend::plan::{Plan, Run};
use crate::pipeline::inst::{Inst, Layout};
use crate::pipeline::observer::Observer;

/// Iterations at least, and cycles at least: uiCA's defaults.
const MIN_ITERATIONS: usize = 10;
const MIN_CYCLES: u64 = 500;
/// Who says which addresses are accessed.
pub(super) enum Memory<'a> {
    /// Expressions of registers of which nothing is known.
    Expressions(&'a Accesses, &'a mut Aliases),
    /// Values that are known at the start.
    Values(&'a mut Exact),
}

/// What feeding a block needs room for.
#[derive(Default)]
pub(super) struct Scratch {
    /// The block's plan, where it is a loop and an iteration can be pushed in one piece.
    plan: Option<Plan>,
    /// The last iteration's instructions, where it goes straight on through the decoders.
    straight: Vec<Inst>,
    /// How these lie in the predecoder's blocks, in each iteration until they lie as at first.
    layouts: Vec<Layout>,
    /// Accesses of the last iteration that was pushed so, or of an instruction.
    accesses: Vec<Access>,
    /// Whose they are.
    spans: Vec<Span>,
}

/// How a block is fed to a pipeline.
#[derive(Clone, Copy, Debug)]
pub(super) struct Feeding {
    /// As a loop.
    pub looped: bool,
    /// Straight on, from the µop cache.
    pub cached: bool,
    /// Copies per refill, from the loop stream detector.
    pub stream: Option<u32>,
    /// Cycles to simulate at least.
    pub min_cycles: u64,
}

impl Feeding {
    /// How `block` is fed in `mode`, which is not [`Mode::Auto`].
    pub(super) fn new(block: &Block, mode: Mode) -> Self {
        let looped = mode == Mode::Loop;
        let stream = if looped {
            block.loop_stream_copies()
        } else {
            None
        };
        Self {
            looped,
            cached: !looped && block.straight_is_cached(),
            stream,
            // A loop in the loop stream detector is in the queue before the first cycle.
            min_cycles: MIN_CYCLES + u64::from(stream.is_some()),
        }
    }

    /// Whether all that can be in the µop cache is.
    pub(super) fn warm(&self) -> bool {
        self.looped || self.cached
    }

    /// An observer of the iterations of `block`.
    pub(super) fn rounds(&self, block: &Block) -> Rounds {
        let first = block.decoded_only().next().unwrap_or(0);
        let last = block.decoded_only().last().unwrap_or(0);
        Rounds::new(first, last, MIN_ITERATIONS, self.min_cycles)
    }

    /// Makes ready for the first iteration of `block`.
    pub(super) fn begin(&self, block: &Block, scratch: &mut Scratch) {
        scratch.spans.clear();
        scratch.accesses.clear();
        scratch.plan = None;
        scratch.straight.clear();
        scratch.layouts.clear();
        let core = &block.model.core;
        if self.stream.is_some() || core.in_order.is_some() {
            return;
        }
        let addresses: Vec<u64> = (block.program.instrs.iter())
            .scan(block.alignment, |next, instr| {
                let address = *next;
                *next += u64::from(instr.len);
                Some(address)
            })
            .collect();
        if u16::try_from(addresses.len()).is_err() {
            return;
        }
        // Only a loop's instructions are at the same addresses every time.
        if self.looped {
            let bytes = core.frontend.predecode_block_bytes;
            scratch.plan = Plan::new(&block.program, 0, &addresses, 0, bytes);
        } else if !self.cached {
            let insts = (0..).zip(addresses);
            (scratch.straight).extend(insts.map(|(n, address)| Inst::new(n, address)));
        }
    }

    /// Finds what an iteration accesses that is pushed in one piece.
    fn access_all(
        block: &Block,
        round: u32,
        memory: &mut Option<Memory<'_>>,
        scratch: &mut Scratch,
    ) {
        // Else what was pushed last is pushed again.
        let changes = match memory {
            Some(Memory::Values(exact)) => !exact.is_steady() || round == 0,
            Some(Memory::Expressions(..)) => true,
            None => false,
        };
        let Some(memory) = memory.as_mut().filter(|_| changes) else {
            return;
        };
        scratch.spans.clear();
        scratch.accesses.clear();
        for n in 0..block.program.instrs.len() {
            let start = scratch.accesses.len() as u32;
            let (loads, stores) = memory.step(n, &mut scratch.accesses);
            if loads | stores != 0 {
                scratch.spans.push(Span {
                    index: n as u16,
                    start,
                    loads,
                    stores,
                    bytes: 0,
                });
            }
        }
    }

    /// Pushes one iteration in one piece, where that can be; whether it could.
    fn push_all<O: Observer>(
        pipeline: &mut Pipeline<O>,
        block: &Block,
        round: u32,
        memory: &mut Option<Memory<'_>>,
        scratch: &mut Scratch,
    ) -> bool {
        if let Some(plan) = &mut scratch.plan {
            plan.tag_all(round);
        } else if scratch.straight.is_empty() {
            return false;
        }
        Self::access_all(block, round, memory, scratch);
        if let Some(plan) = &scratch.plan {
            let run = Run {
                plan,
                spans: &scratch.spans,
                accesses: &scratch.accesses,
            };
            pipeline.push_run(&block.program, run);
            return true;
        }
        let insts = &mut scratch.straight;
        if round == 0 {
            for span in &scratch.spans {
                if let Some(inst) = insts.get_mut(usize::from(span.index)) {
                    (inst.loads, inst.stores) = (span.loads, span.stores);
                }
            }
        }
        let moved = if round == 0 { 0 } else { block.length };
        let predecoded = block.model.core.frontend.predecode_block_bytes;
        // After so many iterations they lie as at first.
        let bits = predecoded.trailing_zeros();
        let alike = 1 << (bits - block.length.trailing_zeros().min(bits));
        let first = (round % alike) as usize * insts.len();
        if round < alike {
            let places = insts.iter().zip(&block.program.instrs);
            let layouts =
                places.map(|(inst, instr)| Layout::new(instr, inst.address + moved, predecoded));
            scratch.layouts.extend(layouts);
        }
        let layouts = part(&scratch.layouts, first..first + insts.len());
        for (inst, layout) in insts.iter_mut().zip(layouts) {
            inst.tag = round;
            inst.address += moved;
            inst.layout = *layout;
        }
        pipeline.push_straight(&block.program, insts, &scratch.accesses);
        true
    }

    /// Pushes one iteration.
    pub(super) fn push<O: Observer>(
        &self,
        pipeline: &mut Pipeline<O>,
        block: &Block,
        round: u32,
        mut memory: Option<Memory<'_>>,
        scratch: &mut Scratch,
    ) {
        if !Self::push_all(pipeline, block, round, &mut memory, scratch) {
            self.push_each(pipeline, block, round, &mut memory, &mut scratch.accesses);
        }
        if let Some(Memory::Values(exact)) = memory {
            exact.end_round();
        }
    }

    /// Pushes one iteration, instruction by instruction.
    fn push_each<O: Observer>(
        &self,
        pipeline: &mut Pipeline<O>,
        block: &Block,
        round: u32,
        memory: &mut Option<Memory<'_>>,
        accesses: &mut Vec<Access>,
    ) {
        let program = &block.program;
        let end = self.stream.is_some_and(|n| (round + 1).is_multiple_of(n));
        let mut address = block.alignment
            + if self.looped {
                0
            } else {
                block.length * u64::from(round)
            };
        for (n, instr) in program.instrs.iter().enumerate() {
            accesses.clear();
            let (loads, stores) = match memory {
                Some(memory) => memory.step(n, accesses),
                None => (0, 0),
            };
            let inst = Inst {
                tag: round,
                loads,
                stores,
                ..Inst::new(n as u32, address)
            };
            address += u64::from(instr.len);
            if self.stream.is_some() {
                let end = end && n + 1 == program.instrs.len();
                pipeline.push_stream(program, inst, accesses, end);
            } else {
                pipeline.push(program, inst, accesses);
            }
        }
    }
}

impl Memory<'_> {
    /// Adds what instruction `n` of the block accesses; how many loads and stores these are.
    #[inline]
    fn step(&mut self, n: usize, accesses: &mut Vec<Access>) -> (u8, u8) {
        let mut inst = Inst::default();
        match self {
            Self::Expressions(of, aliases) => aliases.step(of, n, &mut inst, accesses),
            Self::Values(exact) => exact.step(n, &mut inst, accesses),
        }
        (inst.loads, inst.stores)
    }
}
