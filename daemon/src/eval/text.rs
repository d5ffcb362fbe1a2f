//! Tables of an evaluation for people.

use std::io::{self, Write};

use mcad_viewers::Style;
use mcad_viewers::escape::escape;
use mcad_viewers::layout::{Align, Table};

use super::topics::Topic;
use super::{Evaluation, Measures, Weighted};

fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

fn cells(name: &str, m: &Measures, weighted: Option<&Weighted>) -> Vec<String> {
    let mut cells = vec![
        name.to_owned(),
        m.blocks.to_string(),
        m.missing.to_string(),
        percent(m.mape),
        percent(m.median),
        format!("{:.4}", m.tau),
        percent(m.within_1_percent),
        percent(m.within_5_percent),
    ];
    if let Some(w) = weighted {
        cells.push(percent(w.covered));
        cells.push(if w.covered > 0.0 {
            percent(w.mape)
        } else {
            String::new()
        });
    }
    cells
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
    let mut columns = vec![
        ("blocks", Align::Left),
        ("number", Align::Right),
        ("missing", Align::Right),
        ("MAPE", Align::Right),
        ("median", Align::Right),
        ("tau", Align::Right),
        ("within 1 %", Align::Right),
        ("within 5 %", Align::Right),
    ];
    if e.weighted.is_some() {
        columns.push(("weight", Align::Right));
        columns.push(("w. MAPE", Align::Right));
    }
    let mut table = Table::new(columns);
    table.row(cells("all", &e.all, e.weighted.as_ref()));
    let categories = e.categories.iter().filter(|_| parts.categories);
    for group in categories.chain(&e.applications) {
        let name = escape(&group.name);
        table.row(cells(&name, &group.measures, group.weighted.as_ref()));
    }
    table.write(style, out)?;
    if e.weighted.is_some() {
        writeln!(
            out,
            "  weight: what the blocks have of the executions of all blocks in the applications;\n  \
             w. MAPE: the mean error weighted by them"
        )?;
    }
    if !e.topics.is_empty() {
        topics(&e.topics, style, out)?;
    }
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

/// The topics with their likeliest words.
fn topics(topics: &[Topic], style: Style, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\nTopics (ports on {})", super::topics::CPU)?;
    let mut table = Table::new([
        ("topic", Align::Left),
        ("blocks", Align::Right),
        ("load", Align::Right),
        ("store", Align::Right),
        ("scalar", Align::Right),
        ("vector", Align::Right),
        ("ports", Align::Left),
    ]);
    for topic in topics {
        let words = topic.words.iter();
        let words: Vec<String> = words
            .map(|(ports, share)| format!("{ports} {:.0} %", share * 100.0))
            .collect();
        let shares = [topic.load, topic.store, topic.scalar, topic.vector];
        let mut row = vec![topic.name.clone(), topic.blocks.to_string()];
        row.extend(shares.map(|share| format!("{:.0} %", share * 100.0)));
        row.push(words.join(", "));
        table.row(row);
    }
    table.write(style, out)
}
