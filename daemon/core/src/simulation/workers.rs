//! Simulation on several threads.
//!
//! Each worker has a core of one CPU model and takes orders in the order of the stream, so its
//! result is what one thread would give. Without intervals there is one worker a model, and every
//! one executes everything. With [`Intervals`] there may be several a model, and each interval goes
//! to the one with the least to do; their sums are added up at the end. Orders wait in bounded
//! queues, so memory does not depend on the trace's length.

use std::any::Any;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;

use mcad_isa::code::Code;
use mcad_isa::machine::CpuModel;
use mcad_proto::event::RegionDef;
use mcad_proto::word::{BlockId, StreamId};
use mcad_report::IntervalReport;
use rustc_hash::FxHashMap;

use super::calls::Calls;
use super::chunk::{Chunk, Pool};
use super::core::{Core, Part};
use super::dictionary::TranslatedBlock;
use super::execution::Execution;
use super::follower::{Follower, ToDo};
use super::front::Front;
use super::homes::Change;
use super::interval::{Cut, Intervals, Step};
use super::places::Shared;
use crate::pipeline::functional::Warm;

/// Orders that may wait for a worker that executes everything.
const QUEUE: usize = 8;
/// The same where there are several, which wait for the slowest of them when that many wait there:
/// models are slow at different times.
const SHARED_QUEUE: usize = 32;
/// Orders that may wait for a worker of intervals: about one interval, so that the next one can be
/// handed out while it executes.
const INTERVAL_QUEUE: usize = 32;

/// Called in each thread when it starts; what it gives is dropped when the thread ends.
pub type OnThread = Arc<dyn Fn() -> Box<dyn Any> + Send + Sync>;

/// How to simulate on several threads.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parallel {
    /// Threads that simulate intervals, over all models; at least one a model there are.
    pub jobs: usize,
    /// How guest threads are cut; without it they are not.
    pub intervals: Option<Intervals>,
    /// Whether branches are predicted on threads of their own where threads are not cut; where they
    /// are, they always are.
    pub ahead: bool,
}

/// A block's code on its way to all workers.
pub(super) struct Definition {
    pub(super) id: BlockId,
    pub(super) block: Arc<TranslatedBlock>,
    pub(super) decoded: Vec<Code>,
    /// What it was made into, by model, where several threads simulate a model.
    pub(super) made: Vec<Shared>,
}

enum Order {
    Region(RegionDef),
    Change(Change),
    /// Executes a chunk, of the given interval of its threads; a chunk of one thread where that is
    /// cut.
    Execute(Arc<Chunk>, u32),
    /// A part of a thread begins, with what the receiver gives.
    Open(Part, Option<Receiver<Warm>>),
    Mark(Part),
    Begin(Part),
    EndInterval(Part),
    EndThread(Part),
}

struct Worker {
    thread: Follower<Order, Core>,
    /// Orders that it has not carried out.
    waiting: Arc<AtomicUsize>,
    /// Cycles so far.
    cycles: Arc<AtomicU64>,
}

impl Worker {
    fn start(
        model: &Arc<CpuModel>,
        queue: usize,
        task: Task,
        on_thread: &OnThread,
    ) -> io::Result<Self> {
        let waiting = Arc::new(AtomicUsize::new(0));
        let cycles = Arc::new(AtomicU64::new(0));
        let (done, so_far) = (Arc::clone(&waiting), Arc::clone(&cycles));
        let model = Arc::clone(model);
        let name = format!("core {}", model.name);
        let thread = Follower::start(name, queue, on_thread, move |to_do| {
            let mut core = Core::new(model);
            core.cut = task.cut;
            core.is_told = task.told;
            core.calls = (task.calls && !task.cut).then(Calls::default);
            let hands = Hands {
                core,
                regions: Vec::new(),
                to_do,
                task,
            };
            hands.work(&done, &so_far)
        })?;
        Ok(Self {
            thread,
            waiting,
            cycles,
        })
    }

    /// Waits while the queue is full.
    fn order(&self, order: Order) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        self.thread.order(order);
    }
}

/// What a worker does.
#[derive(Clone, Copy)]
struct Task {
    /// Number of its model.
    model: usize,
    /// Accesses are looked at.
    memory: bool,
    /// Threads are cut into intervals.
    cut: bool,
    /// Somebody else predicts its branches.
    told: bool,
    /// Cycles are told apart by who called.
    calls: bool,
}

