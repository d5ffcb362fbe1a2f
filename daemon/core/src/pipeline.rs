//! The out-of-order core, one module per part.
//!
//! The front end ([`frontend`]) is stepped cycle by cycle and delivers µops in program order.
//! Everything behind it ([`backend`]) works by time stamps: each µop is processed once, when it is
//! delivered, and gets its cycles of issue, dispatch and retirement. Since an older µop is never
//! delayed by a younger one, that gives what a cycle-by-cycle model with oldest-first selection
//! gives.
//!
//! The two halves own their parts; a part knows neither its owner nor its neighbours, and what all
//! parts must do with their state is in [`state`].
//!
//! Terms: *issue* is rename and allocation into the back end, *dispatch* is the start of
//! execution on a port (Intel's usage). Stage rules follow Abel & Reineke, "uiCA" (ICS 2022).

pub mod access;
pub mod backend;
pub mod backlog;
pub mod fold;
pub mod frontend;
pub mod functional;
pub mod inorder;
pub mod inst;
pub mod observer;
pub mod state;
pub mod units;
pub mod window;

use std::ops::Range;
use std::sync::Arc;

use crate::memory;

use access::Access;
use backend::Backend;
use backend::memory::lines::{Lines, SharedLines};
use fold::{Empty, Folded, Folding};
use frontend::FrontEnd;
use frontend::fetch;
use frontend::plan::Run;
use frontend::predict::stream::{Counts, Steers};
use frontend::uop_cache::groups::Groups;
use functional::Warm;
use inorder::stream::Stream;
use inst::Inst;
use mcad_isa::llvm::sched::Machine;
use mcad_isa::machine::CpuModel;
use mcad_isa::machine::inorder::InOrder;
use mcad_isa::machine::params::MAX_PORTS;
use mcad_isa::program::Program;
use mcad_proto::word::Kernel;
use mcad_report::TopDown;
use observer::Observer;
use state::{Part, Remember};

/// A core that executes one guest thread.
pub struct Pipeline<O> {
    front: FrontEnd,
    back: Backend,
    /// The in-order core that takes the place of both.
    in_order: Option<Box<Stream>>,
    /// Receives what happens.
    pub observer: O,
}

/// The in-order core that a model has in the place of all other stages.
fn in_order(
    model: &CpuModel,
    make: impl FnOnce(&InOrder, Option<&Machine>) -> Stream,
) -> Option<Box<Stream>> {
    let core = model.core.in_order.as_ref()?;
    Some(Box::new(make(core, model.scheduled())))
}

impl<O: Observer> Pipeline<O> {
    /// A core at rest. `warm` means that all code is in the µop cache from the start, as in the
    /// steady state of a loop.
    #[must_use]
    pub fn new(model: &Arc<CpuModel>, warm: bool, observer: O) -> Self {
        Self {
            front: FrontEnd::new(model, warm),
            back: Backend::new(model),
            in_order: in_order(model, Stream::new),
            observer,
        }
    }

    /// The same for a whole program: branches are predicted and code is fetched as the model has
    /// it.
    #[must_use]
    pub fn of_program(model: &Arc<CpuModel>, observer: O) -> Self {
        Self::of(model, observer, false)
    }

    /// The same, whose branches somebody else predicts ([`Pipeline::tell`]).
    #[must_use]
    pub fn told(model: &Arc<CpuModel>, observer: O) -> Self {
        Self::of(model, observer, true)
    }

    fn of(model: &Arc<CpuModel>, observer: O, is_told: bool) -> Self {
        let mut pipeline = Self {
            front: FrontEnd::new(model, false),
            back: Backend::of_program(model),
            in_order: in_order(model, Stream::of_program),
            observer,
        };
        pipeline.front.decode_alone(&model.core.frontend);
        if let Some(branch) = &model.core.branch
            && pipeline.in_order.is_none()
        {
            pipeline.front.run_ahead(branch, is_told);
            pipeline.front.follow_wrong_paths(model);
        }
        pipeline
    }

