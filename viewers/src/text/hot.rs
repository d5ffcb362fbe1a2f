//! The hottest functions and blocks, CPUs side by side, sorted by the first CPU's cycles.

use std::collections::HashMap;
use std::hash::Hash;
use std::io::{self, Write};

use mcad_report::{BlockBound, BlockReport, CpuReport, FunctionReport, Report, SlotStack};

use super::{heading, label, verdict};
use crate::Style;
use crate::escape::escape;
use crate::layout::{Align, Table, grouped, percent, tells};
use crate::style::{FUNCTIONS, Paint};

/// Blocks shown; the JSON has what the report has.
const BLOCKS: usize = 5;
/// Causes shown of one block, and the least share of its slots that one must have.
const CAUSES: usize = 4;
const LEAST: f64 = 5.0;
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

/// Whether a share of all cycles is printed as more than 0.0 %; in a report without cycles all are.
fn is_shown(cycles: u64, all: u64) -> bool {
    all == 0 || u128::from(cycles) * 2000 >= u128::from(all)
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
            ("mostly", Align::Right),
            ("function", Align::Left),
            ("module", Align::Left),
        ],
    ));
    // Rows of 0.0 % say nothing, unless somebody asks for them.
    let asked = style.functions > FUNCTIONS;
    let telling = |f: &&FunctionReport| asked || is_shown(f.cycles, first.cycles);
    let shown = first.functions.iter().take_while(telling);
    let shown: Vec<&FunctionReport> = shown.take(style.functions).collect();
    for function in &shown {
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
        let slots = function.slots.as_ref();
        row.push(slots.map_or_else(String::new, |slots| verdict::of(slots).text()));
        row.push(escape(&function.name).into_owned());
        row.push(escape(&function.module).into_owned());
        table.row(row);
    }
    table.write(style, out)?;
    let hidden = first.functions.len().saturating_sub(shown.len());
    if hidden > 0 {
        let line = format!(
            "  … and {} more with --functions N or in the JSON report",
            grouped(hidden as u64)
        );
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
    let telling = |b: &&BlockReport| is_shown(b.cycles, first.cycles);
    for block in first.blocks.iter().take_while(telling).take(BLOCKS) {
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
    stacks(first, style, out)?;
    loops(first, style, out)
}

/// `retiring 61 %, ports 20 %`: the causes that took a twentieth of the slots or more.
pub(crate) fn shares(slots: &SlotStack) -> String {
    let all = slots.sum();
    let share = |slots: u64| 100.0 * slots as f64 / all as f64;
    let ranked = slots.ranked().into_iter().map(|(name, n)| (name, share(n)));
    let shown = ranked.filter(|(_, share)| *share >= LEAST).take(CAUSES);
    let shares: Vec<String> = shown
        .map(|(name, share)| format!("{name} {share:.0} %"))
        .collect();
    shares.join(", ")
}

/// `dependencies 21.5 %, pairing 12.0 %`: every cause that slots were lost for, most first.
pub(crate) fn losses(slots: &SlotStack) -> String {
    let all = slots.sum();
    let lost = slots
        .ranked()
        .into_iter()
        .filter(|(name, slots)| *name != "retiring" && tells(*slots, all));
    let lost: Vec<String> = lost
        .map(|(name, slots)| format!("{name} {}", percent(slots, all)))
        .collect();
    lost.join(", ")
}

/// What the hottest blocks waited for in this run.
fn stacks(cpu: &CpuReport, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let known = |block: &&BlockReport| block.executions > 0;
    let blocks = cpu.blocks.iter().take(BLOCKS).filter(known);
    let mut rows = blocks
        .filter_map(|b| Some((b, b.slots.as_ref()?)))
        .peekable();
    if rows.peek().is_none() {
        return Ok(());
    }
    let title = format!("Where their issue slots went on {}, in this run", cpu.cpu);
    heading(style, out, &escape(&title))?;
    let mut table = Table::new([
        ("cycles each", Align::Right),
        ("issue slots", Align::Left),
        ("block", Align::Left),
    ]);
    for (block, slots) in rows {
        table.row(vec![
            format!("{:.2}", block.cycles as f64 / block.executions as f64),
            shares(slots),
            place(block),
        ]);
    }
    table.write(style, out)
}

/// Another question: what would bound the hottest blocks as endless loops by themselves.
fn loops(cpu: &CpuReport, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let bounded = |block: &BlockReport| block.bound.is_some() && block.executions > 0;
    if !cpu.blocks.iter().take(BLOCKS).any(bounded) {
        return Ok(());
    }
    let title = format!(
        "Another question: each as an endless loop by itself on {}",
        cpu.cpu
    );
    heading(style, out, &escape(&title))?;
    let mut table = Table::new([
        ("cycles", Align::Right),
        ("would be bound by", Align::Left),
        ("block", Align::Left),
    ]);
    for block in cpu.blocks.iter().take(BLOCKS) {
        let Some(bound) = block.bound.as_ref().filter(|_| block.executions > 0) else {
            continue;
        };
        table.row(vec![
            format!("{:.2}", bound.cycles),
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
