//! The report as one HTML file: no network, no foreign code, light and dark.
//!
//! Everything that comes from the traced program goes through [`escape::html`]; a content policy
//! in the file forbids whatever the file itself does not carry. Without scripts the tables are in
//! the report's order and only sorting is missing.

use std::io::{self, Write};

use mcad_core::report::{BlockBound, BlockReport, CpuReport, Report, TopDown};

use crate::escape::html as esc;
use crate::layout::{grouped, percent};
use crate::text::hot;
use crate::{Style, View, ViewError};

/// The `html` view.
pub struct Html;

/// Rows of the function table: keeps the file of a large program to a few MiB.
const FUNCTIONS: usize = 2000;

impl View for Html {
    fn name(&self) -> &'static str {
        "html"
    }

    fn description(&self) -> &'static str {
        "a self-contained page for the browser"
    }

    fn write(&self, report: &Report, _: Style, out: &mut dyn Write) -> Result<(), ViewError> {
        page(report, out).map_err(|source| ViewError::Write {
            view: self.name(),
            source,
        })
    }
}

fn page(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let command = if report.program.command.is_empty() {
        &report.run.source
    } else {
        &report.program.command.join(" ")
    };
    let title = esc(command);
    writeln!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src \
         'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\n\
         <link rel=\"icon\" href=\"data:,\">\n\
         <title>mcad: {title}</title>\n<style>\n{}</style>\n</head>\n<body>\n<h1>{title}</h1>",
        include_str!("html/style.css"),
    )?;
    summary(report, out)?;
    for cpu in &report.cpus {
        section(cpu, out)?;
    }
    unknown(report, out)?;
    if !report.notes.is_empty() {
        writeln!(out, "<h2>Notes</h2>\n<ul>")?;
        for note in &report.notes {
            writeln!(out, "<li>{}</li>", esc(note))?;
        }
        writeln!(out, "</ul>")?;
    }
    writeln!(
        out,
        "<p class=\"dim\">mcad {}</p>\n<script>\n{}</script>\n</body>\n</html>",
        esc(&report.tool.version),
        include_str!("html/sort.js"),
    )
}

fn summary(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let trace = &report.trace;
    if report.program.complete {
        writeln!(out, "<p>{}</p>", esc(&report.program.end))?;
    } else {
        writeln!(
            out,
            "<p class=\"warn\">Incomplete trace ({}): the figures cover what was received.</p>",
            esc(&report.program.end)
        )?;
    }
    if trace.lost_records > 0 {
        writeln!(
            out,
            "<p class=\"warn\">{} records are missing: {}</p>",
            grouped(trace.lost_records),
            esc(&trace.lost_reasons.join("; "))
        )?;
    }
    writeln!(
        out,
        "<p>{} instructions in {} executions of {} blocks, {} memory accesses, {} threads</p>",
        grouped(trace.instructions),
        grouped(trace.blocks_executed),
        grouped(trace.distinct_blocks),
        grouped(trace.memory_accesses),
        grouped(trace.threads),
    )?;
    if report.cpus.is_empty() {
        return Ok(());
    }
    let mut table = Table::begin(
        out,
        &["CPU", "model", "analysis"],
        &["cycles", "IPC", "instructions", "µops"],
    )?;
    for cpu in &report.cpus {
        table.names(&[&cpu.cpu, &cpu.name, &cpu.analysis])?;
        table.count(cpu.cycles)?;
        table.figure(cpu.ipc, &format!("{:.3}", cpu.ipc))?;
        table.count(cpu.instructions)?;
        table.count(cpu.uops)?;
        table.end_row()?;
    }
    table.end()
}

fn section(cpu: &CpuReport, out: &mut dyn Write) -> io::Result<()> {
    let (short, analysis) = (esc(&cpu.cpu), esc(&cpu.analysis));
    writeln!(out, "<h2>{short}: {} ({analysis})</h2>", esc(&cpu.name))?;
    topdown(&cpu.topdown, out)?;
    functions(cpu, out)?;
    blocks(cpu, out)?;
    regions(cpu, out)?;
    ports(cpu, out)
}

