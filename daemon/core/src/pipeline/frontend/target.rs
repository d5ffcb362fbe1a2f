//! What the sources of µops work on in a cycle, and how they deliver.

use super::fetch::FetchQueue;
use super::stack_engine::StackEngine;
use crate::pipeline::backend::{Backend, Delivered, Given};
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
    pub fn deliver_one(&mut self, number: u64, laminated: u16, from: Delivery) {
        let instr = self.queue.get(number);
        let instr = instr.and_then(|inst| self.program.instrs.get(inst.instr as usize));
        let place = instr.map_or(0, |instr| instr.laminated) + u32::from(laminated);
        self.deliver(number, laminated, place, from);
    }

    /// The same of one whose place in [`Program::laminated`] is known.
    #[inline(never)]
    pub fn deliver(&mut self, number: u64, laminated: u16, place: u32, from: Delivery) {
        self.deliver_here(number, laminated, place, from);
    }

    /// [`Target::deliver`] for the two places that deliver most.
    #[inline(always)]
    pub fn deliver_here(&mut self, number: u64, laminated: u16, place: u32, from: Delivery) {
        // Second halves of fused pairs.
        while self.queue.head() < number {
            self.queue.pop();
        }
        let uop = self.program.laminated.get(place as usize);
        let (Some(inst), Some(uop)) = (self.queue.front(), uop) else {
            debug_assert!(false, "what is delivered is in the queue");
            return;
        };
        let cycle = self.clock;
        let own_accesses = inst.accesses();
        if uop.uses_stack
            && laminated == 0
            && !matches!(from, Delivery::Of(Source::LoopStream))
            && let Some(instr) = self.program.instrs.get(inst.instr as usize)
            && let Some(offset) = self.stack.pass(instr)
        {
            (self.back).stack_sync(inst, offset, cycle, self.observer);
        }
        if uop.is_conditional {
            let jump = self.queue.get(number + u64::from(uop.is_pair));
            (self.back).is_not_taken(jump.is_some_and(|jump| !jump.taken));
        }
        let first = laminated == 0;
        let simple = (self.back).simple(inst, uop, first, cycle, self.observer);
        self.executed = match simple {
            Some(executed) => executed,
            None => {
                let accesses = match own_accesses {
                    0 => &[],
                    _ => self.queue.front_accesses(),
                };
                let delivered = Delivered {
                    number: laminated,
                    cycle,
                    from,
                };
                let Some(instr) = self.program.instrs.get(inst.instr as usize) else {
                    debug_assert!(false, "an instruction is in its program");
                    return;
                };
                let given = Given {
                    program: self.program,
                    inst,
                    instr,
                    laminated: uop,
                    accesses,
                };
                (self.back).laminated(&given, delivered, self.observer)
            }
        };
        if uop.is_last {
            self.queue.pop_with(own_accesses);
        }
    }
}
