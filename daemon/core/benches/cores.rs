//! What more cores bring: a recorded trace through one thread, through intervals, and through several
//! models at once, beside what as many programs that know nothing of each other take.
//!
//! `cargo bench -p mcad-core --bench cores -- TRACE [CPU…]`. Says for each CPU how long one thread
//! takes, how much longer as many copies of it take side by side as there are cores (what is lost
//! there no division of work can gain), what reading and predicting branches on threads of their own
//! gains, and what intervals on as many threads do, with CPU time by kind of thread and how far
//! their cycles are off. Of several CPUs it says at last how long
//! all of them in one pass take, compared with the slowest alone.

#![allow(clippy::print_stdout)] // a program, whose output this is

mod support;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use mcad_core::simulation::{
    AnalysisKind, Intervals, NoSymbols, OnThread, Options, Parallel, Simulation,
};
use mcad_isa::machine;
use mcad_proto::trace::TraceReader;
use mcad_report::Report;
use support::{Failure, each_cpu};

/// Seconds of processor by name of thread.
type Busy = Arc<Mutex<BTreeMap<String, f64>>>;

/// Notes what its thread took when that ends.
struct Clock(Busy);

/// Seconds of processor that this thread took.
fn cpu_seconds() -> f64 {
    // Nanoseconds come first (Linux, Documentation/scheduler/sched-stats.rst).
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text.split(' ').next().and_then(|n| n.parse::<u64>().ok());
    nanoseconds.unwrap_or(0) as f64 / 1e9
}

impl Drop for Clock {
    fn drop(&mut self) {
        let name = thread::current().name().unwrap_or("?").to_owned();
        if let Ok(mut busy) = self.0.lock() {
            *busy.entry(name).or_default() += cpu_seconds();
        }
    }
}

/// A finished run.
struct Ran {
    report: Report,
    wall: f64,
    busy: BTreeMap<String, f64>,
}

impl Ran {
    fn cpu(&self) -> f64 {
        self.busy.values().sum()
    }

    fn by_thread(&self) -> String {
        let each = self.busy.iter().map(|(name, s)| format!("{name} {s:.2}"));
        each.collect::<Vec<_>>().join(", ")
    }
}

fn run(trace: &str, cpus: &[&str], parallel: Option<Parallel>) -> Result<Ran, Failure> {
    let options = Options {
        cpus: cpus
            .iter()
            .map(|cpu| machine::cpu(cpu))
            .collect::<Result<_, _>>()?,
        analyses: vec![AnalysisKind::Pipeline],
        memory: true,
        one_core: false,
    };
    let busy = Busy::default();
    let mut simulation = match parallel {
        None => Simulation::new(options),
        Some(parallel) => {
            let busy = Arc::clone(&busy);
            let on_thread: OnThread = Arc::new(move || Box::new(Clock(Arc::clone(&busy))));
            Simulation::parallel(options, parallel, on_thread)
        }
    };
    let mut reader = TraceReader::new(BufReader::new(File::open(trace)?), trace)?;
    let (start, before) = (Instant::now(), cpu_seconds());
    while let Some(event) = reader.next()? {
        simulation.event(&event)?;
    }
    let own = cpu_seconds() - before;
    let report = simulation.finish(&NoSymbols);
    let wall = start.elapsed().as_secs_f64();
    let mut busy = std::mem::take(&mut *busy.lock().map_err(|_| "a thread panicked")?);
    *busy.entry("reader".to_owned()).or_default() += own;
    Ok(Ran { report, wall, busy })
}

/// The quickest of three: what else the machine does only adds.
fn quickest(mut run: impl FnMut() -> Result<Ran, Failure>) -> Result<Ran, Failure> {
    let mut best = run()?;
    for _ in 0..2 {
        let next = run()?;
        if next.wall < best.wall {
            best = next;
        }
    }
    Ok(best)
}

/// Wall time of as many runs side by side.
fn copies(trace: &str, cpu: &str, count: usize) -> Result<f64, Failure> {
    let start = Instant::now();
    thread::scope(|scope| {
        let runs: Vec<_> = (0..count)
            .map(|_| {
                scope.spawn(|| {
                    run(trace, &[cpu], None)
                        .map(drop)
                        .map_err(|e| e.to_string())
                })
            })
            .collect();
        let ended = |run: thread::ScopedJoinHandle<'_, _>| run.join().map_err(|_| "a run panicked");
        runs.into_iter()
            .try_for_each(|run| ended(run)?.map_err(Failure::from))
    })?;
    Ok(start.elapsed().as_secs_f64())
}

fn cycles(ran: &Ran) -> u64 {
    ran.report.cpus.first().map_or(0, |cpu| cpu.cycles)
}

fn main() -> Result<(), Failure> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let mut alone = Vec::new();
    let mut traced = String::new();
    each_cpu("cores", |trace, cpu| {
        let one = quickest(|| run(trace, &[cpu], None))?;
        println!(
            "{cpu}: one thread {:.2} s, {:.2} CPU s",
            one.wall,
            one.cpu()
        );
        let side_by_side = (0..3).try_fold(f64::MAX, |best, _| {
            copies(trace, cpu, cores).map(|wall| wall.min(best))
        })?;
        let bound = cores as f64 * one.wall / side_by_side;
        println!(
            "  {cores} copies side by side {side_by_side:.2} s: this machine does {bound:.2} times \
             the work of one thread"
        );
        let ahead = Parallel {
            ahead: true,
            ..Parallel::default()
        };
        let ahead = quickest(|| run(trace, &[cpu], Some(ahead)))?;
        println!(
            "  branches predicted ahead {:.2} s, {:.2} times as fast, {:.2} CPU s: {}",
            ahead.wall,
            one.wall / ahead.wall,
            ahead.cpu(),
            ahead.by_thread(),
        );
        let parallel = Parallel {
            jobs: cores,
            intervals: Some(Intervals::default()),
            ahead: true,
        };
        let cut = quickest(|| run(trace, &[cpu], Some(parallel)))?;
        let off = cycles(&cut) as f64 / cycles(&one) as f64 - 1.0;
        println!(
            "  intervals on {cores} threads {:.2} s, {:.2} times as fast, cycles {:+.4} %, {:.2} \
             CPU s: {}",
            cut.wall,
            one.wall / cut.wall,
            off * 100.0,
            cut.cpu(),
            cut.by_thread(),
        );
        traced = trace.to_owned();
        alone.push((cpu.to_owned(), one.wall));
        Ok(())
    })?;
    let slowest = alone.iter().map(|(_, wall)| *wall).fold(0.0, f64::max);
    if alone.len() > 1 {
        let cpus: Vec<&str> = alone.iter().map(|(cpu, _)| cpu.as_str()).collect();
        let all = quickest(|| run(&traced, &cpus, Some(Parallel::default())))?;
        println!(
            "{} models in one pass {:.2} s, {:.2} times the slowest alone, {:.2} CPU s: {}",
            cpus.len(),
            all.wall,
            all.wall / slowest,
            all.cpu(),
            all.by_thread(),
        );
    }
    Ok(())
}
