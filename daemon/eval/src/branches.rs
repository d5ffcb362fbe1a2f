//! `mcad-eval branches`: directions of recorded programs' branches, predicted by the core's predictor and
//! by a literal reference of the class that it claims to be of.
//!
//! Both see the same branches with the same outcomes, in program order; each thread has predictors of its
//! own. What is compared is directions: whether a target was known is not asked.

mod reference;
mod stream;

use std::cell::RefCell;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use mcad_core::pipeline::frontend::predict::{Executed, Kind, Predictor, Steer};
use mcad_daemon::cli::json::JsonArgs;
use mcad_daemon::cli::output;
use mcad_isa::machine;
use mcad_isa::machine::params::branch::Branch;
use mcad_viewers::Style;
use mcad_viewers::escape::escape;
use mcad_viewers::layout::{Align, Table};
use serde::Serialize;

use reference::Reference;

/// The CPU whose file has tables of the 64 KB class.
const CLASS: &str = "zen3";
/// How far the core's predictor may be from the reference, relative.
const AGREEMENT: f64 = 0.05;

/// Options of `mcad-eval branches`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Recorded traces
    #[arg(value_name = "TRACE", required = true)]
    traces: Vec<PathBuf>,
    /// Show what these CPUs' own tables make of them, too
    #[arg(long, value_name = "CPU", value_delimiter = ',')]
    predict: Vec<String>,
    #[command(flatten)]
    json: JsonArgs,
}

/// Directions of a program's conditional branches.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Directions {
    /// The trace.
    pub trace: String,
    /// Instructions executed.
    pub instructions: u64,
    /// Conditional branches executed.
    pub conditional: u64,
    /// Predicted wrongly by the literal reference.
    pub reference: Wrong,
    /// By the core's predictor with tables of the same class.
    pub here: Wrong,
    /// How far that is from the reference, as a fraction of it.
    pub difference: f64,
    /// By CPUs' own tables.
    pub cpus: Vec<OfCpu>,
}

/// Wrong predictions.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Wrong {
    /// How many.
    pub wrong: u64,
    /// Of 1 000 instructions.
    pub per_1000_instructions: f64,
}

/// Wrong predictions of a CPU's tables.
#[derive(Clone, Debug, Serialize)]
pub struct OfCpu {
    /// Its name.
    pub cpu: String,
    /// What it predicted wrongly.
    #[serde(flatten)]
    pub wrong: Wrong,
}

/// Everything, with the verdict.
#[derive(Debug, Serialize)]
struct Evaluation {
    /// How far the core's predictor may be from the reference, as a fraction.
    limit: f64,
    /// All programs are within that.
    kept: bool,
    programs: Vec<Directions>,
}

/// The predictors of one thread, and what all threads' predicted wrongly.
struct Predictors<'a> {
    reference: Reference,
    /// The core's: of the class, then the CPUs'.
    core: Vec<Predictor>,
    sums: &'a RefCell<Sums>,
}

struct Sums {
    conditional: u64,
    reference: u64,
    core: Vec<u64>,
}

impl Sums {
    fn new(predictors: usize) -> Self {
        Self {
            conditional: 0,
            reference: 0,
            core: vec![0; predictors],
        }
    }
}

impl<'a> Predictors<'a> {
    fn new(parameters: &[Branch], sums: &'a RefCell<Sums>) -> Self {
        Self {
            reference: Reference::new(),
            core: parameters.iter().map(Predictor::new).collect(),
            sums,
        }
    }

    fn branch(&mut self, b: &Executed) {
        let sums = &mut *self.sums.borrow_mut();
        sums.conditional += u64::from(b.kind == Kind::Conditional);
        sums.reference += u64::from(self.reference.branch(b));
        for (predictor, sum) in self.core.iter_mut().zip(&mut sums.core) {
            *sum += u64::from(predictor.branch(b) == Steer::WrongDirection);
        }
    }
}

