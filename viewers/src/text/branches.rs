//! Branches that were predicted wrongly: how many of each kind, and which.

use std::io::{self, Write};

use mcad_report::{CpuReport, Report};

use super::memory::{per_thousand, shows};
use super::{heading, label};
use crate::Style;
use crate::escape::escape;
use crate::gains::Gain;
use crate::layout::{Align, Table, grouped};

/// Branches that are listed of each CPU.
const BRANCHES: usize = 5;

/// Wrong predictions by kind, and the branches with most of them.
pub(super) fn write(report: &Report, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let known = || {
        let cpus = report.cpus.iter();
        cpus.filter_map(|cpu| Some((cpu, cpu.branches.as_ref()?)))
    };
    if known().next().is_none() {
        return Ok(());
    }
    heading(
        style,
        out,
        "Branches predicted wrongly, per 1 000 instructions",
    )?;
    let mut columns = vec!["all", "conditional", "indirect", "returns", "found late"];
    // Only some CPUs have a quick predictor that another one overrides.
    let overridden = known().any(|(_, b)| b.overridden > 0);
    if overridden {
        columns.push("overridden");
    }
    let figures = columns.into_iter().map(|name| (name, Align::Right));
    let mut table = Table::new(std::iter::once(("", Align::Left)).chain(figures));
    for (cpu, b) in known() {
        let kinds = [b.wrong_directions, b.wrong_targets, b.wrong_returns];
        let mut row = vec![label(report, cpu), per_thousand(b.wrong(), cpu)];
        row.extend(kinds.map(|n| per_thousand(n, cpu)));
        row.push(per_thousand(b.decoded, cpu));
        if overridden {
            row.push(per_thousand(b.overridden, cpu));
        }
        table.row(row);
    }
    table.write(style, out)?;
    let rows = known().flat_map(|(cpu, b)| b.branches.iter().take(BRANCHES).map(move |b| (cpu, b)));
    let rows: Vec<_> = rows
        .filter(|(cpu, branch)| shows(branch.wrong, cpu))
        .collect();
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    let mut table = Table::new([
        ("CPU", Align::Left),
        ("wrong", Align::Right),
        ("per 1 000", Align::Right),
        ("branch", Align::Left),
        ("module", Align::Left),
    ]);
    for (cpu, branch) in rows {
        let mut place = escape(branch.place.as_deref().unwrap_or(&branch.name)).into_owned();
        if let Some(line) = &branch.line {
            place.push_str(&format!(" ({})", escape(line)));
        }
        table.row(vec![
            label(report, cpu),
            grouped(branch.wrong),
            per_thousand(branch.wrong, cpu),
            place,
            escape(&branch.module).into_owned(),
        ]);
    }
    table.write(style, out)
}

/// What the program would gain with a part made perfect.
pub(super) fn gains(gains: &[Gain<'_>], style: Style, out: &mut dyn Write) -> io::Result<()> {
    if gains.is_empty() {
        return Ok(());
    }
    heading(style, out, "What it would gain with a part made perfect")?;
    let mut table = Table::new([
        ("CPU", Align::Left),
        ("part", Align::Left),
        ("cycles", Align::Right),
        ("gain", Align::Right),
    ]);
    for gain in gains {
        let CpuReport { cpu, .. } = gain.cpu;
        table.row(vec![
            escape(cpu).into_owned(),
            escape(gain.part).into_owned(),
            grouped(gain.ideal.cycles),
            format!("{:.1} %", gain.percent()),
        ]);
    }
    table.write(style, out)
}
