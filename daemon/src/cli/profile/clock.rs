//! `mcad profile clock`: where cycles come from on this CPU, and how steady they are.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use mcad_profile::block::{Profiler, Settings};
use mcad_profile::cell::Sandbox;
use mcad_profile::clock::{Cpu, Quartiles, Rate, Scope, UserCycles, pin, ticks_per_second};
use mcad_profile::init::Init;
use serde::Serialize;

use crate::cli::json::JsonArgs;

/// How long the system's clock is compared with the time-stamp counter.
const COMPARED: Duration = Duration::from_millis(20);

/// Options of `mcad profile clock`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The CPU to measure on [default: the last one allowed]
    #[arg(long, value_name = "N")]
    pin: Option<u32>,
    /// How many times the core clock is measured
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(2..=100_000))]
    samples: u32,
    #[command(flatten)]
    json: JsonArgs,
}

#[derive(Serialize)]
struct Report {
    /// The CPU that the process was kept on; none: it could not be kept.
    cpu: Option<Cpu>,
    /// Whether blocks can be measured, and what keeps their code from the kernel.
    blocks: String,
    /// Why the counter of cycles cannot be used; none: it can.
    no_counter: Option<String>,
    /// Megahertz of the time-stamp counter.
    tsc_mhz: f64,
    /// Megahertz of the core.
    core_mhz: f64,
    /// Core cycles per tick, over all samples.
    cycles_per_tick: Quartiles,
    /// Interquartile range within one sample, over its median; the median over all samples.
    within: f64,
    /// Share of consecutive samples that differ by more than 0.5 %.
    drifting: f64,
    /// Latency of a multiplication over that of an exclusive-or: 3.
    check: f64,
}

/// Relative drift between two samples that is told.
const DRIFT: f64 = 0.005;

/// Measures and prints.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let cpu = match pin(args.pin.map(Cpu)) {
        Ok(cpu) => Some(cpu),
        Err(error) if args.pin.is_none() => {
            crate::say!("mcad: {error}; measuring unpinned");
            None
        }
        Err(error) => return Err(error.into()),
    };
    let json = args.json.open([])?;
    let report = measure(cpu, args.samples);
    if !json.is_stdout() {
        let mut stdout = std::io::stdout().lock();
        write(&report, &mut stdout)?;
        stdout.flush().context("cannot write to stdout")?;
    }
    json.write(&report)?;
    Ok(ExitCode::SUCCESS)
}

fn measure(cpu: Option<Cpu>, samples: u32) -> Report {
    let rates: Vec<_> = (0..samples).map(|_| Rate::measure()).collect();
    let drifting = rates
        .windows(2)
        .filter(|pair| matches!(pair, [a, b] if a.drift(b) > DRIFT))
        .count();
    let of = |value: fn(&Rate) -> f64| {
        let mut values: Vec<_> = rates.iter().map(value).collect();
        Quartiles::of(&mut values)
    };
    let cycles_per_tick = of(|rate| rate.cycles_per_tick);
    let tsc_mhz = ticks_per_second(COMPARED) / 1e6;
    Report {
        cpu,
        blocks: blocks(),
        no_counter: UserCycles::open(Scope::Thread)
            .and_then(|mut counter| counter.read())
            .err()
            .map(|error| error.to_string()),
        tsc_mhz,
        core_mhz: tsc_mhz * cycles_per_tick.median,
        cycles_per_tick,
        within: of(|rate| rate.spread).median,
        drifting: drifting as f64 / rates.len().saturating_sub(1).max(1) as f64,
        check: of(|rate| rate.check).median,
    }
}

/// Whether a measuring process starts, and how it is kept from harm.
fn blocks() -> String {
    let settings = Settings {
        init: Init::Equal,
        sandbox: Sandbox::IfPossible,
        unfiltered: false,
    };
    match Profiler::new(settings) {
        Ok(profiler) if profiler.filtered() => {
            "can be measured, behind a seccomp filter".to_owned()
        }
        Ok(_) => "can be measured with --no-seccomp only: the kernel refuses a filter".to_owned(),
        Err(error) => format!("cannot be measured: {error}"),
    }
}

fn write(report: &Report, out: &mut dyn Write) -> std::io::Result<()> {
    match report.cpu {
        Some(cpu) => writeln!(out, "measured on          CPU {}", cpu.0)?,
        None => writeln!(
            out,
            "measured on          any CPU (it could not be kept on one)"
        )?,
    }
    match &report.no_counter {
        None => writeln!(out, "cycles               performance counter, user mode")?,
        Some(why) => writeln!(
            out,
            "cycles               time-stamp counter over the core clock: {why}"
        )?,
    }
    writeln!(out, "blocks               {}", report.blocks)?;
    let rate = &report.cycles_per_tick;
    writeln!(out, "time-stamp counter   {:.1} MHz", report.tsc_mhz)?;
    writeln!(
        out,
        "core clock           {:.1} MHz, {:.4} cycles a tick, quartiles {:.4} to {:.4} ({:.3} %)",
        report.core_mhz,
        rate.median,
        rate.low,
        rate.high,
        100.0 * rate.relative()
    )?;
    writeln!(
        out,
        "noise                {:.3} % within a sample; {:.1} % of samples differ by more than {} % from the one before",
        100.0 * report.within,
        100.0 * report.drifting,
        100.0 * DRIFT
    )?;
    writeln!(
        out,
        "check                a multiplication takes {:.3} times an exclusive-or (3 expected)",
        report.check
    )
}
