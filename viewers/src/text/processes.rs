//! What each process and each thread took, where there are several.

use std::io::{self, Write};

use mcad_report::{ProcessReport, Report};

use super::{heading, label};
use crate::Style;
use crate::escape::escape;
use crate::layout::{Align, Table, grouped};
use crate::style::Paint;

/// Processes shown: the first ones by descent.
const PROCESSES: usize = 24;
/// Threads shown: those with most cycles.
const THREADS: usize = 12;
/// Characters of a command that are shown.
const COMMAND: usize = 60;

/// A column of cycles for each CPU, then the given ones.
fn heads(report: &Report, last: &[(&str, Align)]) -> Vec<(String, Align)> {
    let cpus = report.cpus.iter();
    let cycles = cpus.map(|cpu| (label(report, cpu), Align::Right));
    let last = last
        .iter()
        .map(|(head, align)| ((*head).to_owned(), *align));
    cycles.chain(last).collect()
}

fn hidden(style: Style, out: &mut dyn Write, more: usize) -> io::Result<()> {
    if more > 0 {
        let line = format!("  … and {} more in the JSON report", grouped(more as u64));
        writeln!(out, "{}", style.paint(Paint::Dim, line))?;
    }
    Ok(())
}

/// The processes, each below the one that made it.
pub(super) fn processes(report: &Report, style: Style, out: &mut dyn Write) -> io::Result<()> {
    if report.processes.is_empty() {
        return Ok(());
    }
    heading(style, out, "Processes (cycles)")?;
    let mut table = Table::new(heads(
        report,
        &[
            ("instructions", Align::Right),
            ("ended", Align::Left),
            ("process", Align::Left),
        ],
    ));
    let rows = report.processes.iter().zip(depths(&report.processes));
    for (process, depth) in rows.take(PROCESSES) {
        let mut row: Vec<String> = report
            .cpus
            .iter()
            .map(|cpu| {
                let mut of = cpu.processes.iter();
                let cycles = of.find(|of| of.process == process.process);
                cycles.map_or_else(String::new, |of| grouped(of.cycles))
            })
            .collect();
        row.push(grouped(process.instructions));
        row.push(escape(&process.end).into_owned());
        row.push("  ".repeat(depth.min(8)) + &command(process));
        table.row(row);
    }
    table.write(style, out)?;
    hidden(style, out, report.processes.len().saturating_sub(PROCESSES))
}

/// How many processes are between each and the first one.
pub(crate) fn depths(processes: &[ProcessReport]) -> Vec<usize> {
    let mut depths = Vec::new();
    for process in processes {
        let depth = match process.parent {
            // A parent's number is smaller than its children's.
            Some(parent) => depths.get(parent as usize).map_or(0, |depth| depth + 1),
            None => 0,
        };
        depths.push(depth);
    }
    depths
}

/// The command line, as far as it is shown.
pub(crate) fn command(process: &ProcessReport) -> String {
    let command = process.command.join(" ");
    let mut shown: String = command.chars().take(COMMAND).collect();
    if shown.len() < command.len() {
        shown.push('…');
    }
    escape(&shown).into_owned()
}

/// The threads that took most.
pub(super) fn threads(report: &Report, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let Some(first) = report.cpus.first() else {
        return Ok(());
    };
    let many = |process: u32| {
        let of = first.threads.iter().filter(|t| t.process == process);
        of.count() > 1
    };
    // A process with one thread has its line above.
    let mut threads: Vec<_> = first.threads.iter().filter(|t| many(t.process)).collect();
    if threads.is_empty() {
        return Ok(());
    }
    heading(style, out, "Threads (cycles)")?;
    threads.sort_by_key(|thread| (std::cmp::Reverse(thread.cycles), thread.thread));
    let mut table = Table::new(heads(
        report,
        &[
            ("instructions", Align::Right),
            ("IPC", Align::Right),
            ("thread", Align::Right),
            ("process", Align::Left),
        ],
    ));
    for thread in threads.iter().take(THREADS) {
        let mut row: Vec<String> = report
            .cpus
            .iter()
            .map(|cpu| {
                let mut of = cpu.threads.iter();
                let cycles = of.find(|of| of.thread == thread.thread);
                cycles.map_or_else(String::new, |of| grouped(of.cycles))
            })
            .collect();
        row.push(grouped(thread.instructions));
        row.push(match thread.cycles {
            0 => String::new(),
            cycles => format!("{:.2}", thread.instructions as f64 / cycles as f64),
        });
        row.push(thread.thread.to_string());
        let process = report.processes.get(thread.process as usize);
        row.push(process.map_or_else(String::new, command));
        table.row(row);
    }
    table.write(style, out)?;
    hidden(style, out, threads.len().saturating_sub(THREADS))
}
