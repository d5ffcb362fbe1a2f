//! The hottest functions and blocks, CPUs side by side, sorted by the first CPU's cycles.

use std::collections::HashMap;
use std::hash::Hash;
use std::io::{self, Write};

use mcad_report::{BlockBound, BlockReport, CpuReport, Report};

use super::{heading, label};
use crate::Style;
use crate::escape::escape;
use crate::layout::{Align, Table, grouped, percent};
use crate::style::Paint;

/// Functions and blocks shown; the JSON has what the report has.
const FUNCTIONS: usize = 12;
const BLOCKS: usize = 5;
/// Instructions shown of one block.
const CODE_LINES: usize = 12;

/// With more CPUs than this only shares are shown, not cycles too.
const CPUS_WITH_CYCLES: usize = 2;

/// The other CPUs' cycles, found by a key.
fn others<'a, K: Eq + Hash>(
    report: &'a Report,
    entries: impl Fn(&'a CpuReport) -> Vec<(K, u64)>,
) -> Vec<HashMap<K, u64>> {
    let rest = report.cpus.iter().skip(1);
    rest.map(|cpu| entries(cpu).into_iter().collect()).collect()
}

/// Column heads: share and cycles per CPU, then the given ones.
fn heads(report: &Report, last: &[(&str, Align)]) -> Vec<(String, Align)> {
    let mut heads = Vec::new();
    for cpu in &report.cpus {
        heads.push((label(report, cpu), Align::Right));
        if report.cpus.len() <= CPUS_WITH_CYCLES {
            heads.push(("cycles".to_owned(), Align::Right));
        }
    }
    heads.extend(
        last.iter()
            .map(|(head, align)| ((*head).to_owned(), *align)),
    );
    heads
}

fn figures<K: Eq + Hash>(
    report: &Report,
    first: u64,
    others: &[HashMap<K, u64>],
    key: &K,
) -> Vec<String> {
    let rest = others.iter().map(|cycles| cycles.get(key).copied());
    let mut cells = Vec::new();
    for (cycles, cpu) in std::iter::once(Some(first)).chain(rest).zip(&report.cpus) {
        cells.push(cycles.map_or_else(String::new, |cycles| percent(cycles, cpu.cycles)));
        if report.cpus.len() <= CPUS_WITH_CYCLES {
            cells.push(cycles.map_or_else(String::new, grouped));
        }
    }
    cells
}

/// Hottest functions.
pub(super) fn functions(report: &Report, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let Some(first) = report.cpus.first().filter(|cpu| !cpu.functions.is_empty()) else {
        return Ok(());
    };
    heading(style, out, "Hottest functions")?;
    let others = others(report, |cpu| {
        let entries = cpu.functions.iter();
        entries
            .map(|f| ((f.module.as_str(), f.name.as_str()), f.cycles))
            .collect()
    });
    let mut table = Table::new(heads(
        report,
        &[
            ("IPC", Align::Right),
            ("function", Align::Left),
            ("module", Align::Left),
        ],
    ));
    for function in first.functions.iter().take(FUNCTIONS) {
        let key = (function.module.as_str(), function.name.as_str());
        let mut row = figures(report, function.cycles, &others, &key);
        row.push(if function.cycles == 0 {
            String::new()
        } else {
            format!(
                "{:.2}",
                function.instructions as f64 / function.cycles as f64
            )
        });
        row.push(escape(&function.name).into_owned());
        row.push(escape(&function.module).into_owned());
        table.row(row);
    }
    table.write(style, out)?;
    let hidden = first.functions.len().saturating_sub(FUNCTIONS);
    if hidden > 0 {
        let line = format!("  … and {} more in the JSON report", grouped(hidden as u64));
        writeln!(out, "{}", style.paint(Paint::Dim, line))?;
    }
    Ok(())
}

/// Hottest blocks, each with its code.
pub(super) fn blocks(report: &Report, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let Some(first) = report.cpus.first().filter(|cpu| !cpu.blocks.is_empty()) else {
        return Ok(());
    };
    heading(style, out, "Hottest blocks")?;
    let others = others(report, |cpu| {
        cpu.blocks
            .iter()
            .map(|b| (b.address.as_str(), b.cycles))
            .collect()
    });
    let mut table = Table::new(heads(
        report,
        &[("executions", Align::Right), ("block", Align::Left)],
    ));
    for block in first.blocks.iter().take(BLOCKS) {
        let mut row = figures(report, block.cycles, &others, &block.address.as_str());
        row.push(grouped(block.executions));
        row.push(place(block));
        table.row(row);
    }
    table.write(style, out)?;
    if let Some(block) = first.blocks.first().filter(|block| !block.code.is_empty()) {
        writeln!(out, "\n  {}:", place(block))?;
        for line in block.code.iter().take(CODE_LINES) {
            writeln!(out, "    {}", escape(line))?;
        }
        let hidden = block.code.len().saturating_sub(CODE_LINES);
        if hidden > 0 {
            writeln!(out, "    … {hidden} more")?;
        }
    }
    bounds(first, style, out)
}

/// What bounds the hottest blocks, against what they take in the program.
fn bounds(cpu: &CpuReport, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let bounded = |block: &BlockReport| block.bound.is_some() && block.executions > 0;
    if !cpu.blocks.iter().take(BLOCKS).any(bounded) {
        return Ok(());
    }
    let title = format!("What bounds them on {}, cycles per execution", cpu.cpu);
    heading(style, out, &escape(&title))?;
    let mut table = Table::new([
        ("here", Align::Right),
        ("as a loop", Align::Right),
        ("next bound", Align::Right),
        ("bound by", Align::Left),
        ("block", Align::Left),
    ]);
    for block in cpu.blocks.iter().take(BLOCKS) {
        let Some(bound) = block.bound.as_ref().filter(|_| block.executions > 0) else {
            continue;
        };
        table.row(vec![
            format!("{:.2}", block.cycles as f64 / block.executions as f64),
            format!("{:.2}", bound.cycles),
            format!("{:.2}", bound.next),
            escape(&parts(bound)).into_owned(),
            place(block),
        ]);
    }
    table.write(style, out)
}

/// `ports, issue`; parts that do not explain the cycles on their own are only the nearest.
pub(crate) fn parts(bound: &BlockBound) -> String {
    let parts = bound.parts.join(", ").replace('_', " ");
    if bound.explained {
        parts
    } else {
        format!("several (nearest: {parts})")
    }
}

/// `main+0x12 (file.c:3)`, or module and address where there is no symbol.
fn place(block: &BlockReport) -> String {
    let mut place = if block.symbol.is_empty() {
        format!("{} {}", escape(&block.module), block.address)
    } else {
        escape(&block.symbol).into_owned()
    };
    if let Some(line) = &block.line {
        place.push_str(&format!(" ({})", escape(line)));
    }
    place.trim_start().to_owned()
}
