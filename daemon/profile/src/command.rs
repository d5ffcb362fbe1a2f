//! User cycles of a whole command over repeated runs.
//!
//! With a counter, the cycles that the command and all that it starts spend in user mode. Without,
//! its processor time times the core clock, which is measured on the same core directly before and
//! after and every five milliseconds in between; a run whose clock is uncertain nevertheless is
//! rejected. The kernel knows a process's processor time to the nanosecond, but most kernels divide
//! it into user and kernel time by what each timer tick happens to hit
//! (`CONFIG_TICK_CPU_ACCOUNTING`), some milliseconds apart: for one short run that is a guess.
//! Repeated runs do the same work, so the share of user time is taken over all of them together, and from samples of other
//! runs in between where the kernel allows that.

mod intercepted;
mod interval;
mod load;
mod lost;
mod memory;
mod neighbour;
mod priority;
mod run;
mod sampled;
mod share;
mod summary;
mod task_clock;
mod watch;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, Timespec, clock_getres};

use crate::clock::{AffinityError, Cpu, Source, pinned, ticks_per_second};
use crate::host::Host;

pub use intercepted::Intercepted;
pub use interval::{CLAIMED, Doubt, Interval};
pub use load::Load;
pub use memory::Memory;
pub use sampled::Samples;
use summary::Beside;
pub use summary::{Cycles, Fate, Sample};

/// How long the time-stamp counter is compared with the system's clock.
const COMPARED: Duration = Duration::from_millis(50);

/// How often to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runs {
    /// So many runs that count.
    Exactly(u32),
    /// Until the median is known well (`Cycles::steady`) and the whole figure is
    /// ([`Interval::holds`]), at least and at most so often.
    UntilSteady {
        /// Not fewer.
        least: u32,
        /// Not more.
        most: u32,
        /// Not more than the fewest once it took so long.
        patience: Duration,
    },
}

/// What the command reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Nothing.
    Nothing,
    /// A file, from its start in every run.
    File(PathBuf),
    /// What the calling process reads, a terminal or a device: the same in every run.
    Inherited,
    /// The file that the calling process has as its input, from this offset in every run.
    OwnFile {
        /// Bytes from its start.
        offset: u64,
    },
}

/// What to measure and how.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Variables that it has besides this process's.
    pub environment: Vec<(OsString, OsString)>,
    /// Where it runs; where this process does without.
    pub directory: Option<PathBuf>,
    /// How often.
    pub runs: Runs,
    /// Runs before that are not measured.
    pub warmup: u32,
    /// What it reads, in every run.
    pub input: Input,
    /// Whether its output must be the same in all runs; it is thrown away if not.
    pub same_output: bool,
    /// Whether the kernel shall not randomise its addresses.
    pub fixed_addresses: bool,
    /// The CPU that it is kept on; none: the last one allowed, or any if the system forbids that.
    pub cpu: Option<Cpu>,
    /// Whether it goes ahead of everything else on that CPU, where the system allows it.
    pub ahead: bool,
    /// Whether it is kept waiting, where the system allows it, until nobody is on the core's other hardware thread.
    pub alone: bool,
    /// Largest uncertainty of a run's mean clock, relative: [`crate::clock::Course::error`].
    pub most_clock_error: f64,
    /// Whether runs with more count after all where there are no others; the interval has it.
    pub any_clock: bool,
}

impl Experiment {
    /// Thirty runs at most, one before them, nothing to read.
    #[must_use]
    pub fn new(command: Vec<OsString>) -> Self {
        Self {
            command,
            environment: Vec::new(),
            directory: None,
            runs: Runs::UntilSteady {
                least: 10,
                most: 30,
                patience: Duration::MAX,
            },
            warmup: 1,
            input: Input::Nothing,
            same_output: false,
            fixed_addresses: false,
            cpu: None,
            ahead: true,
            alone: true,
            most_clock_error: 0.01,
            any_clock: false,
        }
    }
}

