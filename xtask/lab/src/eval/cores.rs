//! What the machine's cores are worth: several models in one pass, and intervals of one.
//!
//! These are wall-clock times, the least of several runs, so they mean something on an otherwise
//! idle machine only. Errors of intervals are against the uncut simulation of the same trace. Beside
//! them stands what the machine can do at most: replays that know nothing of each other, side by
//! side. `cargo bench -p mcad-core --bench cores` says which threads take what.

use std::path::Path;
use std::time::Instant;

use anyhow::{Result, ensure};

use super::program::{number, read};
use super::{Figure, Limit};
use xtask::command::{command, measured};

/// Runs of which the fastest counts.
const RUNS: usize = 2;
/// Models that are simulated in one pass, as far as there are cores.
const MODELS: [&str; 4] = ["skl", "hsw", "icl", "glc"];
/// Cores for which figures are promised.
const CORES: usize = 4;
const MIB: f64 = (1 << 20) as f64;

/// Measures replays of a trace on one and several cores.
pub fn measure(built: &Path, work: &Path, cpu: &str, trace: &Path) -> Result<Vec<Figure>> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let cores = cores.min(CORES);
    let models = &MODELS[..cores];
    let json = work.join("cores.json");
    // Wall-clock seconds, peak bytes and cycles of the first model.
    let replay = |options: &[&str]| -> Result<(f64, f64, f64)> {
        let (mut seconds, mut peak) = (f64::INFINITY, f64::INFINITY);
        for _ in 0..RUNS {
            let started = Instant::now();
            let usage = measured(
                command(built.join("mcad"))
                    .args(["replay", "-q", "--json"])
                    .arg(&json)
                    .args(options)
                    .arg(trace),
            )?;
            seconds = seconds.min(started.elapsed().as_secs_f64());
            peak = peak.min(usage.peak_bytes as f64);
        }
        Ok((seconds, peak, number(&read(&json)?, "/cpus/0/cycles")?))
    };
    // As many replays side by side, to the processor time of one alone.
    let mut bound: f64 = 0.0;
    for _ in 0..RUNS {
        let one = || {
            let mut replay = command(built.join("mcad"));
            replay.args(["replay", "-q", "--cpu", cpu, "--json", "/dev/null"]);
            replay.arg(trace);
            replay
        };
        let alone = measured(&mut one())?.seconds;
        let started = Instant::now();
        let running = (0..cores).map(|_| one().spawn());
        let running = running.collect::<Result<Vec<_>, _>>()?;
        for mut replay in running {
            ensure!(
                replay.wait()?.success(),
                "a replay of {} failed",
                trace.display()
            );
        }
        bound = bound.max(cores as f64 * alone / started.elapsed().as_secs_f64());
    }
    let mut slowest: f64 = 0.0;
    let mut together = Vec::new();
    for model in models {
        slowest = slowest.max(replay(&["--cpu", model])?.0);
        together.extend(["--cpu", model]);
    }
    let all = replay(&together)?;
    let jobs = cores.to_string();
    let whole = replay(&["--cpu", cpu])?;
    let one = replay(&["--cpu", cpu, "--jobs", "1"])?;
    let many = replay(&["--cpu", cpu, "--jobs", &jobs])?;
    Ok(vec![
        Figure::new(
            format!("{cores} replays side by side to one"),
            bound,
            "times the work",
            Limit::None,
        ),
        Figure::new(
            format!("{cores} models in one pass to the slowest alone"),
            all.0 / slowest,
            "times",
            Limit::Most(1.4),
        ),
        Figure::new(
            format!("--jobs 1 to --jobs {cores}"),
            one.0 / many.0,
            "times",
            Limit::Least(0.75 * cores as f64),
        ),
        Figure::new(
            "cycles in intervals against uncut",
            (many.2 / whole.2 - 1.0).abs() * 100.0,
            "%",
            Limit::Most(0.02),
        ),
        Figure::new(
            format!("peak memory with --jobs {cores}"),
            many.1 / MIB,
            "MiB",
            Limit::Most(256.0 + 64.0 * cores as f64),
        ),
    ])
}
