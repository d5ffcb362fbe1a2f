//! One session's simulation: events in, a [`Report`] out.
//!
//! [`Simulation`] owns the block dictionary, puts each thread's records together to executed
//! blocks ([`execution`]) and hands them to one pipeline per CPU model and thread ([`core`]). It
//! does no I/O and its result does not depend on how the records were cut into events.

mod assumptions;
mod bound;
mod branches;
mod build;
mod call_report;
pub mod calls;
mod chunk;
pub mod core;
pub mod dictionary;
mod evidence;
pub mod execution;
mod files;
mod fingerprint;
mod follower;
mod front;
mod homes;
mod hottest;
mod interval;
mod listing;
mod misses;
mod modules;
mod one_by_one;
mod oracle;
mod places;
mod processes;
pub mod region;
mod run;
mod seats;
mod stack;
mod threads;
pub mod timeline;
pub mod totals;
mod turns;
mod warmer;
mod warming;
mod workers;

use std::io;
use std::ops::Range;
use std::sync::Arc;

use mcad_proto::event::{Arch, EndReason, Event, ProcessEvent, SessionInfo};
use mcad_proto::word::{BlockId, GuestAddr, ProcessId, StreamId};
use rustc_hash::{FxHashMap, FxHashSet};

use self::core::Core;
use calls::Calls;
use dictionary::{Dictionary, TranslatedBlock};
use evidence::Evidence;
use execution::{Assembler, BadRecord, Execution};
use mcad_isa::machine::{self, CpuModel};
use mcad_report::{Report, TraceStats};
use modules::Modules;
use run::{Cores, Run};
use timeline::{Recording, TimelineSink, Window};
use turns::Turns;
use workers::Workers;

pub use interval::Intervals;
pub use mcad_isa::riscv::image::Image;
pub use workers::{OnThread, Parallel};

/// Which analysis runs over the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AnalysisKind {
    /// The out-of-order core, instruction by instruction.
    Pipeline,
    /// Every block predicted on its own in a loop, times its executions.
    Block,
}

/// What to simulate.
#[derive(Clone, Debug)]
pub struct Options {
    /// CPU models; each is simulated over the one stream. None: the usual one of the stream's
    /// instruction set.
    pub cpus: Vec<Arc<CpuModel>>,
    /// Analyses per CPU model.
    pub analyses: Vec<AnalysisKind>,
    /// Whether memory dependencies are simulated from the recorded addresses.
    pub memory: bool,
    /// Whether the threads of a process share a core, in turn, and not each has its own. Then paths of calls are told only where no
    /// process has several threads, and the stays in regions of interest mean nothing where one has.
    pub one_core: bool,
}

impl Options {
    /// The models that are simulated instruction by instruction.
    fn pipelines(&self) -> &[Arc<CpuModel>] {
        match self.analyses.contains(&AnalysisKind::Pipeline) {
            true => &self.cpus,
            false => &[],
        }
    }
}

/// How far a simulation is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Guest instructions simulated.
    pub instructions: u64,
    /// Cycles on the first CPU model.
    pub cycles: u64,
}

/// A broken stream of events.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimulationError {
    /// An event came out of order or names something that was never defined.
    #[error("the event stream is broken after {records} records: {what}")]
    BrokenStream {
        /// Records accepted before.
        records: u64,
        /// What is wrong.
        what: String,
    },
    /// The system gives no thread to simulate on.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] io::Error),
    /// The trace is of another instruction set than the CPU model.
    #[error(
        "the trace is of {arch} code, which the CPU model '{model}' does not execute; choose one \
         that does with --cpu (`mcad cpus` lists them)"
    )]
    WrongArch {
        /// The trace's.
        arch: Arch,
        /// Name of the CPU model.
        model: String,
    },
}

/// A name for a code address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Demangled function name.
    pub name: String,
    /// Distance from the function's start in bytes.
    pub offset: u64,
    /// File name of the module.
    pub module: String,
    /// For a function without a name: the nearest function before it in its module that has one.
    pub near: Option<String>,
}

/// Turns code addresses into names; implemented outside the core, which does no I/O.
///
/// One address may belong to several files in the course of a session (libraries come and go, a
/// program replaces itself); the block says which time is meant.
pub trait Symbolizer {
    /// The function at an address, when the block was defined.
    fn symbol(&self, block: BlockId, address: GuestAddr) -> Option<Symbol>;
    /// `file:line` of an address, when the block was defined.
    fn line(&self, block: BlockId, address: GuestAddr) -> Option<String>;
}

/// A [`Symbolizer`] that knows nothing.
pub struct NoSymbols;

