//! The terminal summary: how many cycles, where they went, and what the figures rest on.
//!
//! Sections in order: header, totals per CPU side by side, processes and threads, what was
//! measured, issue slots, what perfect parts would gain, misses, wrong predictions, ports,
//! functions, blocks, regions, unknown instructions, notes. Sections without content are left out.
//! Everything that comes from the traced program is escaped.

mod branches;
pub(crate) mod hot;
pub(crate) mod measured;
pub(crate) mod memory;
pub(crate) mod processes;
mod slots;
pub(crate) mod verdict;

use std::io::{self, Write};

use mcad_report::{CpuReport, Report, Unknown};

use crate::escape::escape;
use crate::gains::{self, Gain};
use crate::layout::{Align, Table, grouped};
use crate::style::Paint;
use crate::{Style, View, ViewError};

/// The `text` view.
pub struct Text;

/// Unknown forms that the summary lists; the JSON has what the report has.
const UNKNOWN_FORMS: usize = 10;

impl View for Text {
    fn name(&self) -> &'static str {
        "text"
    }

    fn description(&self) -> &'static str {
        "a summary for people"
    }

    fn write(&self, report: &Report, style: Style, out: &mut dyn Write) -> Result<(), ViewError> {
        let plain = gains::without_ideals(report);
        let gains = gains::of(report);
        summary(&plain, &gains, style, out).map_err(|source| ViewError::Write {
            view: self.name(),
            source,
        })
    }
}

