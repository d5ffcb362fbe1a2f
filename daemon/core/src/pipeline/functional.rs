//! A core without timing: only the state that remembers for long.
//!
//! Caches, translations, prefetchers and the µop cache know what happened millions of
//! instructions ago; everything else forgets within some thousand. [`Functional`] keeps the first
//! kind up to date at a fraction of the cost, so that a core that is to begin in the middle of a
//! program can be given it ([`Warm`]) and need only warm up the rest: *functional warming*
//! (Wunderlich, Wenisch, Falsafi & Hoe, "SMARTS", ISCA 2003).
//!
//! Groups of code and lines are asked for in the µop cache (`code`) and the caches as in
//! [`super::Pipeline`], in program order, so that these states are the same as there. So are branch
//! predictors, which know of time nothing at all: one pass over the program asks them once, and all
//! others are told ([`super::frontend::predict::foretell`]). What depends
//! on time is approximated ([`pace`]): when misses overlap, which prefetches find no buffer, and
//! which loads are served by a store on its way.

mod code;
pub mod pace;
pub mod sharing;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use super::access::{Access, Address};
use super::backend::memory::lines::SharedLines;
use super::backend::moves::Moves;
use super::frontend::plan::Plan;
use super::frontend::predict::Steer;
use super::frontend::predict::stream::{Steers, Way};
use super::inst::{Inst, Source};
use crate::memory::{Answer, Memory, Request};
use code::{CodeWalk, WarmCode};
use mcad_isa::machine::CpuModel;
use mcad_isa::machine::hierarchy::LINE_BYTES;
use mcad_isa::program::Program;
use mcad_proto::word::Kernel;
use pace::{Pace, Stores};
use sharing::{Sharing, Step};

/// State that a core begins with in the middle of a program.
pub struct Warm {
    /// Caches, as far as they are modelled.
    pub(super) memory: Option<Box<Memory>>,
    /// What the front end remembers.
    pub(super) code: Option<WarmCode>,
    /// What rename does, where it remembers for long.
    pub(super) moves: Option<Moves>,
}

/// Instructions that wait in the queue before their lines are fetched.
const BATCH: u64 = 128;

/// The long memory of one guest thread's core.
pub struct Functional {
    model: Arc<CpuModel>,
    code: CodeWalk,
    /// Instructions that fetch has come to.
    fetched: u64,
    memory: Option<Box<Memory>>,
    pace: Pace,
    stores: Stores,
    faults: Faults,
    sharing: Option<Sharing>,
}

/// Page faults and system calls, which code that is delivered from the µop cache must hear of in
/// program order.
#[derive(Default)]
struct Faults {
    /// Those that code has been held against.
    count: u64,
    /// Instructions of the others, by number in the queue.
    recent: VecDeque<u64>,
}

impl Faults {
    fn add(&mut self, number: u64) {
        let place = self.recent.partition_point(|&before| before <= number);
        self.recent.insert(place, number);
    }

    /// Nothing before this instruction is asked about any more.
    fn settle(&mut self, number: u64) {
        while self.recent.front().is_some_and(|&fault| fault < number) {
            self.recent.pop_front();
            self.count += 1;
        }
    }

    /// How often the kernel ran before an instruction.
    fn before(&self, number: u64) -> u64 {
        self.count + self.recent.partition_point(|&fault| fault < number) as u64
    }
}

impl Functional {
    /// Whether such a core remembers anything for long that is modelled.
    #[must_use]
    pub fn is_modelled(model: &CpuModel) -> bool {
        let core = &model.core;
        core.in_order.is_none() && (core.cache.is_some() || core.branch.is_some())
    }

    /// A core that has seen nothing.
    #[must_use]
    pub fn new(model: &Arc<CpuModel>) -> Self {
        Self {
            code: CodeWalk::new(model),
            fetched: 0,
            memory: Memory::new(&model.core),
            pace: Pace::new(&model.core),
            stores: Stores::default(),
            faults: Faults::default(),
            sharing: Sharing::new(&model.core.rename),
            model: Arc::clone(model),
        }
    }

    /// Exchanges what the threads of a program share.
    #[inline]
    pub fn lend(&mut self, shared: &mut SharedLines) {
        if let Some(memory) = &mut self.memory {
            shared.lend(memory);
        }
    }

    /// A copy of what it remembers where the instruction at `next` comes next. What is shared must be lent
    /// to it.
    #[must_use]
    pub fn snapshot(&mut self, program: &Program, next: u64) -> Warm {
        let now = self.pace.cycle();
        let memory = self.memory.as_mut();
        Warm {
            memory: memory.map(|memory| memory.snapshot(now)),
            code: Some(self.code.snapshot(program, next)),
            moves: self.sharing.as_mut().map(Sharing::snapshot),
        }
    }

    /// What becomes of the next branches.
    pub fn tell(&mut self, steers: Steers) {
        self.code.tell(steers);
    }

    /// Takes all instructions of a block.
    pub fn run(&mut self, program: &Program, plan: &Plan) {
        self.code.run(program, plan);
        self.fetch();
    }

