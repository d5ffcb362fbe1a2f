//! `mcad profile core`: probes of the core, measured on the CPU at hand and simulated.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use indicatif::ProgressBar;
use mcad_profile::clock::{Cpu, pin};
use mcad_profile::host::Host;
use mcad_profile::probe::native::{Executable, command};
use mcad_profile::probe::program::REGION;
use mcad_profile::probe::{Point, Probe, probes};
use mcad_report::probes::{Curve, CurvePoint, Probes, SCHEMA_VERSION};
use mcad_viewers::curves;

use super::super::analysis::AnalysisArgs;
use super::super::run::{EmulatorArgs, report_of};
use super::super::signals::{interrupted, note_the_first};
use crate::cli::destination::Destination;
use crate::cli::json::JsonArgs;

/// Options of `mcad profile core`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Probes to run, by name or its beginning [default: all]
    #[arg(value_name = "PROBE")]
    probes: Vec<String>,
    /// List the probes
    #[arg(long)]
    list: bool,
    /// CPU model to simulate [default: this CPU's]
    #[arg(long, value_name = "NAME")]
    cpu: Option<String>,
    /// Measure only
    #[arg(long, conflicts_with_all = ["simulated", "cpu"])]
    native: bool,
    /// Simulate only
    #[arg(long)]
    simulated: bool,
    /// Rounds of each measurement
    #[arg(long, value_name = "N", default_value_t = 31,
          value_parser = clap::value_parser!(u32).range(2..=1000))]
    rounds: u32,
    /// Rounds of each simulation
    #[arg(long, value_name = "N", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(2..=1000))]
    simulated_rounds: u32,
    /// The CPU to measure on [default: the last one allowed]
    #[arg(long, value_name = "N")]
    pin: Option<u32>,
    #[command(flatten)]
    json: JsonArgs,
    /// Write a page with the curves
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    emulator: EmulatorArgs,
}

/// Probes and prints.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let chosen = choose(&args.probes)?;
    let mut stdout = io::stdout().lock();
    if args.list {
        for probe in chosen {
            writeln!(stdout, "{:<20} {} ({})", probe.name, probe.what, probe.unit)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let host = Host::at_hand();
    let model = match (&args.cpu, args.native) {
        (_, true) => None,
        (Some(name), _) => Some(name.clone()),
        (None, false) => match host.core {
            Some(core) => Some(core.to_owned()),
            None => bail!(
                "there is no model of this CPU ({}): choose one with --cpu, or measure only \
                 with --native",
                host.name
            ),
        },
    };
    let effort = Effort {
        native: (!args.simulated).then_some(args.rounds),
        simulated: match &model {
            Some(model) => Some((
                AnalysisArgs::from_pairs([("cpu", model.as_str()), ("region", REGION)])?,
                args.simulated_rounds,
            )),
            None => None,
        },
        emulator: &args.emulator,
    };
    if effort.native.is_some()
        && let Err(error) = pin(args.pin.map(Cpu))
    {
        crate::say!("mcad: {error}; measuring unpinned");
    }
    let json = args.json.open(args.html.as_deref())?;
    let page = args.html.as_deref().map(Destination::open).transpose()?;
    let bar = if io::stderr().is_terminal() {
        ProgressBar::new_spinner()
    } else {
        ProgressBar::hidden()
    };
    let mut results = Probes {
        schema_version: SCHEMA_VERSION,
        host: effort.native.is_some().then_some(host.name),
        model,
        curves: Vec::new(),
    };
    let taken = json.is_stdout() || page.as_ref().is_some_and(Destination::is_stdout);
    // Each point's program is in a directory, which is to go with it.
    note_the_first();
    for probe in &chosen {
        let curve = effort.curve(probe, &bar)?;
        if !taken {
            bar.suspend(|| curves::text(&curve, &mut stdout))?;
        }
        results.curves.push(curve);
    }
    bar.finish_and_clear();
    if !taken {
        curves::summary(&results, &mut stdout)?;
    }
    stdout.flush().context("cannot write to stdout")?;
    drop(stdout);
    json.write(&results)?;
    if let Some(page) = page {
        page.write(|out| curves::page(&results, out))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The probes whose names begin with one of `wanted`.
fn choose(wanted: &[String]) -> anyhow::Result<Vec<Probe>> {
    let all = probes();
    if let Some(unknown) = wanted
        .iter()
        .find(|w| !all.iter().any(|p| p.name.starts_with(w.as_str())))
    {
        bail!("no probe's name begins with '{unknown}'; --list shows them");
    }
    let chosen = |p: &Probe| wanted.is_empty() || wanted.iter().any(|w| p.name.starts_with(w));
    Ok(all.into_iter().filter(chosen).collect())
}

/// What to do with each probe.
struct Effort<'a> {
    /// Rounds of a measurement.
    native: Option<u32>,
    /// What to simulate, and for how many rounds.
    simulated: Option<(AnalysisArgs, u32)>,
    emulator: &'a EmulatorArgs,
}

impl Effort<'_> {
    fn curve(&self, probe: &Probe, bar: &ProgressBar) -> anyhow::Result<Curve> {
        let points = (probe.points)();
        let all = points.len();
        let mut done = Vec::with_capacity(all);
        for (n, point) in points.iter().enumerate() {
            bar.set_message(format!("{}: point {} of {all}", probe.name, n + 1));
            bar.tick();
            done.push(self.point(point)?);
            if interrupted() {
                bail!("interrupted in {}", probe.name);
            }
        }
        Ok(Curve {
            name: probe.name.to_owned(),
            what: probe.what.to_owned(),
            axis: probe.axis.name.to_owned(),
            axis_unit: probe.axis.unit.to_owned(),
            logarithmic: probe.axis.logarithmic,
            unit: probe.unit.to_owned(),
            points: done,
        })
    }

    fn point(&self, point: &Point) -> anyhow::Result<CurvePoint> {
        let operations = point.source.operations;
        let executable = Executable::new(&point.source)?;
        let mut result = CurvePoint {
            x: point.x,
            label: point.label.clone(),
            native: None,
            native_median: None,
            simulated: None,
            missing: Vec::new(),
        };
        if let Some(rounds) = self.native {
            match executable.run(rounds, operations) {
                Ok(cycles) => {
                    result.native = Some(cycles.min);
                    result.native_median = Some(cycles.median);
                }
                Err(error) => result.missing.push(error.to_string()),
            }
        }
        if let Some((analysis, rounds)) = &self.simulated {
            let command = command(&executable.path(), *rounds);
            let report = report_of(&command, self.emulator, analysis, true, true)?;
            let region = report.cpus.first().and_then(|cpu| cpu.regions.first());
            match region.filter(|region| region.count > 0) {
                Some(region) => result.simulated = Some(region.min as f64 / operations),
                None => result
                    .missing
                    .push(format!("the simulation never saw {REGION}")),
            }
        }
        Ok(result)
    }
}
