//! What each process and each thread took, the sum on top.

use std::io::{self, Write};

use mcad_report::{CpuReport, Report};

use super::table::{Head, Table, figure, name};
use crate::escape::html as esc;
use crate::layout::grouped;
use crate::text::processes::depths;

/// Rows of each table.
const ROWS: usize = 1000;

/// The processes, where there are several, and the threads of those that have several.
pub(super) fn section(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    if !report.processes.is_empty() {
        writeln!(out, "<section id=\"processes\"><h2>Processes</h2>")?;
        processes(report, out)?;
        writeln!(out, "</section>")?;
    }
    if have_threads(report) {
        writeln!(out, "<section id=\"threads\"><h2>Threads</h2>")?;
        threads(report, out)?;
        writeln!(out, "</section>")?;
    }
    Ok(())
}

/// Whether a process has more than one thread.
pub(super) fn have_threads(report: &Report) -> bool {
    let Some(cpu) = report.cpus.first() else {
        return false;
    };
    cpu.threads.len() > report.processes.len().max(1)
}

/// A column of cycles for each CPU behind what a row is called.
fn heads<'r>(report: &'r Report, first: &[Head<'r>], rest: &[Head<'r>]) -> Vec<Head<'r>> {
    let cycles = report
        .cpus
        .iter()
        .map(|cpu| figure(&cpu.cpu).titled("cycles"));
    let rest = std::iter::once(figure("instructions")).chain(rest.iter().copied());
    first.iter().copied().chain(cycles).chain(rest).collect()
}

fn more(all: usize, out: &mut dyn Write) -> io::Result<()> {
    match all.saturating_sub(ROWS) {
        0 => Ok(()),
        more => writeln!(
            out,
            "<p class=\"dim\">… and {} more in the JSON report</p>",
            grouped(more as u64)
        ),
    }
}

fn processes(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let heads = heads(
        report,
        &[name("process")],
        &[figure("threads"), name("ended")],
    );
    let mut table = Table::begin(out, "", &heads)?;
    table.html("", "<b>all together</b>");
    for cpu in &report.cpus {
        table.count(cpu.cycles);
    }
    table.count(report.trace.instructions);
    table.count(report.trace.threads);
    table.text(&report.program.end);
    table.end_row()?;
    let rows = report.processes.iter().zip(depths(&report.processes));
    for (process, depth) in rows.take(ROWS) {
        let indent = "&emsp;".repeat(depth.min(8));
        let command = esc(&process.command.join(" "));
        table.html("code", &format!("{indent}{command}"));
        let cycles = |cpu: &CpuReport| {
            let mut of = cpu.processes.iter();
            of.find(|of| of.process == process.process)
                .map(|of| of.cycles)
        };
        report.cpus.iter().for_each(|cpu| match cycles(cpu) {
            Some(cycles) => table.count(cycles),
            None => table.text(""),
        });
        table.count(process.instructions);
        table.count(u64::from(process.threads));
        table.text(&process.end);
        table.end_row()?;
    }
    table.end()?;
    more(report.processes.len(), out)
}

fn threads(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let Some(first) = report.cpus.first() else {
        return Ok(());
    };
    let heads = heads(report, &[name("thread")], &[figure("IPC"), name("process")]);
    let mut table = Table::begin(out, "", &heads)?;
    let mut threads: Vec<_> = first.threads.iter().collect();
    threads.sort_by_key(|thread| (std::cmp::Reverse(thread.cycles), thread.thread));
    for thread in threads.into_iter().take(ROWS) {
        table.count(u64::from(thread.thread));
        for cpu in &report.cpus {
            let mut of = cpu.threads.iter();
            match of.find(|of| of.thread == thread.thread) {
                Some(of) => table.count(of.cycles),
                None => table.text(""),
            }
        }
        table.count(thread.instructions);
        let ipc = thread.instructions as f64 / thread.cycles.max(1) as f64;
        table.figure(ipc, &format!("{ipc:.2}"));
        let process = report.processes.get(thread.process as usize);
        table.text(&process.map_or_else(String::new, |p| p.command.join(" ")));
        table.end_row()?;
    }
    table.end()?;
    more(first.threads.len(), out)
}