/// A worker's side.
struct Hands {
    core: Core,
    regions: Vec<RegionDef>,
    to_do: ToDo<Order>,
    task: Task,
}

impl Hands {
    fn work(mut self, done: &AtomicUsize, cycles: &AtomicU64) -> Core {
        while let Some(order) = self.to_do.next() {
            match order {
                Order::Region(region) => self.regions.push(region),
                Order::Change(change) => self.core.change(&change),
                Order::Execute(chunk, interval) => {
                    self.execute(&chunk, interval);
                    // Here only: all threads that run are looked at, and each may end by itself.
                    cycles.store(self.core.cycles_so_far(), Ordering::Relaxed);
                }
                Order::Open(part, warm) => {
                    // A warmer that is gone has panicked, which `Workers::finish` passes on.
                    let warm = warm.and_then(|warm| warm.recv().ok());
                    self.core.open(part, warm);
                }
                Order::Mark(part) => self.core.mark(part),
                Order::Begin(part) => self.core.begin(part),
                Order::EndInterval(part) => self.core.end_interval(part),
                Order::EndThread(part) => {
                    (self.core).end_thread(part, &self.regions, &self.to_do.dictionary);
                }
            }
            done.fetch_sub(1, Ordering::Relaxed);
        }
        // Every core is to know all blocks.
        self.define_to(usize::MAX);
        self.core
    }

    fn define_to(&mut self, count: usize) {
        self.to_do.define_to(count, |definition| {
            let shared = definition.made.get(self.task.model);
            (self.core).define_shared(definition.id, &definition.decoded, shared);
        });
    }

    fn execute(&mut self, chunk: &Chunk, interval: u32) {
        self.define_to(chunk.defined);
        let dictionary = &self.to_do.dictionary;
        for (n, (stream, executions)) in chunk.threads().enumerate() {
            let part = Part { stream, interval };
            if self.task.told {
                self.core.tell(part, chunk.steers(self.task.model, n));
            }
            for execution in executions {
                if let Some(block) = dictionary.get(execution.block) {
                    self.core.execute(
                        part,
                        block,
                        &execution,
                        self.task.memory,
                        &self.regions,
                        dictionary,
                    );
                }
            }
        }
    }
}

/// A guest thread that is cut: where it is, what it has not handed on, and who has its intervals.
struct Thread {
    cut: Cut,
    chunk: Chunk,
    /// By model, the worker of the interval that counts.
    here: Vec<usize>,
    /// The one of the interval that warms up.
    next: Vec<usize>,
}

/// Threads that simulate.
pub(super) struct Workers {
    /// By model, then those of one model.
    workers: Vec<Vec<Worker>>,
    /// What comes before them.
    fronts: Vec<Front>,
    intervals: Option<Intervals>,
    /// Whether several threads simulate a model.
    shares: bool,
    definitions: usize,
    pool: Pool,
    /// What was not handed on, of threads that are not cut.
    chunk: Chunk,
    /// Threads that are.
    threads: FxHashMap<StreamId, Thread>,
}

impl Workers {
    /// Starts the threads.
    ///
    /// # Errors
    /// When the system gives none.
    pub(super) fn start(
        models: &[Arc<CpuModel>],
        memory: bool,
        parallel: Parallel,
        calls: bool,
        on_thread: &OnThread,
    ) -> io::Result<Self> {
        let cut = parallel.intervals.is_some();
        let (lanes, queue) = match parallel.intervals {
            Some(_) => (parallel.jobs / models.len().max(1), INTERVAL_QUEUE),
            None if models.len() > 1 => (1, SHARED_QUEUE),
            None => (1, QUEUE),
        };
        let front = |(number, model): (usize, &Arc<CpuModel>)| match cut || parallel.ahead {
            true => Front::start(number, model, (cut, memory), on_thread),
            false => Ok(Front::default()),
        };
        let fronts: Vec<Front> = models
            .iter()
            .enumerate()
            .map(front)
            .collect::<io::Result<_>>()?;
        let start = |(number, (model, front)): (usize, (&Arc<CpuModel>, &Front))| {
            let task = Task {
                model: number,
                memory,
                cut,
                told: front.tells(),
                calls,
            };
            let worker = |_| Worker::start(model, queue, task, on_thread);
            (0..lanes.max(1)).map(worker).collect()
        };
        let each = models.iter().zip(&fronts).enumerate();
        let pool = Pool::default();
        Ok(Self {
            workers: each.map(start).collect::<io::Result<_>>()?,
            fronts,
            intervals: parallel.intervals,
            shares: cut || parallel.ahead,
            definitions: 0,
            chunk: pool.chunk(),
            pool,
            threads: FxHashMap::default(),
        })
    }