fn summary(
    report: &Report,
    gains: &[Gain<'_>],
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    header(report, style, out)?;
    totals(report, style, out)?;
    processes::processes(report, style, out)?;
    processes::threads(report, style, out)?;
    measured::measured(report, style, out)?;
    slots::topdown(report, style, out)?;
    branches::gains(gains, style, out)?;
    memory::write(report, style, out)?;
    branches::write(report, style, out)?;
    slots::ports(report, style, out)?;
    hot::functions(report, style, out)?;
    hot::blocks(report, style, out)?;
    regions(report, style, out)?;
    unknown(&report.unknown_instructions, report, style, out)?;
    notes(report, style, out)
}

/// `skl`, or `skl/block` when a CPU was analysed in more than one way.
fn label(report: &Report, cpu: &CpuReport) -> String {
    let several = report
        .cpus
        .iter()
        .any(|other| other.analysis != cpu.analysis);
    if several {
        format!("{}/{}", cpu.cpu, cpu.analysis)
    } else {
        cpu.cpu.clone()
    }
}

/// What a prediction takes for granted, in one line.
pub(crate) fn assumptions(cpu: &CpuReport) -> Option<String> {
    let all: Vec<_> = cpu.assumes.iter().map(|text| escape(text)).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

fn labels(report: &Report) -> Vec<String> {
    report.cpus.iter().map(|cpu| label(report, cpu)).collect()
}

fn heading(style: Style, out: &mut dyn Write, text: &str) -> io::Result<()> {
    writeln!(out, "\n{}", style.paint(Paint::Heading, text))
}

fn header(report: &Report, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let command = if report.program.command.is_empty() {
        report.run.source.clone()
    } else {
        report.program.command.join(" ")
    };
    let title = format!("mcad {}  {}", report.tool.version, escape(&command));
    writeln!(out, "{}", style.paint(Paint::Heading, title.trim_end()))?;
    let end = escape(&report.program.end);
    if report.program.complete {
        writeln!(out, "  {end}")?;
    } else {
        let warning = format!("  incomplete trace ({end}): figures cover what was received");
        writeln!(out, "{}", style.paint(Paint::Warning, warning))?;
    }
    let trace = &report.trace;
    writeln!(
        out,
        "  {} instructions in {} block executions of {} blocks, {} memory accesses, {} thread{}{}",
        grouped(trace.instructions),
        grouped(trace.blocks_executed),
        grouped(trace.distinct_blocks),
        grouped(trace.memory_accesses),
        grouped(trace.threads),
        if trace.threads == 1 { "" } else { "s" },
        match report.processes.len() {
            0 => String::new(),
            processes => format!(" of {} processes", grouped(processes as u64)),
        },
    )?;
    if trace.lost_records > 0 {
        let why: Vec<_> = trace.why_lost().into_iter().map(escape).collect();
        let warning = format!(
            "  {} records are missing: {}",
            grouped(trace.lost_records),
            why.join("; ")
        );
        writeln!(out, "{}", style.paint(Paint::Warning, warning))?;
    }
    Ok(())
}

fn totals(report: &Report, style: Style, out: &mut dyn Write) -> io::Result<()> {
    if report.cpus.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    let mut table = Table::new(
        std::iter::once((String::new(), Align::Left))
            .chain(labels(report).into_iter().map(|l| (l, Align::Right))),
    );
    let mut row = |name: &str, value: &dyn Fn(&CpuReport) -> String| {
        let mut cells = vec![name.to_owned()];
        cells.extend(report.cpus.iter().map(value));
        table.row(cells);
    };
    row("cycles", &|cpu| grouped(cpu.cycles));
    row("instructions", &|cpu| grouped(cpu.instructions));
    row("µops", &|cpu| grouped(cpu.uops));
    row("IPC", &|cpu| format!("{:.3}", cpu.ipc));
    if report.cpus.iter().any(|cpu| cpu.topdown.slots > 0) {
        row("bound by", &|cpu| verdict::of_cpu(cpu));
    }
    table.write(style, out)?;
    for cpu in &report.cpus {
        let line = format!("  {}: {}", label(report, cpu), escape(&cpu.name));
        writeln!(out, "{}", style.paint(Paint::Dim, line))?;
        if let Some(assumes) = assumptions(cpu) {
            writeln!(
                out,
                "{}",
                style.paint(Paint::Dim, format!("    assumes {assumes}"))
            )?;
        }
        for doubt in &cpu.doubts {
            let line = format!("    but {}: cycles are too few", escape(doubt));
            writeln!(out, "{}", style.paint(Paint::Warning, line))?;
        }
    }
    Ok(())
}

fn regions(report: &Report, style: Style, out: &mut dyn Write) -> io::Result<()> {
    if report.cpus.iter().all(|cpu| cpu.regions.is_empty()) {
        return Ok(());
    }
    heading(style, out, "Regions (cycles per occurrence)")?;
    let mut table = Table::new([
        ("CPU", Align::Left),
        ("count", Align::Right),
        ("min", Align::Right),
        ("median", Align::Right),
        ("max", Align::Right),
        ("cycles", Align::Right),
        ("instructions", Align::Right),
        ("region", Align::Left),
    ]);
    for cpu in &report.cpus {
        for region in &cpu.regions {
            table.row(vec![
                label(report, cpu),
                grouped(region.count),
                grouped(region.min),
                grouped(region.median),
                grouped(region.max),
                grouped(region.cycles),
                grouped(region.instructions),
                escape(&region.name).into_owned(),
            ]);
        }
    }
    table.write(style, out)
}

fn unknown(
    unknown: &Unknown,
    report: &Report,
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    if unknown.count == 0 && unknown.approximated == 0 {
        return Ok(());
    }
    heading(style, out, "Instructions without figures of their own")?;
    // Every CPU sees every instruction, so the share is of all that were simulated.
    let simulated = report
        .cpus
        .iter()
        .fold(0u64, |sum, cpu| sum.saturating_add(cpu.instructions));
    writeln!(
        out,
        "  {} unknown{}, {} approximated{}",
        grouped(unknown.count),
        share(unknown.count, simulated),
        grouped(unknown.approximated),
        share(unknown.approximated, simulated),
    )?;
    let mut table = Table::new([
        ("executed", Align::Right),
        ("CPU", Align::Left),
        ("form", Align::Left),
        ("treated as", Align::Left),
    ]);
    for form in unknown.forms.iter().take(UNKNOWN_FORMS) {
        table.row(vec![
            grouped(form.count),
            form.cpu.clone(),
            escape(&form.form).into_owned(),
            escape(&form.treatment).into_owned(),
        ]);
    }
    table.write(style, out)?;
    let hidden = unknown.forms.len().saturating_sub(UNKNOWN_FORMS);
    if hidden > 0 {
        writeln!(out, "  … and {hidden} more forms in the JSON report")?;
    }
    Ok(())
}

/// ` (0.0012 %)`, empty where there is no share to tell.
fn share(part: u64, whole: u64) -> String {
    if part == 0 || whole == 0 {
        return String::new();
    }
    format!(" ({:.4} %)", part as f64 * 100.0 / whole as f64)
}

fn notes(report: &Report, style: Style, out: &mut dyn Write) -> io::Result<()> {
    if !report.notes.is_empty() {
        heading(style, out, "Notes")?;
        for note in &report.notes {
            writeln!(out, "  {}", escape(note))?;
        }
    }
    let run = &report.run;
    if run.seconds > 0.0 {
        let line = format!(
            "  {:.2} s, {:.2} M instructions/s, peak memory {} MiB",
            run.seconds,
            run.instructions_per_second / 1e6,
            run.peak_memory_bytes >> 20,
        );
        writeln!(out, "\n{}", style.paint(Paint::Dim, line))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
