//! The command lines: `mcad` with its subcommands, one file each, and `mcad-run`.
//!
//! What clap parsed becomes validated values once ([`analysis::Analysis`], …); nothing behind this
//! module knows an option's name. Exit statuses are in [`exit`].

pub mod analysis;
mod block;
mod completions;
mod cpus;
mod daemon;
mod destination;
mod diff;
mod doctor;
pub mod eval;
mod examples;
pub mod exit;
pub mod input;
pub mod json;
mod launch;
mod listed;
mod man;
mod measure;
mod mechanistic;
mod model;
pub mod output;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod profile;
mod progress;
mod record;
mod replay;
mod report_file;
pub mod run;
mod schema;
mod signals;
mod status;
mod timeline;
mod token;
mod view;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;

use exit::{BROKEN_PIPE, ERROR, exit_code};

/// Predicts how many cycles programs take on CPUs that are not at hand.
#[derive(Debug, Parser)]
#[command(
    name = "mcad",
    version,
    about = "Predict how many cycles programs take on CPUs that are not at hand",
    max_term_width = 100
)]
struct Mcad {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a program under QEMU and predict its cycles (the same as mcad-run)
    Run(run::Args),
    /// Run a program under QEMU and record its trace without analysing it
    Record(record::Args),
    /// Analyse a recorded trace
    Replay(replay::Args),
    /// Show a JSON report, a timeline or a trace
    View(view::Args),
    /// Compare two or more JSON reports, or the runs of two or more commands
    Diff(diff::Args),
    /// Serve sessions to other processes and machines
    Daemon(daemon::Args),
    /// Show a daemon's sessions
    Status(status::StatusArgs),
    /// End a daemon
    Stop(status::StopArgs),
    /// Predict the throughput of basic blocks
    Block(block::Args),
    /// Compare predictions of blocks with measurements
    Eval(eval::Args),
    /// Profile a program once and predict its cycles on any in-order core
    Model(mechanistic::Args),
    /// Measure on the CPU at hand
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    Profile(profile::Args),
    /// List the CPU models
    Cpus(cpus::Args),
    /// Check what mcad needs and say how to get what is missing
    Doctor(doctor::Args),
    /// Print the JSON Schema of reports
    Schema(schema::Args),
    /// Print a completion script
    Completions(completions::Args),
    /// Write the man pages
    Man(man::Args),
}

/// A file that may not grow any more (`ulimit -f`) is an error of its write, and no signal that
/// ends the process. Programs that are started do not inherit this, as they would an ignored one.
fn take_file_limits() {
    extern "C" fn nothing(_: libc::c_int) {}
    let handler = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // SAFETY: the handler does nothing.
    unsafe { libc::signal(libc::SIGXFSZ, handler) };
}

/// `mcad` as clap knows it, for completions and man pages.
fn mcad_command() -> clap::Command {
    examples::add(Mcad::command(), "")
}

/// `mcad-run` as clap knows it.
fn mcad_run_command() -> clap::Command {
    let command = clap::Command::new("mcad-run")
        .version(env!("CARGO_PKG_VERSION"))
        .max_term_width(100);
    // The options bring a description of themselves.
    let command = <run::Args as clap::Args>::augment_args(command)
        .about("Run a program under QEMU and predict its cycles on other CPUs");
    examples::add(command, "mcad-run")
}

/// Runs `mcad`.
#[must_use]
pub fn mcad(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    take_file_limits();
    let matches = mcad_command().try_get_matches_from(args);
    let command = match matches.and_then(|matches| Mcad::from_arg_matches(&matches)) {
        Ok(mcad) => mcad.command,
        Err(error) => return usage(&error, ERROR),
    };
    if !matches!(command, Command::Daemon(_)) {
        init_logging(LevelFilter::WARN);
    }
    let result = match command {
        // The exit statuses of mcad-run are its own.
        Command::Run(args) => return run::run(&args),
        Command::Record(args) => return record::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::View(args) => view::run(&args),
        Command::Diff(args) => diff::run(&args),
        Command::Daemon(args) => {
            init_logging(LevelFilter::INFO);
            daemon::run(&args)
        }
        Command::Status(args) => status::status(&args),
        Command::Stop(args) => status::stop(&args),
        Command::Block(args) => block::run(&args),
        Command::Eval(args) => eval::run(&args),
        Command::Model(args) => mechanistic::run(&args),
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        Command::Profile(args) => profile::run(&args),
        Command::Cpus(args) => cpus::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Schema(args) => schema::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
    };
    result.unwrap_or_else(|error| {
        if nobody_reads(&error) {
            return exit_code(BROKEN_PIPE);
        }
        tell(&error);
        exit_code(ERROR)
    })
}