impl Symbolizer for NoSymbols {
    fn symbol(&self, _: BlockId, _: GuestAddr) -> Option<Symbol> {
        None
    }
    fn line(&self, _: BlockId, _: GuestAddr) -> Option<String> {
        None
    }
}

/// Most threads that are simulated at once: each has a pipeline per CPU model.
const MAX_THREADS: usize = 4096;

/// Most of those that are too many.
const MAX_CROWD: usize = 1 << 18;

/// Threads that are not simulated, since too many others lived when they began.
#[derive(Default)]
struct Crowd {
    /// Those that live.
    streams: FxHashSet<StreamId>,
    /// All so far.
    threads: u64,
    /// What they executed.
    records: u64,
}

/// Most regions of interest: each is looked at with every executed block.
const MAX_REGIONS: usize = 4096;

/// Makes what a timeline is told to, once the CPU model is known.
type MakeSink = Box<dyn FnOnce(&CpuModel) -> Box<dyn TimelineSink>>;

/// A running simulation.
pub struct Simulation {
    options: Options,
    run: Run,
    /// Threads that simulate from the session's start on.
    threads_wanted: Option<(Parallel, OnThread)>,
    /// Cycles are told apart by who called.
    calls: bool,
    /// A recording that begins with the session.
    wanted: Option<(Window, u64, MakeSink)>,
    dictionary: Dictionary,
    threads: FxHashMap<StreamId, Assembler>,
    /// Who is at work where threads share a core.
    turns: Option<Turns>,
    crowd: Crowd,
    session: Option<SessionInfo>,
    modules: Modules,
    stats: TraceStats,
    notices: Vec<String>,
    end: Option<EndReason>,
}

/// How a report names what was lost once.
fn lost(count: u64, reason: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{reason} ({count} record{s})")
}

