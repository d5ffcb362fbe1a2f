//! What loads and stores found, and which functions miss.

use std::io::{self, Write};

use mcad_report::{CpuReport, Report};

use super::{heading, label};
use crate::Style;
use crate::escape::escape;
use crate::layout::{Align, Table};

/// Functions that are listed.
const FUNCTIONS: usize = 5;

/// Misses by level, and the functions with most of them.
pub(super) fn write(report: &Report, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let known = || report.cpus.iter().filter(|cpu| cpu.memory.is_some());
    if known().next().is_none() {
        return Ok(());
    }
    heading(style, out, "Misses per 1 000 instructions")?;
    let columns = ["L1D", "L2", "L3", "page walks", "stores", "L1I"];
    let mut table = Table::new(
        std::iter::once(("", Align::Left)).chain(columns.map(|name| (name, Align::Right))),
    );
    for cpu in known() {
        let Some(m) = &cpu.memory else { continue };
        let figures = [
            m.loads.misses(),
            m.loads.l3.saturating_add(m.loads.dram),
            m.loads.dram,
            m.walks,
            m.stores.misses(),
            m.fetches.misses(),
        ];
        let mut row = vec![label(report, cpu)];
        row.extend(figures.map(|n| per_thousand(n, cpu)));
        table.row(row);
    }
    table.write(style, out)?;
    let missing = known().flat_map(|cpu| cpu.memory.iter().map(move |m| (cpu, m)));
    let mut rows = missing
        .flat_map(|(cpu, m)| m.functions.iter().take(FUNCTIONS).map(move |f| (cpu, f)))
        .filter(|(cpu, f)| {
            let counts = [f.l1, f.l2, f.l3, f.walks];
            f.l1 > 0 && counts.iter().any(|n| shows(*n, cpu))
        })
        .peekable();
    if rows.peek().is_none() {
        return Ok(());
    }
    heading(
        style,
        out,
        "Functions that miss most (data, per 1 000 instructions of all)",
    )?;
    let columns = [
        ("CPU", Align::Left),
        ("L1D", Align::Right),
        ("L2", Align::Right),
        ("L3", Align::Right),
        ("page walks", Align::Right),
        ("function", Align::Left),
        ("module", Align::Left),
    ];
    let mut table = Table::new(columns);
    for (cpu, f) in rows {
        table.row(vec![
            label(report, cpu),
            per_thousand(f.l1, cpu),
            per_thousand(f.l2, cpu),
            per_thousand(f.l3, cpu),
            per_thousand(f.walks, cpu),
            escape(&f.name).into_owned(),
            escape(&f.module).into_owned(),
        ]);
    }
    table.write(style, out)
}

/// Whether [`per_thousand`] says more than 0.00.
pub(crate) const fn shows(count: u64, cpu: &CpuReport) -> bool {
    count.saturating_mul(200_000) >= cpu.instructions && count > 0
}

/// A count per 1 000 instructions.
pub(super) fn per_thousand(count: u64, cpu: &CpuReport) -> String {
    if cpu.instructions == 0 {
        return String::new();
    }
    format!("{:.2}", 1000.0 * count as f64 / cpu.instructions as f64)
}
