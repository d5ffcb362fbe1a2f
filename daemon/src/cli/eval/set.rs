//! Which blocks an evaluation is over, and where their predictions come from.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::bail;
use clap::ValueEnum;
use mcad_core::block::{Block, Mode, Options, Simulator};
use mcad_isa::build::Builder;
use mcad_isa::machine::CpuModel;
use mcad_isa::x86::counted::counted;
use mcad_proto::event::Arch;

use crate::cli::block::{NotionArgs, hex};
use crate::cli::{input, model};
use crate::eval::select::{Half, select};
use crate::eval::table::{self, Row};
use crate::eval::{Pair, join};

/// The labels, and predictions for them.
#[derive(Debug, clap::Args)]
pub struct SetArgs {
    /// Predictions and labels, or labels only with --predict: files of hex,cycles lines, plain or
    /// in xz format; - is stdin
    #[arg(value_name = "FILE", required = true, num_args = 1..)]
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
    /// Threads for --predict [default: all cores]
    #[arg(long, value_name = "N", value_parser = crate::cli::analysis::threads)]
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

impl HoldOut {
    fn half(self) -> Half {
        match self {
            Self::All => Half::All,
            Self::Even => Half::Even,
            Self::Odd => Half::Odd,
        }
    }
}

/// Labels with their predictions.
#[derive(Debug)]
pub struct Set {
    /// In the order of the labels.
    pub pairs: Vec<Pair>,
    /// Predictions that have no label though all labels were wanted.
    pub unused: usize,
    /// The CPU's name, or the file's that the predictions are from.
    pub title: String,
}

impl SetArgs {
    /// The files.
    pub(super) fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// The CPU to predict for.
    pub(super) fn cpu(&self) -> Option<&str> {
        self.predict.as_deref()
    }

    /// Reads, and predicts where that is asked for, `as_measured` or the blocks as they are.
    ///
    /// # Errors
    /// When a file cannot be read, the CPU is unknown, or no block is left.
    pub fn gather(&self, as_measured: bool) -> anyhow::Result<Set> {
        let (labels, predictions, title) = match (self.files.as_slice(), &self.predict) {
            ([predictions, labels], None) => {
                let labels = self.labels(labels)?;
                let name = predictions.display().to_string();
                let rows = table::read(input::open(predictions)?, &name)?;
                (labels, rows, name)
            }
            (_, None) => bail!("give PREDICTIONS and LABELS, or --predict CPU and LABELS"),
            _ => {
                let (model, labels) = self.model_and_labels()?;
                let predictions = self.predict(&model, &labels, as_measured);
                (labels, predictions, model.full_name.clone())
            }
        };
        let (pairs, unused) = join(labels, predictions);
        // With a selection, predictions outside of it are no oddity.
        let all = self.hold_out == HoldOut::All && self.sample.is_none();
        Ok(Set {
            pairs,
            unused: if all { unused } else { 0 },
            title,
        })
    }

    /// The model and the labels of --predict.
    pub(super) fn model_and_labels(&self) -> anyhow::Result<(Arc<CpuModel>, Vec<Row>)> {
        let [labels] = self.files.as_slice() else {
            bail!("--predict takes one file: the labels");
        };
        let labels = self.labels(labels)?;
        Ok((
            model::model(self.predict.as_deref().unwrap_or_default())?,
            labels,
        ))
    }

    fn labels(&self, path: &Path) -> anyhow::Result<Vec<Row>> {
        let mut labels = table::read_labels(input::open(path)?, &path.display().to_string())?;
        let half = self.hold_out.half();
        select(&mut labels, |row| &row.hex, half, self.sample, self.seed);
        if labels.is_empty() {
            bail!("no block is left to evaluate");
        }
        Ok(labels)
    }

    /// Predicts all labelled blocks, in their order; `as_measured`: in a loop those without a branch count themselves, as
    /// `mcad profile block` measures them.
    pub(super) fn predict(
        &self,
        model: &Arc<CpuModel>,
        labels: &[Row],
        as_measured: bool,
    ) -> Vec<Row> {
        let options = self.notion.options();
        let counts = as_measured && options.mode == Mode::Loop && model.arch() == Arch::X86_64;
        let jobs = self
            .jobs
            .unwrap_or_else(|| std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN));
        let part = labels.len().div_ceil(jobs.get()).max(1);
        std::thread::scope(|scope| {
            let parts: Vec<_> = labels
                .chunks(part)
                .map(|rows| scope.spawn(move || predict_part(model, options, counts, rows)))
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
}

fn predict_part(model: &Arc<CpuModel>, options: Options, counts: bool, rows: &[Row]) -> Vec<Row> {
    let (mut simulator, mut builder) = (Simulator::new(model), Builder::new(model));
    let mut one = |row: &Row| {
        let bytes = hex::decode(row.hex.as_bytes()).map_err(|e| e.to_string())?;
        let bytes = (counts.then(|| counted(&bytes)).flatten()).unwrap_or(bytes);
        let block = Block::made(&mut builder, &bytes).map_err(|e| e.to_string())?;
        Ok(simulator.predict(&block, options).cycles)
    };
    rows.iter()
        .map(|row| Row {
            hex: row.hex.clone(),
            cycles: one(row),
        })
        .collect()
}
