//! The figures as a model: `mcad_isa::machine::measured`.

use std::path::Path;

use anyhow::Context;
use mcad_isa::machine::measured::{Measured, MeasuredForm, kind_text, operand_text};

use super::Outcome;
use crate::cli::destination::Destination;

/// Two digits: more is noise.
fn rounded(cycles: f64) -> f64 {
    (cycles * 100.0).round() / 100.0
}

/// Writes the file; its model is called as the file is.
///
/// # Errors
/// When it cannot be written.
pub(super) fn write(
    to: Destination,
    path: &Path,
    base: &str,
    results: &[Outcome<'_, '_>],
) -> anyhow::Result<()> {
    let mut forms = Vec::new();
    for (subject, figures) in results {
        let Ok(figures) = figures else { continue };
        let latencies = figures.latencies.iter().filter_map(|latency| {
            let pair = latency.pair;
            let cycles = latency.result.as_ref().ok()?.cycles;
            let (from, to) = (operand_text(pair.from), operand_text(pair.to));
            Some((from, to, kind_text(pair.kind).to_owned(), rounded(cycles)))
        });
        forms.push(MeasuredForm {
            name: subject.form().name.to_string(),
            throughput: figures.throughput.as_ref().ok().map(|f| rounded(f.cycles)),
            latencies: latencies.collect(),
            ..MeasuredForm::default()
        });
    }
    let name = path
        .file_stem()
        .map(|stem| stem.to_string_lossy().into_owned());
    let measured = Measured {
        name: name.unwrap_or_else(|| "measured".to_owned()),
        base: base.to_owned(),
        forms,
    };
    let text = toml::to_string(&measured).context("cannot write the model")?;
    let note = "# Latencies and throughputs measured by `mcad profile instruction`; ports and all\n\
                # parameters of the core are those of the base, since only counters show them.\n";
    to.write(|out| write!(out, "{note}{text}"))
}
