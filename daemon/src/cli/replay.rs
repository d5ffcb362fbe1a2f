//! `mcad replay TRACE`: analyse a recorded trace.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use mcad_broker_abi::{BrokerSession, Config};
use mcad_proto::event::{Arch, Event, SessionInfo};

use super::analysis::AnalysisArgs;
use super::launch::{Launch, settle, status};
use super::output::OutputArgs;
use super::timeline::TimelineArgs;
use crate::install;
use crate::source::Source;

/// How long one look for a trace's first event takes.
const WAIT: Duration = Duration::from_secs(1);

/// Options of `mcad replay`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status 0: the whole trace was analysed, 1: what a damaged or \
                        truncated trace still had was analysed, 2: error."
)]
pub(super) struct Args {
    #[command(flatten)]
    analysis: AnalysisArgs,
    #[command(flatten)]
    timeline: TimelineArgs,
    #[command(flatten)]
    output: OutputArgs,
    /// Trace file; - reads stdin
    trace: PathBuf,
}

/// Analyses the trace.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (mut source, source_name) = open(&args.trace)?;
    let mut analysis = args.analysis.resolve(source.arch())?;
    let output = args.output.open(args.timeline.path())?;
    let timeline = args.timeline.open(&mut analysis, args.output.page())?;
    let launch = Launch {
        analysis: Some(analysis),
        record: None,
        timeline,
        source_name,
        quiet: args.output.quiet,
        beside: false,
    };
    let outcome = launch.run(&mut source, None);
    let whole = settle(&outcome, args.analysis.regions(), output);
    Ok(status(&outcome, whole))
}

/// Opens a trace file as a source of events; also gives its name for the report.
///
/// # Errors
/// When it cannot be read or is no trace.
pub(super) fn open(trace: &Path) -> anyhow::Result<(Replay, String)> {
    let path = trace.to_str().context("the trace's path is not UTF-8")?;
    let mut config = Config::new();
    config.push("file", path)?;
    let source = install::broker("replay")?.open(&config)?;
    Ok((Replay::begin(source), format!("replay {path}")))
}

/// A trace of which it is known what it is of.
pub(super) struct Replay {
    session: BrokerSession,
    /// The event that was waited for, until it is pulled: the session's, or why there is none.
    first: Option<Result<SessionInfo, String>>,
    arch: Arch,
}

impl Replay {
    /// Waits for the first event.
    fn begin(mut session: BrokerSession) -> Self {
        let first = loop {
            match session.next(WAIT) {
                Ok(None) => {}
                Ok(Some(Event::Session(info))) => break Ok(info),
                Ok(Some(_)) => break Err("the trace does not begin with a session".to_owned()),
                Err(error) => break Err(error.to_string()),
            }
        };
        Self {
            arch: first.as_ref().map_or(Arch::X86_64, |info| info.arch),
            session,
            first: Some(first),
        }
    }

    /// What its code is; of a trace that has none, as is told when it is analysed, the usual.
    pub(super) fn arch(&self) -> Arch {
        self.arch
    }
}

impl Source for Replay {
    fn pull(&mut self, timeout: Duration, take: &mut dyn FnMut(Event<'_>)) -> Result<(), String> {
        match self.first.take() {
            Some(first) => first.map(|info| take(Event::Session(info))),
            None => self.session.pull(timeout, take),
        }
    }

    fn stop(&mut self) {
        self.session.stop();
    }
}
