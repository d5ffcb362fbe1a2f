//! One CPU model's part of a simulation: its static program, and a pipeline per thread.

use std::ops::Range;
use std::sync::Arc;

use mcad_proto::event::RegionDef;
use mcad_proto::word::{BlockId, StreamId};
use rustc_hash::FxHashMap;

use super::dictionary::{Block, Dictionary};
use super::execution::Execution;
use super::region::{Stays, Tracker};
use crate::pipeline::Pipeline;
use crate::pipeline::access::Access;
use crate::pipeline::backend::memory::lines::SharedLines;
use crate::pipeline::inst::Inst;
use crate::pipeline::observer::{Observer, Retired, UopStamps};
use mcad_isa::machine::CpuModel;
use mcad_isa::machine::params::MAX_PORTS;
use mcad_isa::program::{Instr, Program, flag};
use mcad_isa::x86::build::{Builder, Decoded};
use mcad_report::{ThreadReport, TopDown};

/// What is watched of a pipeline besides the cycles of blocks; `()` watches nothing.
pub trait Watch: Default {
    /// Whether µops are wanted.
    const UOPS: bool;

    /// A µop has all its stamps.
    fn uop(&mut self, stamps: UopStamps);

    /// An instruction retired, after its µops.
    fn retired(&mut self, inst: &Inst, retired: Retired);
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
    cycles: Vec<u64>,
    /// Blocks that retired, in order, each with its cycles, when somebody asks for regions.
    log: Option<Vec<(BlockId, u64)>>,
    /// When the last block of the log retired.
    logged: u64,
    watch: W,
}

impl<W: Watch> Observer for Attribution<W> {
    const UOPS: bool = W::UOPS;

    #[inline]
    fn uop(&mut self, _: &Inst, stamps: UopStamps) {
        self.watch.uop(stamps);
    }

    #[inline]
    fn retired(&mut self, inst: &Inst, retired: Retired) {
        self.watch.retired(inst, retired);
        if let Some(cycles) = self.cycles.get_mut(inst.instr as usize) {
            *cycles += retired.last - self.last;
        }
        self.last = retired.last;
        if let Some(log) = &mut self.log
            && let Some(id) = inst.tag.checked_sub(1)
        {
            log.push((BlockId(id), retired.last - self.logged));
            self.logged = retired.last;
        }
    }
}

struct Thread<W> {
    pipeline: Pipeline<Attribution<W>>,
    tracker: Tracker,
    instructions: u64,
}

/// Where the instructions of a block are in the static program.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    first: u32,
    len: u32,
}

/// A form without figures, or with borrowed ones.
#[derive(Clone, Debug, Default)]
pub struct Doubtful {
    /// What it was treated as; `None`: the generic µop.
    pub borrowed_from: Option<String>,
    /// Times executed.
    pub count: u64,
}

/// A CPU model at work.
pub struct Core<W = ()> {
    /// The model.
    pub model: Arc<CpuModel>,
    program: Program,
    places: Vec<Place>,
    /// Place in `doubtful` by static instruction.
    doubts: FxHashMap<u32, u32>,
    doubtful_names: FxHashMap<String, u32>,
    /// Forms in doubt, in order of appearance.
    pub doubtful: Vec<(String, Doubtful)>,
    threads: FxHashMap<StreamId, Thread<W>>,
    /// Threads that ended.
    pub finished: Vec<ThreadReport>,
    /// Cycles by instruction of the program. Lent to the thread that is simulated: one list for
    /// each would make many threads of a large program take gigabytes.
    cycles: Vec<u64>,
    /// What threads share: lent to the one that is simulated.
    shared: Box<SharedLines>,
    /// Stays by region over the threads that ended.
    pub stays: Vec<Stays>,
    /// Slots over the threads that ended.
    pub topdown: TopDown,
    /// Fused µops.
    pub uops: u64,
    /// µops by port.
    pub port_uops: [u64; MAX_PORTS],
    /// Dispatches cut to the window of the port calendar.
    pub clamped: u64,
}

impl<W: Watch> Core<W> {
    /// A model that has seen nothing.
    #[must_use]
    pub fn new(model: Arc<CpuModel>) -> Self {
        let shared = Box::new(SharedLines::of_program(&model.core));
        Self {
            model,
            program: Program::default(),
            places: Vec::new(),
            doubts: FxHashMap::default(),
            doubtful_names: FxHashMap::default(),
            doubtful: Vec::new(),
            threads: FxHashMap::default(),
            finished: Vec::new(),
            cycles: Vec::new(),
            shared,
            stays: Vec::new(),
            topdown: TopDown::default(),
            uops: 0,
            port_uops: [0; MAX_PORTS],
            clamped: 0,
        }
    }