    /// Goes on in the middle of a program with what a core remembers there. Nothing may have been
    /// pushed yet.
    pub fn resume(&mut self, mut warm: Warm) {
        if self.in_order.is_some() {
            return;
        }
        self.front.resume(&mut warm);
        self.back.resume(&mut warm);
    }

    /// Exchanges what is known of groups with another core of the same program.
    pub fn exchange_groups(&mut self, groups: &mut Groups) {
        self.front.queue.exchange_groups(groups);
    }

    /// Says what becomes of the next branches, where somebody else finds that out.
    pub fn tell(&mut self, steers: Steers) {
        if let Some(prediction) = &mut self.front.queue.prediction {
            prediction.tell(steers);
        }
    }

    /// What became of its branches.
    #[must_use]
    pub fn branches(&self) -> Option<&Counts> {
        if let Some(core) = &self.in_order {
            return core.branches();
        }
        self.front.queue.prediction.as_ref().map(|p| &p.counts)
    }

    /// Counts branches from here on; what predictors have learned stays.
    pub fn forget_branches(&mut self) {
        if let Some(core) = &mut self.in_order {
            core.forget_branches();
        }
        if let Some(prediction) = &mut self.front.queue.prediction {
            prediction.counts = Counts::default();
        }
    }

    /// The caches, where they are modelled.
    pub fn lines(&mut self) -> &mut Lines {
        self.back.memory().lines()
    }

    /// What its loads, stores and fetches found.
    #[must_use]
    pub fn found(&self) -> memory::counts::Counts {
        self.back.found()
    }

    /// Hands over what all iterations of the repeated string instruction load and store that is
    /// pushed next; whether that matters.
    pub fn reach(&mut self, loads: Range<u64>, stores: Range<u64>) -> bool {
        if self.in_order.is_some() {
            return false;
        }
        self.back.memory().reach(loads, stores)
    }

    /// The instruction that was pushed last is a system call that does something.
    pub fn kernel_ran(&mut self) {
        if let Some(starts) = &mut self.front.queue.prediction {
            starts.kernel_ran();
        }
    }

    /// Hands over what the system call that is pushed next does to memory; whether that matters.
    pub fn enter_kernel(&mut self, work: &[Kernel]) -> bool {
        if let Some(core) = &self.in_order {
            let at = core.cycles();
            if let Some(memory) = self.back.memory().lines().memory() {
                memory.enter_kernel(work, at);
            }
            return false;
        }
        self.back.memory().enter_kernel(work)
    }

    /// Keeps only what its tables have, and gives the tables away; until [`Pipeline::unfold`] it can
    /// only be asked what it has counted.
    #[must_use]
    pub fn fold(&mut self) -> (Folded, Empty) {
        let mut folding = Folding::fold();
        self.front.fold(&mut folding);
        self.back.fold(&mut folding);
        folding.folded()
    }

    /// Goes on from where it was folded, with the tables of another core of its model if there are.
    pub fn unfold(&mut self, folded: Folded, empty: Empty) {
        let mut folding = Folding::unfold(folded, empty);
        self.front.fold(&mut folding);
        self.back.fold(&mut folding);
    }

    /// Brings the core to rest again, with a new observer.
    pub fn reset(&mut self, warm: bool, observer: O) {
        let end = (self.back).moment(self.front.clock(), self.front.queue.head());
        self.front.queue.warm(warm);
        self.front.reset(&end);
        self.back.reset(&end);
        if let Some(core) = &mut self.in_order {
            core.reset();
        }
        self.observer = observer;
    }

    /// Exchanges what the cores of a session share: whoever owns that lends it to the core at work.
    #[inline]
    pub fn lend(&mut self, shared: &mut SharedLines) {
        self.back.memory().lend(shared);
    }

    /// Takes the next instruction of the executed program; `accesses` are its loads, then its
    /// stores. Simulates as far as the result cannot depend on what follows.
    #[inline]
    pub fn push(&mut self, program: &Program, inst: Inst, accesses: &[Access]) {
        if let Some(core) = &mut self.in_order {
            let memory = self.back.memory().lines().memory();
            core.push(program, &inst, accesses, memory, &mut self.observer);
            return;
        }
        self.front.queue.push(program, inst, accesses);
        self.run_when_full(program);
    }