impl Simulation {
    /// Starts a simulation on this thread.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self::with(options, None)
    }

    /// Starts a simulation on threads of its own; the result is the same unless guest threads are
    /// cut into intervals. Then the stays in regions of interest mean nothing. Each thread calls
    /// `on_thread` when it starts and drops what that gives when it ends.
    #[must_use]
    pub fn parallel(options: Options, parallel: Parallel, on_thread: OnThread) -> Self {
        Self::with(options, Some((parallel, on_thread)))
    }

    fn with(options: Options, threads_wanted: Option<(Parallel, OnThread)>) -> Self {
        Self {
            run: Run::new(&options),
            turns: options.one_core.then(Turns::default),
            options,
            threads_wanted,
            calls: false,
            wanted: None,
            dictionary: Dictionary::default(),
            threads: FxHashMap::default(),
            crowd: Crowd::default(),
            session: None,
            modules: Modules::default(),
            stats: TraceStats::default(),
            notices: Vec::new(),
            end: None,
        }
    }

    fn broken(&self, what: String) -> SimulationError {
        SimulationError::BrokenStream {
            records: self.stats.records,
            what,
        }
    }

    /// Records the window of the first CPU model's run, at most `limit` instructions of it. To be
    /// called before the first event. Needs [`AnalysisKind::Pipeline`] to make sense of it.
    pub fn record(
        &mut self,
        window: Window,
        limit: u64,
        sink: impl FnOnce(&CpuModel) -> Box<dyn TimelineSink> + 'static,
    ) {
        self.wanted = Some((window, limit, Box::new(sink)));
    }

    /// Tells cycles apart by the path of calls that led to them. To be called before the first
    /// event. Of threads that are cut into intervals nothing is known then.
    pub fn tell_calls(&mut self) {
        self.calls = true;
    }

    /// The session begins: now the instruction set is known.
    fn begin(&mut self, info: &SessionInfo) -> Result<(), SimulationError> {
        self.session = Some(info.clone());
        self.dictionary = Dictionary::new(info.arch);
        if self.options.cpus.is_empty() {
            let usual = machine::cpu(machine::default_cpu(info.arch));
            let usual = usual.map_err(|error| self.broken(error.to_string()))?;
            self.options.cpus.push(usual);
        }
        let other = |cpu: &&Arc<CpuModel>| cpu.arch() != info.arch;
        if let Some(cpu) = self.options.cpus.iter().find(other) {
            return Err(SimulationError::WrongArch {
                arch: info.arch,
                model: cpu.name.clone(),
            });
        }
        self.run.evidence = assumptions::are_worth_a_look(&self.options).then(Evidence::default);
        let models = self.options.pipelines();
        self.run.cores = match self.threads_wanted.take() {
            None => {
                let calls = self.calls;
                let core = |model: &Arc<CpuModel>| {
                    let mut core = Core::new(Arc::clone(model));
                    core.calls = calls.then(Calls::default);
                    core
                };
                Cores::Here(models.iter().map(core).collect())
            }
            Some((parallel, on_thread)) => {
                let memory = self.options.memory;
                let workers = Workers::start(models, memory, parallel, self.calls, &on_thread)?;
                Cores::Workers(Box::new(workers))
            }
        };
        if let (Some((window, limit, sink)), Some(model)) =
            (self.wanted.take(), self.options.cpus.first())
        {
            let sink = sink(model);
            self.run.recording = Some(Recording::new(Arc::clone(model), window, limit, sink));
        }
        Ok(())
    }

    /// Takes the next event.
    ///
    /// # Errors
    /// [`SimulationError`] when the stream is broken; what came before stays valid and
    /// [`Simulation::finish`] may still be called.
    pub fn event(&mut self, event: &Event<'_>) -> Result<(), SimulationError> {
        if self.end.is_some() {
            return Err(self.broken("an event after the end".into()));
        }
        if !matches!(event, Event::Block(_) | Event::Records { .. }) {
            self.execute_waiting()?;
        }
        match event {
            Event::Session(info) => {
                if self.session.is_some() {
                    return Err(self.broken("a second start of session".into()));
                }
                self.begin(info)?;
            }
            Event::Block(def) => {
                let new = self.dictionary.define(def).map_err(|e| self.broken(e))?;
                if let Some(decoded) = new {
                    self.run.define(&self.dictionary, def.id, decoded);
                }
            }
            Event::Module(module) => {
                let addresses = module.start.0..module.end.0;
                self.dictionary.map(&module.path, addresses.clone());
                self.run.announce(addresses.clone());
                self.modules.map(&module.path, addresses);
            }
            Event::Region(region) => {
                if self.run.regions.len() >= MAX_REGIONS {
                    return Err(self.broken(format!("more than {MAX_REGIONS} regions")));
                }
                self.run.watch(region);
            }
            Event::StreamStart(stream) => self.start_thread(*stream)?,
            Event::Records { stream, words } => return self.records(*stream, words),
            Event::StreamEnd(stream) => self.end_thread(*stream),
            Event::Process { id, what } => self.process(*id, what)?,
            Event::Lost { count, reason } => {
                self.stats.lost_records = self.stats.lost_records.saturating_add(*count);
                if self.stats.lost_reasons.len() < 16 {
                    self.stats.lost_reasons.push(lost(*count, reason));
                }
            }
            Event::Notice(text) => {
                if self.notices.len() < 64 {
                    self.notices.push(text.clone());
                }
            }
            Event::End(reason) => self.end = Some(reason.clone()),
        }
        Ok(())
    }

    fn start_thread(&mut self, stream: StreamId) -> Result<(), SimulationError> {
        if self.threads.len() >= MAX_THREADS {
            if self.crowd.streams.len() >= MAX_CROWD {
                return Err(self.broken(format!("more than {MAX_CROWD} threads at once")));
            }
            self.crowd.threads += u64::from(self.crowd.streams.insert(stream));
            return Ok(());
        }
        let recorded = self.session.as_ref().is_some_and(|s| s.memory);
        if self
            .threads
            .insert(stream, Assembler::new(recorded))
            .is_some()
        {
            return Err(self.broken(format!("thread {} starts twice", stream.0)));
        }
        self.stats.threads += u64::from(self.run.begin_thread(stream));
        Ok(())
    }

    fn process(&mut self, id: ProcessId, what: &ProcessEvent) -> Result<(), SimulationError> {
        let processes = &mut self.run.processes;
        let known = match what {
            ProcessEvent::Forked { parent } => processes.fork(id, *parent),
            ProcessEvent::Entered => processes.enter(id),
            ProcessEvent::Replaced { command } => processes.replace(id, command),
            ProcessEvent::Ended(end) => processes.end(id, end),
        };
        if !known {
            return Err(self.broken(format!(
                "process {} cannot be: ids count from 1 without gaps, parents first, to {}",
                id.0,
                processes::MAX_PROCESSES
            )));
        }
        if matches!(what, ProcessEvent::Replaced { .. } | ProcessEvent::Ended(_)) {
            self.run.renew(id);
        }
        Ok(())
    }

    fn records(&mut self, stream: StreamId, words: &[u64]) -> Result<(), SimulationError> {
        if !self.threads.contains_key(&stream) {
            if !self.crowd.streams.contains(&stream) {
                // Assembly input and old recordings name no threads.
                self.start_thread(stream)?;
            }
            if self.crowd.streams.contains(&stream) {
                self.crowd.records += words.len() as u64;
                return Ok(());
            }
        }
        // Whoever executes does not ask whose turn it is.
        let Some(mut turns) = self.turns.take() else {
            return self.execute(stream, words);
        };
        let process = self.run.processes.of(stream);
        let result = turns.offer(process, stream, words, |stream, words| {
            self.execute(stream, words)
        });
        self.turns = Some(turns);
        result
    }

    /// Executes all that waits for its turn.
    fn execute_waiting(&mut self) -> Result<(), SimulationError> {
        let Some(mut turns) = self.turns.take() else {
            return Ok(());
        };
        let result = turns.finish(|stream, words| self.execute(stream, words));
        self.turns = Some(turns);
        result
    }

    fn execute(&mut self, stream: StreamId, words: &[u64]) -> Result<(), SimulationError> {
        let Self {
            threads,
            run,
            dictionary,
            ..
        } = self;
        let Some(assembler) = threads.get_mut(&stream) else {
            return Ok(());
        };
        let mut emit = |block: &TranslatedBlock, execution: &Execution<'_>| {
            run.execute(stream, block, execution, dictionary);
        };
        let mut bad = None;
        for &word in words {
            if let Err(e) = assembler.word(word, dictionary, &mut emit) {
                bad = Some(e);
                break;
            }
        }
        self.stats.records += words.len() as u64;
        match bad {
            None => Ok(()),
            Some(BadRecord::Word(e)) => Err(self.broken(e.to_string())),
            Some(BadRecord::UnknownBlock(id)) => {
                Err(self.broken(format!("block {} executes and was never defined", id.0)))
            }
            Some(BadRecord::EarlyAccess) => {
                Err(self.broken("a memory access comes before the first block".into()))
            }
        }
    }

    fn end_thread(&mut self, stream: StreamId) {
        let Some(mut assembler) = self.threads.remove(&stream) else {
            self.crowd.streams.remove(&stream);
            return;
        };
        let (run, dictionary) = (&mut self.run, &self.dictionary);
        assembler.end(dictionary, &mut |block, execution| {
            run.execute(stream, block, execution, dictionary);
        });
        run.end_thread(stream, dictionary);
        let counts = assembler.counts;
        self.run.processes.end_thread(stream, counts.instructions);
        self.stats.instructions += counts.instructions;
        self.stats.blocks_executed += counts.blocks;
        self.stats.memory_accesses += counts.accesses;
        self.stats.partial_blocks += counts.partial;
        if counts.misplaced > 0 {
            self.stats.lost_records = self.stats.lost_records.saturating_add(counts.misplaced);
            if self.stats.lost_reasons.len() < 16 {
                let reason = "accesses of no instruction of their block";
                self.stats.lost_reasons.push(lost(counts.misplaced, reason));
            }
        }
    }

    /// Whether this program's time depends on what its files have in memory ([`Simulation::load`]).
    #[must_use]
    pub fn wants_images(&self) -> bool {
        self.dictionary.wants_images()
    }

    /// A file that is mapped at these addresses has this in memory when it is loaded. Before its code is
    /// told of.
    pub fn load(&mut self, addresses: Range<u64>, image: Image) {
        self.dictionary.load(addresses, image);
    }

    /// How far the simulation is.
    #[must_use]
    pub fn progress(&self) -> Progress {
        Progress {
            instructions: self.stats.instructions
                + self
                    .threads
                    .values()
                    .map(|t| t.counts.instructions)
                    .sum::<u64>(),
            cycles: self.run.cores.cycles_so_far(),
        }
    }

    /// Ends the simulation and builds the report; [`Report::run`] is left for the caller.
    #[must_use]
    pub fn finish(mut self, symbols: &dyn Symbolizer) -> Report {
        if let Err(error) = self.execute_waiting() {
            self.notices.push(error.to_string());
        }
        let mut running: Vec<StreamId> = self.threads.keys().copied().collect();
        running.sort_unstable();
        for stream in running {
            self.end_thread(stream);
        }
        if let Some(recording) = self.run.recording.take() {
            recording.end();
        }
        let Crowd {
            threads, records, ..
        } = self.crowd;
        if threads > 0 {
            self.stats.lost_records = self.stats.lost_records.saturating_add(records);
            let reason = format!(
                "{threads} threads were not simulated: {MAX_THREADS} lived when they began"
            );
            self.stats.lost_reasons.push(lost(records, &reason));
        }
        let (names, cores) = match std::mem::take(&mut self.run.cores) {
            Cores::Here(cores) => {
                let names = build::names(&self, symbols);
                (names, cores.into_iter().map(|core| (core, None)).collect())
            }
            Cores::Workers(mut workers) => {
                // They are still at work.
                workers.hand_on();
                let names = build::names(&self, symbols);
                build::read_lines(&self, symbols);
                (names, workers.finish())
            }
        };
        build::report(self, &cores, &names, symbols)
    }
}
