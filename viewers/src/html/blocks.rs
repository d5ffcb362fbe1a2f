//! The hottest blocks, and annotated assembly of the very hottest.

use std::io::{self, Write};

use mcad_report::{BlockBound, BlockReport, CpuReport, InstructionReport, Report};

use super::lines::{Sources, short};
use super::slots;
use super::table::{Head, Table, figure, heat, name};
use crate::escape::html as esc;
use crate::layout::percent;
use crate::text::hot;

/// Blocks with annotated assembly, of each CPU.
const LISTED: usize = 24;
/// Those that are open from the start.
const OPEN: usize = 3;
/// Blocks below this share of the cycles are not annotated, in parts per thousand.
const LEAST: u64 = 2;
/// Instructions shown of one block.
const INSTRUCTIONS: usize = 200;

/// The table of blocks and the listings.
pub(super) fn section(
    report: &Report,
    number: usize,
    cpu: &CpuReport,
    out: &mut dyn Write,
) -> io::Result<()> {
    let Some(hottest) = cpu.blocks.first() else {
        return Ok(());
    };
    writeln!(out, "<h3 id=\"cpu{number}-blocks\">Hottest blocks</h3>")?;
    let lines = cpu.blocks.iter().any(|b| b.line.is_some());
    let mut heads = vec![name("block")];
    heads.extend(lines.then_some(name("line")));
    heads.extend([
        figure("share"),
        figure("cycles"),
        figure("executions"),
        figure("cycles each").titled("cycles per execution in the program"),
        name("issue slots").titled("where they went in this run"),
        figure("instructions"),
    ]);
    let mut table = Table::begin(out, "", &heads)?;
    for (rank, block) in cpu.blocks.iter().enumerate() {
        let mut place = esc(place(block));
        if is_listed(cpu, rank, block) {
            place = format!("<a href=\"#cpu{number}b{rank}\">{place}</a>");
        }
        let module = esc(&block.module);
        table.html("", &format!("{place} <small>{module}</small>"));
        if lines {
            table.text(block.line.as_deref().map_or("", short));
        }
        table.share(block.cycles, cpu.cycles, hottest.cycles);
        table.count(block.cycles);
        table.count(block.executions);
        let each = each(block);
        table.figure(each, &format!("{each:.2}"));
        slots::cell(block.slots.as_ref(), &mut table);
        table.count(block.instructions.into());
        table.end_row()?;
    }
    table.end()?;
    let sources = Sources::of(report);
    for (rank, block) in cpu.blocks.iter().enumerate() {
        if is_listed(cpu, rank, block) {
            listing(&sources, number, rank, cpu, block, out)?;
        }
    }
    Ok(())
}

fn is_listed(cpu: &CpuReport, rank: usize, block: &BlockReport) -> bool {
    let hot = block.cycles.saturating_mul(1000) >= cpu.cycles.saturating_mul(LEAST);
    rank < LISTED && hot && !block.code.is_empty()
}

/// Symbol, or address where there is none.
fn place(block: &BlockReport) -> &str {
    if block.symbol.is_empty() {
        &block.address
    } else {
        &block.symbol
    }
}

fn each(block: &BlockReport) -> f64 {
    block.cycles as f64 / block.executions.max(1) as f64
}

/// A block's instructions with what became of them.
fn listing(
    sources: &Sources<'_>,
    number: usize,
    rank: usize,
    cpu: &CpuReport,
    block: &BlockReport,
    out: &mut dyn Write,
) -> io::Result<()> {
    let open = if rank < OPEN { " open" } else { "" };
    writeln!(
        out,
        "<details class=\"block\" id=\"cpu{number}b{rank}\"{open}><summary><b>{}</b> \
         <span>{} of cycles · {:.2} cycles each</span></summary>",
        esc(place(block)),
        percent(block.cycles, cpu.cycles),
        each(block),
    )?;
    if let Some(of) = &block.slots {
        writeln!(
            out,
            "<p>Its issue slots in this run: <b>{}</b>.</p>",
            esc(&hot::shares(of))
        )?;
        slots::bar(&slots::of_code(of), "slots wide", out)?;
    }
    instructions(sources, cpu, block, out)?;
    if let Some(bound) = &block.bound {
        writeln!(out, "{}", bound_text(bound))?;
    }
    let hidden = block.code.len().saturating_sub(INSTRUCTIONS);
    if hidden > 0 {
        writeln!(
            out,
            "<p class=\"dim\">{hidden} more instructions are in the JSON report.</p>"
        )?;
    }
    writeln!(out, "</details>")
}

