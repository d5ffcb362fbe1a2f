//! `mcad eval --programs LIST`: predicted cycles of whole programs against measured ones.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use mcad_isa::machine::CpuModel;
use mcad_proto::event::Arch;
use mcad_viewers::escape::escape;

use super::program_runs::run_all;
use crate::cli::analysis::AnalysisArgs;
use crate::cli::exit::{NEGATIVE, exit_code};
use crate::cli::json::JsonOutput;
use crate::cli::listed::{Places, programs};
use crate::eval::programs::{Predicted, on_one_machine, series};

mod text;

/// The CPU's name when none is given.
const DEFAULT_CPU: &str = "native";

/// Where the programs of a list are, and which of them are wanted.
#[derive(Debug, clap::Args)]
pub(super) struct ProgramArgs {
    /// Predict whole programs: FILE is a list of commands with measured cycles (CSV: package,
    /// version, program, command, user_cycles, …)
    #[arg(long, conflicts_with_all = ["rtl", "in_order", "sample", "hold_out", "ablations", "categories", "instructions", "worst"])]
    pub programs: bool,
    /// Directory with a directory PACKAGE-VERSION for each program of the list, such as an
    /// unpacked wheel [default: where the list is]
    #[arg(long, value_name = "DIR", requires = "programs")]
    packages: Option<PathBuf>,
    /// Directory in which the commands run, with their inputs [default: where the list is]
    #[arg(long, value_name = "DIR", requires = "programs")]
    inputs: Option<PathBuf>,
    /// Only programs of this package (repeatable)
    #[arg(long, value_name = "PACKAGE", requires = "programs")]
    only: Vec<String>,
    /// Run so many programs at once
    #[arg(long, value_name = "N", requires = "programs", default_value_t = 1)]
    at_once: usize,
    /// Append what each program took to FILE, and do not run again what this build of mcad found
    /// there for the same program and CPU model: an evaluation that was ended goes on
    #[arg(long, value_name = "FILE", requires = "programs")]
    results: Option<PathBuf>,
}

/// Runs the lists' programs and prints how they compare.
pub(super) fn run(
    args: &ProgramArgs,
    cpu: Option<&str>,
    lists: &[PathBuf],
    json: JsonOutput,
) -> anyhow::Result<ExitCode> {
    let cpu = cpu.unwrap_or(DEFAULT_CPU);
    let analysis = AnalysisArgs::from_pairs([("cpu", cpu)])?.resolve(Arch::X86_64)?;
    let clock = |cpu: &Arc<CpuModel>| cpu.core.cache.as_ref()?.clock_mhz;
    let has_clock = analysis.options.cpus.iter().all(|cpu| clock(cpu).is_some());
    let start = std::env::current_dir().context("there is no current directory")?;
    // Programs run elsewhere, and a CPU's file is where it was from here.
    let file = start.join(cpu);
    let cpu = match file.to_str().filter(|_| file.is_file()) {
        Some(file) if Path::new(cpu).extension().is_some() => file,
        _ => cpu,
    };
    let mut jobs = programs(
        lists,
        Places {
            packages: args.packages.as_deref(),
            inputs: args.inputs.as_deref(),
            only: &args.only,
        },
    )?;
    if let Some(unlabelled) = jobs.iter().find(|job| job.row.user_cycles <= 0.0) {
        bail!(
            "{} has no measured cycles in the list: mcad profile programs measures them on the CPU at hand",
            unlabelled.name()
        );
    }
    on_one_machine(jobs.iter_mut().map(|job| &mut job.row));
    if !has_clock {
        // At whatever clock they were measured, for this model it makes no difference.
        for job in &mut jobs {
            job.row.core_mhz = None;
        }
    }
    let outcomes = run_all(&jobs, cpu, args.at_once, args.results.as_deref())?;
    let (mut predicted, mut failed) = (Vec::new(), Vec::new());
    for (job, outcome) in jobs.iter().zip(outcomes) {
        match outcome {
            Ok(outcome) => predicted.push(Predicted {
                predicted_cycles: outcome.cycles as f64,
                instructions: outcome.instructions as f64,
                row: job.row.clone(),
            }),
            Err(error) => failed.push((job.name(), error)),
        }
    }
    let all = series(predicted);
    if !json.is_stdout() {
        let mut stdout = io::stdout().lock();
        text::print(&all, &mut stdout)?;
        stdout.flush().context("cannot write to stdout")?;
    }
    json.write(&all)?;
    if failed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let of = jobs.len();
    crate::say!("mcad: {} of {of} programs have no figure:", failed.len());
    for (name, error) in &failed {
        crate::say!("  {name}: {}", escape(&format!("{error:#}")));
    }
    Ok(exit_code(NEGATIVE))
}
