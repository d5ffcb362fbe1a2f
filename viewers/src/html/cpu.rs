//! What one CPU model says: where slots went, ports, functions, regions.

use std::io::{self, Write};

use mcad_report::{CpuReport, Report};

use super::table::{Table, figure, left_out, name};
use super::{blocks, flame, lines, misses, slots};
use crate::escape::html as esc;
use crate::layout::{grouped, percent, tells};
use crate::text::{hot, verdict};

/// Rows of the function table: keeps the file of a large program to a few MiB.
const FUNCTIONS: usize = 1000;

/// With more CPUs than this a table compares them better than cards.
const CARDS: usize = 4;

/// The figures of every CPU at a glance: cards, or a table of many.
pub(super) fn cards(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    if report.cpus.len() > CARDS {
        return compared(report, out);
    }
    writeln!(out, "<div class=\"cards\">")?;
    for (number, cpu) in report.cpus.iter().enumerate() {
        writeln!(
            out,
            "<a class=\"card\" href=\"#cpu{number}\"><span class=\"cpu\">{} <small>{}</small></span>\
             <span class=\"big\">{}<small>cycles</small></span>\
             <span class=\"pair\"><b>{:.2}</b> instructions per cycle</span>\
             <span class=\"pair\"><b>{}</b> µops</span>",
            esc(&cpu.cpu),
            esc(&cpu.analysis),
            grouped(cpu.cycles),
            cpu.ipc,
            grouped(cpu.uops),
        )?;
        let bound = verdict::of_cpu(cpu);
        if !bound.is_empty() {
            writeln!(
                out,
                "<span class=\"pair\">bound by <b>{}</b></span>",
                esc(&bound).replace(" %", "&nbsp;%")
            )?;
        }
        slots::bar(&slots::of_program(&cpu.topdown), "bar", out)?;
        writeln!(out, "</a>")?;
    }
    writeln!(out, "</div>")
}

fn compared(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let heads = [
        name("CPU"),
        name("model"),
        name("analysis"),
        figure("cycles"),
        figure("IPC"),
        figure("instructions"),
        figure("µops"),
        name("bound by"),
    ];
    let mut table = Table::begin(out, "", &heads)?;
    for cpu in &report.cpus {
        table.text(&cpu.cpu);
        table.text(&cpu.name);
        table.text(&cpu.analysis);
        table.count(cpu.cycles);
        table.figure(cpu.ipc, &format!("{:.3}", cpu.ipc));
        table.count(cpu.instructions);
        table.count(cpu.uops);
        table.text(&verdict::of_cpu(cpu));
        table.end_row()?;
    }
    table.end()
}

/// Everything about one CPU.
pub(super) fn section(
    report: &Report,
    number: usize,
    cpu: &CpuReport,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(
        out,
        "<section id=\"cpu{number}\"><h2>{} <small>{}, {} analysis</small></h2>",
        esc(&cpu.name),
        esc(&cpu.cpu),
        esc(&cpu.analysis)
    )?;
    if !cpu.assumes.is_empty() {
        writeln!(
            out,
            "<p class=\"note\">Assumes: {}.</p>",
            esc(&cpu.assumes.join("; "))
        )?;
    }
    for doubt in &cpu.doubts {
        writeln!(
            out,
            "<p class=\"warn\">But {}: cycles are too few.</p>",
            esc(doubt)
        )?;
    }
    writeln!(out, "<div class=\"columns\">")?;
    topdown(cpu, out)?;
    ports(cpu, out)?;
    writeln!(out, "</div>")?;
    functions(number, cpu, out)?;
    flame::section(number, cpu, out)?;
    misses::section(report, number, cpu, out)?;
    lines::section(report, number, cpu, out)?;
    blocks::section(report, number, cpu, out)?;
    regions(number, cpu, out)?;
    writeln!(out, "</section>")
}

fn topdown(cpu: &CpuReport, out: &mut dyn Write) -> io::Result<()> {
    let t = &cpu.topdown;
    if t.slots == 0 {
        return Ok(());
    }
    writeln!(out, "<div><h3>Where issue slots went</h3>")?;
    let kinds = slots::of_program(t);
    slots::bar(&kinds, "bar", out)?;
    writeln!(out, "<ul class=\"legend\">")?;
    for (class, name, slots) in kinds.into_iter().filter(|kind| tells(kind.2, t.slots)) {
        let share = percent(slots, t.slots);
        writeln!(
            out,
            "<li><i class=\"{class}\"></i><span>{name}</span> <b>{share}</b></li>"
        )?;
    }
    writeln!(out, "</ul>")?;
    if let Some(slots) = &cpu.slots {
        // In order each lost slot has one cause.
        let detail = match cpu.in_order {
            true => format!("Lost for {}", hot::losses(slots)),
            false => format!("In detail: {}", hot::shares(slots)),
        };
        writeln!(out, "<p class=\"dim\">{}</p>", esc(&detail))?;
    }
    writeln!(out, "</div>")
}

fn ports(cpu: &CpuReport, out: &mut dyn Write) -> io::Result<()> {
    if cpu.ports.is_empty() {
        return Ok(());
    }
    writeln!(out, "<div><h3>Port pressure</h3>")?;
    let busy = figure("busy").titled("share of cycles in which the port begins a µop");
    let mut table = Table::begin(out, "ports", &[name("port"), figure("µops"), busy])?;
    for port in &cpu.ports {
        table.text(&port.port);
        table.count(port.uops);
        table.share(port.uops, cpu.cycles, cpu.cycles);
        table.end_row()?;
    }
    table.end()?;
    writeln!(out, "</div>")
}

fn functions(number: usize, cpu: &CpuReport, out: &mut dyn Write) -> io::Result<()> {
    let Some(hottest) = cpu.functions.first() else {
        return Ok(());
    };
    writeln!(out, "<h3 id=\"cpu{number}-functions\">Functions</h3>")?;
    let heads = [
        name("function"),
        name("module"),
        figure("share"),
        figure("cycles"),
        figure("instructions"),
        figure("IPC"),
        name("issue slots").titled("where they went in this run"),
    ];
    let mut table = Table::begin(out, "", &heads)?;
    for f in cpu.functions.iter().take(FUNCTIONS) {
        table.text(&f.name);
        table.html("module", &esc(&f.module));
        table.share(f.cycles, cpu.cycles, hottest.cycles);
        table.count(f.cycles);
        table.count(f.instructions);
        let ipc = f.instructions as f64 / f.cycles.max(1) as f64;
        table.figure(ipc, &format!("{ipc:.2}"));
        slots::cell(f.slots.as_ref(), &mut table);
        table.end_row()?;
    }
    table.end()?;
    let hidden = cpu.functions.get(FUNCTIONS..).unwrap_or(&[]);
    left_out(
        "functions",
        hidden.iter().map(|x| x.cycles),
        cpu.cycles,
        out,
    )
}

fn regions(number: usize, cpu: &CpuReport, out: &mut dyn Write) -> io::Result<()> {
    if cpu.regions.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "<h3 id=\"cpu{number}-regions\">Regions, cycles per occurrence</h3>"
    )?;
    let figures = ["count", "min", "median", "max", "cycles", "instructions"];
    let heads: Vec<_> = std::iter::once(name("region"))
        .chain(figures.map(figure))
        .collect();
    let mut table = Table::begin(out, "", &heads)?;
    for r in &cpu.regions {
        table.text(&r.name);
        for count in [r.count, r.min, r.median, r.max, r.cycles, r.instructions] {
            table.count(count);
        }
        table.end_row()?;
    }
    table.end()
}
