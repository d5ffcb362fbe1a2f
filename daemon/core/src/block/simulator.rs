//! Simulates blocks one after the other, with one pipeline that is brought to rest in between.
//!
//! The simulation stops early when the state of the core recurs at the start of an iteration: all
//! later iterations then repeat with that period, and their retirement is filled in instead of
//! simulated. The result is the same to the last bit; see [`crate::pipeline::state`]. It also stops
//! when iterations have settled, see [`super::settled`].

use std::sync::Arc;

use super::alias::{Accesses, Aliases, Init, Pattern, matters};
use super::exact::Exact;
use super::feeding::{Feeding, Memory, Scratch};
use super::rounds::{Recurrence, Rounds};
use super::{Block, EarlyEnd, Mode, Options, Prediction};
use crate::pipeline::Pipeline;
use crate::pipeline::frontend::fetch::LOOKAHEAD;
use crate::pipeline::frontend::predict::stream::LINE_SHIFT;
use mcad_isa::machine::CpuModel;

/// Instructions that wait before the pipeline is set to work.
const AHEAD: u64 = LOOKAHEAD + 32;
/// Fused µops between two comparisons at least.
const COMPARE_UOPS: u32 = 32;
/// Iterations after which code is delivered from where it will always be.
const SETTLED: u32 = 2;

/// Predicts block after block on one CPU.
pub struct Simulator {
    pipeline: Pipeline<Rounds>,
    aliases: Aliases,
    /// Used instead when values are worth following.
    exact: Exact,
    scratch: Scratch,
    paired_stores: bool,
    /// More stores start in a cycle than are written.
    written_stores: bool,
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
            paired_stores: model.core.execute.stores_together.by_line(),
            written_stores: !model.core.ports.store_address_starts.is_empty(),
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
        let stores = self.paired_stores || self.written_stores;
        let with_memory = matters(&block.described, stores, self.banks);
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
    fn repeats(&mut self, block: &Block, accesses: Option<&Accesses>, r: Recurrence) -> bool {
        let to = self.pipeline.observer.rounds_needed(r);
        let Some(accesses) = accesses else {
            return self.exact.repeats(r.round, r.period, to);
        };
        // Iterations that can be in flight together.
        let rounds = self.reorder_buffer / block.fused_uops().max(1) + 2;
        let window = rounds * accesses.stores() as u64;
        self.aliases
            .repeats(accesses, r.round, r.period, to, window)
    }
}
