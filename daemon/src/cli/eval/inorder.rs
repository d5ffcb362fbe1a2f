//! `mcad eval --in-order`: the mechanistic model against the stepwise core over a grid of machines.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use mcad_model::chain::Chain;
use mcad_model::machine::Machine;
use mcad_model::rows::Rows;
use mcad_model::space::Space;
use mcad_model::step::{StaticCode, Stepper};
use mcad_model::{literal, paths};

use crate::cli::mechanistic::{Collected, MACHINE, Wanted, collect, columns};

/// Instructions of a trace that are stepped, from its beginning.
const INSTRUCTIONS: u64 = 2_000_000;

/// The grid: all widths, and what latencies and units do at each.
fn grid() -> anyhow::Result<Vec<Machine>> {
    let space = Space {
        width: vec![1, 2, 3, 4],
        load_latency: vec![2, 3],
        load_units: vec![1, 2],
        multiply_latency: vec![3, 6],
        multiply_pipelined: vec![true, false],
        divide_latency: vec![12, 34],
        ..Space::default()
    };
    let all = space.machines().map_err(anyhow::Error::msg)?;
    // Long divisions go with slow multipliers, short ones with fast ones: 64 machines, and 16 with
    // more multipliers.
    let mut grid: Vec<Machine> = all
        .into_iter()
        .filter(|m| (m.multiply.latency == 6) == (m.divide.latency == 34))
        .collect();
    let more = Space {
        width: vec![1, 2, 3, 4],
        multiply_units: vec![2, 3],
        fp_multiply_latency: vec![4, 8],
        ..Space::default()
    };
    grid.extend(more.machines().map_err(anyhow::Error::msg)?);
    Ok(grid)
}

/// Errors of one model, in percent.
#[derive(Default)]
struct Errors(Vec<f64>);

impl Errors {
    fn add(&mut self, predicted: f64, exact: f64) {
        self.0
            .push(100.0 * (predicted / exact.max(1.0) - 1.0).abs());
    }

    fn text(&mut self) -> String {
        self.0.sort_by(f64::total_cmp);
        let count = self.0.len().max(1);
        let mean = self.0.iter().sum::<f64>() / count as f64;
        let at = |share: f64| {
            let place = ((count as f64 * share) as usize).min(count - 1);
            self.0.get(place).copied().unwrap_or(0.0)
        };
        format!(
            "mean {mean:.2} %, 90th percentile {:.2} %, largest {:.2} %",
            at(0.9),
            at(1.0)
        )
    }
}

/// Compares, for each trace and machine: a line each on stdout, the summary on stderr.
pub(super) fn run(traces: &[PathBuf]) -> anyhow::Result<ExitCode> {
    let grid = grid()?;
    let mut out = csv::Writer::from_writer(BufWriter::new(io::stdout().lock()));
    let columns_of = ["instructions", "stepwise", "chain", "literal", "paths"];
    let header = ["file"].iter().chain(&MACHINE).chain(&columns_of);
    out.write_record(header)?;
    let [mut chains, mut literals, mut by_paths] = <[Errors; 3]>::default();
    for trace in traces {
        let Collected { profile, order } = collect(trace, Wanted::Order(INSTRUCTIONS))?;
        let rows = Rows::of(&profile);
        let chain = Chain::new(&rows);
        for machine in &grid {
            let exact = stepwise(machine, &profile.blocks, &order);
            let predictions = [
                chain.predict(machine).total(),
                literal::predict(machine, &rows).total(),
                paths::predict(machine, &profile),
            ];
            chains.add(predictions[0], exact);
            literals.add(predictions[1], exact);
            by_paths.add(predictions[2], exact);
            let figures = [profile.instructions as f64, exact]
                .into_iter()
                .chain(predictions);
            let record = [trace.display().to_string()]
                .into_iter()
                .chain(columns(machine));
            out.write_record(record.chain(figures.map(|f| format!("{f:.0}"))))?;
        }
        out.flush()?;
    }
    out.flush().context("cannot write to stdout")?;
    let mut err = io::stderr().lock();
    writeln!(err, "{} programs, {} machines", traces.len(), grid.len())?;
    writeln!(err, "chain:   {}", chains.text())?;
    writeln!(err, "literal: {}", literals.text())?;
    writeln!(err, "paths:   {}", by_paths.text())?;
    Ok(ExitCode::SUCCESS)
}

/// Cycles of the stepwise core.
fn stepwise(machine: &Machine, blocks: &[Vec<mcad_model::profile::Inst>], order: &[u32]) -> f64 {
    let code = StaticCode::new(machine, blocks);
    let mut stepper = Stepper::new(machine);
    for &block in order {
        stepper.execute(&code, block);
    }
    stepper.finish(&code) as f64
}
