//! The comparison for the terminal. What is cut off for length is summed up in one line, so that
//! the functions' figures add up to the total here too. Foreign names are escaped.

use std::io::{self, Write};

use super::{Comparison, CpuDiff, Delta, Diff, FunctionDelta, MatchedBy, Status};
use crate::escape::escape;
use crate::layout::{Align, Table, grouped};
use crate::style::{Paint, Style};

/// Rows of the longer tables.
const ROWS: usize = 25;

/// Writes the comparison.
///
/// # Errors
/// What the output says.
pub fn write(diff: &Diff, style: Style, out: &mut dyn Write) -> io::Result<()> {
    for warning in &diff.warnings {
        let warning = format!("note: {}", escape(warning));
        writeln!(out, "{}", style.paint(Paint::Warning, warning))?;
    }
    if diff.is_empty() {
        return writeln!(
            out,
            "no difference in cycles, instructions, µops or functions"
        );
    }
    if !diff.steps.is_empty() {
        series(diff, style, out)?;
    }
    comparison(&diff.overall, style, out)
}

fn series(diff: &Diff, style: Style, out: &mut dyn Write) -> io::Result<()> {
    for series in &diff.series {
        let title = format!(
            "{}/{} over {} versions",
            series.cpu,
            series.analysis,
            series.totals.len()
        );
        writeln!(out, "{}", style.paint(Paint::Heading, escape(&title)))?;
        let mut table = Table::new([
            ("cycles", Align::Right),
            ("to previous", Align::Right),
            ("to first", Align::Right),
            ("instructions", Align::Right),
            ("IPC", Align::Right),
            ("version", Align::Left),
        ]);
        let first = series.totals.first().map_or(0, |f| f.cycles);
        let mut previous = first;
        for (figures, version) in series.totals.iter().zip(&diff.versions) {
            table.row(vec![
                grouped(figures.cycles),
                relative(&Delta::new(previous, figures.cycles)),
                relative(&Delta::new(first, figures.cycles)),
                grouped(figures.instructions),
                format!("{:.3}", figures.ipc),
                escape(&version.label).into_owned(),
            ]);
            previous = figures.cycles;
        }
        table.write(style, out)?;
        writeln!(out)?;
    }
    Ok(())
}

fn comparison(c: &Comparison, style: Style, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{} → {}", escape(&c.from), escape(&c.to))?;
    for cpu in &c.cpus {
        let title = format!("\n{} ({}, {})", cpu.cpu, cpu.name, cpu.analysis);
        let title: Vec<_> = title.split('\n').map(escape).collect();
        writeln!(out, "{}", style.paint(Paint::Heading, title.join("\n")))?;
        if !cpu.assumes.is_empty() {
            let assumes = cpu.assumes.join("; ");
            let line = format!("  assumes {}", escape(&assumes));
            writeln!(out, "{}", style.paint(Paint::Dim, line))?;
        }
        if cpu.is_empty() {
            writeln!(out, "  no difference")?;
            continue;
        }
        totals(cpu, style, out)?;
        mostly(cpu, out)?;
        slots(cpu, style, out)?;
        causes(cpu, style, out)?;
        functions(cpu, style, out)?;
        lines(cpu, style, out)?;
        regions(cpu, style, out)?;
    }
    Ok(())
}

fn totals(cpu: &CpuDiff, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let mut table = Table::new([
        ("", Align::Left),
        ("before", Align::Right),
        ("after", Align::Right),
        ("change", Align::Right),
        ("", Align::Right),
    ]);
    for (name, delta) in [
        ("cycles", &cpu.cycles),
        ("instructions", &cpu.instructions),
        ("µops", &cpu.uops),
    ] {
        table.row(vec![
            name.to_owned(),
            grouped(delta.before),
            grouped(delta.after),
            signed(delta.delta),
            relative(delta),
        ]);
    }
    let [before, after] = cpu.ipc;
    table.row(vec![
        "IPC".to_owned(),
        format!("{before:.3}"),
        format!("{after:.3}"),
        format!("{:+.3}", after - before),
    ]);
    table.write(style, out)?;
    if let Some(throughput) = cpu.differential_throughput {
        writeln!(
            out,
            "  differential throughput H(after)/H(before): {throughput:.4}"
        )?;
    }
    Ok(())
}

/// What most of the change of cycles is.
fn mostly(cpu: &CpuDiff, out: &mut dyn Write) -> io::Result<()> {
    match cpu.mostly() {
        Some((kind, cycles)) if cycles != 0 => writeln!(
            out,
            "  the change is mostly {}: {} cycles of {}",
            self::kind(kind),
            signed(cycles),
            signed(cpu.cycles.delta)
        ),
        _ => Ok(()),
    }
}