    /// A file is mapped at these addresses.
    pub fn map_file(&mut self, addresses: Range<u64>) {
        if let Some(shared) = self.shared.get() {
            shared.pages.map_file(addresses);
        }
    }

    /// Makes the static instructions of a block.
    pub fn define(&mut self, id: BlockId, decoded: &[Decoded]) {
        let first = self.program.instrs.len() as u32;
        let model = Arc::clone(&self.model);
        let described = Builder::new(&model).append(&mut self.program, decoded);
        for (n, (described, decoded)) in described.iter().zip(decoded).enumerate() {
            let borrowed_from = match described.form {
                _ if described.fused_previous => continue,
                Some(form) => match &form.approximated_from {
                    Some(from) => Some(from.to_string()),
                    None => continue,
                },
                None => None,
            };
            let name = match described.form {
                Some(form) => form.name.to_string(),
                None => decoded
                    .instruction
                    .op_code()
                    .instruction_string()
                    .to_owned(),
            };
            let next = self.doubtful.len() as u32;
            let place = *self.doubtful_names.entry(name.clone()).or_insert(next);
            if place == next {
                self.doubtful.push((
                    name,
                    Doubtful {
                        borrowed_from,
                        count: 0,
                    },
                ));
            }
            self.doubts.insert(first + n as u32, place);
        }
        let at = id.0 as usize;
        if self.places.len() <= at {
            self.places.resize(at + 1, Place::default());
        }
        self.places[at] = Place {
            first,
            len: decoded.len() as u32,
        };
    }

    /// Simulates one executed block of a thread.
    pub fn execute(
        &mut self,
        stream: StreamId,
        block: &Block,
        execution: &Execution,
        memory: bool,
        regions: &[RegionDef],
        dictionary: &Dictionary,
    ) {
        let Some(&place) = self.places.get(execution.block.0 as usize) else {
            return;
        };
        let model = &self.model;
        let instructions = self.program.instrs.len();
        let thread = self.threads.entry(stream).or_insert_with(|| Thread {
            pipeline: Pipeline::of_program(
                model,
                Attribution {
                    last: 0,
                    cycles: Vec::new(),
                    log: None,
                    logged: 0,
                    watch: W::default(),
                },
            ),
            tracker: Tracker::default(),
            instructions: 0,
        });
        let observer = &mut thread.pipeline.observer;
        if self.cycles.len() < instructions {
            self.cycles.resize(instructions.next_power_of_two(), 0);
        }
        std::mem::swap(&mut self.cycles, &mut observer.cycles);
        if !regions.is_empty() && observer.log.is_none() {
            observer.log = Some(Vec::new());
        }
        let end = execution.end.min(place.len as usize);
        thread.instructions += (end - execution.first.min(end)) as u64;
        // The cycles of a block are read off at its last instruction with µops of its own.
        let mut tagged = end.saturating_sub(1);
        if self
            .program
            .instrs
            .get(place.first as usize + tagged)
            .is_some_and(|i| i.is(flag::FUSED_PREVIOUS))
            && tagged > execution.first
        {
            tagged -= 1;
        }
        thread.pipeline.lend(&mut self.shared);
        let mut spans = execution.spans.iter().peekable();
        for n in execution.first..end {
            let number = place.first + n as u32;
            let mut inst = Inst::new(number, block.address_of(n));
            if n == tagged {
                inst.tag = execution.block.0 + 1;
            }
            let mut accesses: &[Access] = &[];
            while spans.peek().is_some_and(|s| usize::from(s.index) < n) {
                spans.next();
            }
            if let Some(span) = spans.next_if(|s| usize::from(s.index) == n) {
                if memory {
                    inst.loads = span.loads;
                    inst.stores = span.stores;
                    let range = span.start as usize
                        ..span.start as usize + usize::from(span.loads) + usize::from(span.stores);
                    accesses = execution.accesses.get(range).unwrap_or(&[]);
                }
                if let Some(instr) = self.program.instrs.get(number as usize)
                    && instr.is(flag::REP)
                {
                    let p = &self.model.core.execute;
                    let iterations = if n + 1 == end { execution.repeats } else { 0 }
                        .max(u64::from(span.loads.max(span.stores)));
                    let cycles = if instr.is(flag::REP_COMPARE) {
                        iterations * p.rep_compare_cycles
                    } else {
                        span.bytes / p.rep_bytes_per_cycle.max(1)
                    };
                    inst.extra_cycles = cycles.min(u64::from(u32::MAX)) as u32;
                }
            }
            thread.pipeline.push(&self.program, inst, accesses);
        }
        std::mem::swap(&mut self.cycles, &mut thread.pipeline.observer.cycles);
        thread.pipeline.lend(&mut self.shared);
        if !self.doubts.is_empty() {
            for n in execution.first..end {
                if let Some(&doubt) = self.doubts.get(&(place.first + n as u32))
                    && let Some((_, doubtful)) = self.doubtful.get_mut(doubt as usize)
                {
                    doubtful.count += 1;
                }
            }
        }
        thread.track(regions, dictionary);
    }

