//! Hot source lines, and the text of lines as far as the report has it.

use std::collections::HashMap;
use std::io::{self, Write};

use mcad_report::{CpuReport, Report};

use super::table::{Table, figure, left_out, name};
use crate::escape::html as esc;
use crate::layout::tells;

/// Rows of the table.
const LINES: usize = 300;

/// Texts of source lines.
pub(super) struct Sources<'r> {
    files: HashMap<&'r str, &'r std::collections::BTreeMap<u32, String>>,
}

impl<'r> Sources<'r> {
    pub(super) fn of(report: &'r Report) -> Self {
        let files = report.run.sources.iter();
        Self {
            files: files.map(|f| (f.path.as_str(), &f.lines)).collect(),
        }
    }

    /// The text of `file:line`.
    pub(super) fn text(&self, line: &str) -> Option<&'r str> {
        let (path, number) = line.rsplit_once(':')?;
        let lines = self.files.get(path)?;
        lines.get(&number.parse().ok()?).map(String::as_str)
    }
}

/// `file.c:12` of a whole path.
pub(super) fn short(line: &str) -> &str {
    line.rsplit_once('/').map_or(line, |(_, short)| short)
}

/// The table of hot lines.
pub(super) fn section(
    report: &Report,
    number: usize,
    cpu: &CpuReport,
    out: &mut dyn Write,
) -> io::Result<()> {
    let Some(hottest) = cpu.lines.first() else {
        return Ok(());
    };
    // The rest would be rows of 0.0 %.
    let telling = cpu.lines.iter().take(LINES);
    let shown = telling.take_while(|x| tells(x.cycles, cpu.cycles)).count();
    if shown == 0 {
        return Ok(());
    }
    let sources = Sources::of(report);
    writeln!(out, "<h3 id=\"cpu{number}-lines\">Source lines</h3>")?;
    let heads = [
        name("line"),
        name("source"),
        name("function"),
        figure("share"),
        figure("cycles"),
    ];
    let mut table = Table::begin(out, "", &heads)?;
    for line in cpu.lines.iter().take(shown) {
        let place = &line.line;
        let cell = format!(
            "<span title=\"{}\">{}</span>",
            esc(place),
            esc(short(place))
        );
        table.html("place", &cell);
        table.code(sources.text(place).unwrap_or("").trim_start());
        table.text(&line.function);
        table.share(line.cycles, cpu.cycles, hottest.cycles);
        table.count(line.cycles);
        table.end_row()?;
    }
    table.end()?;
    let hidden = cpu.lines.get(shown..).unwrap_or(&[]);
    left_out("lines", hidden.iter().map(|x| x.cycles), cpu.cycles, out)
}