/// Which counts changed, the largest relative change first.
fn causes(cpu: &CpuDiff, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let mut changed: Vec<_> = cpu.causes.iter().filter(|c| c.counts.changed()).collect();
    if changed.is_empty() {
        return Ok(());
    }
    changed.sort_by(|a, b| size(&b.counts).total_cmp(&size(&a.counts)));
    writeln!(out, "{}", style.paint(Paint::Heading, "  What changed"))?;
    let mut table = Table::new([
        ("", Align::Left),
        ("before", Align::Right),
        ("after", Align::Right),
        ("change", Align::Right),
        ("", Align::Right),
    ]);
    for cause in changed {
        table.row(vec![
            count(cause.kind),
            grouped(cause.counts.before),
            grouped(cause.counts.after),
            signed(cause.counts.delta),
            relative(&cause.counts),
        ]);
    }
    table.write(style, out)
}

/// How much a count changed; what is new changed most.
fn size(delta: &Delta) -> f64 {
    delta.relative.map_or(f64::INFINITY, f64::abs)
}

fn slots(cpu: &CpuDiff, style: Style, out: &mut dyn Write) -> io::Result<()> {
    if cpu.topdown.is_empty() {
        return Ok(());
    }
    writeln!(out, "{}", style.paint(Paint::Heading, "  Issue slots"))?;
    let mut table = Table::new([
        ("", Align::Left),
        ("before", Align::Right),
        ("after", Align::Right),
        ("slots", Align::Right),
    ]);
    for slot in cpu.shown_slots() {
        let [before, after] = slot.share;
        // A row of 0.0 % says nothing.
        if before.max(after) < 0.0005 {
            continue;
        }
        table.row(vec![
            kind(slot.kind).to_owned(),
            format!("{:.1} %", before * 100.0),
            format!("{:.1} %", after * 100.0),
            signed(slot.slots.delta),
        ]);
    }
    table.write(style, out)
}

