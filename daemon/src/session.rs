//! One session: one source of events, one bounded queue, one simulation thread, one report.
//!
//! The caller's thread pulls events, records them if asked, and queues copies in bounded batches;
//! the simulation thread takes them. A slow simulation fills the queue, the feeder stops pulling,
//! and the source waits: memory does not depend on the trace's length. Whatever ends the source
//! early ends the session with what arrived, marked incomplete. A failure of the simulation, even
//! a panic, is an error of this session alone; the source is still drained, so that the traced
//! program runs to its end and the recording is whole.

mod batch;
pub(crate) mod feed;
mod limits;
mod queue;
mod simulate;
mod state;

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Instant;

use crossbeam_channel::bounded;
use mcad_core::simulation::{Options, Parallel, SimulationError};
use mcad_proto::event::EndReason;
use mcad_report::Report;

use crate::memory::{self, account::Account};
use crate::recorder::{Recorder, RecordingError};
use crate::regions::RegionSpec;
use crate::source::Source;
use crate::timeline::TimelinePlan;
pub use limits::MemoryLimit;
use limits::Retained;
pub use state::{Snapshot, State};

/// Batches between feeder and simulation: about 6 MiB when all are full.
const QUEUE: usize = 8;

/// Why a session gives no complete analysis.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The stream of events is broken.
    #[error(transparent)]
    Simulation(#[from] SimulationError),
    /// A defect of this program.
    #[error("internal error of the simulation (please report it): {0}")]
    Panic(String),
    /// The session's lasting state is too large.
    #[error(
        "the session needs more than the {limit_mib} MiB that it may keep; what came before is \
         reported (for a daemon, --max-memory and --max-sessions set a session's share)"
    )]
    Memory {
        /// The limit in MiB.
        limit_mib: u64,
    },
    /// The system gives no thread.
    #[error("cannot start the simulation thread: {0}")]
    Thread(std::io::Error),
}

/// What a session is to do.
pub struct Job {
    /// What to simulate; `None` records only.
    pub analyse: Option<Options>,
    /// Threads to simulate on; without it the session's own.
    pub parallel: Option<Parallel>,
    /// Regions of interest.
    pub regions: Vec<RegionSpec>,
    /// Where to record.
    pub record: Option<Recorder>,
    /// A timeline to record, if the analysis has a pipeline.
    pub timeline: Option<TimelinePlan>,
    /// Bound for what the session keeps.
    pub memory: MemoryLimit,
    /// Name of the source in the report.
    pub source: String,
}

/// What a session came to.
#[derive(Debug)]
pub struct Outcome {
    /// The report, unless the session only recorded or the simulation broke down.
    pub report: Option<Report>,
    /// Why the analysis is not complete, though the source may be.
    pub failure: Option<SessionError>,
    /// What became of the recording, if there was one.
    pub recording: Option<Result<(), RecordingError>>,
    /// What became of the timeline, if there was one: its file, written to the end.
    pub timeline: Option<Result<File, RecordingError>>,
    /// How the source ended.
    pub end: EndReason,
    /// Notices of the source, when there is no report to carry them.
    pub notices: Vec<String>,
}

/// Runs a session to its end on this thread and one of its own.
pub fn run(source: &mut dyn Source, job: Job, state: &State) -> Outcome {
    let started = Instant::now();
    let mut feeder = feed::Feeder::new(state, job.record);
    let Some(options) = job.analyse else {
        let end = feeder.run(source, &mut feed::Nowhere);
        return Outcome {
            report: None,
            failure: None,
            recording: feeder.finish_recording(),
            timeline: None,
            end,
            notices: feeder.notices,
        };
    };
    let retained = Retained::new(Account::default(), job.memory);
    let _charge = retained.account().charge();
    let (to_simulation, batches) = bounded(QUEUE);
    let (give_back, free) = bounded(QUEUE);
    let regions = &job.regions;
    let timeline = job.timeline;
    let (end, simulated) = thread::scope(|scope| {
        let simulation = thread::Builder::new()
            .name("simulation".to_owned())
            .spawn_scoped(scope, move || {
                // The state of the closure is dropped on a panic and nobody sees it again.
                catch_unwind(AssertUnwindSafe(|| {
                    let analysis = simulate::Analysis {
                        options,
                        parallel: job.parallel,
                        regions,
                        timeline,
                        retained,
                    };
                    simulate::simulate(&batches, &give_back, analysis, state)
                }))
            });
        match simulation {
            Ok(simulation) => {
                let mut queue = queue::Queue::new(to_simulation, free);
                let end = feeder.run(source, &mut queue);
                // The simulation ends when nothing more can come.
                drop(queue);
                (end, simulation.join().and_then(|caught| caught))
            }
            Err(error) => {
                drop((to_simulation, free));
                let end = feeder.run(source, &mut feed::Nowhere);
                (end, Err(Box::new(SessionError::Thread(error)) as Box<_>))
            }
        }
    });
    let recording = feeder.finish_recording();
    let (mut report, failure, timeline) = match simulated {
        Ok(simulated) => (
            Some(simulated.report),
            simulated.failure,
            simulated.timeline,
        ),
        Err(panic) => (None, Some(panic_error(panic)), None),
    };
    if let Some(report) = &mut report {
        let seconds = started.elapsed().as_secs_f64();
        report.run.seconds = seconds;
        report.run.instructions_per_second = report.trace.instructions as f64 / seconds.max(1e-9);
        report.run.peak_memory_bytes = memory::peak();
        report.run.source = job.source;
    }
    Outcome {
        report,
        failure,
        recording,
        timeline,
        end,
        notices: feeder.notices,
    }
}

fn panic_error(panic: Box<dyn std::any::Any + Send>) -> SessionError {
    let panic = match panic.downcast::<SessionError>() {
        Ok(error) => return *error,
        Err(panic) => panic,
    };
    let text = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned());
    SessionError::Panic(text.unwrap_or_else(|| "no message".to_owned()))
}

#[cfg(test)]
mod tests;
