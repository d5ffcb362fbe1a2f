//! One CPU model's part of a simulation: its static program, and a pipeline per thread.

use std::ops::Range;
use std::sync::Arc;

use mcad_proto::event::RegionDef;
use mcad_proto::word::{BlockId, ProcessId, StreamId};
use rustc_hash::FxHashMap;

use super::calls::{Calls, Stack};
use super::dictionary::{Dictionary, TranslatedBlock};
use super::execution::Execution;
use super::homes::{Change, Homes};
use super::interval::Seam;
use super::one_by_one::OneByOne;
use super::places::{Place, Places, Shared};
use super::region::{Stays, Tracker};
use super::stack::Stacks;
use super::threads::{Folds, Threads};
use super::totals::Totals;
use crate::lists::part;
use crate::memory::counts::{Misses, MissesByInstruction};
use crate::pipeline::Pipeline;
use crate::pipeline::backend::memory::lines::SharedLines;
use crate::pipeline::backend::topdown::Loss;
use crate::pipeline::fold::{Empty, Folded};
use crate::pipeline::frontend::plan::{Run, last_with_uops};
use crate::pipeline::frontend::predict::stream::{BranchCounts, Counts};
use crate::pipeline::frontend::uop_cache::groups::Groups;
use crate::pipeline::inorder::stream;
use crate::pipeline::inst::Inst;
use crate::pipeline::observer::{Observer, Retired, UopStamps};
use crate::pipeline::state::State;
use mcad_isa::build::Doubt;
use mcad_isa::code::Code;
use mcad_isa::llvm::vector::{self, VectorType};
use mcad_isa::machine::CpuModel;
use mcad_isa::program::{Instr, Program};
use mcad_report::{SlotStack, ThreadReport};

/// What is watched of a pipeline besides the cycles of blocks; `()` watches nothing.
pub trait Watch: Default {
    /// Whether µops are wanted.
    const UOPS: bool;

    /// Whether states of the core are.
    const STATES: bool = false;

    /// A µop has all its stamps.
    fn uop(&mut self, stamps: UopStamps);

    /// An instruction retired, after its µops.
    fn retired(&mut self, inst: &Inst, retired: Retired);

    /// Whether the state is wanted now.
    fn wants_state(&self) -> bool {
        Self::STATES
    }

    /// The state, where it was wanted.
    fn state(&mut self, state: State) {
        let _ = state;
    }
}

impl Watch for () {
    const UOPS: bool = false;

    fn uop(&mut self, _: UopStamps) {}

    fn retired(&mut self, _: &Inst, _: Retired) {}
}

/// Cycles by instruction, as they retire.
pub struct Attribution<W> {
    last: u64,
    /// Cycles between the retirement of the instruction before and of this one, summed by place
    /// in the program; a block's are those of its instructions. The core's, while it lends them.
    pub(super) cycles: Vec<u64>,
    /// Issue slots that were lost, by block, and whose block each instruction is. Lent as well.
    stacks: Stacks,
    /// Blocks that retired, in order, each with its cycles, when somebody asks for regions.
    log: Option<Vec<(BlockId, u64)>>,
    /// When the last block of the log retired.
    logged: u64,
    watch: W,
}

impl<W: Watch> Observer for Attribution<W> {
    const UOPS: bool = W::UOPS;
    const STATES: bool = W::STATES;

    fn wants_state(&mut self) -> bool {
        self.watch.wants_state()
    }

    fn state(&mut self, state: State) {
        self.watch.state(state);
    }

    #[inline]
    fn uop(&mut self, _: &Inst, stamps: UopStamps) {
        self.watch.uop(stamps);
    }

    #[inline]
    fn lost(&mut self, losses: &[Loss]) {
        self.stacks.add(losses);
    }

    #[inline]
    fn retired(&mut self, inst: &Inst, retired: Retired) {
        self.watch.retired(inst, retired);
        if let Some(cycles) = self.cycles.get_mut(inst.instr as usize) {
            *cycles += retired.last - self.last;
        }
        self.last = retired.last;
        if let Some(id) = inst.tag.checked_sub(1)
            && let Some(log) = &mut self.log
        {
            log.push((BlockId(id), retired.last - self.logged));
            self.logged = retired.last;
        }
    }
}

pub(super) struct Thread<W> {
    pub(super) pipeline: Pipeline<Attribution<W>>,
    tracker: Tracker,
    stack: Stack,
    process: ProcessId,
    instructions: u64,
    /// What executes only brings the core into the state that a later interval begins with.
    pub(super) warming: bool,
    /// Counts of the pipeline where the interval began; those of a core at rest for a whole thread.
    pub(super) begin: Totals,
    /// Cycles so far where the instructions that two intervals have in common begin.
    pub(super) mark: Option<u64>,
}