/// What people call a count: `L1D misses`.
pub(super) fn count(kind: &str) -> String {
    let words = kind.split('_').map(|word| match word.strip_prefix('l') {
        Some(level) if level.starts_with(|c: char| c.is_ascii_digit()) => word.to_uppercase(),
        _ => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// What the summaries of single versions call it.
pub(super) fn kind(name: &str) -> &str {
    match name {
        "bad_speculation" => "bad speculation",
        "frontend" => "front end",
        "backend_memory" => "memory",
        "backend_core" => "core",
        other => other,
    }
}

fn functions(cpu: &CpuDiff, style: Style, out: &mut dyn Write) -> io::Result<()> {
    if cpu.functions.is_empty() && !cpu.unattributed.changed() {
        return Ok(());
    }
    writeln!(
        out,
        "{}",
        style.paint(Paint::Heading, "  Functions by change of cycles")
    )?;
    let [before, after] = cpu.matched.map(|share| share * 100.0);
    if before.min(after) < 99.95 {
        writeln!(
            out,
            "  {before:.1} % of the cycles before and {after:.1} % after are in functions found in \
             both versions"
        )?;
    }
    let mut table = Table::new([
        ("change", Align::Right),
        ("share", Align::Right),
        ("before", Align::Right),
        ("after", Align::Right),
        ("", Align::Left),
        ("function", Align::Left),
    ]);
    let total = cpu.cycles.delta;
    let changes = || cpu.functions.iter().map(|f| f.cycles.delta);
    let rows = listed(changes(), total).clamp(1, ROWS);
    for f in cpu.functions.iter().take(rows) {
        table.row(vec![
            signed(f.cycles.delta),
            share(f.cycles.delta, total),
            grouped(f.cycles.before),
            grouped(f.cycles.after),
            status(f).to_owned(),
            function(f),
        ]);
    }
    let rest = cpu.functions.get(rows..).unwrap_or(&[]);
    if !rest.is_empty() {
        let sum = changes().skip(rows).sum();
        let name = format!("{} more functions (--json FILE lists all)", rest.len());
        table.row(sum_row(sum, total, name));
    }
    if cpu.unattributed.changed() {
        let sum = cpu.unattributed.delta;
        table.row(sum_row(sum, total, "outside all functions".to_owned()));
    }
    table.row(sum_row(total, total, "total".to_owned()));
    table.write(style, out)
}

/// How many changes, the largest first, are more than 0.0 % of the total one.
pub(super) fn listed(changes: impl Iterator<Item = i128>, total: i128) -> usize {
    let least = total.unsigned_abs().div_ceil(2000);
    let tells = |change: &i128| change.unsigned_abs() >= least;
    changes.take_while(tells).count()
}

fn sum_row(sum: i128, total: i128, name: String) -> Vec<String> {
    let none = String::new;
    vec![signed(sum), share(sum, total), none(), none(), none(), name]
}

fn lines(cpu: &CpuDiff, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let changes = cpu.lines.iter().map(|line| line.cycles.delta);
    let rows = listed(changes, cpu.cycles.delta).min(ROWS);
    if rows == 0 {
        return Ok(());
    }
    let title = "  Source lines by change of cycles";
    writeln!(out, "{}", style.paint(Paint::Heading, title))?;
    let mut table = Table::new([
        ("change", Align::Right),
        ("before", Align::Right),
        ("after", Align::Right),
        ("line", Align::Left),
        ("function", Align::Left),
    ]);
    for line in cpu.lines.iter().take(rows) {
        table.row(vec![
            signed(line.cycles.delta),
            grouped(line.cycles.before),
            grouped(line.cycles.after),
            match &line.previous_line {
                Some(previous) => format!("{} (was {})", escape(&line.line), escape(previous)),
                None => escape(&line.line).into_owned(),
            },
            escape(&line.function).into_owned(),
        ]);
    }
    table.write(style, out)
}

fn regions(cpu: &CpuDiff, style: Style, out: &mut dyn Write) -> io::Result<()> {
    if cpu.regions.is_empty() {
        return Ok(());
    }
    writeln!(out, "{}", style.paint(Paint::Heading, "  Regions"))?;
    let mut table = Table::new([
        ("cycles before", Align::Right),
        ("after", Align::Right),
        ("", Align::Right),
        ("count", Align::Right),
        ("median", Align::Right),
        ("H ratio", Align::Right),
        ("region", Align::Left),
    ]);
    for r in &cpu.regions {
        table.row(vec![
            grouped(r.cycles.before),
            grouped(r.cycles.after),
            relative(&r.cycles),
            signed(r.count.delta),
            signed(r.median.delta),
            r.differential_throughput
                .map_or_else(String::new, |h| format!("{h:.4}")),
            escape(&r.name).into_owned(),
        ]);
    }
    table.write(style, out)
}

/// `added`, `removed`, or how it was found again if not by its name.
pub(super) fn status(f: &FunctionDelta) -> &'static str {
    match (f.status, f.matched_by) {
        (Status::Added, _) => "added",
        (Status::Removed, _) => "removed",
        (Status::Changed, MatchedBy::Calls) => "by calls",
        (Status::Changed, MatchedBy::Code) => "by code",
        (Status::Changed, MatchedBy::Clone) => "by clone",
        (Status::Changed, MatchedBy::Overload) => "by overload",
        (Status::Changed, MatchedBy::Neighbour) => "by neighbour",
        (Status::Changed, MatchedBy::Name | MatchedBy::Place | MatchedBy::Nothing) => "",
    }
}

fn function(f: &FunctionDelta) -> String {
    let name = escape(&f.name);
    let mut text = match &f.previous_name {
        Some(previous) => format!("{name} (was {})", escape(previous)),
        None => name.into_owned(),
    };
    if let Some(near) = &f.near {
        text.push_str(&format!(" after {}", escape(near)));
    }
    if !f.module.is_empty() && !f.name.contains(&f.module) {
        text.push_str(&format!("  [{}]", escape(&f.module)));
    }
    text
}

/// `+1,234`, `-5`, `0`.
pub(super) fn signed(delta: i128) -> String {
    let size = u64::try_from(delta.unsigned_abs()).unwrap_or(u64::MAX);
    let sign = match delta {
        0 => "",
        d if d < 0 => "-",
        _ => "+",
    };
    format!("{sign}{}", grouped(size))
}

/// `+5.00 %`; `new` out of nothing.
pub(super) fn relative(delta: &Delta) -> String {
    match delta.relative {
        Some(relative) => format!("{:+.2} %", relative * 100.0),
        None if delta.delta > 0 => "new".to_owned(),
        None => String::new(),
    }
}

/// Part of the total change.
pub(super) fn share(part: i128, total: i128) -> String {
    if total == 0 {
        return String::new();
    }
    format!("{:.1} %", part as f64 * 100.0 / total as f64)
}
