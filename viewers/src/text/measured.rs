//! Predicted beside measured cycles.

use std::io::{self, Write};

use mcad_report::{Measured, Report};

use super::{heading, label};
use crate::Style;
use crate::escape::escape;
use crate::layout::{Align, Table, grouped};
use crate::style::Paint;

/// Writes the section, if there was a measurement.
pub(super) fn measured(report: &Report, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let Some(measured) = &report.run.measured else {
        return Ok(());
    };
    heading(style, out, "Predicted and measured cycles")?;
    let mut table = Table::new([
        ("CPU", Align::Left),
        ("predicted", Align::Right),
        ("measured", Align::Right),
        ("predicted/measured", Align::Right),
    ]);
    for cpu in &report.cpus {
        table.row(vec![
            label(report, cpu),
            grouped(cpu.cycles),
            grouped(measured.cycles),
            format!("{:.3}", cpu.cycles as f64 / measured.cycles.max(1) as f64),
        ]);
    }
    table.write(style, out)?;
    let spread = (measured.high.saturating_sub(measured.low)) as f64;
    writeln!(
        out,
        "  measured: user cycles, median of {} runs ({} rejected), interquartile range {:.1} %, least {}",
        measured.runs,
        measured.rejected,
        100.0 * spread / measured.cycles.max(1) as f64,
        grouped(measured.min),
    )?;
    writeln!(
        out,
        "  on {} at {:.0} MHz, by the {}",
        escape(&measured.host),
        measured.core_mhz,
        escape(&measured.source)
    )?;
    let paint = if of_host(report, measured).next().is_some() {
        Paint::Dim
    } else {
        Paint::Warning
    };
    writeln!(out, "{}", style.paint(paint, verdict(report, measured)))
}

/// The analysed CPUs that are models of the measured one.
fn of_host<'r>(report: &'r Report, measured: &'r Measured) -> impl Iterator<Item = &'r str> {
    let cpus = report.cpus.iter().map(|cpu| cpu.cpu.as_str());
    cpus.filter(|cpu| measured.model.as_deref() == Some(cpu))
}

/// What the ratios mean.
fn verdict(report: &Report, measured: &Measured) -> String {
    let others = report
        .cpus
        .iter()
        .any(|cpu| Some(&cpu.cpu) != measured.model.as_ref());
    match (of_host(report, measured).next(), &measured.model) {
        (Some(cpu), _) if others => {
            format!("  {cpu} is the model of this CPU; the other ratios compare different CPUs")
        }
        (Some(cpu), _) => format!("  {cpu} is the model of this CPU"),
        (None, Some(model)) => format!(
            "  none of these is this CPU: the ratios compare different CPUs (--cpu {} is its model)",
            escape(model)
        ),
        (None, None) => "  no model is of this CPU: the ratios compare different CPUs".to_owned(),
    }
}
