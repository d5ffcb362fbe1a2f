//! Simulates blocks one after the other, with one pipeline that is brought to rest in between.
//!
//! The simulation stops early when the state of the core recurs at the start of an iteration: all
//! later iterations then repeat with that period, and their retirement is filled in instead of
//! simulated. The result is the same to the last bit; see [`crate::pipeline::state`]. It also stops
//! when iterations have settled, see [`super::settled`].

use std::sync::Arc;

use super::alias::{Accesses, Aliases, Init, Pattern, matters};
use super::exact::Exact;
use super::rounds::{Recurrence, Rounds};
use super::{Block, EarlyEnd, Mode, Options, Prediction};
use crate::pipeline::Pipeline;
use crate::pipeline::access::{Access, Span};
use crate::pipeline::frontend::fetch::{LINE_SHIFT, LOOKAHEAD};
use crate::pipeline::frontend::plan::{Plan, Run};
use crate::pipeline::inst::Inst;
use crate::pipeline::observer::Observer;
use mcad_isa::machine::CpuModel;

/// Iterations at least, and cycles at least: uiCA's defaults.
const MIN_ITERATIONS: usize = 10;
const MIN_CYCLES: u64 = 500;
/// Instructions that wait before the pipeline is set to work.
const AHEAD: u64 = LOOKAHEAD + 32;
/// Fused µops between two comparisons at least.
const COMPARE_UOPS: u32 = 32;
/// Iterations after which code is delivered from where it will always be.
const SETTLED: u32 = 2;

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
    /// The block's plan, where an iteration can be pushed in one piece.
    plan: Option<Plan>,
    /// Accesses of the last iteration that was pushed so, or of an instruction.
    accesses: Vec<Access>,
    /// Whose they are.
    spans: Vec<Span>,
    one: Vec<Access>,
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
        // Only a loop's instructions are at the same addresses every time.
        let core = &block.model.core;
        if !self.looped || self.stream.is_some() || core.in_order.is_some() {
            return;
        }
        let addresses: Vec<u64> = (block.program.instrs.iter())
            .scan(0, |next, instr| {
                let address = *next;
                *next += u64::from(instr.len);
                Some(address)
            })
            .collect();
        if u16::try_from(addresses.len()).is_ok() {
            let bytes = core.frontend.predecode_block_bytes;
            scratch.plan = Plan::new(&block.program, 0, &addresses, 0, bytes);
        }
    }

    /// Pushes one iteration by the block's plan, if there is one; whether there was.
    fn push_all<O: Observer>(
        pipeline: &mut Pipeline<O>,
        block: &Block,
        round: u32,
        memory: &mut Option<Memory<'_>>,
        scratch: &mut Scratch,
    ) -> bool {
        let Some(plan) = &mut scratch.plan else {
            return false;
        };
        // Else what was pushed last is pushed again.
        let changes = match memory {
            Some(Memory::Values(exact)) => !exact.is_steady() || round == 0,
            Some(Memory::Expressions(..)) => true,
            None => false,
        };
        if let Some(memory) = memory.as_mut().filter(|_| changes) {
            scratch.spans.clear();
            scratch.accesses.clear();
            for n in 0..block.program.instrs.len() {
                let (own, loads, stores) = memory.step(block, n, &mut scratch.one);
                if loads | stores != 0 {
                    scratch.spans.push(Span {
                        index: n as u16,
                        start: scratch.accesses.len() as u32,
                        loads,
                        stores,
                        bytes: 0,
                    });
                    scratch.accesses.extend_from_slice(own);
                }
            }
        }
        plan.tag_all(round);
        let run = Run {
            plan,
            spans: &scratch.spans,
            accesses: &scratch.accesses,
        };
        pipeline.push_run(&block.program, run);
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
            self.push_each(pipeline, block, round, &mut memory, &mut scratch.one);
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
        accesses.clear();
        for (n, instr) in program.instrs.iter().enumerate() {
            let (accesses, loads, stores) = match memory {
                Some(memory) => memory.step(block, n, accesses),
                None => (&[][..], 0, 0),
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
            } else if self.looped || self.cached {
                pipeline.push(program, inst, accesses);
            } else {
                pipeline.push_straight(program, instr, inst, accesses);
            }
        }
    }
}

impl Memory<'_> {
    /// What instruction `n` of the block accesses, and how many loads and stores these are.
    #[inline]
    fn step<'a>(
        &'a mut self,
        block: &Block,
        n: usize,
        scratch: &'a mut Vec<Access>,
    ) -> (&'a [Access], u8, u8) {
        scratch.clear();
        let mut inst = Inst::default();
        match self {
            Self::Expressions(accesses, aliases) => aliases.step(accesses, n, &mut inst, scratch),
            Self::Values(exact) => {
                if exact.is_steady() {
                    return exact.steady(n).unwrap_or_default();
                }
                if let Some(d) = block.described.get(n) {
                    exact.step(n, d, &mut inst, scratch);
                }
            }
        }
        (scratch, inst.loads, inst.stores)
    }
}

