//! `mcad eval`: how good predictions are against labels.

mod ablations;
mod topics;

use std::io::{self, BufWriter, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::ValueEnum;
use mcad_core::block::{Block, Options, Simulator};
use mcad_isa::machine::CpuModel;

use super::block::{NotionArgs, Syntax, hex};
use super::output::style_of;
use crate::eval::applications::Applications;
use crate::eval::select::{Half, select};
use crate::eval::table::{self, Row};
use crate::eval::{Wanted, evaluate, heatmap, join, text};

/// Forms listed with --instructions.
const FORMS: usize = 25;

/// Options of `mcad eval`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Predictions and labels, or labels only with --predict: files of hex,cycles lines, plain or
    /// in xz format; - is stdin
    #[arg(value_name = "FILE", required = true, num_args = 1..=2)]
    files: Vec<PathBuf>,
    /// Predict the blocks instead of reading predictions
    #[arg(long, value_name = "CPU")]
    predict: Option<String>,
    #[command(flatten)]
    notion: NotionArgs,
    /// Only N blocks, chosen by a hash of their bytes
    #[arg(long, value_name = "N")]
    sample: Option<usize>,
    /// Which N blocks
    #[arg(long, value_name = "S", default_value_t = 0, requires = "sample")]
    seed: u64,
    /// Only blocks whose hash is even or odd
    #[arg(long, value_enum, default_value_t = HoldOut::All)]
    hold_out: HoldOut,
    /// Figures by category: by rule, or by port use as BHive has them
    #[arg(long, value_enum, value_name = "KIND", num_args = 0..=1, require_equals = true,
          default_missing_value = "rules")]
    categories: Option<Categories>,
    /// Figures by application, and weighted: a file of application,hex,weight lines
    #[arg(long, value_name = "FILE")]
    applications: Option<PathBuf>,
    /// Instructions that carry the error
    #[arg(long)]
    instructions: bool,
    /// Show the N worst blocks
    #[arg(long, value_name = "N", default_value_t = 0)]
    worst: usize,
    /// Assembly syntax of the worst blocks
    #[arg(long, value_enum, default_value_t = Syntax::Intel)]
    syntax: Syntax,
    /// Draw predicted over measured cycles
    #[arg(long, value_name = "FILE.svg")]
    heatmap: Option<PathBuf>,
    /// Leave out one part of the model after the other
    #[arg(long, requires = "predict", conflicts_with_all = ["categories", "applications", "instructions", "worst", "heatmap"])]
    ablations: bool,
    /// Write JSON to stdout instead of tables
    #[arg(long)]
    json: bool,
    /// Threads for --predict [default: all cores]
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum HoldOut {
    /// All blocks
    All,
    /// Those with an even hash
    Even,
    /// Those with an odd hash
    Odd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Categories {
    /// By what most instructions do
    Rules,
    /// By latent Dirichlet allocation over the ports of their µops
    Lda,
}

/// Evaluates.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (predictions, labels) = match (args.files.as_slice(), &args.predict) {
        ([predictions, labels], None) => (Some(predictions), labels),
        ([labels], Some(_)) => (None, labels),
        ([_], None) => bail!("give PREDICTIONS and LABELS, or --predict CPU and LABELS"),
        _ => bail!("--predict takes one file: the labels"),
    };
    let half = match args.hold_out {
        HoldOut::All => Half::All,
        HoldOut::Even => Half::Even,
        HoldOut::Odd => Half::Odd,
    };
    let mut labels =
        table::read_labels(super::input::open(labels)?, &labels.display().to_string())?;
    select(&mut labels, |row| &row.hex, half, args.sample, args.seed);
    if labels.is_empty() {
        bail!("no block is left to evaluate");
    }
    if args.ablations {
        return leave_out(args, &labels);
    }
    let (predictions, title) = match (predictions, &args.predict) {
        (Some(path), _) => {
            let name = path.display().to_string();
            (table::read(super::input::open(path)?, &name)?, name)
        }
        (None, cpu) => {
            let model = super::model::model(cpu.as_deref().unwrap_or_default())?;
            let title = model.full_name.clone();
            (predict(&model, args, &labels), title)
        }
    };
    let (pairs, unused) = join(labels, predictions);
    // With a selection, predictions outside of it are no oddity.
    let unused = if half == Half::All && args.sample.is_none() {
        unused
    } else {
        0
    };
    let applications = args.applications.as_deref().map(read_applications);
    let applications = applications.transpose()?;
    let topics = match args.categories {
        Some(Categories::Lda) => Some(topics::find(&pairs, applications.as_ref())?),
        _ => None,
    };
    let wanted = Wanted {
        worst: args.worst,
        forms: FORMS,
        categories: topics.as_ref().map(|t| (&*t.names, &*t.of)),
        applications: applications.as_ref(),
    };
    let mut evaluation = evaluate(&pairs, unused, wanted, &args.syntax.printer());
    evaluation.topics = topics.map_or(Vec::new(), |t| t.topics);
    if let Some(path) = &args.heatmap {
        write_file(path, &heatmap::svg(&pairs, &title))?;
    }
    let mut stdout = BufWriter::new(io::stdout().lock());
    if args.json {
        serde_json::to_writer_pretty(&mut stdout, &evaluation)
            .context("cannot write the evaluation to stdout")?;
        writeln!(stdout)?;
    } else {
        let parts = text::Parts {
            categories: args.categories.is_some(),
            instructions: args.instructions,
        };
        text::write(&evaluation, parts, style_of(&io::stdout()), &mut stdout)?;
    }
    stdout.flush().context("cannot write to stdout")?;
    Ok(ExitCode::SUCCESS)
}