/// A guest thread, or one interval of it; 0 is the whole thread where it is not cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Part {
    /// The thread.
    pub stream: StreamId,
    /// Number of the interval.
    pub interval: u32,
}

impl From<StreamId> for Part {
    fn from(stream: StreamId) -> Self {
        Self {
            stream,
            interval: 0,
        }
    }
}

/// Executions of a form without figures of its own.
#[derive(Clone, Debug, Default)]
pub struct Unlisted {
    /// What it was treated as; `None`: the generic µop.
    pub borrowed_from: Option<String>,
    /// Times executed.
    pub count: u64,
}

/// What an instruction of the program came to.
pub(super) struct Came {
    cycles: u64,
    misses: Option<Misses>,
    branches: Option<BranchCounts>,
}

/// Lists forms without figures of their own, and where in a block they are.
fn list(
    unlisted: &mut Vec<(String, Unlisted)>,
    names: &mut FxHashMap<String, usize>,
    place: &mut Place,
    doubts: Vec<Doubt>,
) {
    for doubt in doubts {
        let next = unlisted.len();
        let form = *names.entry(doubt.name.clone()).or_insert(next);
        if form == next {
            let new = Unlisted {
                borrowed_from: doubt.borrowed_from,
                count: 0,
            };
            unlisted.push((doubt.name, new));
        }
        place.unlisted.push((doubt.place, form));
    }
}

/// A CPU model at work.
pub struct Core<W = ()> {
    /// The model.
    pub model: Arc<CpuModel>,
    pub(super) program: Program,
    pub(super) places: Places,
    pub(super) unlisted_names: FxHashMap<String, usize>,
    /// The vector type of threads, where it is known.
    vector_types: FxHashMap<Part, VectorType>,
    /// Forms without figures of their own, in order of appearance.
    pub unlisted: Vec<(String, Unlisted)>,
    pub(super) threads: Threads<Thread<W>>,
    /// Threads that ended, or intervals of threads.
    pub finished: Vec<ThreadReport>,
    /// Cycles of all these.
    pub(super) finished_cycles: u64,
    /// Cycles by instruction of the program. Lent to the thread that is simulated: one list for
    /// each would make many threads of a large program take gigabytes.
    pub(super) cycles: Vec<u64>,
    /// Issue slots that were lost, by block; lent as well.
    pub(super) stacks: Stacks,
    /// Whose threads are whose; what those of a process share is lent to the one that is simulated.
    pub(super) homes: Homes,
    /// Cycles by path of calls; none where threads are cut, whose pieces do not know who called.
    pub calls: Option<Calls>,
    /// Stays by region over the threads that ended.
    pub stays: Vec<Stays>,
    /// Counts over the threads that ended.
    pub totals: Totals,
    /// Whether threads are cut into intervals, which share nothing.
    pub(super) cut: bool,
    /// Whether somebody else predicts branches.
    pub(super) is_told: bool,
    /// What intervals that are over found out of groups of instructions.
    pub(super) groups: Vec<Groups>,
    /// Cycles that intervals took for what they have in common with their neighbours.
    pub(super) seams: FxHashMap<Part, Seam>,
    /// Misses by instruction of the program, over the threads that ended.
    pub misses: MissesByInstruction,
    /// What became of branches, over the threads that ended.
    pub branches: Counts,
}

impl<W: Watch> Core<W> {
    /// A model that has seen nothing.
    #[must_use]
    pub fn new(model: Arc<CpuModel>) -> Self {
        Self {
            homes: Homes::default(),
            calls: None,
            places: Places::new(&model),
            model,
            program: Program::default(),
            unlisted_names: FxHashMap::default(),
            vector_types: FxHashMap::default(),
            unlisted: Vec::new(),
            threads: Threads::default(),
            finished: Vec::new(),
            finished_cycles: 0,
            cycles: Vec::new(),
            stacks: Stacks::default(),
            stays: Vec::new(),
            totals: Totals::default(),
            cut: false,
            is_told: false,
            groups: Vec::new(),
            seams: FxHashMap::default(),
            misses: MissesByInstruction::default(),
            branches: Counts::default(),
        }
    }

