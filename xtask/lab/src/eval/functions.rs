//! `cargo xtask eval-functions -- CMD`: where a program's cycles are natively and simulated, function
//! by function, which tells what a model lacks.
//!
//! Natively the program runs some times under `perf record`, whose timer samples tell each
//! function's share of the cycles that `mcad profile program` measures. A sample belongs to
//! the instruction that the core waits for, and so do simulated cycles, but not to the very same: functions
//! that call each other and take a few cycles each are told apart less well than their sum. One that has two names, as
//! `free` and `cfree`, may be in two lines.

mod samples;

use std::fs;
use std::path::PathBuf;
use std::process::{ExitCode, Stdio};

use anyhow::{Context, Result, bail};

use super::Simulated;
use super::kernels::TUNABLES;
use super::program::{number, read};
use samples::{Functions, Name, Samples};
use xtask::build;
use xtask::command::{command, execute_aside, exists, output};

/// Options of `cargo xtask eval-functions`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    simulated: Simulated,
    /// Runs that are sampled
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Print so many functions, those with the largest differences
    #[arg(long, value_name = "N", default_value_t = 25)]
    top: usize,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<String>,
}

/// Samples a second, as many as a timer gives.
const FREQUENCY: &str = "15000";

/// Measures and prints.
///
/// # Errors
/// Without `perf`, or when the program cannot be measured, sampled or simulated.
#[allow(clippy::print_stdout)] // Its output is what it is for.
pub fn run(args: &Args) -> Result<ExitCode> {
    if !exists("perf") {
        bail!("there is no perf: apt-get install linux-perf");
    }
    let work = build::target_dir().join("eval-functions");
    fs::create_dir_all(&work).with_context(|| format!("cannot make {}", work.display()))?;
    let here = std::env::current_dir().context("cannot tell where this is")?;
    let run = Run {
        built: args.simulated.built()?,
        work,
        here,
        command: &args.command,
    };
    let cycles = run.measure()?;
    let mut samples = Samples::default();
    let functions = run.simulate(&args.simulated.cpu)?;
    for n in 1..=args.runs {
        eprintln!("sampling, run {n} of {}", args.runs);
        samples.add(&run.sample()?, &functions);
    }
    if samples.all() == 0 {
        bail!("perf took no samples: the program is too short, or has nothing of its own to do");
    }
    let mut lines = lines(&samples, &functions, cycles);
    println!(
        "measured {:.1} M cycles, simulated {:.1} M ({:+.1} %), {} samples\n",
        cycles / 1e6,
        functions.cycles() / 1e6,
        100.0 * (functions.cycles() / cycles - 1.0),
        samples.all()
    );
    println!("of measured cycles: difference   natively  simulated  function");
    lines.sort_by(|a, b| b.difference().abs().total_cmp(&a.difference().abs()));
    for line in lines.iter().take(args.top) {
        println!(
            "{:>27.2} % {:>9.2} % {:>8.2} %  {}",
            100.0 * line.difference() / cycles,
            100.0 * line.native / cycles,
            100.0 * line.simulated / cycles,
            line.name
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// A program that is run in several ways.
struct Run<'a> {
    built: PathBuf,
    work: PathBuf,
    here: PathBuf,
    command: &'a [String],
}

impl Run<'_> {
    /// User cycles on the CPU at hand.
    fn measure(&self) -> Result<f64> {
        let json = self.work.join("measured.json");
        let mut profile = command(self.built.join("mcad"));
        profile.args(["profile", "program", "--json"]).arg(&json);
        self.execute(profile.arg("--"))?;
        number(&read(&json)?, "/cycles/median")
    }

    /// Cycles of each function, simulated.
    fn simulate(&self, cpu: &str) -> Result<Functions> {
        let json = self.work.join("simulated.json");
        let mut run = command(self.built.join("mcad-run"));
        // It is measured on one CPU.
        run.args(["-q", "--cores", "one", "--cpu", cpu]);
        run.args(["--functions", "1000000", "--json"]);
        self.execute(run.arg(&json).arg("--"))?;
        Functions::of(&read(&json)?)
    }

    /// What `perf script` says of one run.
    fn sample(&self) -> Result<String> {
        let data = self.work.join("perf.data");
        let mut record = command("perf");
        record.args(["record", "-q", "-e", "cpu-clock:u", "-F", FREQUENCY, "-o"]);
        self.execute(record.arg(&data).arg("--"))?;
        let mut script = command("perf");
        script.args(["script", "--show-mmap-events", "-F", "ip,sym,dso", "-i"]);
        output(script.arg(&data)).with_context(|| format!("perf cannot read {}", data.display()))
    }

    fn execute(&self, run: &mut std::process::Command) -> Result<()> {
        execute_aside(
            run.args(self.command)
                .env(TUNABLES.0, TUNABLES.1)
                .current_dir(&self.here)
                .stdin(Stdio::null())
                .stdout(Stdio::null()),
        )
    }
}

/// What a function takes, in cycles.
struct Line {
    name: Name,
    native: f64,
    simulated: f64,
}

impl Line {
    fn difference(&self) -> f64 {
        self.simulated - self.native
    }
}

/// One for each function that either has.
fn lines(samples: &Samples, functions: &Functions, cycles: f64) -> Vec<Line> {
    let of = |name: &Name| Line {
        name: name.clone(),
        native: cycles * samples.of(name) as f64 / samples.all() as f64,
        simulated: functions.of_name(name),
    };
    let alone = |name: &&Name| functions.of_name(name) == 0.0;
    (functions.names().map(of))
        .chain(samples.names().filter(alone).map(of))
        .collect()
}
