//! The comparison as Markdown for a pull request. Foreign names become `<code>` with every
//! character that Markdown or HTML would obey as a reference.

use std::io::{self, Write};

use super::text::{count, kind, listed, relative, share, signed, status};
use super::{Comparison, CpuDiff, Diff};
use crate::escape::markdown;
use crate::layout::grouped;

/// Rows of the function table; a comment should fit on a screen.
const ROWS: usize = 15;

/// Writes the comparison.
///
/// # Errors
/// What the output says.
pub fn write(diff: &Diff, out: &mut dyn Write) -> io::Result<()> {
    let c = &diff.overall;
    writeln!(
        out,
        "### Predicted cycles: {} → {}\n",
        code(&c.from),
        code(&c.to)
    )?;
    for warning in &diff.warnings {
        writeln!(out, "> {}\n", markdown(warning))?;
    }
    if diff.is_empty() {
        return writeln!(out, "No difference.");
    }
    summary(c, out)?;
    for cpu in &c.cpus {
        causes(cpu, out)?;
        functions(cpu, out)?;
        regions(cpu, out)?;
    }
    if !diff.steps.is_empty() {
        series(diff, out)?;
    }
    Ok(())
}

fn code(text: &str) -> String {
    format!("<code>{}</code>", markdown(text))
}

fn summary(c: &Comparison, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "| CPU | cycles before | after | change | | instructions | IPC | H(after)/H(before) |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|"
    )?;
    for cpu in &c.cpus {
        let [before, after] = cpu.ipc;
        writeln!(
            out,
            "| {} ({}) | {} | {} | {} | {} | {} | {before:.3} → {after:.3} | {} |",
            markdown(&cpu.cpu),
            markdown(&cpu.analysis),
            grouped(cpu.cycles.before),
            grouped(cpu.cycles.after),
            signed(cpu.cycles.delta),
            relative(&cpu.cycles),
            relative(&cpu.instructions),
            cpu.differential_throughput
                .map_or_else(String::new, |h| format!("{h:.4}")),
        )?;
    }
    writeln!(out)
}

/// Which of instructions, wrong predictions and misses changed.
fn causes(cpu: &CpuDiff, out: &mut dyn Write) -> io::Result<()> {
    let changed = || cpu.causes.iter().filter(|c| c.counts.changed());
    if changed().next().is_none() {
        return Ok(());
    }
    let mostly = match cpu.mostly() {
        Some((kind, cycles)) if cycles != 0 => {
            format!(", mostly {} ({} cycles)", self::kind(kind), signed(cycles))
        }
        _ => String::new(),
    };
    writeln!(
        out,
        "| changed on {}{mostly} | before | after | change | |\n|---|--:|--:|--:|--:|",
        markdown(&cpu.cpu)
    )?;
    for cause in changed() {
        writeln!(
            out,
            "| {} | {} | {} | {} | {} |",
            count(cause.kind),
            grouped(cause.counts.before),
            grouped(cause.counts.after),
            signed(cause.counts.delta),
            relative(&cause.counts),
        )?;
    }
    writeln!(out)
}

fn functions(cpu: &CpuDiff, out: &mut dyn Write) -> io::Result<()> {
    if cpu.functions.is_empty() {
        return Ok(());
    }
    let name = markdown(&cpu.cpu);
    writeln!(
        out,
        "<details><summary>Functions on {name} by change of cycles</summary>\n\n\
         | change | share | before | after | | function |\n|--:|--:|--:|--:|---|---|"
    )?;
    let total = cpu.cycles.delta;
    let changes = || cpu.functions.iter().map(|f| f.cycles.delta);
    let rows = listed(changes(), total).clamp(1, ROWS);
    for f in cpu.functions.iter().take(rows) {
        writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} |",
            signed(f.cycles.delta),
            share(f.cycles.delta, total),
            grouped(f.cycles.before),
            grouped(f.cycles.after),
            status(f),
            code(&f.name),
        )?;
    }
    let rest = cpu.functions.get(rows..).unwrap_or(&[]);
    let mut row = |sum: i128, what: String| {
        let share = share(sum, total);
        writeln!(out, "| {} | {share} | | | | {what} |", signed(sum))
    };
    if !rest.is_empty() {
        let sum = changes().skip(rows).sum();
        row(sum, format!("{} more functions", rest.len()))?;
    }
    if cpu.unattributed.changed() {
        row(cpu.unattributed.delta, "outside all functions".to_owned())?;
    }
    row(total, "total".to_owned())?;
    writeln!(out, "\n</details>\n")
}

fn regions(cpu: &CpuDiff, out: &mut dyn Write) -> io::Result<()> {
    if cpu.regions.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "| region on {} | cycles before | after | | median before | after |\n\
         |---|--:|--:|--:|--:|--:|",
        markdown(&cpu.cpu)
    )?;
    for r in &cpu.regions {
        writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} |",
            code(&r.name),
            grouped(r.cycles.before),
            grouped(r.cycles.after),
            relative(&r.cycles),
            grouped(r.median.before),
            grouped(r.median.after),
        )?;
    }
    writeln!(out)
}

fn series(diff: &Diff, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "| version |")?;
    for series in &diff.series {
        write!(
            out,
            " {} ({}) |",
            markdown(&series.cpu),
            markdown(&series.analysis)
        )?;
    }
    writeln!(out, "\n|---|{}", "--:|".repeat(diff.series.len()))?;
    for (n, version) in diff.versions.iter().enumerate() {
        write!(out, "| {} |", code(&version.label))?;
        for series in &diff.series {
            let cycles = series.totals.get(n).map_or(0, |figures| figures.cycles);
            write!(out, " {} |", grouped(cycles))?;
        }
        writeln!(out)?;
    }
    writeln!(out)
}