fn instructions(
    sources: &Sources<'_>,
    cpu: &CpuReport,
    block: &BlockReport,
    out: &mut dyn Write,
) -> io::Result<()> {
    let default = InstructionReport::default();
    let known = |n: usize| block.listing.get(n).unwrap_or(&default);
    let rows = || (0..block.code.len()).take(INSTRUCTIONS).map(known);
    let lines = rows().any(|i| i.line.is_some());
    let ports = rows().map(|i| i.port_uops.len()).max().unwrap_or(0);
    let most = rows().map(|i| i.cycles).max().unwrap_or(0);
    let name_of = |port: usize| match cpu.ports.get(port) {
        Some(port) => port.port.clone(),
        None => format!("{port:X}"),
    };
    let names: Vec<String> = (0..ports).map(name_of).collect();
    let mut heads: Vec<Head<'_>> = vec![figure("address")];
    heads.push(name("instruction"));
    if !block.listing.is_empty() {
        heads.extend([
            figure("share").titled("of the block's cycles: from the retirement before to its own"),
            figure("cycles").titled("per execution"),
            figure("µops").titled("fused, per execution"),
            name("ports").titled("where its µops may execute"),
        ]);
    }
    let pressure = "µops on this port per execution, when the block runs by itself";
    heads.extend(names.iter().map(|port| heat(port).titled(pressure)));
    let file = rows().find_map(|i| file_of(i.line.as_deref()?));
    heads.extend(lines.then_some(name(file.map_or("source", short))));
    let mut table = Table::begin(out, "listing", &heads)?;
    let mut before = None;
    for (n, code) in block.code.iter().enumerate().take(INSTRUCTIONS) {
        let i = known(n);
        table.figure(n as f64, i.address.trim_start_matches("0x"));
        table.code(code);
        if !block.listing.is_empty() {
            table.share(i.cycles, block.cycles, most);
            let each = i.cycles as f64 / block.executions.max(1) as f64;
            table.figure(each, &format!("{each:.2}"));
            let shown = i.uops.to_string();
            // The second half of a macro-fused pair has none of its own.
            table.figure(i.uops.into(), if i.uops == 0 { "–" } else { &shown });
            table.text(&i.ports);
        }
        for port in 0..ports {
            let uops = i.port_uops.get(port).copied().unwrap_or(0.0);
            table.shade(uops, 1.0, &figure_of(uops));
        }
        if lines {
            let line = i.line.as_deref();
            let class = if line == before { "code same" } else { "code" };
            table.html(class, &source(sources, line, file));
            before = line;
        }
        table.end_row()?;
    }
    table.end()
}

/// `.5`, `1`, `1.25`: short, for narrow columns.
fn figure_of(uops: f64) -> String {
    let text = format!("{uops:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    let short = text.strip_prefix('0').filter(|rest| !rest.is_empty());
    short.unwrap_or(text).to_owned()
}

/// The file of `file:line`.
fn file_of(line: &str) -> Option<&str> {
    line.rsplit_once(':').map(|(file, _)| file)
}

/// Place and text of a source line; lines of `file` go by their number.
fn source(sources: &Sources<'_>, line: Option<&str>, file: Option<&str>) -> String {
    let Some(line) = line else {
        return String::new();
    };
    let number = line.rsplit_once(':').map_or(line, |(_, number)| number);
    let place = if file_of(line) == file {
        number
    } else {
        short(line)
    };
    let text = sources.text(line).unwrap_or("");
    format!(
        "<span class=\"place\" title=\"{}\">{}</span> {}",
        esc(line),
        esc(place),
        esc(text.trim_start())
    )
}

/// What would bound a block as a loop, as a paragraph.
fn bound_text(bound: &BlockBound) -> String {
    format!(
        "<p class=\"dim\">Another question: as an endless loop by itself it would take <b>{:.2}</b> \
         cycles, bound by {} ({}).</p>",
        bound.cycles,
        esc(&hot::parts(bound)),
        esc(&bound.evidence.join("; ")),
    )
}