    /// Takes all instructions of a block: the same as pushing one after the other.
    #[inline]
    pub fn push_run(&mut self, program: &Program, run: Run<'_>) {
        if self.queue_run(program, run) {
            self.run(program);
        }
    }

    /// The same without simulating anything; whether [`Pipeline::run`] is to be called.
    #[inline]
    pub fn queue_run(&mut self, program: &Program, run: Run<'_>) -> bool {
        self.front.queue.push_run(program, run);
        self.front.queue.backlog() >= fetch::RUN_AT
    }

    /// Takes instructions for an in-order core, which there must be: the same as pushing one after the
    /// other.
    #[inline]
    pub fn push_in_order(&mut self, program: &Program, run: &inorder::stream::Run<'_>) {
        if let Some(core) = &mut self.in_order {
            let memory = self.back.memory().lines().memory();
            core.push_run(program, run, memory, &mut self.observer);
        }
    }

    /// Takes an instruction of a loop that the loop stream detector replays; `end` ends what is
    /// delivered at once.
    pub fn push_stream(&mut self, program: &Program, inst: Inst, accesses: &[Access], end: bool) {
        if self.in_order.is_some() {
            self.push(program, inst, accesses);
            return;
        }
        self.front.queue.push_stream(inst, accesses, end);
        self.run_when_full(program);
    }

    /// Takes instructions of code that goes straight on and is executed only once; how they lie in the
    /// predecoder's blocks they say.
    #[inline]
    pub fn push_straight(&mut self, program: &Program, insts: &[Inst], accesses: &[Access]) {
        self.front.queue.push_straight(insts, accesses);
        self.run_when_full(program);
    }

    #[inline]
    fn run_when_full(&mut self, program: &Program) {
        if self.front.queue.backlog() >= fetch::RUN_AT {
            self.run(program);
        }
    }

    /// Instructions that wait and may be looked at.
    #[inline]
    #[must_use]
    pub fn backlog(&self) -> u64 {
        if self.in_order.is_some() {
            return 0;
        }
        self.front.queue.backlog()
    }

    /// Simulates as far as the result cannot depend on what follows.
    pub fn run(&mut self, program: &Program) {
        (self.front).run(program, &mut self.back, &mut self.observer, false);
    }

    /// Simulates everything that was pushed to its end.
    pub fn flush(&mut self, program: &Program) {
        if let Some(core) = &mut self.in_order {
            let memory = self.back.memory().lines().memory();
            core.flush(program, memory, &mut self.observer);
            return;
        }
        self.front.queue.close(program);
        (self.front).run(program, &mut self.back, &mut self.observer, true);
    }

    /// Cycle in which the last µop so far retired.
    #[must_use]
    pub fn cycles(&self) -> u64 {
        let retired = || self.back.retirement.last();
        (self.in_order.as_ref()).map_or_else(retired, |core| core.cycles())
    }

    /// Fused µops issued.
    #[must_use]
    pub fn uops(&self) -> u64 {
        let issued = || self.back.issued();
        (self.in_order.as_ref()).map_or_else(issued, |core| core.instructions())
    }

    /// µops executed per port.
    #[must_use]
    pub fn port_uops(&self) -> [u64; MAX_PORTS] {
        let executed = || self.back.ports.executed;
        (self.in_order.as_ref()).map_or_else(executed, |core| core.port_uops())
    }

    /// Where issue slots went until the last retirement.
    #[must_use]
    pub fn topdown(&self) -> TopDown {
        let topdown = || self.back.topdown(self.cycles());
        (self.in_order.as_ref()).map_or_else(topdown, |core| core.topdown())
    }

    /// µops whose dispatch lay so far ahead that it was cut to the window of the port calendar.
    #[must_use]
    pub fn clamped(&self) -> u64 {
        self.back.ports.clamped
    }
}
