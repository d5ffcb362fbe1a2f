//! `cargo xtask test`: everything that must hold, in the order that fails fastest.
//!
//! One profile (`ci`: release speed with overflow checks) is used throughout, so that nothing is
//! compiled twice. Every step runs even if an earlier one failed; the summary at the end and the
//! exit status tell.

use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::command::{cargo, execute, output};
use crate::setup;

/// Options of `cargo xtask test`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Do not install anything
    #[arg(long)]
    no_setup: bool,
}

/// How a step went.
enum Outcome {
    Passed,
    Failed(String),
    /// Could not be done here; why.
    Left(&'static str),
}

struct Step {
    name: &'static str,
    outcome: Outcome,
    time: Duration,
}

/// Runs all steps.
pub fn run(args: &Args) -> Result<ExitCode> {
    let mut steps = Vec::new();
    if !args.no_setup {
        let setup = setup::Args {
            tests: true,
            build_qemu: false,
        };
        // Without its tools the rest would only fail with worse messages.
        setup::run(&setup)?;
    }
    let mut step = |name: &'static str, command: Option<Command>, otherwise: &'static str| {
        eprintln!("\n== {name}");
        let started = Instant::now();
        let outcome = match command.map(|mut command| execute(&mut command)) {
            None => Outcome::Left(otherwise),
            Some(Ok(())) => Outcome::Passed,
            Some(Err(error)) => Outcome::Failed(error.to_string()),
        };
        steps.push(Step {
            name,
            outcome,
            time: started.elapsed(),
        });
    };
    step("format", Some(with(&["fmt", "--all", "--check"])), "");
    step("lint", Some(lint()), "");
    let tests = [
        "test",
        "--workspace",
        "--profile",
        "ci",
        "--locked",
        "--no-fail-fast",
    ];
    step("tests", Some(with(&tests)), "");
    let deny = output(cargo().args(["deny", "--version"])).is_some();
    step(
        "licences and advisories",
        deny.then(|| with(&["deny", "check"])),
        "cargo-deny is not installed (cargo install --locked cargo-deny)",
    );
    Ok(summary(&steps))
}

fn with(arguments: &[&str]) -> Command {
    let mut command = cargo();
    command.args(arguments);
    command
}

fn lint() -> Command {
    let mut lint = with(&["clippy", "--workspace", "--all-targets", "--profile", "ci"]);
    lint.args(["--locked", "--", "--deny", "warnings"]);
    lint
}

fn summary(steps: &[Step]) -> ExitCode {
    eprintln!("\n== summary");
    let mut status = ExitCode::SUCCESS;
    for step in steps {
        let seconds = step.time.as_secs();
        let (mark, text) = match &step.outcome {
            Outcome::Passed => ("ok    ", ""),
            Outcome::Failed(why) => {
                status = ExitCode::FAILURE;
                ("FAILED", why.as_str())
            }
            Outcome::Left(why) => ("left  ", *why),
        };
        eprintln!("{mark}  {:<24} {seconds:>5} s  {text}", step.name);
    }
    status
}