    /// Cycles so far of a thread that still runs, and of all that ended.
    #[must_use]
    pub fn cycles_so_far(&self) -> u64 {
        self.finished.iter().map(|t| t.cycles).sum::<u64>()
            + self
                .threads
                .values()
                .map(|t| t.pipeline.cycles())
                .sum::<u64>()
    }

    /// The static program, and what is watched of a thread.
    pub fn watched(&mut self, stream: StreamId) -> (&Program, Option<&mut W>) {
        let thread = self.threads.get_mut(&stream);
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

    /// A thread ended; gives what was watched of it.
    pub fn end_thread(
        &mut self,
        stream: StreamId,
        regions: &[RegionDef],
        dictionary: &Dictionary,
    ) -> Option<W> {
        let mut thread = self.threads.remove(&stream)?;
        std::mem::swap(&mut self.cycles, &mut thread.pipeline.observer.cycles);
        thread.pipeline.lend(&mut self.shared);
        thread.pipeline.flush(&self.program);
        thread.pipeline.lend(&mut self.shared);
        std::mem::swap(&mut self.cycles, &mut thread.pipeline.observer.cycles);
        thread.track(regions, dictionary);
        thread.tracker.end();
        let pipeline = &thread.pipeline;
        self.finished.push(ThreadReport {
            thread: stream.0,
            instructions: thread.instructions,
            cycles: pipeline.cycles(),
        });
        self.uops += pipeline.uops();
        self.clamped += pipeline.clamped();
        for (sum, n) in self.port_uops.iter_mut().zip(pipeline.port_uops()) {
            *sum += n;
        }
        let t = pipeline.topdown();
        self.topdown.slots += t.slots;
        self.topdown.retiring += t.retiring;
        self.topdown.bad_speculation += t.bad_speculation;
        self.topdown.frontend += t.frontend;
        self.topdown.backend_memory += t.backend_memory;
        self.topdown.memory_levels.add(&t.memory_levels);
        self.topdown.backend_core += t.backend_core;
        self.topdown.other += t.other;
        if self.stays.len() < thread.tracker.stays.len() {
            self.stays
                .resize_with(thread.tracker.stays.len(), Stays::default);
        }
        for (sum, stays) in self.stays.iter_mut().zip(&thread.tracker.stays) {
            sum.merge(stays);
        }
        Some(thread.pipeline.observer.watch)
    }

    /// Threads that have not ended, in order.
    #[must_use]
    pub fn running(&self) -> Vec<StreamId> {
        let mut running: Vec<StreamId> = self.threads.keys().copied().collect();
        running.sort_unstable();
        running
    }

    /// Where the instructions of a block are in the program; empty for an unknown block.
    #[must_use]
    pub fn range(&self, id: BlockId) -> Range<usize> {
        let place = self.places.get(id.0 as usize).copied().unwrap_or_default();
        place.first as usize..(place.first + place.len) as usize
    }

    /// The instructions of a block.
    #[must_use]
    pub fn instructions(&self, id: BlockId) -> &[Instr] {
        self.program.instrs.get(self.range(id)).unwrap_or(&[])
    }

    /// Cycles of each instruction of a block so far; may end early.
    #[must_use]
    pub fn cycles(&self, id: BlockId) -> &[u64] {
        let Range { start, end } = self.range(id);
        let end = end.min(self.cycles.len());
        self.cycles.get(start..end).unwrap_or(&[])
    }

    /// Fused µops in one execution of a block.
    #[must_use]
    pub fn fused_in(&self, id: BlockId) -> u64 {
        let instructions = self.instructions(id).iter();
        instructions.map(|i| u64::from(i.fused)).sum()
    }
}

impl<W: Watch> Thread<W> {
    fn track(&mut self, regions: &[RegionDef], dictionary: &Dictionary) {
        let Some(log) = &mut self.pipeline.observer.log else {
            return;
        };
        for (id, cycles) in log.drain(..) {
            if let Some(block) = dictionary.get(id) {
                self.tracker
                    .block(regions, block, cycles, block.len() as u64);
            }
        }
    }
}