/// Runs `mcad-run`.
#[must_use]
pub fn mcad_run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    take_file_limits();
    init_logging(LevelFilter::WARN);
    let matches = mcad_run_command().try_get_matches_from(args);
    match matches.and_then(|matches| run::Args::from_arg_matches(&matches)) {
        Ok(args) => run::run(&args),
        Err(error) => usage(&error, exit::OWN_FAILURE),
    }
}

/// Prints clap's message: help to stdout with success, errors to stderr with `status`.
fn usage(error: &clap::Error, status: u8) -> ExitCode {
    // Nothing is left to tell when the terminal is gone.
    let _ = error.print();
    if let Some(hint) = behind_dashes(error) {
        crate::say!("\n{hint}");
    }
    exit_code(if error.use_stderr() { status } else { 0 })
}

/// What to say when a program stands where options do, without `--` before it.
fn behind_dashes(error: &clap::Error) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::StyledStr(text)) => Some(text.to_string()),
        _ => None,
    };
    let word = text(ContextKind::InvalidArg)?;
    let usage = text(ContextKind::Usage)?;
    let runs_programs = usage.contains("-- <CMD>") && error.kind() == ErrorKind::UnknownArgument;
    if !runs_programs || word.starts_with('-') {
        return None;
    }
    // `Usage: mcad-run [OPTIONS] …`
    let words = usage.split_whitespace().skip(1);
    let command: Vec<&str> = words
        .take_while(|w| !w.starts_with(['[', '<', '-']))
        .collect();
    Some(format!(
        "The program and its arguments come behind --, as in: {} -- {word}",
        command.join(" ")
    ))
}

/// Whether the reader of an output has gone, such as `head` that has what it wants: no error, and
/// nothing to tell.
fn nobody_reads(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|cause| cause.kind() == std::io::ErrorKind::BrokenPipe)
}

/// Prints an error with its causes; what peers and files put into it does not reach the terminal
/// as it is.
fn tell(error: &anyhow::Error) {
    let text = causes(error);
    let lines: Vec<_> = text.lines().map(mcad_viewers::escape::escape).collect();
    crate::say!("mcad: {}", lines.join("\n"));
}

/// An error and its causes in a line, each once: many an error's text has its cause's already.
fn causes(error: &anyhow::Error) -> String {
    error.chain().fold(String::new(), |text, cause| {
        let cause = cause.to_string();
        match text.is_empty() {
            true => cause,
            false if text.contains(&cause) => text,
            false => format!("{text}: {cause}"),
        }
    })
}

/// Logs go to stderr; `MCAD_LOG` filters them: a level, or levels of modules (`warn,mcad_daemon::session=debug`).
fn init_logging(default: LevelFilter) {
    let asked = std::env::var("MCAD_LOG").unwrap_or_default();
    let filter = match asked.parse::<Targets>() {
        Ok(filter) if !asked.is_empty() => filter,
        Ok(_) => Targets::new().with_default(default),
        Err(error) => {
            crate::say!("mcad: MCAD_LOG={asked:?} is no filter of logs: {error}");
            Targets::new().with_default(default)
        }
    };
    let stderr = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
        .with_target(false)
        // Its complaint about a stderr that takes nothing would go there, too, and panic.
        .log_internal_errors(false)
        .with_filter(filter);
    // A second initialisation in one process (tests) keeps the first.
    let _ = tracing_subscriber::registry().with(stderr).try_init();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_told_once() {
        use anyhow::Context;
        let failed = |name: &str| {
            let options = mcad_assemble::Options::default();
            mcad_assemble::assemble_file(name.as_ref(), &options).map(drop)
        };
        let error = failed("/nowhere/a.s").context("no block").unwrap_err();
        let text = causes(&error);
        assert!(
            text.starts_with("no block: cannot read /nowhere/a.s: "),
            "{text}"
        );
        assert_eq!(text.matches("No such file").count(), 1, "{text}");
    }

    #[test]
    fn command_lines_are_consistent() {
        mcad_command().debug_assert();
        mcad_run_command().debug_assert();
    }
}
