//! `mcad profile`: measurements on the CPU at hand, one file a subcommand.

mod clock;

use std::process::ExitCode;

use clap::Subcommand;

/// Options of `mcad profile`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Say how cycles are measured on this CPU, and how steady its clock is
    Clock(clock::Args),
}

/// Runs the subcommand.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::Clock(args) => clock::run(args),
    }
}