    /// Something happens to processes.
    pub(super) fn change(&mut self, change: &Change) {
        self.homes.change(&self.model, change);
        if let Change::Mixed = change {
            // Who called whom cannot be told from blocks of several threads.
            self.calls = None;
        }
        if let (true, Change::MapFile(process, addresses)) = (self.cut, change) {
            let mut lines = SharedLines::of_program(&self.model.core);
            let threads = self.threads.values_mut();
            for thread in threads.filter(|thread| thread.process == *process) {
                thread.pipeline.lend(&mut lines);
                if let Some(shared) = lines.get() {
                    shared.pages.map_file(addresses.clone());
                }
                thread.pipeline.lend(&mut lines);
            }
        }
    }

    /// Makes the static instructions of a block, and its plan.
    pub fn define(&mut self, id: BlockId, decoded: &[Code]) {
        self.define_shared(id, decoded, None);
    }

    /// The same with others of the same model, which are told of the same blocks.
    pub(super) fn define_shared(&mut self, id: BlockId, decoded: &[Code], shared: Option<&Shared>) {
        let program = &mut self.program;
        let (place, doubts) = (self.places).define(program, id, decoded, shared);
        list(&mut self.unlisted, &mut self.unlisted_names, place, doubts);
        self.stacks.define(id, decoded.len());
    }

    /// The vector type with which a thread enters a block, where that says what the block costs.
    fn enter(
        &mut self,
        part: Part,
        block: &TranslatedBlock,
        execution: &Execution<'_>,
    ) -> Option<VectorType> {
        let id = execution.block;
        let used = self.places.get(id)?.vector?;
        let before = self.vector_types.get(&part).copied();
        if execution.end >= block.len() {
            match used.leaves.after(before) {
                Some(after) => self.vector_types.insert(part, after),
                None => self.vector_types.remove(&part),
            };
        }
        let before = before.filter(|_| used.needs)?;
        if self.places.get_by_type(id, before).is_none() {
            let mut decoded = block.decode();
            vector::assign_to(&mut decoded, before);
            let (program, key) = (&mut self.program, (id, before));
            let (place, doubts) = self.places.define_by_type(program, key, &decoded);
            list(&mut self.unlisted, &mut self.unlisted_names, place, doubts);
            self.stacks.define(id, decoded.len());
        }
        Some(before)
    }

    /// Counts what blocks by vector type came to as the blocks'.
    fn join_types(&mut self) {
        let instructions: Vec<(u32, u32)> = self.places.by_type().collect();
        for (own, by_type) in instructions {
            let came = self.take_of(by_type);
            self.add_to(own, &came);
        }
    }

    /// Takes away what an instruction of the program came to.
    pub(super) fn take_of(&mut self, instr: u32) -> Came {
        let cycles = self.cycles.get_mut(instr as usize);
        Came {
            cycles: cycles.map_or(0, std::mem::take),
            misses: self.misses.remove(&instr),
            branches: self.branches.by_instruction.remove(&instr),
        }
    }

    /// Counts what an instruction came to elsewhere as this one's.
    pub(super) fn add_to(&mut self, instr: u32, came: &Came) {
        if let Some(sum) = self.cycles.get_mut(instr as usize) {
            *sum += came.cycles;
        }
        if let Some(misses) = &came.misses {
            self.misses.entry(instr).or_default().add(misses);
        }
        if let Some(branches) = &came.branches {
            let own = self.branches.by_instruction.entry(instr);
            own.or_default().add(branches);
        }
    }

