//! Tables of an evaluation for people.

use std::io::{self, Write};

use mcad_daemon::eval::Measures;
use mcad_daemon::eval::text::{COLUMNS, cells, percent};
use mcad_viewers::Style;
use mcad_viewers::escape::escape;
use mcad_viewers::layout::{Align, Table};

use crate::applications::Weighted;
use crate::evaluation::Evaluation;
use crate::topics::{self, Topic};

/// Writes the tables.
///
/// # Errors
/// What the output says.
pub fn write(e: &Evaluation, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let mut columns = COLUMNS.to_vec();
    if e.weighted.is_some() {
        columns.push(("weight", Align::Right));
        columns.push(("w. MAPE", Align::Right));
    }
    let mut table = Table::new(columns);
    table.row(row("all", &e.all, e.weighted.as_ref()));
    for group in e.categories.iter().chain(&e.applications) {
        let name = escape(&group.name);
        table.row(row(&name, &group.measures, group.weighted.as_ref()));
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
        write_topics(&e.topics, style, out)?;
    }
    if e.without_label > 0 {
        writeln!(out, "\n{} predictions have no label", e.without_label)?;
    }
    Ok(())
}

fn row(name: &str, measures: &Measures, weighted: Option<&Weighted>) -> Vec<String> {
    let mut cells = cells(name, measures);
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

/// The topics with their likeliest words.
fn write_topics(topics: &[Topic], style: Style, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\nTopics (ports on {})", topics::CPU)?;
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