fn topdown(t: &TopDown, out: &mut dyn Write) -> io::Result<()> {
    if t.slots == 0 {
        return Ok(());
    }
    let parts = [
        ("ret", "retiring", t.retiring),
        ("fe", "front end", t.frontend),
        ("mem", "memory", t.backend_memory),
        ("core", "ports and dependencies", t.backend_core),
        ("oth", "other", t.other),
    ];
    writeln!(out, "<h3>Issue slots</h3>\n<div class=\"bar\">")?;
    for (class, name, slots) in parts {
        let width = slots as f64 * 100.0 / t.slots as f64;
        let share = percent(slots, t.slots);
        writeln!(
            out,
            "<i class=\"{class}\" style=\"width:{width:.3}%\" title=\"{name}: {share}\"></i>"
        )?;
    }
    writeln!(out, "</div>\n<p class=\"legend\">")?;
    for (class, name, slots) in parts {
        let share = percent(slots, t.slots);
        writeln!(out, "<span><i class=\"{class}\"></i>{name} {share}</span>")?;
    }
    writeln!(out, "</p>")
}

fn functions(cpu: &CpuReport, out: &mut dyn Write) -> io::Result<()> {
    if cpu.functions.is_empty() {
        return Ok(());
    }
    writeln!(out, "<h3>Functions</h3>")?;
    let figures = ["cycles", "share", "instructions", "IPC"];
    let mut table = Table::begin(out, &["function", "module"], &figures)?;
    for f in cpu.functions.iter().take(FUNCTIONS) {
        table.names(&[&f.name, &f.module])?;
        table.count(f.cycles)?;
        table.figure(f.cycles as f64, &percent(f.cycles, cpu.cycles))?;
        table.count(f.instructions)?;
        let ipc = f.instructions as f64 / f.cycles.max(1) as f64;
        table.figure(ipc, &format!("{ipc:.2}"))?;
        table.end_row()?;
    }
    table.end()?;
    let hidden = cpu.functions.get(FUNCTIONS..).unwrap_or(&[]);
    if !hidden.is_empty() {
        let cycles: u64 = hidden.iter().fold(0, |sum, f| sum.saturating_add(f.cycles));
        writeln!(
            out,
            "<p class=\"dim\">{} more functions with {} of the cycles are in the JSON report.</p>",
            grouped(hidden.len() as u64),
            percent(cycles, cpu.cycles)
        )?;
    }
    Ok(())
}

fn blocks(cpu: &CpuReport, out: &mut dyn Write) -> io::Result<()> {
    if cpu.blocks.is_empty() {
        return Ok(());
    }
    writeln!(out, "<h3>Hottest blocks</h3>")?;
    let lines = cpu.blocks.iter().any(|b| b.line.is_some());
    let names: &[&str] = if lines {
        &["block", "line"]
    } else {
        &["block"]
    };
    let figures = [
        "cycles",
        "share",
        "executions",
        "cycles each",
        "instructions",
    ];
    let mut table = Table::begin(out, names, &figures)?;
    for block in &cpu.blocks {
        table.raw_name(&code(block))?;
        if lines {
            table.names(&[block.line.as_deref().unwrap_or("")])?;
        }
        table.count(block.cycles)?;
        table.figure(block.cycles as f64, &percent(block.cycles, cpu.cycles))?;
        table.count(block.executions)?;
        let each = block.cycles as f64 / block.executions.max(1) as f64;
        table.figure(each, &format!("{each:.2}"))?;
        table.count(block.instructions.into())?;
        table.end_row()?;
    }
    table.end()
}

/// A block's name that opens to its instructions.
fn code(block: &BlockReport) -> String {
    let name = if block.symbol.is_empty() {
        &block.address
    } else {
        &block.symbol
    };
    let lines: Vec<String> = block.code.iter().map(|line| esc(line)).collect();
    format!(
        "<details><summary>{}</summary><pre>{}</pre>{}<span class=\"dim\">{} {}</span></details>",
        esc(name),
        lines.join("\n"),
        block.bound.as_ref().map_or_else(String::new, bound),
        esc(&block.address),
        esc(&block.module),
    )
}

