//! What the program took on a CPU at hand, beside what was predicted.

use std::io::{self, Write};

use mcad_report::Report;

use super::table::{Table, figure, name};
use crate::escape::html as esc;
use crate::text::measured;

/// The section, if there was a measurement.
pub(super) fn section(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let Some(m) = &report.run.measured else {
        return Ok(());
    };
    writeln!(
        out,
        "<section id=\"measured\"><h2>Predicted and measured cycles</h2>"
    )?;
    let heads = [
        name("CPU"),
        figure("predicted"),
        figure("measured"),
        figure("predicted/measured"),
        name("may be"),
    ];
    let mut table = Table::begin(out, "", &heads)?;
    for cpu in &report.cpus {
        let ratio = cpu.cycles as f64 / m.cycles.max(1) as f64;
        table.text(&cpu.cpu);
        table.count(cpu.cycles);
        table.count(m.cycles);
        table.figure(ratio, &format!("{ratio:.3}"));
        table.text(&measured::ratios(cpu.cycles, m));
        table.end_row()?;
    }
    table.end()?;
    for (line, doubtful) in measured::lines(report, m) {
        let class = if doubtful { "warn" } else { "note" };
        writeln!(out, "<p class=\"{class}\">{}</p>", esc(&line))?;
    }
    writeln!(out, "</section>")
}
