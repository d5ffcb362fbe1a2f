//! `mcad profile`: measurements on the CPU at hand, one file a subcommand.

mod block;
mod clock;
mod core;
mod instruction;
mod machine;
mod program;
mod programs;

use std::process::ExitCode;

use clap::Subcommand;

pub(super) use program::watched;

/// Options of `mcad profile`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure the throughput of basic blocks
    Block(block::Args),
    /// Measure instructions: latency, throughput, conflicts
    Instruction(instruction::Args),
    /// Say how cycles are measured on this CPU, and how steady its clock is
    Clock(clock::Args),
    /// Probe the core: small programs, each for one mechanism, measured here and simulated
    Core(core::Args),
    /// Measure the user cycles of a whole command over repeated runs
    Program(program::Args),
    /// Measure the programs of a list, all in turn, and write the list with what they took
    Programs(programs::Args),
}

/// Runs the subcommand.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::Block(args) => block::run(args),
        Command::Instruction(args) => instruction::run(args),
        Command::Clock(args) => clock::run(args),
        Command::Core(args) => core::run(args),
        Command::Program(args) => program::run(args),
        Command::Programs(args) => programs::run(args),
    }
}
