//! One simulation of a block with all stamps kept, for explanations.

use super::alias::{Accesses, Aliases};
use super::exact::Exact;
use super::feeding::{Feeding, Memory, Scratch};
use super::rounds::Rounds;
use super::{Block, Mode, Options};
use crate::pipeline::Pipeline;
use crate::pipeline::inst::Inst;
use crate::pipeline::observer::{Observer, Retired, UopStamps};

/// µops that are kept at most; a block of 20 000 instructions has fewer.
const MAX_EVENTS: usize = 1 << 22;

/// One executed µop.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    /// Instruction in the block.
    pub instruction: u32,
    /// Iteration.
    pub round: u32,
    /// Its cycles.
    pub stamps: UopStamps,
}

/// A simulated block.
pub(super) struct Trace {
    /// Iterations.
    pub rounds: Rounds,
    /// µops in program order.
    pub events: Vec<Event>,
}

impl Trace {
    /// Simulates `block`; the mode of `options` is not [`Mode::Auto`].
    pub(super) fn of(block: &Block, mode: Mode, options: Options) -> Self {
        let feeding = Feeding::new(block, mode);
        let trace = Self {
            rounds: feeding.rounds(block),
            events: Vec::new(),
        };
        let mut pipeline = Pipeline::new(&block.model, feeding.warm(), trace);
        let expressions = Accesses::new(&block.described);
        let mut aliases = Aliases::new(options.init);
        let mut exact = Exact::is_wanted(&block.model.core, options.init)
            .then(|| Exact::new(options.init, block));
        let mut scratch = Scratch::default();
        feeding.begin(block, &mut scratch);
        let mut round = 0;
        while !pipeline.observer.rounds.done() {
            let memory = Some(match &mut exact {
                Some(exact) => Memory::Values(exact),
                None => Memory::Expressions(&expressions, &mut aliases),
            });
            feeding.push(&mut pipeline, block, round, memory, &mut scratch);
            pipeline.run(&block.program);
            round += 1;
        }
        pipeline.observer
    }
}

impl Observer for Trace {
    const UOPS: bool = true;

    fn retired(&mut self, inst: &Inst, retired: Retired) {
        self.rounds.retired(inst, retired);
    }

    fn uop(&mut self, inst: &Inst, stamps: UopStamps) {
        if self.events.len() < MAX_EVENTS {
            self.events.push(Event {
                instruction: inst.instr,
                round: inst.tag,
                stamps,
            });
        }
    }
}
