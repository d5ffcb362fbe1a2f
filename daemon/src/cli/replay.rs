//! `mcad replay TRACE`: analyse a recorded trace.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use mcad_broker_abi::{BrokerSession, Config};

use super::analysis::AnalysisArgs;
use super::launch::{Launch, settle, status};
use super::output::OutputArgs;
use super::timeline::TimelineArgs;
use crate::install;

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
    let mut analysis = args.analysis.resolve()?;
    let output = args.output.open(args.timeline.path())?;
    let (mut source, source_name) = open(&args.trace)?;
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
pub(super) fn open(trace: &Path) -> anyhow::Result<(BrokerSession, String)> {
    let path = trace.to_str().context("the trace's path is not UTF-8")?;
    let mut config = Config::new();
    config.push("file", path)?;
    let source = install::broker("replay")?.open(&config)?;
    Ok((source, format!("replay {path}")))
}