impl Directions {
    /// What predictors with these parameters, the first of the reference's class, make of a program.
    fn of(trace: &Path, names: &[String], parameters: &[Branch]) -> anyhow::Result<Self> {
        let sums = RefCell::new(Sums::new(parameters.len()));
        let instructions = stream::walk(trace, || {
            let mut predictors = Predictors::new(parameters, &sums);
            move |b: &Executed| predictors.branch(b)
        })?;
        let sums = sums.into_inner();
        let wrong = |wrong: u64| Wrong {
            wrong,
            per_1000_instructions: 1000.0 * wrong as f64 / instructions.max(1) as f64,
        };
        let mut core = sums.core.into_iter();
        let here = core.next().unwrap_or(0);
        let cpus = names.iter().cloned().zip(core);
        Ok(Self {
            trace: trace.display().to_string(),
            instructions,
            conditional: sums.conditional,
            reference: wrong(sums.reference),
            here: wrong(here),
            difference: difference(here, sums.reference),
            cpus: cpus
                .map(|(cpu, count)| OfCpu {
                    cpu,
                    wrong: wrong(count),
                })
                .collect(),
        })
    }
}

/// How far `ours` is from `theirs`, relative to that.
fn difference(ours: u64, theirs: u64) -> f64 {
    ours as f64 / theirs.max(1) as f64 - 1.0
}

/// A CPU's branch prediction.
fn parameters(cpu: &str) -> anyhow::Result<Branch> {
    let model = machine::cpu(cpu)?;
    let branch = model.core.branch.clone();
    branch.ok_or_else(|| anyhow!("{cpu} has no model of branch prediction; {CLASS} has one"))
}

/// The parameters of the reference's class.
fn of_the_class() -> anyhow::Result<Branch> {
    Ok(Branch {
        // Only directions are compared: a branch that no buffer has costs none.
        unknown_not_taken: false,
        ..parameters(CLASS)?
    })
}

/// Evaluates; fails when the core's predictor is not of the class that it claims to be of.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let json = args.json.open([])?;
    let mut all = vec![of_the_class()?];
    for cpu in &args.predict {
        all.push(parameters(cpu)?);
    }
    let programs = args.traces.iter();
    let programs = programs.map(|trace| Directions::of(trace, &args.predict, &all));
    let programs = programs.collect::<anyhow::Result<Vec<_>>>()?;
    let evaluation = Evaluation {
        limit: AGREEMENT,
        kept: programs.iter().all(|p| p.difference.abs() <= AGREEMENT),
        programs,
    };
    if !json.is_stdout() {
        let mut stdout = BufWriter::new(io::stdout().lock());
        write(
            &evaluation,
            &args.predict,
            output::style_of(&io::stdout()),
            &mut stdout,
        )
        .and_then(|()| stdout.flush())
        .context("cannot write to stdout")?;
    }
    let kept = evaluation.kept;
    json.write(&evaluation)?;
    Ok(if kept {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn write(e: &Evaluation, cpus: &[String], style: Style, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "Wrong directions of 1 000 instructions, after TAGE-SC-L of 64 KB"
    )?;
    let mut columns = vec![
        ("trace".to_owned(), Align::Left),
        ("instructions".to_owned(), Align::Right),
        ("conditional".to_owned(), Align::Right),
        ("literal".to_owned(), Align::Right),
        ("here".to_owned(), Align::Right),
        ("off".to_owned(), Align::Right),
    ];
    columns.extend(
        cpus.iter()
            .map(|cpu| (escape(cpu).into_owned(), Align::Right)),
    );
    let mut table = Table::new(columns);
    for p in &e.programs {
        let rate = |wrong: &Wrong| format!("{:.3}", wrong.per_1000_instructions);
        let file = Path::new(&p.trace).file_name().unwrap_or_default();
        let mut row = vec![
            escape(&file.to_string_lossy()).into_owned(),
            p.instructions.to_string(),
            p.conditional.to_string(),
            rate(&p.reference),
            rate(&p.here),
            format!("{:+.1} %", 100.0 * p.difference),
        ];
        row.extend(p.cpus.iter().map(|c| rate(&c.wrong)));
        table.row(row);
    }
    table.write(style, out)?;
    let verdict = if e.kept { "all are" } else { "NOT all are" };
    writeln!(
        out,
        "{verdict} within {:.0} % of the literal one",
        100.0 * e.limit
    )
}
