//! Runs one session for a command: signals, progress, outcome told on stderr.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use mcad_report::Report;

use mcad_isa::machine::CpuModel;

use super::analysis::Analysis;
use super::destination::is_stdout;
use super::output::Outputs;
use super::progress::Progress;
use super::signals;
use crate::recorder::Recorder;
use crate::regions::{RegionSpec, never_found};
use crate::session::{self, Job, MemoryLimit, Outcome, State};
use crate::source::Source;
use crate::sources;
use crate::timeline::TimelinePlan;

/// A session as a command wants it.
pub(super) struct Launch<'a> {
    /// What to analyse; `None` records only.
    pub analysis: Option<Analysis>,
    /// Where to record.
    pub record: Option<&'a Path>,
    /// Timeline to record.
    pub timeline: Option<TimelinePlan>,
    /// Name of the source in the report.
    pub source_name: String,
    /// No progress line.
    pub quiet: bool,
    /// The source is a program that runs beside, with the same terminal.
    pub beside: bool,
}

impl Launch<'_> {
    /// The CPU models that analyse, as far as they are named.
    pub(super) fn models(&self) -> &[Arc<CpuModel>] {
        let analysis = self.analysis.as_ref();
        analysis.map_or(&[], |analysis| analysis.options.cpus.as_slice())
    }

    /// Whether a recording goes to stdout.
    pub(super) fn takes_stdout(&self) -> bool {
        let timeline = self.timeline.as_ref().map(|plan| plan.path.as_path());
        self.record.into_iter().chain(timeline).any(is_stdout)
    }

    /// The recorder is opened before the source, so that a path that cannot be written is told
    /// before anything runs.
    pub(super) fn recorder(&self) -> anyhow::Result<Option<Recorder>> {
        self.record.map(open_recorder).transpose()
    }

    /// Runs the session.
    pub(super) fn run(self, source: &mut dyn Source, recorder: Option<Recorder>) -> Outcome {
        let (state, progress) = watched(self.quiet || self.analysis.is_none(), self.beside);
        let (analyse, parallel, regions) = match self.analysis {
            Some(analysis) => (Some(analysis.options), analysis.parallel, analysis.regions),
            None => (None, None, Vec::new()),
        };
        let job = Job {
            analyse,
            parallel,
            regions,
            record: recorder,
            timeline: self.timeline,
            memory: MemoryLimit::local(),
            source: self.source_name,
        };
        let mut outcome = session::run(source, job, &state);
        drop(progress);
        if let Some(report) = &mut outcome.report {
            sources::attach(report);
        }
        outcome
    }
}

/// Opens a trace file for writing.
pub(super) fn open_recorder(path: &Path) -> anyhow::Result<Recorder> {
    crate::trace::create(path).with_context(|| format!("cannot record to {}", path.display()))
}

/// A new session's state, stopped by signals and shown on the terminal.
pub(super) fn watched(quiet: bool, beside: bool) -> (Arc<State>, Progress) {
    let state = Arc::new(State::default());
    signals::stop_on_signals(&state, beside);
    let progress = Progress::start(&state, quiet, beside);
    (state, progress)
}

/// Tells what an outcome has to tell and writes its report; `false` when something that was asked
/// for is missing.
pub(super) fn settle(outcome: &Outcome, regions: &[RegionSpec], output: Outputs) -> bool {
    let mut whole = tell(outcome) & outcome.report.as_ref().is_none_or(|r| found(r, regions));
    if let Some(report) = &outcome.report {
        let timeline = outcome.timeline.as_ref().and_then(|t| t.as_ref().ok());
        if let Err(error) = output.write(report, timeline) {
            super::tell(&error);
            whole = false;
        }
    }
    whole
}

/// Tells which of the regions that were asked for were not found; `false` if there are any.
pub(super) fn found(report: &Report, regions: &[RegionSpec]) -> bool {
    let mut all = true;
    for spec in regions {
        let begin = never_found(spec);
        if let Some(note) = report.notes.iter().find(|note| note.starts_with(&begin)) {
            crate::say!("mcad: {}", mcad_viewers::escape::escape(note));
            all = false;
        }
    }
    all
}

/// Tells what went wrong, and notices that have no report to be in; `false` when something that
/// was asked for is missing.
pub(super) fn tell(outcome: &Outcome) -> bool {
    let mut whole = true;
    if let Some(Err(error)) = &outcome.recording {
        crate::say!("mcad: {error}");
        whole = false;
    }
    if let Some(Err(error)) = &outcome.timeline {
        crate::say!("mcad: timeline: {error}");
        whole = false;
    }
    if let Some(failure) = &outcome.failure {
        crate::say!("mcad: {failure}");
        whole = false;
    }
    if outcome.report.is_none() {
        for notice in &outcome.notices {
            crate::say!("mcad: {}", mcad_viewers::escape::escape(notice));
        }
    }
    whole
}

/// `mcad`'s status for a session over something that is no process.
pub(super) fn status(outcome: &Outcome, whole: bool) -> ExitCode {
    use super::exit::{ERROR, NEGATIVE, exit_code};
    use mcad_proto::event::EndReason;

    if !whole {
        return exit_code(ERROR);
    }
    let damaged = outcome
        .report
        .as_ref()
        .is_some_and(|report| !report.program.complete);
    match &outcome.end {
        _ if damaged => exit_code(NEGATIVE),
        EndReason::Truncated(_) | EndReason::ProducerDied(_) => exit_code(NEGATIVE),
        EndReason::Exited(_)
        | EndReason::Signaled(_)
        | EndReason::Exec(_)
        | EndReason::Complete => ExitCode::SUCCESS,
    }
}
