//! Tables of an evaluation for people.

use std::io::{self, Write};

use mcad_viewers::Style;
use mcad_viewers::layout::{Align, Table};

use super::stats::APART;
use super::{Evaluation, Measures};

/// A share in per cent.
#[must_use]
pub fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

/// The columns of a table of measures.
pub const COLUMNS: [(&str, Align); 9] = [
    ("blocks", Align::Left),
    ("number", Align::Right),
    ("missing", Align::Right),
    ("MAPE", Align::Right),
    ("median", Align::Right),
    ("tau", Align::Right),
    ("tau apart", Align::Right),
    ("within 1 %", Align::Right),
    ("within 5 %", Align::Right),
];

/// The cells of [`COLUMNS`] for some blocks.
#[must_use]
pub fn cells(name: &str, m: &Measures) -> Vec<String> {
    vec![
        name.to_owned(),
        m.blocks.to_string(),
        m.missing.to_string(),
        percent(m.mape),
        percent(m.median),
        format!("{:.4}", m.tau),
        format!("{:.4}", m.tau_apart),
        percent(m.within_1_percent),
        percent(m.within_5_percent),
    ]
}

/// What to print beside the figures over all blocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parts {
    /// Figures by category.
    pub categories: bool,
    /// Forms that carry the error.
    pub instructions: bool,
}

/// Writes the tables.
///
/// # Errors
/// What the output says.
pub fn write(e: &Evaluation, parts: Parts, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let mut table = Table::new(COLUMNS);
    table.row(cells("all", &e.all));
    for group in e.categories.iter().filter(|_| parts.categories) {
        table.row(cells(&group.name, &group.measures));
    }
    table.write(style, out)?;
    writeln!(
        out,
        "  tau apart: of the pairs whose labels differ by more than {:.0} %",
        APART * 100.0
    )?;
    writeln!(
        out,
        "  tau if all blocks that are more than {:.0} % off were right: {:.4}",
        APART * 100.0,
        e.all.tau_allowed
    )?;
    if e.without_label > 0 {
        writeln!(out, "\n{} predictions have no label", e.without_label)?;
    }
    if !e.reasons.is_empty() {
        writeln!(out, "\nBlocks without a prediction")?;
        for (reason, blocks) in &e.reasons {
            writeln!(out, "  {blocks:>6}  {reason}")?;
        }
    }
    if parts.instructions {
        writeln!(out, "\nInstructions that carry the error")?;
        let mut table = Table::new([
            ("of the MAPE", Align::Right),
            ("blocks", Align::Right),
            ("their error", Align::Right),
            ("bias", Align::Right),
            ("instruction", Align::Left),
        ]);
        for form in &e.forms {
            table.row(vec![
                percent(form.weight),
                form.blocks.to_string(),
                percent(form.mean_error),
                format!("{:+.2} %", form.bias * 100.0),
                form.form.clone(),
            ]);
        }
        table.write(style, out)?;
    }
    for worst in &e.worst {
        let predicted = match (worst.prediction, &worst.reason) {
            (Some(cycles), _) => format!("predicted {cycles:.2}"),
            (None, reason) => reason.clone().unwrap_or_default(),
        };
        writeln!(
            out,
            "\n{}\n  measured {:.2}, {predicted}, error {}",
            worst.hex,
            worst.label,
            percent(worst.error)
        )?;
        for line in &worst.disassembly {
            writeln!(out, "    {line}")?;
        }
    }
    Ok(())
}
