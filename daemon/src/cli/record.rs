//! `mcad record -o FILE -- CMD`: record a trace without analysing it.

use std::path::PathBuf;
use std::process::ExitCode;

use super::exit::{OWN_FAILURE, exit_code};
use super::launch::Launch;
use super::output::Outputs;
use super::run::{TraceArgs, trace};

/// Options of `mcad record`.
#[derive(Debug, clap::Args)]
#[command(after_help = "The exit status is the program's, as with mcad-run.")]
pub(super) struct Args {
    /// Where to write the trace; - is stdout; what the program writes there goes to stderr then
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Leave memory accesses out: about half the size, no dependencies through memory
    #[arg(long)]
    no_memory: bool,
    #[command(flatten)]
    trace: TraceArgs,
}

/// Runs the program and records it.
pub(super) fn run(args: &Args) -> ExitCode {
    let launch = Launch {
        analysis: None,
        record: Some(&args.output),
        timeline: None,
        source_name: "qemu".to_owned(),
        quiet: true,
        beside: true,
    };
    let output = Outputs::default();
    match trace(&args.trace, launch, !args.no_memory, None, output) {
        Ok(status) => exit_code(status),
        Err(error) => {
            super::tell(&error);
            exit_code(OWN_FAILURE)
        }
    }
}
