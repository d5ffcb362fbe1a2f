//! How fast recorded programs are simulated: the ones that `compare` records.
//!
//! Speeds are of `mcad replay`, reading and the report included, per second of processor time, the
//! best of a few runs. Work is counted by callgrind: machine instructions inside of a model's
//! simulation for each instruction of the program, without reading, merging and the report; it is
//! the same on any machine.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, bail};

use super::program::{number, rate, read};
use super::{Figure, Limit};
use crate::compare::programs;
use xtask::command::{command, execute, exists};

/// Millions of instructions of each program whose speed is measured, and of the one that callgrind
/// counts.
const MILLIONS: u64 = 20;
const COUNTED: u64 = 4;

/// Runs of which the fastest counts.
const RUNS: usize = 2;

/// Models, each with the least speed that is promised, in million instructions a second.
const MODELS: [(&str, f64); 3] = [("skl", 22.0), ("glc", 22.0), ("zen5", 10.0)];

/// Programs whose code is so regular that they are promised to be faster on the first model.
const REGULAR: [&str; 2] = ["sqlite3", "clang-format"];
const REGULAR_SPEED: f64 = 40.0;

/// Models whose work is counted, and the most that is promised.
const WORK: [&str; 3] = ["skl", "glc", "zen5"];
const MOST_WORK: f64 = 650.0;

/// The functions in which all of a model's simulation happens: of its threads, and ahead of them of
/// their branches.
const SIMULATION: [&str; 2] = [
    "mcad_core::simulation::core::Core<*>::execute",
    "mcad_core::pipeline::frontend::predict::foretell::Foreteller::pass",
];

/// Measures the programs that are installed.
pub fn measure(built: &Path, work: &Path) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for trace in programs::traces(built, work, &[], MILLIONS)? {
        let file = trace.file_name().unwrap_or_default().to_string_lossy();
        let program = file.split('-').next().unwrap_or_default();
        let program = match program {
            "clang" => "clang-format",
            other => other,
        };
        for (n, (cpu, least)) in MODELS.into_iter().enumerate() {
            let regular = n == 0 && REGULAR.contains(&program);
            let mut speed: f64 = 0.0;
            for _ in 0..RUNS {
                speed = speed.max(rate(built, work, cpu, &trace)?);
            }
            figures.push(Figure::new(
                format!("{program} on {cpu}"),
                speed,
                "M instructions per CPU second",
                Limit::Least(if regular { REGULAR_SPEED } else { least }),
            ));
        }
    }
    let names = ["gzip".to_owned()];
    for trace in programs::traces(built, work, &names, COUNTED)? {
        for cpu in WORK {
            figures.push(Figure::new(
                format!("work on gzip, {cpu}"),
                counted(built, work, cpu, &trace)?,
                "machine instructions per instruction",
                Limit::Most(MOST_WORK),
            ));
        }
    }
    Ok(figures)
}

/// Machine instructions of the simulation for each instruction of a trace.
pub fn counted(built: &Path, work: &Path, cpu: &str, trace: &Path) -> Result<f64> {
    if !exists("valgrind") {
        bail!("valgrind is missing, which counts instructions: apt-get install valgrind");
    }
    let (json, out) = (work.join("counted.json"), work.join("callgrind.out"));
    execute(
        command("valgrind")
            .args(["--tool=callgrind", "--quiet"])
            .args(SIMULATION.map(|function| format!("--toggle-collect={function}")))
            .arg(format!("--callgrind-out-file={}", out.display()))
            .arg(built.join("mcad"))
            .args(["replay", "-q", "--cpu", cpu, "--json"])
            .arg(&json)
            .arg(trace)
            .stdout(Stdio::null()),
    )?;
    let text = fs::read_to_string(&out)
        .with_context(|| format!("cannot read what callgrind wrote to {}", out.display()))?;
    let total = text.lines().find_map(|line| line.strip_prefix("totals:"));
    let total: f64 = total
        .and_then(|total| total.trim().parse().ok())
        .with_context(|| format!("{} has no totals", out.display()))?;
    if total == 0.0 {
        bail!("callgrind did not come by {SIMULATION:?}: are they there under other names?");
    }
    Ok(total / number(&read(&json)?, "/trace/instructions")?)
}
