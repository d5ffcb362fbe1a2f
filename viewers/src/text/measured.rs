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
        ("may be", Align::Right),
    ]);
    for cpu in &report.cpus {
        table.row(vec![
            label(report, cpu),
            grouped(cpu.cycles),
            grouped(measured.cycles),
            format!("{:.3}", cpu.cycles as f64 / measured.cycles.max(1) as f64),
            ratios(cpu.cycles, measured),
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
    certainty(measured, style, out)?;
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

/// From where to where the ratio may be; empty where that is not known.
fn ratios(predicted: u64, measured: &Measured) -> String {
    let to = |cycles: u64| match cycles {
        0 => "∞".to_owned(),
        cycles => format!("{:.3}", predicted as f64 / cycles as f64),
    };
    match &measured.interval {
        Some(interval) => format!("{} to {}", to(interval.high), to(interval.low)),
        None => String::new(),
    }
}

/// How certain the measured cycles are, and what else ran.
fn certainty(measured: &Measured, style: Style, out: &mut dyn Write) -> io::Result<()> {
    if let Some(interval) = &measured.interval {
        let known = format!(
            "  known: {} to {} with {:.0} % confidence",
            grouped(interval.low),
            grouped(interval.high),
            interval.percent
        );
        let off = |end: u64| end.abs_diff(measured.cycles) as f64;
        let widest = off(interval.low).max(off(interval.high));
        if widest <= interval.asked_percent / 100.0 * measured.cycles as f64 {
            writeln!(out, "{known}")?;
        } else {
            let why = match interval.mostly.as_str() {
                "ticks" => "timer ticks found the user time, and there were few",
                "clock" => "the core clock moved",
                _ => "the runs differ",
            };
            let text = format!(
                "{known},\n  wider than the {:.0} % to both sides that were asked for: {why}",
                interval.asked_percent
            );
            writeln!(out, "{}", style.paint(Paint::Warning, text))?;
        }
    }
    match &measured.load {
        Some(load) if load.busy => {
            let text = format!(
                "  the machine was busy: others kept {:.1} of its {} CPUs meanwhile, and took caches,\n  \
                 memory and clock from what was measured; measure again on a quiet one",
                load.others, load.cpus
            );
            writeln!(out, "{}", style.paint(Paint::Warning, text))
        }
        _ => Ok(()),
    }
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