    /// Simulates one executed block of a thread.
    // By itself, so that all of a model's work is under one name.
    #[inline(never)]
    pub fn execute(
        &mut self,
        part: Part,
        block: &TranslatedBlock,
        execution: &Execution<'_>,
        memory: bool,
        regions: &[RegionDef],
        dictionary: &Dictionary,
    ) {
        let by_type = self.enter(part, block, execution);
        let place = match by_type {
            Some(vector) => self.places.get_by_type(execution.block, vector),
            None => self.places.get(execution.block),
        };
        let Some(place) = place else {
            return;
        };
        if let Some(image) = &block.image {
            self.program.in_order.loads(image);
        }
        let model = &self.model;
        let instructions = self.program.instrs.len();
        let thread = (self.threads).get_or_insert_with(part, || {
            Thread::new(model, part, self.homes.of(part.stream), self.is_told)
        });
        if self.cycles.len() < instructions {
            self.cycles.resize(instructions.next_power_of_two(), 0);
        }
        let observer = &mut thread.pipeline.observer;
        if (!regions.is_empty() || self.calls.is_some()) && observer.log.is_none() {
            observer.log = Some(Vec::new());
        }
        let (first, end) = (execution.first, execution.end.min(place.len as usize));
        if !thread.warming {
            thread.instructions += (end - first.min(end)) as u64;
            for &(n, unlisted) in &place.unlisted {
                if (first..end).contains(&n)
                    && let Some((_, unlisted)) = self.unlisted.get_mut(unlisted)
                {
                    unlisted.count += 1;
                }
            }
        }
        let whole = first == 0
            && end == place.len as usize
            && execution.in_order
            && execution.kernel.is_empty();
        let program = &self.program;
        let (spans, accesses) = match memory {
            true => (execution.spans, execution.accesses),
            false => (&[][..], &[][..]),
        };
        let mut in_order = None;
        let one_by_one = match &place.plan {
            _ if whole && model.core.in_order.is_some() && !place.repeats => {
                let all = place.first as usize..(place.first + place.len) as usize;
                let instrs = program.instrs.get(all).unwrap_or(&[]);
                in_order = Some(stream::Run {
                    first: place.first,
                    len: place.len as u16,
                    address: block.address_of(0),
                    tagged: last_with_uops(instrs, 0) as u16,
                    tag: execution.block.0 + 1,
                    spans,
                    accesses,
                });
                None
            }
            Some(plan) if whole => {
                let run = Run {
                    plan,
                    spans,
                    accesses,
                };
                if !thread.pipeline.queue_run(program, run) {
                    return;
                }
                None
            }
            _ => Some(OneByOne {
                program,
                p: &model.core.execute,
                place,
                block,
                execution,
                memory,
            }),
        };
        // What is simulated is lent what the core and its threads have together; without the lists,
        // nothing is attributed.
        if !thread.warming {
            thread.lend(&mut self.cycles, &mut self.stacks);
        }
        if !self.cut {
            let shared = self.homes.lines(model, thread.process);
            thread.pipeline.lend(shared);
        }
        match (one_by_one, in_order) {
            (Some(one_by_one), _) => one_by_one.push(&mut thread.pipeline),
            (None, Some(run)) => thread.pipeline.push_in_order(program, &run),
            (None, None) => thread.pipeline.run(program),
        }
        if thread.warming {
            return;
        }
        thread.lend(&mut self.cycles, &mut self.stacks);
        if !self.cut {
            let shared = self.homes.lines(model, thread.process);
            thread.pipeline.lend(shared);
        }
        thread.track(regions, self.calls.as_mut(), dictionary);
    }

    /// Cycles so far of threads that still run, which are looked at one by one, and of all that
    /// ended.
    #[must_use]
    pub fn cycles_so_far(&self) -> u64 {
        let running = self.threads.values().map(|t| t.pipeline.cycles());
        self.finished_cycles + running.sum::<u64>()
    }

    /// The static program, and what is watched of a thread.
    pub fn watched(&mut self, stream: StreamId) -> (&Program, Option<&mut W>) {
        let thread = self.threads.get_mut(stream.into());
        (
            &self.program,
            thread.map(|t| &mut t.pipeline.observer.watch),
        )
    }

    /// The static program.
    #[must_use]
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Takes in what a thread, or an interval of one, has counted.
    pub(super) fn sum(&mut self, part: Part, thread: &mut Thread<W>) {
        self.vector_types.remove(&part);
        if let Some(branches) = thread.pipeline.branches() {
            self.branches.add(branches);
        }
        if let Some(memory) = thread.pipeline.lines().memory() {
            for (instr, misses) in &memory.by_instruction {
                self.misses.entry(*instr).or_default().add(misses);
            }
        }
        self.join_types();
        let end = Totals::of(&thread.pipeline);
        self.totals.add(&thread.begin, &end);
        let cycles = end.cycles - thread.begin.cycles;
        self.finished_cycles += cycles;
        self.finished.push(ThreadReport {
            thread: part.stream.0,
            process: thread.process.0,
            instructions: thread.instructions,
            cycles,
        });
    }

    /// A thread ended; gives what was watched of it.
    pub fn end_thread(
        &mut self,
        part: Part,
        regions: &[RegionDef],
        dictionary: &Dictionary,
    ) -> Option<W> {
        let mut thread = self.threads.remove(part)?;
        thread.lend(&mut self.cycles, &mut self.stacks);
        if part.interval == 0 {
            self.homes.end(part.stream);
        }
        let shared = self.homes.lines(&self.model, thread.process);
        if !self.cut {
            thread.pipeline.lend(shared);
        }
        thread.pipeline.flush(&self.program);
        if !self.cut {
            thread.pipeline.lend(shared);
        }
        thread.lend(&mut self.cycles, &mut self.stacks);
        thread.track(regions, self.calls.as_mut(), dictionary);
        thread.tracker.end();
        self.sum(part, &mut thread);
        if self.stays.len() < thread.tracker.stays.len() {
            self.stays
                .resize_with(thread.tracker.stays.len(), Stays::default);
        }
        for (sum, stays) in self.stays.iter_mut().zip(&thread.tracker.stays) {
            sum.merge(stays);
        }
        Some(thread.pipeline.observer.watch)
    }