    fn all(&self) -> impl Iterator<Item = &Worker> {
        self.workers.iter().flatten()
    }

    /// A block was defined.
    pub(super) fn define(&mut self, id: BlockId, block: Arc<TranslatedBlock>, decoded: Vec<Code>) {
        self.definitions += 1;
        let models = if self.shares { self.workers.len() } else { 0 };
        let definition = Arc::new(Definition {
            id,
            block,
            decoded,
            made: (0..models).map(|_| Shared::new()).collect(),
        });
        for worker in self.all() {
            worker.thread.define(&definition);
        }
        for front in &self.fronts {
            front.define(&definition);
        }
    }

    /// A region is watched from here on.
    pub(super) fn region(&mut self, region: &RegionDef) {
        self.hand_on();
        for worker in self.all() {
            worker.order(Order::Region(region.clone()));
        }
    }

    /// Something happens to processes, behind what was executed before.
    pub(super) fn change(&mut self, change: &Change) {
        self.hand_on();
        for thread in self.threads.values_mut() {
            let (here, next) = (thread.cut.part(), thread.cut.next());
            thread.hand_on(&self.workers, &self.fronts, here, next, self.definitions);
        }
        for worker in self.all() {
            worker.order(Order::Change(change.clone()));
        }
        for front in &self.fronts {
            front.change(change);
        }
    }

    /// A block was executed, from `address` on.
    pub(super) fn execute(&mut self, stream: StreamId, address: u64, execution: &Execution<'_>) {
        let Some(intervals) = self.intervals else {
            self.chunk.push(stream, execution);
            if self.chunk.is_full() {
                self.hand_on();
            }
            return;
        };
        let (workers, fronts, definitions) = (&self.workers, &self.fronts, self.definitions);
        let pool = &self.pool;
        let thread = self.threads.entry(stream).or_insert_with(|| {
            let here = idlest(workers);
            open(workers, fronts, &here, (stream.into(), address));
            Thread {
                cut: Cut::new(intervals, stream),
                chunk: pool.chunk(),
                here,
                next: Vec::new(),
            }
        });
        loop {
            let here = thread.cut.part();
            let Some(step) = thread.cut.step() else {
                break;
            };
            // What came before goes to those that have it so far.
            let before = match step {
                Step::Open => None,
                Step::Compare | Step::Next => Some(Part {
                    interval: here.interval + 1,
                    ..here
                }),
            };
            thread.hand_on(workers, fronts, here, before, definitions);
            match (step, before) {
                (Step::Compare, Some(next)) => {
                    thread.order(workers, here, Order::Mark);
                    thread.order_next(workers, next, Order::Mark);
                }
                (Step::Next, Some(next)) => {
                    thread.order(workers, here, Order::EndInterval);
                    thread.order_next(workers, next, Order::Begin);
                    thread.here = std::mem::take(&mut thread.next);
                }
                _ => {
                    thread.next = idlest(workers);
                    let next = Part {
                        interval: here.interval + 1,
                        ..here
                    };
                    open(workers, fronts, &thread.next, (next, address));
                }
            }
        }
        thread.chunk.push(stream, execution);
        let instructions = execution.end - execution.first;
        thread.cut.executed(instructions as u64);
        if thread.chunk.is_full() {
            let (here, next) = (thread.cut.part(), thread.cut.next());
            thread.hand_on(workers, fronts, here, next, definitions);
        }
    }

    /// A guest thread ended.
    pub(super) fn end_thread(&mut self, stream: StreamId) {
        self.hand_on();
        if self.intervals.is_none() {
            for worker in self.all() {
                worker.order(Order::EndThread(stream.into()));
            }
        } else if let Some(mut thread) = self.threads.remove(&stream) {
            let (here, next) = (thread.cut.part(), thread.cut.next());
            thread.hand_on(&self.workers, &self.fronts, here, next, self.definitions);
            thread.order(&self.workers, here, Order::EndThread);
            if let Some(next) = next {
                thread.order_next(&self.workers, next, Order::EndInterval);
            }
        }
        for front in &self.fronts {
            front.end_thread(stream);
        }
    }

