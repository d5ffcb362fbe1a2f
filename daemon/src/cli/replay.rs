//! `mcad replay TRACE`: analyse a recorded trace.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use mcad_broker_abi::Config;

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
    args.output.check()?;
    let path = args
        .trace
        .to_str()
        .context("the trace's path is not UTF-8")?;
    let mut config = Config::new();
    config.push("file", path)?;
    let mut source = install::broker("replay")?.open(&config)?;
    let timeline = args.timeline.open(&mut analysis)?;
    let launch = Launch {
        analysis: Some(analysis),
        record: None,
        timeline,
        source_name: format!("replay {path}"),
        quiet: args.output.quiet,
    };
    let outcome = launch.run(&mut source, None);
    let whole = settle(&outcome, &args.output);
    Ok(status(&outcome, whole))
}