/// A command's cycles.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Measured {
    /// The program and its arguments; bytes that are not UTF-8 are replaced.
    pub command: Vec<String>,
    /// The CPU at hand.
    pub host: Host,
    /// The CPU that the command was kept on; none: it could not be kept on one.
    pub cpu: Option<Cpu>,
    /// Whether the command went ahead of everything else on that CPU.
    pub ahead: bool,
    /// Why it did not, if it was to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_ahead: Option<String>,
    /// Where cycles come from.
    pub source: Source,
    /// Why there is no counter of cycles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_counter: Option<String>,
    /// User cycles of the runs that count.
    pub cycles: Cycles,
    /// Runs that were rejected since their clock was not certain enough.
    pub drifted: usize,
    /// Runs that were rejected since somebody was on the core's other hardware thread for long.
    pub shared: usize,
    /// Runs that were rejected since they are far from all others.
    pub outliers: usize,
    /// Share of user time in processor time: by samples, or else over the runs that count.
    pub user_share: f64,
    /// Samples of runs in between that say so; none where cycles are counted or the kernel allows no samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampled: Option<Samples>,
    /// Why there are no samples, where cycles are not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_sampled: Option<String>,
    /// Why the time before the program begins, as a copy of the process that starts it, is in the cycles; none where it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_from_exec: Option<String>,
    /// Where the cycles are with 95 % confidence: what runs, ticks and clock leave open.
    pub interval: Interval,
    /// What else ran; none where the system does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<Load>,
    /// KiB of the last level of cache that were to be had before and after: other CPUs, and other guests of a virtual
    /// machine, have the rest. Programs whose data fits one share and not another differ by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_level_kib: Option<[u32; 2]>,
    /// Megahertz of the core, the median over the runs that count.
    pub core_mhz: f64,
    /// Largest uncertainty of the clock of a run that counts, relative.
    pub clock_error: f64,
    /// Share of the time that watching the clock took on that CPU; none of it is the command's.
    pub watched: f64,
    /// Share of the CPU's time that interrupts, and the host of a virtual machine, take from what runs there, though it is charged
    /// with it; the cycles are without. None where cycles are counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<f64>,
    /// By how much longer independent instructions took than they do alone on the core, relative, the median over the runs that
    /// count: for what is on its other hardware thread. None where cycles are counted, or on any CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slowed: Option<f64>,
    /// Seconds that all runs together were kept waiting until nobody was there.
    pub waited_seconds: f64,
    /// What the hypervisor took where the command executed `cpuid`; the cycles are without. None where cycles are counted, it is
    /// not intercepted, or can neither be counted nor sampled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intercepted: Option<Intercepted>,
    /// What memory had to do with the differences between the runs that count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// Every run, in order.
    pub samples: Vec<Sample>,
}

/// Why a command cannot be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// No words.
    #[error("there is no command to measure")]
    Empty,
    /// It cannot be kept on a CPU.
    #[error(transparent)]
    Affinity(#[from] AffinityError),
    /// Its input is not there.
    #[error("cannot read {what}: {source}")]
    Input {
        /// The file.
        what: String,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// It does not start.
    #[error("cannot run {program}: {source}")]
    Start {
        /// The program.
        program: String,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// A run ended with an error.
    #[error("run {run} of {program} ended with {how}; only runs that succeed are measured{said}")]
    Failed {
        /// Number of the run, from 1, those before the measured ones included.
        run: u32,
        /// The program.
        program: String,
        /// Status or signal.
        how: String,
        /// The end of what it wrote to stderr, behind a colon and a line break.
        said: String,
    },
    /// Its output differs.
    #[error("run {run} of {program} wrote something else to stdout than the first")]
    OutputDiffers {
        /// Number of the run, from 1.
        run: u32,
        /// The program.
        program: String,
    },
    /// The clock was never steady.
    #[error(
        "the core clock was uncertain by more than {most} % in each of {runs} runs; \
         measure on a quieter machine, or allow more with --max-drift"
    )]
    Drifted {
        /// Runs tried.
        runs: usize,
        /// The bound, in per cent.
        most: f64,
    },
    /// Anything else.
    #[error("cannot {doing}: {source}")]
    System {
        /// What was to be done.
        doing: &'static str,
        /// What the system says.
        #[source]
        source: io::Error,
    },
}

/// Measures a command; `progress` hears of each run that is over.
///
/// # Errors
/// [`CommandError`]: among others when a run does not succeed.
pub fn measure(
    experiment: &Experiment,
    mut progress: impl FnMut(&Sample),
) -> Result<Measured, CommandError> {
    if experiment.command.is_empty() {
        return Err(CommandError::Empty);
    }
    match pinned(experiment.cpu, |cpu| {
        measure_on(experiment, Some(cpu), &mut progress)
    }) {
        Err(_) if experiment.cpu.is_none() => measure_on(experiment, None, &mut progress),
        measured => measured?,
    }
}