    /// Where the instructions of a block are in the program; empty for an unknown block.
    #[must_use]
    pub fn range(&self, id: BlockId) -> Range<usize> {
        self.places.range(id)
    }

    /// The instructions of a block.
    #[must_use]
    pub fn instructions(&self, id: BlockId) -> &[Instr] {
        part(&self.program.instrs, self.range(id))
    }

    /// By instruction of a block, the unit that it takes on an in-order core with units of its own, as
    /// views call them; `None` on other cores.
    pub fn units(&self, id: BlockId) -> Option<impl Iterator<Item = Option<&str>>> {
        let in_order = self.model.core.in_order.as_ref();
        let params = in_order.filter(|params| !params.scheduled)?;
        let instrs = part(&self.program.in_order.instrs, self.range(id));
        Some(instrs.iter().map(|instr| {
            let class = params.classes.get(usize::from(instr.class));
            class.and_then(|class| class.unit.as_deref())
        }))
    }

    /// Cycles of each instruction of a block so far; may end early.
    #[must_use]
    pub fn cycles(&self, id: BlockId) -> &[u64] {
        let Range { start, end } = self.range(id);
        let end = end.min(self.cycles.len());
        self.cycles.get(start..end).unwrap_or(&[])
    }

    /// Issue slots of a block that executed so many times.
    #[must_use]
    pub fn slots(&self, id: BlockId, times: u64) -> SlotStack {
        SlotStack {
            retiring: self.slots_in(id) * times,
            ..self.stacks.report(id)
        }
    }

    /// Issue slots that one execution of a block takes.
    fn slots_in(&self, id: BlockId) -> u64 {
        if self.model.core.in_order.is_none() {
            return self.fused_in(id);
        }
        let code = &self.program.in_order;
        let scheduled = self.range(id).map(|n| code.scheduled.instrs.get(n));
        let taken = |instr: Option<&_>| instr.map_or(1, |i| code.scheduled.cost(i).uops);
        scheduled.map(|instr| u64::from(taken(instr))).sum()
    }

    /// Fused µops in one execution of a block.
    #[must_use]
    pub fn fused_in(&self, id: BlockId) -> u64 {
        let instructions = self.instructions(id).iter();
        instructions.map(|i| u64::from(i.fused)).sum()
    }
}

impl<W: Watch> Folds for Thread<W> {
    fn fold(&mut self) -> (Folded, Empty) {
        // Whoever tracks has emptied it.
        if let Some(log) = &mut self.pipeline.observer.log {
            log.shrink_to_fit();
        }
        self.pipeline.fold()
    }

    fn unfold(&mut self, folded: Folded, empty: Empty) {
        self.pipeline.unfold(folded, empty);
    }
}

impl<W: Watch> Thread<W> {
    /// A core at rest, which warms up where the part is not the first of its thread; `is_told`:
    /// somebody else predicts its branches.
    pub(super) fn new(
        model: &Arc<CpuModel>,
        part: Part,
        process: ProcessId,
        is_told: bool,
    ) -> Self {
        let observer = Attribution {
            last: 0,
            cycles: Vec::new(),
            stacks: Stacks::default(),
            log: None,
            logged: 0,
            watch: W::default(),
        };
        Self {
            pipeline: match is_told {
                true => Pipeline::told(model, observer),
                false => Pipeline::of_program(model, observer),
            },
            tracker: Tracker::default(),
            stack: Stack::default(),
            process,
            instructions: 0,
            warming: part.interval > 0,
            begin: Totals::default(),
            mark: None,
        }
    }

    /// Takes the core's lists, or gives them back.
    pub(super) fn lend(&mut self, cycles: &mut Vec<u64>, stacks: &mut Stacks) {
        let observer = &mut self.pipeline.observer;
        std::mem::swap(cycles, &mut observer.cycles);
        std::mem::swap(stacks, &mut observer.stacks);
    }

    fn track(
        &mut self,
        regions: &[RegionDef],
        mut calls: Option<&mut Calls>,
        dictionary: &Dictionary,
    ) {
        let Some(log) = &mut self.pipeline.observer.log else {
            return;
        };
        for (id, cycles) in log.drain(..) {
            if let Some(calls) = &mut calls {
                self.stack.retired(calls, dictionary, id, cycles);
            }
            if !regions.is_empty()
                && let Some(block) = dictionary.get(id)
            {
                self.tracker
                    .block(regions, block, cycles, block.len() as u64);
            }
        }
    }
}
