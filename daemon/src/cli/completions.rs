//! `mcad completions SHELL`.

use std::process::ExitCode;

use clap::ValueEnum;
use clap_complete::{Shell, generate};

/// Options of `mcad completions`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Shell to write for
    shell: Shell,
    /// Command to complete
    #[arg(long, value_enum, default_value_t = Executable::Mcad)]
    command: Executable,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Executable {
    /// mcad and its subcommands
    Mcad,
    /// mcad-run
    McadRun,
}

/// Prints the script.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (mut command, name) = match args.command {
        Executable::Mcad => (super::mcad_command(), "mcad"),
        Executable::McadRun => (super::mcad_run_command(), "mcad-run"),
    };
    // Into memory first: clap_complete panics when its output fails.
    let mut script = Vec::new();
    generate(args.shell, &mut command, name, &mut script);
    std::io::Write::write_all(&mut std::io::stdout().lock(), &script)?;
    Ok(ExitCode::SUCCESS)
}
