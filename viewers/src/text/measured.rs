//! Predicted beside measured cycles.

use std::io::{self, Write};

use mcad_report::{Measured, Report};

use super::{heading, label};
use crate::Style;
use crate::escape::escape;
use crate::layout::{Align, Table, grouped, wrapped};
use crate::style::Paint;

/// Columns of a line of prose.
const WIDTH: usize = 100;
const INDENT: &str = "  ";

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
    for (line, doubtful) in lines(report, measured) {
        let line = wrapped(&escape(&line), WIDTH - INDENT.len());
        let line = format!("{INDENT}{}", line.join(&format!("\n{INDENT}")));
        if doubtful {
            writeln!(out, "{}", style.paint(Paint::Warning, line))?;
        } else {
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}

/// What was measured, how certainly and on what, each in a line, and whether that casts doubt on it.
pub(crate) fn lines(report: &Report, measured: &Measured) -> Vec<(String, bool)> {
    let spread = (measured.high.saturating_sub(measured.low)) as f64;
    let mut lines = vec![(
        format!(
            "measured: user cycles, median of {} runs ({} rejected), interquartile range {:.1} %, least {}",
            measured.runs,
            measured.rejected,
            100.0 * spread / measured.cycles.max(1) as f64,
            grouped(measured.min),
        ),
        false,
    )];
    lines.extend(certainty(measured));
    lines.extend(measured.not_from_exec.as_ref().map(|why| {
        let line = format!(
            "with what the program is charged with before it begins, millions of cycles where many \
             or large models are simulated: {why}"
        );
        (line, true)
    }));
    let host = format!(
        "on {} at {:.0} MHz, by the {}",
        measured.host, measured.core_mhz, measured.source
    );
    lines.push((host, false));
    let of_host = of_host(report, measured).next().is_some();
    lines.push((verdict(report, measured), !of_host));
    lines
}

/// From where to where the ratio may be; empty where that is not known.
pub(crate) fn ratios(predicted: u64, measured: &Measured) -> String {
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
fn certainty(measured: &Measured) -> impl Iterator<Item = (String, bool)> {
    let known = measured.interval.as_ref().map(|interval| {
        let known = format!(
            "known: {} to {} with {:.0} % confidence",
            grouped(interval.low),
            grouped(interval.high),
            interval.percent
        );
        let off = |end: u64| end.abs_diff(measured.cycles) as f64;
        let widest = off(interval.low).max(off(interval.high));
        if widest <= interval.asked_percent / 100.0 * measured.cycles as f64 {
            return (known, false);
        }
        let why = match interval.mostly.as_str() {
            "ticks" => "timer ticks found the user time, and there were few",
            "clock" => "the core clock moved",
            _ => "the runs differ",
        };
        let asked = interval.asked_percent;
        let text = format!(
            "{known}, wider than the {asked:.0} % to both sides that were asked for: {why}"
        );
        (text, true)
    });
    let busy = measured.load.as_ref().filter(|load| load.busy).map(|load| {
        let text = format!(
            "the machine was busy: others kept {:.1} of its {} CPUs meanwhile, and took caches, \
             memory and clock from what was measured; measure again on a quiet one",
            load.others, load.cpus
        );
        (text, true)
    });
    known.into_iter().chain(busy)
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
            format!("{cpu} is the model of this CPU; the other ratios compare different CPUs")
        }
        (Some(cpu), _) => format!("{cpu} is the model of this CPU"),
        (None, Some(model)) => format!(
            "none of these is this CPU: the ratios compare different CPUs (--cpu {} is its model)",
            model
        ),
        (None, None) => "no model is of this CPU: the ratios compare different CPUs".to_owned(),
    }
}
