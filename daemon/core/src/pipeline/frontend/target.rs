//! What the sources of µops work on in a cycle, and how they deliver.

use super::fetch::FetchQueue;
use super::stack_engine::StackEngine;
use crate::pipeline::backend::{Backend, Delivered};
use crate::pipeline::inst::Source;
use crate::pipeline::observer::{Delivery, Observer};
use mcad_isa::machine::params::Frontend;
use mcad_isa::program::{Program, flag};

/// One cycle of delivery.
pub struct Target<'a, O> {
    /// Parameters.
    pub p: &'a Frontend,
    /// The cycle.
    pub clock: u64,
    /// The code.
    pub program: &'a Program,
    /// What is to be delivered.
    pub queue: &'a mut FetchQueue,
    /// Follows the stack pointer.
    pub stack: &'a mut StackEngine,
    /// Takes µops.
    pub back: &'a mut Backend,
    /// Receives what happens.
    pub observer: &'a mut O,
    /// Nothing follows what is in the queue.
    pub last: bool,
    /// Cycle in which the µop that was delivered last is executed.
    pub executed: u64,
}

impl<O: Observer> Target<'_, O> {
    /// Number of the instruction after `number`, second halves of fused pairs left out.
    #[must_use]
    pub fn next_number(&self, number: u64) -> u64 {
        let next = number + 1;
        let fused = self
            .queue
            .get(next)
            .and_then(|i| self.program.instrs.get(i.instr as usize))
            .is_some_and(|i| i.is(flag::FUSED_PREVIOUS));
        if fused { next + 1 } else { next }
    }

    /// Delivers one laminated µop of instruction `number`, which is the next one.
    #[inline(never)]
    pub fn deliver(&mut self, number: u64, laminated: u16, from: Delivery) {
        self.deliver_here(number, laminated, from);
    }

    /// [`Target::deliver`] for the two places that deliver most.
    #[inline(always)]
    pub fn deliver_here(&mut self, number: u64, laminated: u16, from: Delivery) {
        // Second halves of fused pairs.
        while self.queue.head() < number {
            self.queue.pop();
        }
        let instr = |i: u32| self.program.instrs.get(i as usize);
        let Some((inst, instr)) = (self.queue.front()).and_then(|i| Some((i, instr(i.instr)?)))
        else {
            debug_assert!(false, "what is delivered is in the queue");
            return;
        };
        if laminated == 0
            && !matches!(from, Delivery::Of(Source::LoopStream))
            && let Some(offset) = self.stack.pass(instr)
        {
            (self.back).stack_sync(inst, offset, self.clock, self.observer);
        }
        let delivered = Delivered {
            number: laminated,
            cycle: self.clock,
            from,
        };
        let accesses = match inst.loads | inst.stores {
            0 => &[],
            _ => self.queue.front_accesses(),
        };
        self.executed = (self.back).laminated(
            self.program,
            inst,
            instr,
            delivered,
            accesses,
            self.observer,
        );
        if laminated + 1 >= instr.laminated_len {
            self.queue.pop();
        }
    }
}