    /// Hands on what threads have that are not cut.
    pub(super) fn hand_on(&mut self) {
        if self.chunk.is_empty() {
            return;
        }
        let mut chunk = self.chunk.take();
        chunk.defined = self.definitions;
        chunk.promise(self.fronts.len());
        let chunk = Arc::new(chunk);
        for front in &self.fronts {
            front.execute(&chunk);
        }
        for worker in self.all() {
            worker.order(Order::Execute(Arc::clone(&chunk), 0));
        }
    }

    /// Cycles so far on the first model.
    pub(super) fn cycles_so_far(&self) -> u64 {
        let first = self.workers.first().into_iter().flatten();
        first.map(|w| w.cycles.load(Ordering::Relaxed)).sum()
    }

    /// Waits for all and gives a core for each model, with what its intervals came to.
    pub(super) fn finish(mut self) -> Vec<(Core, Option<IntervalReport>)> {
        self.hand_on();
        let intervals = self.intervals;
        for front in self.fronts {
            front.finish();
        }
        let mut cores = Vec::new();
        // All are told first, so that they end at the same time.
        let threads: Vec<Vec<_>> = self
            .workers
            .into_iter()
            .map(|lanes| (lanes.into_iter()).map(|w| w.thread.end()).collect())
            .collect();
        for lanes in threads {
            let mut sum: Option<Core> = None;
            for ended in lanes {
                let core = ended();
                match &mut sum {
                    Some(sum) => sum.absorb(core),
                    None => sum = Some(core),
                }
            }
            cores.extend(sum.map(|mut core| {
                let report = intervals.map(|intervals| core.interval_report(intervals));
                (core, report)
            }));
        }
        cores
    }
}

impl Thread {
    /// Hands on what has come for `here`, and for `next` where that warms up.
    fn hand_on(
        &mut self,
        workers: &[Vec<Worker>],
        fronts: &[Front],
        here: Part,
        next: Option<Part>,
        definitions: usize,
    ) {
        if self.chunk.is_empty() {
            return;
        }
        let mut chunk = self.chunk.take();
        chunk.defined = definitions;
        chunk.promise(fronts.len());
        let chunk = Arc::new(chunk);
        for front in fronts {
            front.execute(&chunk);
        }
        let execute = |part: Part| Order::Execute(Arc::clone(&chunk), part.interval);
        self.order(workers, here, execute);
        if let Some(next) = next {
            self.order_next(workers, next, execute);
        }
    }

    fn order(&self, workers: &[Vec<Worker>], part: Part, order: impl Fn(Part) -> Order) {
        tell(workers, &self.here, part, order);
    }

    fn order_next(&self, workers: &[Vec<Worker>], part: Part, order: impl Fn(Part) -> Order) {
        tell(workers, &self.next, part, order);
    }
}

/// Gives an order to the chosen worker of each model.
fn tell(workers: &[Vec<Worker>], chosen: &[usize], part: Part, order: impl Fn(Part) -> Order) {
    for (lanes, lane) in workers.iter().zip(chosen) {
        if let Some(worker) = lanes.get(*lane) {
            worker.order(order(part));
        }
    }
}

/// A part begins at the chosen worker of each model, with the instruction at an address.
fn open(workers: &[Vec<Worker>], fronts: &[Front], chosen: &[usize], (part, address): (Part, u64)) {
    for ((lanes, front), lane) in workers.iter().zip(fronts).zip(chosen) {
        if let Some(worker) = lanes.get(*lane) {
            let warm = front.snapshot(part.stream, address);
            worker.order(Order::Open(part, warm));
        }
    }
}

/// The worker with the least to do, of each model. Which it is changes when a result is there, and
/// never the result.
fn idlest(workers: &[Vec<Worker>]) -> Vec<usize> {
    let idlest = |lanes: &Vec<Worker>| {
        let waiting = lanes.iter().map(|w| w.waiting.load(Ordering::Relaxed));
        let least = waiting.enumerate().min_by_key(|(_, waiting)| *waiting);
        least.map_or(0, |(lane, _)| lane)
    };
    workers.iter().map(idlest).collect()
}
