//! `mcad eval --in-order`: the mechanistic model against the stepwise core over a grid of machines.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;

use anyhow::Context;
use mcad_model::chain::Chain;
use mcad_model::collect::Order;
use mcad_model::literal;
use mcad_model::machine::Machine;
use mcad_model::paths::Paths;
use mcad_model::predictors::Predictor;
use mcad_model::profile::Inst;
use mcad_model::rows::Rows;
use mcad_model::space::Space;
use mcad_model::step::{StaticCode, Stepper};

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

/// Machines with caches and predictors that can be wrong.
fn grid_with_misses() -> anyhow::Result<Vec<Machine>> {
    let space = Space {
        base: Machine {
            l1i_kib: Some(16),
            l2_kib: Some(256),
            ..Machine::default()
        },
        width: vec![1, 2, 4],
        depth: vec![5, 13],
        predictor: vec![Predictor::Bimodal512, Predictor::Gshare4k],
        taken_bubble: vec![1],
        l1d_kib: vec![4, 32],
        memory_latency: vec![40, 150],
        ..Space::default()
    };
    space.machines().map_err(anyhow::Error::msg)
}

/// Errors of one model, in percent.
#[derive(Default)]
struct Errors(Vec<f64>);

/// Errors of all models.
#[derive(Default)]
struct AllErrors {
    chain: Errors,
    literal: Errors,
    paths: Errors,
}

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

/// What stepping took, by processor time.
#[derive(Default)]
struct Stepping {
    instructions: u64,
    seconds: f64,
    /// Instructions a second on the slowest machine of a program.
    least: Option<f64>,
    /// Predictions by the chain, and their time.
    chains: u64,
    chain_seconds: f64,
}

impl Stepping {
    fn add(&mut self, instructions: u64, seconds: f64) {
        self.instructions += instructions;
        self.seconds += seconds;
        let speed = instructions as f64 / seconds.max(1e-9);
        self.least = Some(self.least.map_or(speed, |least| least.min(speed)));
    }

    fn text(&self) -> String {
        format!(
            "stepwise core: {:.1} million instructions a CPU second, {:.1} where it is slowest; chain: \
             {:.0} µs a machine",
            self.instructions as f64 / self.seconds.max(1e-9) / 1e6,
            self.least.unwrap_or(0.0) / 1e6,
            self.chain_seconds / self.chains.max(1) as f64 * 1e6,
        )
    }
}

/// Processor time of this process, in seconds.
pub(in crate::cli) fn cpu_time() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Compares, for each trace and machine: a line each on stdout, the summary on stderr.
pub(super) fn run(traces: &[PathBuf]) -> anyhow::Result<ExitCode> {
    let grids = [grid()?, grid_with_misses()?];
    let mut out = csv::Writer::from_writer(BufWriter::new(io::stdout().lock()));
    let columns_of = ["instructions", "stepwise", "chain", "literal", "paths"];
    let header = ["file"].iter().chain(&MACHINE).chain(&columns_of);
    out.write_record(header)?;
    let mut errors = <[AllErrors; 2]>::default();
    let mut stepping = Stepping::default();
    for trace in traces {
        let Collected { profile, order } = collect(trace, Wanted::Order(INSTRUCTIONS))?;
        let rows = Rows::of(&profile);
        let chain = Rc::new(Chain::new(&rows));
        let profile = Rc::new(profile);
        let mut by_paths = Paths::new(Rc::clone(&profile), Rc::clone(&chain));
        let all = (grids.iter().enumerate())
            .flat_map(|(which, grid)| grid.iter().map(move |machine| (which, machine)));
        for (which, machine) in all {
            let begun = cpu_time();
            let exact = stepwise(machine, &profile.blocks, &order);
            stepping.add(profile.instructions, cpu_time() - begun);
            let begun = cpu_time();
            let by_chain = chain.predict(machine).total();
            stepping.chain_seconds += cpu_time() - begun;
            stepping.chains += 1;
            let predictions = [
                by_chain,
                literal::predict(machine, &rows).total(),
                by_paths.predict(machine),
            ];
            if let Some(errors) = errors.get_mut(which) {
                errors.add(predictions, exact);
            }
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
    let what = ["", " with caches and predictors"];
    for ((grid, errors), what) in grids.iter().zip(&mut errors).zip(what) {
        writeln!(
            err,
            "{} programs, {} machines{what}",
            traces.len(),
            grid.len()
        )?;
        writeln!(err, "chain:   {}", errors.chain.text())?;
        writeln!(err, "literal: {}", errors.literal.text())?;
        writeln!(err, "paths:   {}", errors.paths.text())?;
    }
    writeln!(err, "{}", stepping.text())?;
    Ok(ExitCode::SUCCESS)
}

impl AllErrors {
    fn add(&mut self, [chain, literal, paths]: [f64; 3], exact: f64) {
        self.chain.add(chain, exact);
        self.literal.add(literal, exact);
        self.paths.add(paths, exact);
    }
}

/// Cycles of the stepwise core.
pub(in crate::cli) fn stepwise(machine: &Machine, blocks: &[Vec<Inst>], order: &Order) -> f64 {
    let code = StaticCode::new(machine, blocks);
    let mut stepper = Stepper::new(machine);
    stepper.run(&code, order);
    stepper.finish(&code) as f64
}
