//! A core without timing: only the state that remembers for long.
//!
//! Caches, translations, prefetchers and the µop cache know what happened millions of
//! instructions ago; everything else forgets within some thousand. [`Functional`] keeps the first
//! kind up to date at a fraction of the cost, so that a core that is to begin in the middle of a
//! program can be given it ([`Warm`]) and need only warm up the rest: *functional warming*
//! (Wunderlich, Wenisch, Falsafi & Hoe, "SMARTS", ISCA 2003).
//!
//! The µop cache and lines of code go through the same [`FetchQueue`] and caches as in
//! [`super::Pipeline`], in program order, so that these states are the same as there. So are branch
//! predictors, which know of time nothing at all: one pass over the program asks them once, and all
//! others are told ([`super::frontend::predict::foretell`]). What depends
//! on time is approximated ([`pace`]): when misses overlap, which prefetches find no buffer, and
//! which loads are served by a store on its way.

pub mod pace;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use super::access::{Access, Address};
use super::backend::memory::lines::SharedLines;
use super::frontend::fetch::FetchQueue;
use super::frontend::plan::{Plan, Run};
use super::frontend::predict::Steer;
use super::frontend::predict::stream::{Steers, Way};
use super::inst::{Inst, Source};
use crate::memory::{Answer, Memory, Request};
use mcad_isa::machine::CpuModel;
use mcad_isa::machine::hierarchy::LINE_BYTES;
use mcad_isa::program::Program;
use mcad_proto::word::Kernel;
use pace::{Pace, Stores};

/// State that a core begins with in the middle of a program.
pub struct Warm {
    /// Caches, as far as they are modelled.
    pub(super) memory: Option<Box<Memory>>,
    /// What the front end fetches from. It has no instructions.
    pub(super) queue: Option<Box<FetchQueue>>,
}

/// Instructions that wait in the queue before their lines are fetched.
const BATCH: u64 = 128;

/// The long memory of one guest thread's core.
pub struct Functional {
    model: Arc<CpuModel>,
    queue: FetchQueue,
    memory: Option<Box<Memory>>,
    pace: Pace,
    stores: Stores,
    faults: Faults,
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
            queue: FetchQueue::of_program(model),
            memory: Memory::new(&model.core),
            pace: Pace::new(&model.core),
            stores: Stores::default(),
            faults: Faults::default(),
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

    /// A copy of what it remembers. What is shared must be lent to it.
    #[must_use]
    pub fn snapshot(&mut self) -> Warm {
        let now = self.pace.cycle();
        let memory = self.memory.as_mut();
        Warm {
            memory: memory.map(|memory| memory.snapshot(now)),
            queue: Some(Box::new(self.queue.snapshot(&self.model))),
        }
    }

    /// What becomes of the next branches.
    pub fn tell(&mut self, steers: Steers) {
        if let Some(starts) = &mut self.queue.prediction {
            starts.tell(steers);
        }
    }

    /// Takes all instructions of a block.
    pub fn run(&mut self, program: &Program, plan: &Plan) {
        let run = Run {
            plan,
            spans: &[],
            accesses: &[],
        };
        self.queue.push_run(program, run);
        self.fetch();
    }

    /// Takes an instruction.
    pub fn push(&mut self, program: &Program, inst: Inst) {
        self.queue.push(program, inst, &[]);
        self.fetch();
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
        let queue = &mut self.queue;
        if self.model.core.frontend.uop_cache_refill == 0 {
            self.faults.settle(queue.head());
        } else if self.faults.count > 0 || !self.faults.recent.is_empty() {
            let bytes = u64::from(self.model.core.frontend.uop_cache_block_bytes.max(1));
            let mut place = 0;
            for line in queue.lines.all() {
                if let Some(entry) = queue.entries.get(place) {
                    let number = line.from + u64::from(entry.number);
                    self.faults.settle(number);
                    (queue.refills).come(entry.address / bytes, self.faults.count);
                }
                place += usize::from(line.left);
            }
        }
        queue.entries.clear();
        queue.lines.clear();
    }

    /// Fetches what is known to come from the decoders.
    #[inline]
    fn fetch(&mut self) {
        if self.queue.backlog() < BATCH {
            return;
        }
        let released = self.queue.released();
        if let Some(starts) = self.queue.prediction.as_mut() {
            let starts = std::mem::take(&mut starts.queue);
            let mut rest = starts;
            while let Some(start) = rest.front().copied() {
                if start.number >= released {
                    break;
                }
                rest.pop(1);
                let visits = self.faults.before(start.number);
                let frames = self
                    .queue
                    .prediction
                    .as_mut()
                    .map(|starts| &mut starts.frames);
                if let Way::Branch(steer) = start.way {
                    let lost = frames.is_some_and(|frames| frames.pass(start.frame, visits));
                    self.pace
                        .steer(if lost { Steer::WrongTarget } else { steer });
                }
                let decoded =
                    (self.queue.get(start.number)).is_some_and(|i| i.source == Source::Decoders);
                if !decoded && self.model.core.frontend.uop_cache_translates {
                    if let Some(memory) = &mut self.memory {
                        memory.translate_code(start.address, self.pace.cycle());
                    }
                    continue;
                }
                if let Some(memory) = self.memory.as_mut().filter(|_| decoded) {
                    let answer = memory.fetch(start.address, self.pace.cycle());
                    if answer.fault {
                        self.pace.fault(&answer);
                        self.faults.add(start.number);
                    } else {
                        self.pace.fetched(&answer);
                    }
                }
            }
            if let Some(starts) = self.queue.prediction.as_mut() {
                starts.queue = rest;
            }
        }
        self.queue.skip_released();
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
                (self.faults).add(self.queue.end().saturating_sub(behind + 1));
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
                self.faults.add(self.queue.end().saturating_sub(1));
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
