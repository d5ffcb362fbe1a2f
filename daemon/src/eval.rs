//! How good predictions are: error measures of predicted against measured cycles.
//!
//! A block that was not predicted counts as 100 % error, as zero cycles in the rank correlation,
//! and never as within a bound. [`table`] reads the files, [`stats`] has the measures, [`class`]
//! the categories by rule, [`forms`] the instructions that carry the error, [`text`] the tables.

pub mod class;
pub mod forms;
pub mod lines;
pub mod programs;
pub mod rtl;
pub mod select;
pub mod stats;
pub mod table;
pub mod text;

use iced_x86::{Decoder, DecoderOptions, Instruction};
use serde::Serialize;

pub use stats::Measures;
use table::Row;

/// A label with its prediction.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// The block's bytes in hexadecimal.
    pub hex: String,
    /// Measured cycles per iteration.
    pub label: f64,
    /// Predicted cycles per iteration; `None` when there is no prediction.
    pub prediction: Option<f64>,
    /// Why there is none.
    pub reason: Option<String>,
}

impl Pair {
    /// Relative error against the label; 1 without a prediction.
    #[must_use]
    pub fn error(&self) -> f64 {
        match self.prediction {
            Some(p) => (p - self.label).abs() / self.label,
            None => 1.0,
        }
    }

    /// Whether the prediction is there and off by at most a share of the label, or by
    /// [`stats::ROUNDING`].
    #[must_use]
    pub fn is_within(&self, bound: f64) -> bool {
        let rounding = |c: f64| (c - self.label).abs() <= stats::ROUNDING + 1e-9;
        self.prediction
            .is_some_and(|c| self.error() <= bound || rounding(c))
    }

    /// The block's bytes as far as its digits are pairs.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        hex::decode(&self.hex).unwrap_or_default()
    }

    /// The block's instructions as far as they decode.
    #[must_use]
    pub fn instructions(&self) -> Vec<Instruction> {
        Decoder::with_ip(64, &self.bytes(), 0, DecoderOptions::NONE)
            .into_iter()
            .take_while(|i| !i.is_invalid())
            .collect()
    }
}

/// Everything about a set of predictions.
#[derive(Clone, Debug, Serialize)]
pub struct Evaluation {
    /// All blocks.
    pub all: Measures,
    /// Predictions for blocks that have no label.
    pub without_label: usize,
    /// Reasons of the blocks without a prediction, most frequent first.
    pub reasons: Vec<(String, usize)>,
    /// Blocks by category.
    pub categories: Vec<Group>,
    /// Instruction forms by the error that they carry.
    pub forms: Vec<forms::FormError>,
    /// Blocks with the largest errors.
    pub worst: Vec<Worst>,
}

/// A part of the blocks.
#[derive(Clone, Debug, Serialize)]
pub struct Group {
    /// Name of the category.
    pub name: String,
    /// Its errors.
    #[serde(flatten)]
    pub measures: Measures,
}

/// What to evaluate beside the figures over all blocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted {
    /// How many of the blocks with the largest errors.
    pub worst: usize,
    /// How many of the forms that carry the error.
    pub forms: usize,
}

/// A block with a large error.
#[derive(Clone, Debug, Serialize)]
pub struct Worst {
    /// Bytes in hexadecimal.
    pub hex: String,
    /// Measured cycles.
    pub label: f64,
    /// Predicted cycles.
    pub prediction: Option<f64>,
    /// Relative error.
    pub error: f64,
    /// Why there is no prediction.
    pub reason: Option<String>,
    /// Instructions.
    pub disassembly: Vec<String>,
}

/// Joins labels with predictions; returns how many predictions have no label, too.
#[must_use]
pub fn join(labels: Vec<Row>, predictions: Vec<Row>) -> (Vec<Pair>, usize) {
    let mut by_hex: rustc_hash::FxHashMap<String, (Row, bool)> = predictions
        .into_iter()
        .map(|row| (row.hex.clone(), (row, false)))
        .collect();
    let pairs = labels
        .into_iter()
        .filter_map(|label| {
            let measured = label.cycles.ok()?;
            let (prediction, reason) = match by_hex.get_mut(&label.hex) {
                Some((row, used)) => {
                    *used = true;
                    match &row.cycles {
                        Ok(cycles) => (Some(*cycles), None),
                        Err(reason) => (None, Some(reason.clone())),
                    }
                }
                None => (None, Some("no prediction".to_owned())),
            };
            Some(Pair {
                hex: label.hex,
                label: measured,
                prediction,
                reason,
            })
        })
        .collect();
    let unused = by_hex.values().filter(|(_, used)| !used).count();
    (pairs, unused)
}

/// Evaluates pairs.
#[must_use]
pub fn evaluate(
    pairs: &[Pair],
    without_label: usize,
    wanted: Wanted,
    disassemble: &dyn Fn(&Instruction) -> String,
) -> Evaluation {
    let mut reasons: std::collections::BTreeMap<&str, usize> = std::collections::BTreeMap::new();
    for reason in pairs.iter().filter_map(|p| p.reason.as_deref()) {
        *reasons.entry(reason).or_default() += 1;
    }
    let mut reasons: Vec<(String, usize)> = reasons
        .into_iter()
        .map(|(reason, n)| (reason.to_owned(), n))
        .collect();
    reasons.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    reasons.truncate(20);
    let mut order: Vec<&Pair> = pairs.iter().collect();
    order.sort_by(|a, b| {
        b.error()
            .total_cmp(&a.error())
            .then_with(|| a.hex.cmp(&b.hex))
    });
    Evaluation {
        all: Measures::of(pairs.iter()),
        without_label,
        reasons,
        categories: categories(pairs),
        forms: forms::carriers(pairs, wanted.forms),
        worst: order
            .into_iter()
            .take(wanted.worst)
            .map(|p| Worst {
                hex: p.hex.clone(),
                label: p.label,
                prediction: p.prediction,
                error: p.error(),
                reason: p.reason.clone(),
                disassembly: p.instructions().iter().map(disassemble).collect(),
            })
            .collect(),
    }
}

/// The measures of each category by rule that has blocks.
fn categories(pairs: &[Pair]) -> Vec<Group> {
    let of = class::of(pairs);
    let groups = class::CATEGORIES.iter().enumerate().map(|(n, (name, _))| {
        let members = pairs.iter().zip(&of).filter(|(_, c)| **c == n);
        Group {
            name: (*name).to_owned(),
            measures: Measures::of(members.map(|(pair, _)| pair)),
        }
    });
    groups.filter(|group| group.measures.blocks > 0).collect()
}