/// Evaluates the ablations.
fn leave_out(args: &Args, labels: &[Row]) -> anyhow::Result<ExitCode> {
    let model = super::model::model(args.predict.as_deref().unwrap_or_default())?;
    let all = ablations::evaluate(&model, labels, &|model| predict(model, args, labels));
    let mut stdout = BufWriter::new(io::stdout().lock());
    if args.json {
        serde_json::to_writer_pretty(&mut stdout, &all)?;
        writeln!(stdout)?;
    } else {
        ablations::write(&all, &mut stdout)?;
    }
    stdout.flush().context("cannot write to stdout")?;
    Ok(ExitCode::SUCCESS)
}

fn read_applications(path: &Path) -> anyhow::Result<Applications> {
    let name = path.display().to_string();
    let applications = Applications::read(super::input::open(path)?, &name)?;
    if applications.empty > 0 {
        eprintln!(
            "mcad: {name}: {} lines have no bytes; their weight stays in the sums",
            applications.empty
        );
    }
    Ok(applications)
}

fn write_file(path: &Path, content: &str) -> anyhow::Result<()> {
    std::fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))
}

/// Predicts all labelled blocks, in their order.
fn predict(model: &Arc<CpuModel>, args: &Args, labels: &[Row]) -> Vec<Row> {
    let options = args.notion.options();
    let jobs = args
        .jobs
        .unwrap_or_else(|| std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN));
    let part = labels.len().div_ceil(jobs.get()).max(1);
    std::thread::scope(|scope| {
        let parts: Vec<_> = labels
            .chunks(part)
            .map(|rows| scope.spawn(move || predict_part(model, options, rows)))
            .collect();
        parts
            .into_iter()
            .zip(labels.chunks(part))
            .flat_map(|(thread, rows)| {
                thread.join().unwrap_or_else(|_| {
                    let failed = |row: &Row| Row {
                        hex: row.hex.clone(),
                        cycles: Err("internal error in this part".to_owned()),
                    };
                    rows.iter().map(failed).collect()
                })
            })
            .collect()
    })
}

fn predict_part(model: &Arc<CpuModel>, options: Options, rows: &[Row]) -> Vec<Row> {
    let mut simulator = Simulator::new(model);
    let mut one = |row: &Row| {
        let bytes = hex::decode(row.hex.as_bytes()).map_err(|e| e.to_string())?;
        let block = Block::new(model, &bytes).map_err(|e| e.to_string())?;
        Ok(simulator.predict(&block, options).cycles)
    };
    rows.iter()
        .map(|row| Row {
            hex: row.hex.clone(),
            cycles: one(row),
        })
        .collect()
}