/// What bounds a block, as a paragraph.
fn bound(bound: &BlockBound) -> String {
    format!(
        "<p>{:.2} cycles as a loop by itself, bound by {} ({}); the next bound is {:.2}.</p>",
        bound.cycles,
        esc(&hot::parts(bound)),
        esc(&bound.evidence.join("; ")),
        bound.next,
    )
}

fn regions(cpu: &CpuReport, out: &mut dyn Write) -> io::Result<()> {
    if cpu.regions.is_empty() {
        return Ok(());
    }
    writeln!(out, "<h3>Regions, cycles per occurrence</h3>")?;
    let figures = ["count", "min", "median", "max", "cycles", "instructions"];
    let mut table = Table::begin(out, &["region"], &figures)?;
    for r in &cpu.regions {
        table.names(&[&r.name])?;
        for count in [r.count, r.min, r.median, r.max, r.cycles, r.instructions] {
            table.count(count)?;
        }
        table.end_row()?;
    }
    table.end()
}

fn ports(cpu: &CpuReport, out: &mut dyn Write) -> io::Result<()> {
    if cpu.ports.is_empty() {
        return Ok(());
    }
    writeln!(out, "<h3>Ports</h3>")?;
    let mut table = Table::begin(out, &["port"], &["µops", "busy"])?;
    for port in &cpu.ports {
        table.names(&[&port.port])?;
        table.count(port.uops)?;
        table.figure(port.uops as f64, &percent(port.uops, cpu.cycles))?;
        table.end_row()?;
    }
    table.end()
}

fn unknown(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let unknown = &report.unknown_instructions;
    if unknown.forms.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "<h2>Instructions without figures of their own</h2>\n<p>{} unknown, {} approximated</p>",
        grouped(unknown.count),
        grouped(unknown.approximated)
    )?;
    let mut table = Table::begin(out, &["form", "treated as", "CPU"], &["executed"])?;
    for form in &unknown.forms {
        table.names(&[&form.form, &form.treatment, &form.cpu])?;
        table.count(form.count)?;
        table.end_row()?;
    }
    table.end()
}

/// A sortable table, names first and figures after them.
struct Table<'o> {
    out: &'o mut dyn Write,
    row: String,
}

impl<'o> Table<'o> {
    fn begin(out: &'o mut dyn Write, names: &[&str], figures: &[&str]) -> io::Result<Self> {
        write!(
            out,
            "<div class=\"scroll\"><table class=\"sort\"><thead><tr>"
        )?;
        for name in names {
            write!(out, "<th>{name}</th>")?;
        }
        for figure in figures {
            write!(out, "<th class=\"n\">{figure}</th>")?;
        }
        writeln!(out, "</tr></thead><tbody>")?;
        Ok(Self {
            out,
            row: String::new(),
        })
    }

    fn names(&mut self, names: &[&str]) -> io::Result<()> {
        names.iter().try_for_each(|name| self.raw_name(&esc(name)))
    }

    /// A cell of text that is HTML already.
    fn raw_name(&mut self, name: &str) -> io::Result<()> {
        self.row.push_str("<td class=\"name\">");
        self.row.push_str(name);
        self.row.push_str("</td>");
        Ok(())
    }

    fn count(&mut self, count: u64) -> io::Result<()> {
        self.figure(count as f64, &grouped(count))
    }

    fn figure(&mut self, value: f64, shown: &str) -> io::Result<()> {
        let cell = format!("<td class=\"n\" data-v=\"{value}\">{shown}</td>");
        self.row.push_str(&cell);
        Ok(())
    }

    fn end_row(&mut self) -> io::Result<()> {
        writeln!(self.out, "<tr>{}</tr>", self.row)?;
        self.row.clear();
        Ok(())
    }

    fn end(self) -> io::Result<()> {
        writeln!(self.out, "</tbody></table></div>")
    }
}

#[cfg(test)]
mod tests;