fn measure_on(
    experiment: &Experiment,
    cpu: Option<Cpu>,
    progress: &mut dyn FnMut(&Sample),
) -> Result<Measured, CommandError> {
    let fixed = experiment.fixed_addresses.then(run::FixedAddresses::set);
    let _until_the_end = fixed.transpose()?;
    let hertz = ticks_per_second(COMPARED);
    let not_ahead = match cpu {
        _ if !experiment.ahead => None,
        Some(_) => priority::allowed().err(),
        None => Some("it is not kept on one CPU".to_owned()),
    };
    let mut runner = run::Runner::new(experiment, experiment.ahead && not_ahead.is_none());
    let mut watcher = watch::Watcher::new(cpu, hertz, experiment.alone);
    let share_before = share::last_level_kib();
    // The last run that is not measured counts what a hypervisor intercepts.
    let each = watcher.lost().and_then(|_| intercepted::cycles_each());
    let mut intercepted = None;
    for left in (0..experiment.warmup).rev() {
        match each.filter(|_| left == 0) {
            Some(cycles_each) => {
                intercepted = (runner.run_counting_cpuid()?).map(|executions| Intercepted {
                    executions,
                    cycles_each,
                    counted: true,
                });
            }
            None => {
                runner.run()?;
            }
        }
    }
    let beside = |watcher: &watch::Watcher, sampled: &Samples| Beside {
        lost: watcher.lost().unwrap_or(0.0),
        intercepted: intercepted.map_or(0.0, |i| i.cycles()),
        intercepted_share: match (each, intercepted) {
            (Some(_), None) => sampled.cpuid_share(),
            _ => 0.0,
        },
    };
    let (least, most, patience) = match experiment.runs {
        Runs::Exactly(runs) => (runs.max(1), runs.max(1), Duration::MAX),
        Runs::UntilSteady {
            least,
            most,
            patience,
        } => (least.max(1), most.max(least).max(1), patience),
    };
    let tick = tick();
    let since = load::Since::now();
    let started = Instant::now();
    let mut samples: Vec<Sample> = Vec::new();
    let (mut sampled, mut not_sampled) = (Samples::default(), None);
    loop {
        let (ran, seen) = watcher.watch(|| runner.run());
        let sample = Sample::new(&ran?, hertz, &seen, experiment.most_clock_error);
        progress(&sample);
        samples.push(sample);
        let divides = !sample.counted && not_sampled.is_none() && !sampled.are_enough();
        if let Some(cpu) = cpu.filter(|_| divides) {
            match runner.run_sampled(cpu, sampled::period(sample.cpu_seconds))? {
                Ok(more) => sampled.add(more),
                Err(why) => not_sampled = Some(why.to_string()),
            }
        }
        let counting = samples.iter().filter(|s| s.fate == Fate::Counts).count();
        // Runs that the clock or a neighbour spoiled are repeated, as often again at most.
        let known = || {
            let beside = beside(&watcher, &sampled);
            let division = summary::division(&samples, &sampled, tick);
            let cycles = summary::settled(&samples, division, beside);
            let interval = summary::interval(&samples, division, beside);
            cycles.steady() && interval.holds(cycles.quartiles.median)
        };
        if counting >= most as usize
            || counting >= least as usize && known()
            || samples.len() >= least as usize && started.elapsed() > patience
            || samples.len() >= 2 * most as usize
        {
            break;
        }
    }
    let tried = samples.len();
    if experiment.any_clock && samples.iter().all(|s| s.fate == Fate::ClockDrifted) {
        for sample in &mut samples {
            sample.fate = Fate::Counts;
        }
    }
    summary::accept_shared(&mut samples, least);
    let source = summary::source(&samples);
    let beside = beside(&watcher, &sampled);
    let division = summary::division(&samples, &sampled, tick);
    let cycles = summary::settle(&mut samples, division, beside);
    let user_share = division.map_or_else(|| summary::user_share(&samples), |d| d.share);
    let load = since.load(preempted(&samples));
    let share_after = share_before.and_then(|_| share::last_level_kib());
    let of = |fate: Fate| samples.iter().filter(|s| s.fate == fate).count();
    if of(Fate::Counts) == 0 {
        return Err(CommandError::Drifted {
            runs: tried,
            most: 100.0 * experiment.most_clock_error,
        });
    }
    Ok(Measured {
        command: experiment
            .command
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect(),
        host: Host::at_hand(),
        cpu,
        ahead: runner.ahead,
        not_ahead,
        source,
        no_counter: runner.no_counter,
        cycles,
        drifted: of(Fate::ClockDrifted),
        shared: of(Fate::CoreShared),
        outliers: of(Fate::Outlier),
        user_share,
        sampled: (sampled.count() > 0 && source == Source::TimeStamp).then_some(sampled),
        not_sampled,
        not_from_exec: runner.no_clock.filter(|_| source == Source::TimeStamp),
        interval: summary::interval(&samples, division, beside),
        load,
        last_level_kib: share_before.zip(share_after).map(Into::into),
        core_mhz: summary::median(&samples, |s| s.core_mhz),
        clock_error: samples
            .iter()
            .filter(|s| s.fate == Fate::Counts)
            .map(|s| s.clock_error)
            .fold(0.0, f64::max),
        watched: watcher.share(),
        lost: watcher.lost(),
        slowed: (samples.iter().all(|s| s.slowed.is_some()))
            .then(|| summary::median(&samples, |s| s.slowed.unwrap_or(0.0))),
        waited_seconds: samples.iter().map(|s| s.waited_seconds).sum(),
        intercepted: intercepted.or_else(|| {
            let left = cycles.quartiles.median / (1.0 - beside.intercepted_share);
            let took = left * beside.intercepted_share;
            Some(Intercepted::sampled(took, each?)).filter(|i| i.executions > 0)
        }),
        memory: summary::memory(&samples),
        samples,
    })
}

/// How often something else took the CPU away in the runs that count.
fn preempted(samples: &[Sample]) -> i64 {
    let counting = samples.iter().filter(|s| s.fate == Fate::Counts);
    counting.map(|s| s.preempted).sum()
}

/// Seconds from one of the kernel's timer ticks to the next: the coarse clock moves with them.
fn tick() -> f64 {
    seconds(clock_getres(ClockId::MonotonicCoarse))
}

/// A time of the kernel's in seconds.
fn seconds(time: Timespec) -> f64 {
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
