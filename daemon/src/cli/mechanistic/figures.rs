//! `mcad model figure`: the published model's figures for a trace, each point confirmed by the
//! stepwise core.
//!
//! Source: Breughe, Eyerman, Eeckhout (ACM TACO 2014): CPI stacks over widths, the fewest units for
//! 98 % of the best speed, a second multiplier, cache sizes; beside them predictors and the depth
//! of the front end.

use std::io::{self, BufWriter};
use std::path::Path;

use anyhow::{Context, bail};
use mcad_model::chain::Chain;
use mcad_model::machine::{MAX_WIDTH, Machine, Units};
use mcad_model::predictors::Predictor;
use mcad_model::rows::Rows;
use mcad_model::space::Space;
use mcad_model::stack::Stack;

use super::{Collected, MACHINE, Wanted, collect, columns, fewest_units, unit_space};
use crate::cli::eval::stepwise;

/// A figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Figure {
    /// Stacks over widths
    Widths,
    /// The best speed with many units, and the fewest units that reach 98 % of it
    Units,
    /// One to three multipliers, pipelined and not
    Multiplier,
    /// Data caches from 1 KiB to 1 MiB
    Caches,
    /// Branch predictors
    Predictors,
    /// Depths of the front end
    Depth,
}

/// Share of the best speed that the fewest units are to reach, in percent.
const REACH: f64 = 98.0;

/// A core with caches and a predictor, whose misses show.
fn realistic() -> Machine {
    Machine {
        predictor: Predictor::Gshare4k,
        taken_bubble: Some(1),
        l1i_kib: Some(32),
        l1d_kib: Some(32),
        l2_kib: Some(256),
        ..Machine::default()
    }
}

/// The machines of a figure.
fn machines(figure: Figure, chain: &Chain) -> anyhow::Result<Vec<Machine>> {
    let space = match figure {
        Figure::Units => {
            let machines = unit_space(MAX_WIDTH as u8)?;
            let cycles = |m: &Machine| chain.predict(m).total();
            let Some(found) = fewest_units(&machines, cycles, REACH) else {
                bail!("there is no machine");
            };
            return Ok(found.map(|f| f.0.clone()).into());
        }
        Figure::Widths => Space {
            base: realistic(),
            width: (1..=MAX_WIDTH as u8).collect(),
            ..Space::default()
        },
        // Everything else is plenty, so that what the multiplier does shows.
        Figure::Multiplier => Space {
            base: Machine {
                width: MAX_WIDTH as u8,
                multiply: Units {
                    latency: 4,
                    count: 1,
                    pipelined: false,
                    write_back: 0,
                },
                ..Machine::default()
            },
            multiply_pipelined: vec![false, true],
            multiply_units: vec![1, 2, 3],
            ..Space::default()
        },
        Figure::Caches => Space {
            base: realistic(),
            l1d_kib: (0..=10).map(|n| 1 << n).collect(),
            l2_kib: vec![1024],
            ..Space::default()
        },
        Figure::Predictors => Space {
            base: realistic(),
            predictor: Predictor::ALL.into(),
            ..Space::default()
        },
        Figure::Depth => Space {
            base: realistic(),
            depth: vec![3, 5, 8, 13, 20],
            ..Space::default()
        },
    };
    space.machines().map_err(anyhow::Error::msg)
}

/// Prints a figure as CSV: the machine, cycles by the model and by the stepwise core, the model's
/// error in percent, and its stack.
pub(super) fn run(figure: Figure, trace: &Path, instructions: u64) -> anyhow::Result<()> {
    let Collected { profile, order } = collect(trace, Wanted::Order(instructions))?;
    let chain = Chain::new(&Rows::of(&profile));
    let mut out = csv::Writer::from_writer(BufWriter::new(io::stdout().lock()));
    let parts = Stack::default();
    let figures = ["instructions", "cycles", "stepwise", "error_percent"];
    let header = MACHINE.iter().chain(&figures).map(|s| (*s).to_owned());
    out.write_record(header.chain(parts.parts().map(|p| p.0)))?;
    for machine in &machines(figure, &chain)? {
        let stack = chain.predict(machine).whole();
        let exact = stepwise(machine, &profile.blocks, &order);
        let error = 100.0 * (stack.total() / exact.max(1.0) - 1.0);
        let figures = [
            profile.instructions.to_string(),
            format!("{:.0}", stack.total()),
            format!("{exact:.0}"),
            format!("{error:.2}"),
        ];
        let parts = stack.parts().map(|p| format!("{:.0}", p.1));
        let record = columns(machine).into_iter().chain(figures);
        out.write_record(record.chain(parts))?;
    }
    out.flush().context("cannot write to stdout")
}
