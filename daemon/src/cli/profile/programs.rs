//! `mcad profile programs LIST`: measured cycles for a list of programs, as `mcad eval --programs` compares with.
//!
//! Programs are measured in turn, round after round, so that all of them have their part of the machine's good and bad
//! minutes. The list is written anew after each round, with the figures of all runs so far.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use mcad_profile::clock::{Cpu, Quartiles};
use mcad_profile::command::{Experiment, Fate, Input, Measured, Runs};
use mcad_viewers::escape::escape;

use crate::cli::destination::Destination;
use crate::cli::exit::{NEGATIVE, exit_code};
use crate::cli::listed::{Listed, Places, programs};
use crate::eval::programs::{Row, read};

/// Options of `mcad profile programs`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Directory with a directory PACKAGE-VERSION for each program of the list, such as an
    /// unpacked wheel [default: where the list is]
    #[arg(long, value_name = "DIR")]
    packages: Option<PathBuf>,
    /// Directory in which the commands run, with their inputs [default: where the list is]
    #[arg(long, value_name = "DIR")]
    inputs: Option<PathBuf>,
    /// Only programs of this package (repeatable); the others' lines stay as they are
    #[arg(long, value_name = "PACKAGE")]
    only: Vec<String>,
    /// How often to measure them all
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// How many runs of each program count in a round
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    runs: u32,
    /// The CPU to run on [default: the last one allowed]
    #[arg(long, value_name = "N")]
    pin: Option<u32>,
    /// Write the list to FILE, after each round; it may be the one that is read [default: stdout, at the end]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Programs (CSV: package, version, program, command, …; docs/PROGRAMS.md)
    #[arg(required = true, value_name = "LIST")]
    lists: Vec<PathBuf>,
}

/// What the runs of a program took, over all rounds.
#[derive(Debug, Default)]
struct Measurements {
    /// User cycles of each run that counts.
    cycles: Vec<f64>,
    /// KiB of the last level of cache, before and after.
    last_level: Vec<f64>,
    /// Megahertz, for each run that counts.
    clock: Vec<f64>,
}

impl Measurements {
    fn add(&mut self, measured: &Measured) {
        let counting = measured.samples.iter().filter(|s| s.fate == Fate::Counts);
        for sample in counting {
            self.cycles.push(sample.cycles);
            self.clock.push(sample.core_mhz);
        }
        let last_level = measured.last_level_kib.into_iter().flatten();
        self.last_level.extend(last_level.map(f64::from));
    }

    /// A line of a list with these figures; as it was where there are none.
    fn put(&mut self, row: &Row) -> Row {
        if self.cycles.is_empty() {
            return row.clone();
        }
        let quartiles = Quartiles::of(&mut self.cycles);
        let least = self.cycles.iter().copied().fold(f64::INFINITY, f64::min);
        let whole = |values: &mut Vec<f64>| {
            (!values.is_empty()).then(|| Quartiles::of(values).median.round() as u32)
        };
        Row {
            user_cycles: quartiles.median,
            interquartile_over_median: Some((quartiles.relative() * 1e4).round() / 1e4),
            runs: Some(self.cycles.len() as u32),
            min_cycles: Some(least),
            last_level_kib: whole(&mut self.last_level),
            core_mhz: whole(&mut self.clock),
            ..row.clone()
        }
    }
}

/// Measures and writes.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let places = Places {
        packages: args.packages.as_deref(),
        inputs: args.inputs.as_deref(),
        only: &args.only,
    };
    let all = programs(&args.lists, places)?;
    // With those that are not measured now.
    let mut lines: Vec<Row> = Vec::new();
    for list in &args.lists {
        lines.extend(read(list)?);
    }
    let output = args.output.clone().unwrap_or_else(|| "-".into());
    // What cannot be written is told before anything runs.
    let mut destination = Some(Destination::open(&output)?);
    let mut measurements: Vec<Measurements> = all.iter().map(|_| Measurements::default()).collect();
    let mut failed = 0;
    for round in 1..=args.rounds {
        for (program, measurements) in all.iter().zip(&mut measurements) {
            match super::watched(&experiment(program, args), false) {
                Ok(measured) => {
                    measurements.add(&measured);
                    crate::say!(
                        "mcad: {}: {:.1} M cycles, quartiles {:.1} % of that apart (round {round} of {})",
                        escape(&program.name()),
                        measured.cycles.quartiles.median / 1e6,
                        100.0 * measured.cycles.spread,
                        args.rounds
                    );
                }
                Err(error) => {
                    failed += 1;
                    let name = program.name();
                    crate::say!("mcad: {}: {}", escape(&name), escape(&format!("{error:#}")));
                }
            }
        }
        if args.output.is_some() || round == args.rounds {
            let place = match destination.take() {
                Some(place) => place,
                None => Destination::open(&output)?,
            };
            let mut measured = measurements.iter_mut();
            for line in lines.iter_mut().filter(|line| places.want(line)) {
                if let Some(measured) = measured.next() {
                    *line = measured.put(line);
                }
            }
            place.write(|out| write(&lines, out))?;
        }
    }
    match failed {
        0 => Ok(ExitCode::SUCCESS),
        _ => {
            crate::say!(
                "mcad: {failed} measurements failed: those programs have the figures of their other rounds, if any"
            );
            Ok(exit_code(NEGATIVE))
        }
    }
}

fn experiment(program: &Listed, args: &Args) -> Experiment {
    let environment = program.environment.iter();
    Experiment {
        environment: environment.map(|(n, v)| (n.into(), v.into())).collect(),
        directory: Some(program.directory.clone()),
        runs: Runs::Exactly(args.runs),
        input: match &program.stdin {
            Some(file) => Input::File(file.clone()),
            None => Input::Nothing,
        },
        cpu: args.pin.map(Cpu),
        ..Experiment::new(program.command.clone())
    }
}

fn write(lines: &[Row], out: &mut dyn std::io::Write) -> anyhow::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    for line in lines {
        csv.serialize(line).context("cannot write the list")?;
    }
    Ok(csv.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_of_all_rounds_runs() {
        let row = Row {
            package: "p".into(),
            user_cycles: 5.0,
            last_level_kib: Some(1024),
            ..Row::default()
        };
        let mut none = Measurements::default();
        assert_eq!(none.put(&row), row);
        let mut some = Measurements {
            cycles: vec![104.0, 100.0, 102.0, 101.0, 103.0],
            last_level: Vec::new(),
            clock: vec![3000.4; 5],
        };
        let label = some.put(&row);
        assert_eq!((label.user_cycles, label.runs), (102.0, Some(5)));
        assert_eq!(label.min_cycles, Some(100.0));
        assert_eq!((label.core_mhz, label.last_level_kib), (Some(3000), None));
        assert!(
            label
                .interquartile_over_median
                .is_some_and(|s| s > 0.0 && s < 0.05)
        );
    }
}
