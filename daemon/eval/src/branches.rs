//! `mcad-eval branches`: directions of recorded programs' branches, predicted by the core's predictor and
//! by a literal reference of the class that it claims to be of.
//!
//! Both see the same branches with the same outcomes, in program order; each thread has predictors of its
//! own. What is compared is directions: whether a target was known is not asked.

mod reference;
mod stream;
#[cfg(test)]
mod tests;

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
const CLASS: &str = "zen2";
/// How far the core's predictor may be from the reference, relative.
const AGREEMENT: f64 = 0.05;
/// References that differ in what is left to chance; what they predict wrongly is taken at its mean.
const REFERENCES: u64 = 4;

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
    /// Predicted wrongly by the literal references, rounded to whole ones.
    pub reference: Wrong,
    /// Least and most that one of them did.
    pub of_references: [u64; 2],
    /// By the core's predictor with tables of the same class.
    pub here: Wrong,
    /// How far that is from the references' mean, as a fraction of it.
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
    /// All programs are within that, or between what the references give.
    kept: bool,
    programs: Vec<Directions>,
}

/// The predictors of one thread, and what all threads' predicted wrongly.
struct Predictors<'a> {
    references: Vec<Reference>,
    /// The core's: of the class, then the CPUs'.
    core: Vec<Predictor>,
    sums: &'a RefCell<Sums>,
}

struct Sums {
    conditional: u64,
    references: Vec<u64>,
    core: Vec<u64>,
}

impl Sums {
    fn new(predictors: usize) -> Self {
        Self {
            conditional: 0,
            references: vec![0; REFERENCES as usize],
            core: vec![0; predictors],
        }
    }
}

impl<'a> Predictors<'a> {
    fn new(parameters: &[Branch], sums: &'a RefCell<Sums>) -> Self {
        Self {
            references: (0..REFERENCES).map(Reference::new).collect(),
            core: parameters.iter().map(Predictor::new).collect(),
            sums,
        }
    }

    fn branch(&mut self, b: &Executed) {
        let sums = &mut *self.sums.borrow_mut();
        sums.conditional += u64::from(b.kind == Kind::Conditional);
        for (reference, sum) in self.references.iter_mut().zip(&mut sums.references) {
            *sum += u64::from(reference.branch(b));
        }
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
        let mean = sums.references.iter().sum::<u64>() as f64 / REFERENCES as f64;
        let ends = [sums.references.iter().min(), sums.references.iter().max()];
        let mut core = sums.core.into_iter();
        let here = core.next().unwrap_or(0);
        let cpus = names.iter().cloned().zip(core);
        Ok(Self {
            trace: trace.display().to_string(),
            instructions,
            conditional: sums.conditional,
            reference: wrong(mean.round() as u64),
            of_references: ends.map(|end| end.copied().unwrap_or(0)),
            here: wrong(here),
            difference: here as f64 / mean.max(1.0) - 1.0,
            cpus: cpus
                .map(|(cpu, count)| OfCpu {
                    cpu,
                    wrong: wrong(count),
                })
                .collect(),
        })
    }

    /// It is predicted as the reference does: within the limit of the mean, or between the references.
    fn kept(&self) -> bool {
        let [least, most] = self.of_references;
        self.difference.abs() <= AGREEMENT || (least..=most).contains(&self.here.wrong)
    }

    /// Half of the distance between the references, as a fraction.
    fn spread(&self) -> f64 {
        let [least, most] = self.of_references;
        (most - least) as f64 / 2.0 / self.reference.wrong.max(1) as f64
    }
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
    let programs = std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for trace in &args.traces {
            let all = &all;
            threads.push(scope.spawn(move || Directions::of(trace, &args.predict, all)));
        }
        let failed = |_| Err(anyhow!("internal error while a trace was walked"));
        let done = threads.into_iter();
        let done = done.map(|thread| thread.join().unwrap_or_else(failed));
        done.collect::<anyhow::Result<Vec<_>>>()
    })?;
    let evaluation = Evaluation {
        limit: AGREEMENT,
        kept: programs.iter().all(Directions::kept),
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
        ("±".to_owned(), Align::Right),
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
            format!("{:.1} %", 100.0 * p.spread()),
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
        "{verdict} within {:.0} % of the literal one, the mean of {REFERENCES}, or between these",
        100.0 * e.limit
    )
}
