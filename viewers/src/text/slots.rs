//! Where issue slots went (top-down, Yasin 2014) and how busy the ports were.

use std::io::{self, Write};
use std::iter;

use mcad_report::{Report, SlotStack, TopDown};

use super::hot::losses;
use super::{heading, label};
use crate::Style;
use crate::layout::{Align, Table, percent, tells, wrapped};
use crate::style::Paint;

/// The categories in the order drawn: name, paint, glyph where there is no colour.
const CATEGORIES: [(&str, Paint, char); 6] = [
    ("retiring", Paint::Retiring, '█'),
    ("bad speculation", Paint::BadSpeculation, '▚'),
    ("front end", Paint::Frontend, '▓'),
    ("memory", Paint::Memory, '▒'),
    ("core", Paint::Core, '░'),
    ("other", Paint::Other, '·'),
];

const fn counts(topdown: &TopDown) -> [u64; 6] {
    [
        topdown.retiring,
        topdown.bad_speculation,
        topdown.frontend,
        topdown.backend_memory,
        topdown.backend_core,
        topdown.other,
    ]
}

/// One bar per CPU.
pub(super) fn topdown(report: &Report, style: Style, out: &mut dyn Write) -> io::Result<()> {
    if report.cpus.iter().all(|cpu| cpu.topdown.slots == 0) {
        return Ok(());
    }
    heading(style, out, "Where issue slots went")?;
    let names: Vec<String> = report.cpus.iter().map(|cpu| label(report, cpu)).collect();
    let margin = names.iter().map(|n| n.chars().count()).max().unwrap_or(0);
    let width = style.width.saturating_sub(margin + 4).clamp(10, 80);
    for (cpu, name) in report.cpus.iter().zip(&names) {
        let counts = counts(&cpu.topdown);
        write!(out, "  {name:<margin$}  ")?;
        for ((_, paint, glyph), cells) in CATEGORIES.iter().zip(cells(&counts, width)) {
            let bar: String = std::iter::repeat_n(*glyph, cells).collect();
            write!(out, "{}", style.paint(*paint, bar))?;
        }
        writeln!(out)?;
        write!(out, "  {:margin$}", "")?;
        for ((category, paint, glyph), count) in CATEGORIES.iter().zip(counts) {
            if !tells(count, cpu.topdown.slots) {
                continue;
            }
            let share = percent(count, cpu.topdown.slots);
            write!(out, "  {} {category} {share}", style.paint(*paint, glyph))?;
        }
        writeln!(out)?;
        match cpu.slots.as_ref().filter(|_| cpu.in_order) {
            Some(slots) => causes(slots, margin, style, out)?,
            None => levels(&cpu.topdown, margin, out)?,
        }
    }
    Ok(())
}

/// What an in-order core lost slots for: each has one cause.
fn causes(slots: &SlotStack, margin: usize, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let text = losses(slots);
    if text.is_empty() {
        return Ok(());
    }
    let room = style.width.saturating_sub(margin + 4).max(20);
    // No line begins with a unit.
    let text = format!("lost for {text}").replace(" %", "\u{a0}%");
    for line in wrapped(&text, room) {
        let line = line.replace('\u{a0}', " ");
        writeln!(out, "  {:margin$}  {line}", "")?;
    }
    Ok(())
}

/// What loads and stores waited for, where they held up a hundredth of all slots beyond the first
/// level.
fn levels(topdown: &TopDown, margin: usize, out: &mut dyn Write) -> io::Result<()> {
    let m = &topdown.memory_levels;
    let behind = [
        ("L2", m.l2),
        ("L3", m.l3),
        ("DRAM", m.dram),
        ("translation", m.translation),
        ("stores", m.stores),
        ("page faults", m.faults),
    ];
    let slots = topdown.slots;
    let sum = behind
        .iter()
        .fold(0u64, |sum, (_, n)| sum.saturating_add(*n));
    if sum.saturating_mul(100) < slots {
        return Ok(());
    }
    let levels: Vec<String> = iter::once(("L1", m.l1))
        .chain(behind)
        .filter(|(_, count)| tells(*count, slots))
        .map(|(name, count)| format!("{name} {}", percent(count, slots)))
        .collect();
    writeln!(out, "  {:margin$}    memory: {}", "", levels.join(", "))
}

/// Splits `width` cells in proportion; the sum is `width` (largest remainders get the rest).
fn cells(counts: &[u64; 6], width: usize) -> [usize; 6] {
    let total: u128 = counts.iter().map(|&count| u128::from(count)).sum();
    let mut cells = [0; 6];
    if total == 0 {
        return cells;
    }
    let mut remainders = [(0_u128, 0_usize); 6];
    for (i, &count) in counts.iter().enumerate() {
        let scaled = u128::from(count) * width as u128;
        cells[i] = usize::try_from(scaled / total).unwrap_or(width);
        remainders[i] = (scaled % total, i);
    }
    remainders.sort_by(|a, b| b.cmp(a));
    let missing = width - cells.iter().sum::<usize>();
    for &(_, i) in remainders.iter().take(missing) {
        cells[i] += 1;
    }
    cells
}

/// Share of cycles in which each port started a µop.
pub(super) fn ports(report: &Report, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let mut names: Vec<&str> = Vec::new();
    for port in report.cpus.iter().flat_map(|cpu| &cpu.ports) {
        if !names.contains(&port.port.as_str()) {
            names.push(&port.port);
        }
    }
    if names.is_empty() {
        return Ok(());
    }
    heading(style, out, "Ports (µops per 100 cycles)")?;
    let mut table = Table::new(
        std::iter::once(("", Align::Left)).chain(names.iter().map(|name| (*name, Align::Right))),
    );
    for cpu in &report.cpus {
        let mut row = vec![label(report, cpu)];
        for name in &names {
            let port = cpu.ports.iter().find(|port| port.port == *name);
            row.push(match port {
                Some(port) if cpu.cycles > 0 => {
                    format!("{:.1}", port.uops as f64 * 100.0 / cpu.cycles as f64)
                }
                Some(_) => "0.0".to_owned(),
                None => String::new(),
            });
        }
        table.row(row);
    }
    table.write(style, out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_fill_their_width_exactly() {
        for counts in [
            [1, 1, 1, 0, 0, 0],
            [0, 0, 0, 0, 0, 7],
            [3, 5, 11, 13, 17, 19],
            [u64::MAX; 6],
        ] {
            for width in [10, 33, 80] {
                assert_eq!(cells(&counts, width).iter().sum::<usize>(), width);
            }
        }
        assert_eq!(cells(&[0; 6], 40), [0; 6]);
        assert_eq!(cells(&[1, 0, 0, 3, 0, 0], 40), [10, 0, 0, 30, 0, 0]);
    }
}
