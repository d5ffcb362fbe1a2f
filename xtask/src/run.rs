//! `cargo xtask run [OPTIONS] -- CMD`: from a fresh clone to a report in one command.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use crate::{build, setup};

/// Options of `cargo xtask run`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Options of mcad-run, then -- and the command
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required = true,
        value_name = "[OPTIONS] -- CMD"
    )]
    arguments: Vec<OsString>,
}

/// Sets up, builds, and becomes mcad-run; the exit status is the program's.
pub fn run(args: &Args) -> Result<ExitCode> {
    setup::run(&setup::Args::default())?;
    let programs = build::release()?;
    let program = programs.join("mcad-run");
    let mut arguments = args.arguments.clone();
    // clap takes a leading -- for itself.
    if !arguments.iter().any(|argument| argument == "--") {
        arguments.insert(0, "--".into());
    }
    // In the caller's directory, as the command expects.
    let error = Command::new(&program).args(arguments).exec();
    Err(error).with_context(|| format!("cannot run {}", program.display()))
}
