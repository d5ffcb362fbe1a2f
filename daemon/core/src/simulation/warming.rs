//! Functional warming of intervals: one pass over all instructions, in order, that keeps the state
//! with a long memory up to date and hands each interval a copy of it where that begins.
//!
//! What the copy holds is a function of the stream alone, as far as it came before the interval;
//! what it costs is told in docs/TRIED.md, and what it leaves out in [`Functional`].

use std::sync::Arc;

use mcad_isa::code::Code;
use mcad_isa::machine::CpuModel;
use mcad_isa::machine::params::Execute;
use mcad_isa::program::{Instr, Program, flag};
use mcad_proto::word::{BlockId, StreamId};
use rustc_hash::FxHashMap;

use super::chunk::Executions;
use super::dictionary::{Dictionary, TranslatedBlock};
use super::execution::Execution;
use super::homes::{Change, Homes};
use super::one_by_one;
use super::places::{Place, Places, Shared};
use crate::lists::part;
use crate::pipeline::frontend::predict::stream::Steers;
use crate::pipeline::functional::sharing::{self, Sharing, Step};
use crate::pipeline::functional::{Functional, Warm};
use crate::pipeline::inst::Inst;

/// A CPU model's long memory of a program.
pub(super) struct Walker {
    model: Arc<CpuModel>,
    program: Program,
    places: Places,
    /// What blocks do to who shares registers, where that matters.
    steps: Option<Vec<Box<[Step]>>>,
    threads: FxHashMap<StreamId, Functional>,
    /// Whose threads are whose; what those of a process share is lent to the one that executes.
    homes: Homes,
    /// Whether accesses are looked at.
    memory: bool,
}

impl Walker {
    pub(super) fn new(model: &Arc<CpuModel>, memory: bool) -> Self {
        Self {
            model: Arc::clone(model),
            program: Program::default(),
            places: Places::new(model),
            steps: Sharing::new(&model.core.rename).map(|_| Vec::new()),
            threads: FxHashMap::default(),
            homes: Homes::default(),
            memory,
        }
    }

    pub(super) fn define(&mut self, id: BlockId, decoded: &[Code], shared: Option<&Shared>) {
        let (place, _) = (self.places).define(&mut self.program, id, decoded, shared);
        if let Some(steps) = &mut self.steps {
            let at = id.0 as usize;
            if steps.len() <= at {
                steps.resize(at + 1, Box::default());
            }
            steps[at] = sharing::steps(
                &self.program,
                instructions(&self.program, place, 0, place.len as usize),
            );
        }
    }

    /// Something happens to processes.
    pub(super) fn change(&mut self, change: &Change) {
        self.homes.change(&self.model, change);
    }

    /// A thread executed blocks, with what becomes of their branches.
    pub(super) fn execute(
        &mut self,
        stream: StreamId,
        executions: Executions<'_>,
        steers: Steers,
        dictionary: &Dictionary,
    ) {
        let (model, program) = (&self.model, &self.program);
        let thread = self.threads.entry(stream);
        let thread = thread.or_insert_with(|| Functional::new(model));
        thread.tell(steers);
        let process = self.homes.of(stream);
        thread.lend(self.homes.lines(model, process));
        for execution in executions {
            let id = execution.block;
            if let (Some(block), Some(place)) = (dictionary.get(id), self.places.get(id)) {
                let p = &model.core.execute;
                execute(thread, p, program, place, block, &execution, self.memory);
                if let Some(steps) = &self.steps {
                    let known = steps.get(id.0 as usize).map_or(&[][..], |steps| steps);
                    share(thread, program, place, known, &execution);
                }
            }
        }
        thread.lend(self.homes.lines(model, process));
    }

    /// What a thread's core remembers now, where the instruction at `next` comes next.
    pub(super) fn snapshot(&mut self, stream: StreamId, next: u64) -> Warm {
        let thread = self
            .threads
            .entry(stream)
            .or_insert_with(|| Functional::new(&self.model));
        let process = self.homes.of(stream);
        thread.lend(self.homes.lines(&self.model, process));
        let warm = thread.snapshot(&self.program, next);
        thread.lend(self.homes.lines(&self.model, process));
        warm
    }

    /// A thread ended.
    pub(super) fn end_thread(&mut self, stream: StreamId) {
        self.threads.remove(&stream);
        self.homes.end(stream);
    }
}

/// A block was executed; `memory`: its accesses are looked at.
#[inline]
fn execute(
    thread: &mut Functional,
    p: &Execute,
    program: &Program,
    place: &Place,
    block: &TranslatedBlock,
    execution: &Execution<'_>,
    memory: bool,
) {
    let end = execution.end.min(place.len as usize);
    let uops = match &place.plan {
        Some(plan) if execution.first == 0 && end == place.len as usize => {
            thread.run(program, plan);
            place.fused
        }
        _ => {
            for n in execution.first..end {
                let mut inst = Inst::new(place.first + n as u32, block.address_of(n));
                let span = execution.spans.iter().find(|s| usize::from(s.index) == n);
                let instr = program.instrs.get(inst.instr as usize);
                if let (Some(instr), Some(span)) = (instr.filter(|i| i.is(flag::REP)), span) {
                    let last = n + 1 == end;
                    inst.extra_cycles = one_by_one::repeated(p, instr, span, execution, last);
                }
                thread.push(program, &inst);
            }
            let executed = instructions(program, place, execution.first, end);
            executed.iter().map(|i| u32::from(i.fused)).sum()
        }
    };
    if memory {
        accesses(thread, program, place, block, execution);
        if end == block.len() {
            thread.enter_kernel(execution.kernel);
        }
    }
    let instructions = end.saturating_sub(execution.first);
    thread.pass(instructions as u64, u64::from(uops));
}

/// The instructions `first..end` of a block.
fn instructions<'a>(program: &'a Program, place: &Place, first: usize, end: usize) -> &'a [Instr] {
    let from = place.first as usize;
    part(&program.instrs, from + first..from + end)
}

/// Who shares registers behind an executed block, of which `steps` says what it does to that if all of
/// it is executed.
#[inline]
fn share(
    thread: &mut Functional,
    program: &Program,
    place: &Place,
    steps: &[Step],
    execution: &Execution<'_>,
) {
    let (first, end) = (execution.first, execution.end.min(place.len as usize));
    if first == 0 && end == place.len as usize {
        thread.share(steps);
    } else {
        let executed = instructions(program, place, first, end);
        thread.share(&sharing::steps(program, executed));
    }
}

/// Accesses of an executed block.
fn accesses(
    thread: &mut Functional,
    program: &Program,
    place: &Place,
    block: &TranslatedBlock,
    execution: &Execution<'_>,
) {
    let end = execution.end.min(place.len as usize);
    for span in execution.spans {
        let n = usize::from(span.index);
        let instr = place.first + u32::from(span.index);
        let inst = Inst::new(instr, block.address_of(n));
        let inst = (&inst, end.saturating_sub(n + 1) as u64);
        let first = span.start as usize;
        let (loads, stores) = (usize::from(span.loads), usize::from(span.stores));
        let own = part(execution.accesses, first..first + loads + stores);
        let (loads, stores) = own.split_at(loads.min(own.len()));
        for access in loads {
            thread.load(inst, access);
        }
        for access in stores {
            thread.store(inst, access);
        }
        let repeated = || (program.instrs.get(instr as usize)).is_some_and(|i| i.is(flag::REP));
        if !execution.reaches.is_empty()
            && repeated()
            && let Some(reach) = execution.reaches.iter().find(|r| r.index == span.index)
        {
            thread.repeat(inst, &reach.loads, &reach.stores);
        }
    }
}
