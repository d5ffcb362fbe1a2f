//! `cargo xtask compare`: whether two builds give the same results, byte for byte.
//!
//! Both builds analyse the same recorded programs and predict the same blocks, on every CPU that
//! both know. What is compared: the report's JSON outside `run` (which holds times and memory), the
//! batch predictions of blocks in both modes with every initial state, the complete JSON of single
//! blocks, and exit statuses. Every difference is printed with its place; the exit status is 1
//! when there is one. Work is handed out over all cores in pieces of one trace or one set of blocks on
//! one CPU, so the order of what is printed does not depend on who was first.

mod blocks;
mod json;
pub mod programs;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};

use anyhow::{Context, Result, bail};

use crate::parallel;
use xtask::build;
use xtask::command::{self, command};

/// Options of `cargo xtask compare`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Directory of the build to compare with: mcad, mcad-run and the brokers
    #[arg(long, value_name = "DIR")]
    base: PathBuf,
    /// Directory of the other build; without it this tree is built with the profile ci
    #[arg(long, value_name = "DIR")]
    new: Option<PathBuf>,
    /// Where recorded programs are kept; they are recorded with the base when absent [default:
    /// target/compare]
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// Millions of instructions of each program
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=1000))]
    millions: u64,
    /// Only this program (repeatable); none compares blocks only
    #[arg(long = "program", value_name = "NAME")]
    programs: Vec<String>,
    /// Another trace to compare (repeatable)
    #[arg(long = "trace", value_name = "FILE")]
    traces: Vec<PathBuf>,
    /// Only this CPU (repeatable)
    #[arg(long = "cpu", value_name = "NAME")]
    cpus: Vec<String>,
    /// Blocks in hexadecimal, one a line up to the first comma, plain or .xz, beside generated ones
    #[arg(long, value_name = "FILE")]
    blocks: Option<PathBuf>,
    /// How many blocks to generate
    #[arg(long, value_name = "N", default_value_t = 4000)]
    random: usize,
    /// How many of the blocks are compared with all details, too
    #[arg(long, value_name = "N", default_value_t = 400)]
    details: usize,
    /// Seed of generated blocks
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Leave out what stands below this place in reports and details, as in /cpus/*/notes
    /// (repeatable)
    #[arg(long = "ignore", value_name = "PLACE")]
    ignored: Vec<String>,
    /// Processes at a time [default: one a core]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Most differences to print for one comparison
    #[arg(long, value_name = "N", default_value_t = 12)]
    most: usize,
}

/// The two builds.
struct Builds {
    base: PathBuf,
    new: PathBuf,
}

/// What both builds said.
struct Both {
    base: Output,
    new: Output,
}

impl Builds {
    /// Runs `mcad` of both builds with the same arguments.
    fn both(&self, arguments: impl Fn(&mut Command)) -> Result<Both> {
        let run = |build: &Path| {
            let program = build.join("mcad");
            let mut command = command(&program);
            arguments(&mut command);
            command
                .env_remove("RUST_LOG")
                .output()
                .with_context(|| format!("cannot run {}", program.display()))
        };
        Ok(Both {
            base: run(&self.base)?,
            new: run(&self.new)?,
        })
    }
}

impl Both {
    /// Where exit statuses differ, or a process ended abnormally in both.
    fn statuses(&self) -> Vec<String> {
        let told = |output: &Output| {
            let said = String::from_utf8_lossy(&output.stderr);
            let last = said.trim_end().lines().last().unwrap_or_default();
            format!("{} ({last})", output.status)
        };
        if self.base.status != self.new.status {
            return vec![format!(
                "base ended with {}, new with {}",
                told(&self.base),
                told(&self.new)
            )];
        }
        match self.base.status.code() {
            // 1: something in the input was no block, or the trace was cut.
            Some(0 | 1) => Vec::new(),
            _ => vec![format!("both ended with {}", told(&self.base))],
        }
    }
}

/// One comparison: its name, what it does, and what it found.
struct Piece<'a> {
    name: String,
    compare: Box<dyn Fn() -> Result<Found> + Sync + Send + 'a>,
}

/// What a comparison found.
#[derive(Default)]
struct Found {
    /// Things compared, for the sum at the end, by what they are.
    compared: BTreeMap<&'static str, u64>,
    /// Differences, each with its place.
    differences: Vec<String>,
}

/// Compares and prints.
#[allow(clippy::print_stdout)] // Its output is what it is for.
pub fn run(args: &Args) -> Result<ExitCode> {
    let builds = Builds {
        base: directory(&args.base)?,
        new: match &args.new {
            Some(directory_of) => directory(directory_of)?,
            None => built()?,
        },
    };
    let cache = match &args.cache {
        Some(cache) => std::path::absolute(cache)?,
        None => build::target_dir().join("compare"),
    };
    fs::create_dir_all(&cache).with_context(|| format!("cannot make {}", cache.display()))?;
    let (cpus, missing) = cpus(&builds, &args.cpus)?;
    let mut traces = programs::traces(&builds.base, &cache, &args.programs, args.millions)?;
    for trace in &args.traces {
        traces.push(std::path::absolute(trace)?);
    }
    let blocks = blocks::Set::gather(args, &traces, &cache)?;
    let mut pieces = programs::pieces(&builds, &cpus, &traces, args);
    pieces.extend(blocks.pieces(&builds, &cpus, args));
    let jobs = args
        .jobs
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let results = all(&pieces, jobs.max(1))?;

    let mut compared: BTreeMap<&'static str, u64> = BTreeMap::new();
    let mut different = 0;
    for cpu in &missing {
        println!("DIFFERS  {cpu}: the new build does not know this CPU");
        different += 1;
    }
    for (piece, found) in pieces.iter().zip(&results) {
        for (what, count) in &found.compared {
            *compared.entry(what).or_default() += count;
        }
        if found.differences.is_empty() {
            continue;
        }
        different += 1;
        println!("DIFFERS  {}", piece.name);
        for difference in found.differences.iter().take(args.most) {
            println!("    {difference}");
        }
        if let Some(more) = found.differences.len().checked_sub(args.most)
            && more > 0
        {
            println!("    … and {more} more");
        }
    }
    let sums: Vec<String> = compared
        .iter()
        .map(|(what, count)| format!("{count} {what}"))
        .collect();
    let (count, cpus) = (pieces.len(), cpus.len());
    println!(
        "{count} comparisons on {cpus} CPUs ({}): {different} differ",
        sums.join(", ")
    );
    Ok(match different {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// Does every piece, each on whatever thread is free; results in the pieces' order.
fn all(pieces: &[Piece<'_>], jobs: usize) -> Result<Vec<Found>> {
    parallel::map(pieces, jobs, |piece| {
        (piece.compare)().with_context(|| piece.name.clone())
    })
}

/// A directory with a build in it.
fn directory(path: &Path) -> Result<PathBuf> {
    let path = std::path::absolute(path)?;
    for program in build::PROGRAMS.iter().chain(&build::BROKERS) {
        if !path.join(program).is_file() {
            bail!(
                "{} has no {program}; name a directory such as target/ci after `cargo build \
                 --workspace --profile ci`",
                path.display()
            );
        }
    }
    Ok(path)
}

/// Builds this tree with the profile ci.
fn built() -> Result<PathBuf> {
    let mut build = command::cargo();
    build.args(["build", "--profile", "ci", "--locked"]);
    for package in build::PACKAGES {
        build.args(["--package", package]);
    }
    command::execute_aside(&mut build)?;
    directory(&build::target_dir().join("ci"))
}

/// The CPUs that both builds know, or those of them that are wanted; and the base's others.
fn cpus(builds: &Builds, wanted: &[String]) -> Result<(Vec<String>, Vec<String>)> {
    let both = builds.both(|mcad| {
        mcad.args(["cpus", "--names"]);
    })?;
    if let Some(problem) = both.statuses().first() {
        bail!("mcad cpus --names: {problem}");
    }
    let names = |output: &Output| -> Vec<String> {
        let text = String::from_utf8_lossy(&output.stdout);
        text.lines().map(str::to_owned).collect()
    };
    let (base, new) = (names(&both.base), names(&both.new));
    if let Some(unknown) = wanted.iter().find(|name| !base.contains(name)) {
        bail!(
            "the base does not know the CPU {unknown}; it has {}",
            base.join(", ")
        );
    }
    let asked = |name: &String| wanted.is_empty() || wanted.contains(name);
    Ok(base
        .into_iter()
        .filter(asked)
        .partition(|name| new.contains(name)))
}