    /// Takes an instruction.
    pub fn push(&mut self, program: &Program, inst: &Inst) {
        self.code.push(program, inst);
        self.fetch();
    }

    /// Instructions pass that do this to who shares registers.
    #[inline]
    pub fn share(&mut self, steps: &[Step]) {
        if let Some(sharing) = &mut self.sharing {
            sharing.pass(steps);
        }
    }

    /// So many instructions of so many µops pass.
    #[inline]
    pub fn pass(&mut self, instructions: u64, uops: u64) {
        self.pace.pass(instructions, uops);
        self.refill();
    }

    /// Code that is delivered from the µop cache comes back there first, where faults have cost it
    /// that.
    fn refill(&mut self) {
        if self.model.core.frontend.uop_cache_refill == 0 {
            self.faults.settle(self.fetched);
        } else if self.faults.count > 0 || !self.faults.recent.is_empty() {
            let faults = &mut self.faults;
            self.code.refill(|number| {
                faults.settle(number);
                faults.count
            });
        } else {
            self.code.skip_lines();
        }
    }

    /// Fetches what is known to come from the decoders.
    #[inline]
    fn fetch(&mut self) {
        if self.code.closed() - self.fetched < BATCH {
            return;
        }
        while let Some((start, source)) = self.code.next_start() {
            let visits = self.faults.before(start.number);
            if let Way::Branch(steer) = start.way {
                let frames = self.code.prediction().map(|starts| &mut starts.frames);
                let lost = frames.is_some_and(|frames| frames.pass(start.frame, visits));
                (self.pace).steer(if lost { Steer::WrongTarget } else { steer });
            }
            let Some(memory) = &mut self.memory else {
                continue;
            };
            if source == Source::Decoders {
                let answer = memory.fetch(start.address, self.pace.cycle());
                if answer.fault {
                    self.pace.fault(&answer);
                    self.faults.add(start.number);
                } else {
                    self.pace.fetched(&answer);
                }
            } else if self.model.core.frontend.uop_cache_translates {
                memory.translate_code(start.address, self.pace.cycle());
            }
        }
        self.fetched = self.code.closed();
    }

    /// Access of an instruction, behind which so many came in the same block, to what is known of
    /// its address.
    #[inline]
    fn access(
        &mut self,
        (inst, behind): (&Inst, u64),
        access: &Access,
        ask: impl FnOnce(&mut Memory, Request) -> Answer,
    ) {
        let Address::Known(address) = access.address else {
            return;
        };
        if let Some(memory) = &mut self.memory {
            let answer = ask(
                memory,
                Request {
                    instr: inst.instr,
                    pc: inst.address,
                    address,
                    size: access.size,
                    at: self.pace.cycle(),
                },
            );
            if answer.fault {
                self.pace.fault(&answer);
                (self.faults).add(self.code.end().saturating_sub(behind + 1));
            } else if answer.late > 0 {
                self.pace.late(&answer);
            }
        }
    }

    /// A load of an instruction, behind which so many came in the same block.
    #[inline]
    pub fn load(&mut self, inst: (&Inst, u64), access: &Access) {
        if !self.stores.serve(access, self.pace.cycle()) {
            self.access(inst, access, Memory::load);
        }
    }

    /// A store of an instruction, behind which so many came in the same block.
    #[inline]
    pub fn store(&mut self, inst: (&Inst, u64), access: &Access) {
        self.access(inst, access, Memory::store);
        self.stores.add(access, self.pace.cycle());
    }

    /// What a system call did, if there was one.
    pub fn enter_kernel(&mut self, work: &[Kernel]) {
        if let Some(memory) = self.memory.as_mut().filter(|_| !work.is_empty()) {
            memory.enter_kernel(work, self.pace.cycle());
            if self
                .model
                .core
                .tlb
                .is_some_and(|tlb| tlb.call_code_lines > 0)
            {
                self.faults.add(self.code.end().saturating_sub(1));
            }
        }
    }

    /// All that a repeated string instruction accesses.
    pub fn repeat(&mut self, inst: (&Inst, u64), loads: &Range<u64>, stores: &Range<u64>) {
        let lines = |bytes: &Range<u64>| match bytes.is_empty() {
            true => 0..0,
            false => bytes.start / LINE_BYTES..(bytes.end - 1) / LINE_BYTES + 1,
        };
        let (mut loads, mut stores) = (lines(loads), lines(stores));
        loop {
            let (load, store) = (loads.next(), stores.next());
            if let Some(line) = load {
                self.access(inst, &Access::known(line * LINE_BYTES, 1), Memory::load);
            }
            if let Some(line) = store {
                self.access(inst, &Access::known(line * LINE_BYTES, 1), Memory::store);
            }
            if load.is_none() && store.is_none() {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_that_nobody_asks_about_are_counted_and_let_go() {
        let mut faults = Faults::default();
        for number in [30, 10, 20] {
            faults.add(number);
        }
        assert_eq!([10, 11, 25, 99].map(|n| faults.before(n)), [0, 1, 2, 3]);
        faults.settle(25);
        assert_eq!(faults.recent, [30]);
        assert_eq!([25, 99].map(|n| faults.before(n)), [2, 3]);
    }
}
