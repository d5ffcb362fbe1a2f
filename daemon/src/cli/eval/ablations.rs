//! `mcad eval --ablations`: what each part of the model is worth, as table 4 of Abel & Reineke
//! (ICS 2022) has it: the errors with that part left out.

use std::io::{self, Write};
use std::sync::Arc;

use mcad_isa::machine::CpuModel;
use mcad_isa::machine::ablation::ablations;
use serde::Serialize;

use crate::eval::join;
use crate::eval::stats::Measures;
use crate::eval::table::Row;

/// Errors of a model with one part left out.
#[derive(Debug, Serialize)]
pub(super) struct Ablated {
    /// Short name; `none` for the whole model.
    name: &'static str,
    /// What is left out.
    what: &'static str,
    /// The errors.
    measures: Measures,
}

/// Evaluates the whole model, then every ablation that changes it.
pub(super) fn evaluate(
    model: &Arc<CpuModel>,
    labels: &[Row],
    predict: &dyn Fn(&Arc<CpuModel>) -> Vec<Row>,
) -> Vec<Ablated> {
    let measured = |model: &Arc<CpuModel>, name: &'static str, what: &'static str| {
        let (pairs, _) = join(labels.to_vec(), predict(model));
        Ablated {
            name,
            what,
            measures: Measures::of(pairs.iter()),
        }
    };
    let mut all = vec![measured(model, "none", "the whole model")];
    for ablation in ablations().iter().filter(|a| a.applies(&model.core)) {
        all.push(measured(&ablation.of(model), ablation.name, ablation.what));
    }
    all
}

/// Writes the table.
pub(super) fn write(all: &[Ablated], out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "  MAPE     τ-b     within 5 %  part left out")?;
    for ablated in all {
        let m = &ablated.measures;
        writeln!(
            out,
            "  {:>6.2} %  {:.3}  {:>8.1} %  {}: {}",
            100.0 * m.mape,
            m.tau,
            100.0 * m.within_5_percent,
            ablated.name,
            ablated.what
        )?;
    }
    Ok(())
}