/// Predicts block after block on one CPU.
pub struct Simulator {
    pipeline: Pipeline<Rounds>,
    aliases: Aliases,
    /// Used instead when values are worth following.
    exact: Exact,
    scratch: Scratch,
    paired_stores: bool,
    banks: bool,
    reorder_buffer: u64,
    /// Binary logarithm of the predecoder's block.
    predecode_shift: u32,
}

impl Simulator {
    /// A simulator of `model`.
    #[must_use]
    pub fn new(model: &Arc<CpuModel>) -> Self {
        Self {
            pipeline: Pipeline::new(model, false, Rounds::new(0, 0, 0, 0)),
            aliases: Aliases::new(Init::Distinct),
            exact: Exact::default(),
            scratch: Scratch::default(),
            paired_stores: model.core.execute.paired_stores,
            banks: model.core.execute.loads_per_bank > 0,
            reorder_buffer: u64::from(model.core.retire.reorder_buffer),
            predecode_shift: model.core.frontend.predecode_block_bytes.trailing_zeros(),
        }
    }

    /// Predicts the block's throughput; the block must be of the simulator's model.
    pub fn predict(&mut self, block: &Block, options: Options) -> Prediction {
        let mode = match options.mode {
            Mode::Auto => block.natural_mode(),
            mode => mode,
        };
        let feeding = Feeding::new(block, mode);
        let with_memory = matters(&block.described, self.paired_stores, self.banks);
        let exact = with_memory && Exact::is_wanted(&block.model.core, options.init);
        if exact {
            self.exact.begin(options.init, block);
        }
        let accesses = (with_memory && !exact).then(|| Accesses::new(&block.described));
        let pattern = match &accesses {
            Some(accesses) => accesses.pattern(options.init),
            None if exact => Pattern::Unknown,
            None => Pattern::Settles(0),
        };
        let mut rounds = feeding.rounds(block);
        let comparable = match pattern {
            Pattern::Settles(round) => Some(SETTLED.max(round)),
            // Lines that stores share are not followed there.
            Pattern::Unknown if self.paired_stores && !exact => None,
            Pattern::Unknown => Some(SETTLED),
        };
        if let Some(round) = comparable.filter(|_| options.early_end != EarlyEnd::Never) {
            let stride = self.stride(block, feeding);
            rounds = rounds.recurring_from(round, stride);
            if options.early_end == EarlyEnd::Settled {
                rounds = rounds.settling_from(round, stride);
            }
        }
        let old = std::mem::replace(&mut self.pipeline.observer, Rounds::new(0, 0, 0, 0));
        self.pipeline.reset(feeding.warm(), rounds.recycling(old));
        self.aliases.reset(options.init);

        feeding.begin(block, &mut self.scratch);
        let mut round = 0u32;
        while !self.pipeline.observer.done() {
            let memory = match &accesses {
                Some(accesses) => Some(Memory::Expressions(accesses, &mut self.aliases)),
                None if exact => Some(Memory::Values(&mut self.exact)),
                None => None,
            };
            feeding.push(&mut self.pipeline, block, round, memory, &mut self.scratch);
            round += 1;
            if self.pipeline.backlog() < AHEAD {
                continue;
            }
            self.pipeline.run(&block.program);
            if let Some(recurrence) = self.pipeline.observer.take_recurrence()
                && (pattern != Pattern::Unknown
                    || self.repeats(block, accesses.as_ref(), recurrence))
            {
                self.pipeline.observer.extrapolate(recurrence);
            }
        }
        Prediction {
            cycles: self.pipeline.observer.throughput(),
            mode,
            approximated: block.approximated(),
        }
    }

    /// Iterations between two states that are compared: those that lie alike in the predecoder's
    /// or the µop cache's blocks or the detector's refills, and no more than the cost of a comparison
    /// allows.
    fn stride(&self, block: &Block, feeding: Feeding) -> u32 {
        let alike = if feeding.looped {
            feeding.stream.unwrap_or(1)
        } else {
            let shift = if feeding.cached {
                LINE_SHIFT
            } else {
                self.predecode_shift
            };
            let shared = block.length.trailing_zeros().min(shift);
            1 << (shift - shared)
        };
        let uops: u32 = block
            .program
            .instrs
            .iter()
            .map(|i| u32::from(i.fused))
            .sum();
        let mut stride = alike;
        while stride * uops.max(1) < COMPARE_UOPS {
            stride *= 2;
        }
        stride
    }

    /// Whether loads will meet the same stores in all iterations that a recurrence fills in.
    fn repeats(&self, block: &Block, accesses: Option<&Accesses>, r: Recurrence) -> bool {
        let to = self.pipeline.observer.rounds_needed(r);
        let Some(accesses) = accesses else {
            return self.exact.repeats(block, r.round, r.period, to);
        };
        // Iterations that can be in flight together.
        let rounds = self.reorder_buffer / block.fused_uops().max(1) + 2;
        let window = rounds * accesses.stores() as u64;
        self.aliases
            .repeats(accesses, r.round, r.period, to, window)
    }
}
