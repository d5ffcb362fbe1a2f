//! Single blocks as a page: for each CPU the cycles and what bounds them, the instructions, the
//! dependency graph, and the first iterations as a timeline.

use std::io::{self, Write};

use mcad_report::block::{Detail, InstructionDetail};

use super::table::{Table, figure, heat, name};
use super::{Excerpt, SORT, TIMELINE, graph, head};
use crate::block::{alignments, bottleneck, evidence, has_latencies, notes, part_name};
use crate::escape::html as esc;

/// A block with what the CPUs say of it.
#[derive(Clone, Debug)]
pub struct PredictedBlock<'d> {
    /// Its name; its bytes if it has none.
    pub name: String,
    /// Its bytes in hexadecimal.
    pub bytes: &'d str,
    /// By CPU.
    pub details: Vec<&'d Detail>,
    /// CPUs that cannot predict it, and why.
    pub failed: Vec<(&'d str, &'d str)>,
}

/// Writes the page of some blocks.
///
/// # Errors
/// What the output says.
pub fn page(blocks: &[PredictedBlock<'_>], version: &str, out: &mut dyn Write) -> io::Result<()> {
    let title = match blocks {
        [block] => esc(&block.name),
        blocks => format!("{} blocks", blocks.len()),
    };
    head(&title, "predicted throughput of basic blocks", out)?;
    writeln!(out, "</header>\n<main>")?;
    for (number, block) in blocks.iter().enumerate() {
        if blocks.len() > 1 {
            writeln!(out, "<h2 id=\"block{number}\">{}</h2>", esc(&block.name))?;
        }
        one(number, block, out)?;
    }
    let timeline = blocks
        .iter()
        .flat_map(|block| &block.details)
        .any(|d| !d.timeline.is_empty());
    writeln!(
        out,
        "</main>\n<footer>mcad {}</footer>\n<script>{SORT}</script>",
        esc(version)
    )?;
    if timeline {
        writeln!(out, "<script>{TIMELINE}</script>")?;
    }
    writeln!(out, "</body>\n</html>")
}

fn one(number: usize, block: &PredictedBlock<'_>, out: &mut dyn Write) -> io::Result<()> {
    let count = block.details.first().map_or(0, |d| d.instructions.len());
    writeln!(
        out,
        "<p class=\"facts\"><b>{count}</b> instructions in <b>{}</b> bytes</p>",
        block.bytes.len() / 2
    )?;
    for (cpu, error) in &block.failed {
        writeln!(out, "<p class=\"warn\">{}: {}</p>", esc(cpu), esc(error))?;
    }
    writeln!(out, "<div class=\"cards\">")?;
    for (place, d) in block.details.iter().enumerate() {
        writeln!(
            out,
            "<a class=\"card\" href=\"#b{number}c{place}\"><span class=\"cpu\">{} <small>{}</small>\
             </span><span class=\"big\">{:.2}<small>cycles</small></span><span class=\"pair\">\
             unrolled <b>{:.2}</b>, as a loop <b>{:.2}</b></span><span class=\"pair\">bound by \
             <b>{}</b></span></a>",
            esc(&d.cpu),
            esc(d.mode),
            d.cycles,
            d.unrolled,
            d.looped,
            esc(&bottleneck(d)),
        )?;
    }
    writeln!(out, "</div>")?;
    for (place, d) in block.details.iter().enumerate() {
        writeln!(
            out,
            "<section id=\"b{number}c{place}\"><h2>{} <small>{:.2} cycles per iteration, {}</small>\
             </h2>",
            esc(&d.cpu_full_name),
            d.cycles,
            esc(d.mode)
        )?;
        limits(d, out)?;
        if !d.alignments.is_empty() {
            let ranges = alignments(d);
            writeln!(out, "<h3>By the address modulo 64</h3>\n<ul>")?;
            for (cycles, places) in ranges {
                writeln!(
                    out,
                    "<li><b>{cycles:.2}</b> cycles at {}</li>",
                    esc(&places)
                )?;
            }
            writeln!(out, "</ul>")?;
        }
        instructions(d, out)?;
        graph::section(d, &format!("b{number}c{place}"), out)?;
        if let Some(excerpt) = Excerpt::of_block(d) {
            writeln!(out, "<h3>Timeline of the first iterations</h3>")?;
            excerpt.chart(out)?;
        }
        writeln!(out, "</section>")?;
    }
    Ok(())
}

fn limits(d: &Detail, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "<h3>If each part were the only one</h3>")?;
    let heads = [figure("cycles"), name("part"), name("why")];
    let mut table = Table::begin(out, "limits", &heads)?;
    for limit in &d.limits {
        table.figure(limit.cycles, &format!("{:.2}", limit.cycles));
        let part = esc(part_name(limit.part));
        match d.explained && d.bottlenecks.contains(&limit.part) {
            true => table.html("", &format!("<b>{part}</b>")),
            false => table.html("", &part),
        }
        table.text(&evidence(limit, d));
        table.end_row()?;
    }
    table.end()
}

fn instructions(d: &Detail, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "<h3>Instructions <small>per iteration in the steady state</small></h3>"
    )?;
    let ports = || d.port_names.iter().take(d.ports);
    let mut heads = vec![
        figure("#"),
        name("instruction"),
        figure("µops").titled("executed on ports"),
    ];
    let latencies = has_latencies(d);
    let head = || figure("latency").titled("least and largest between operands");
    heads.extend(latencies.then(head));
    heads.extend(ports().map(|port| heat(port).titled("µops on this port")));
    heads.push(name("notes"));
    let mut table = Table::begin(out, "listing", &heads)?;
    for (n, i) in d.instructions.iter().enumerate() {
        table.figure(n as f64, &n.to_string());
        table.code(&i.text);
        table.figure(i.executed, &format!("{:.2}", i.executed));
        if latencies {
            let (value, shown) = latency(i);
            table.figure(value, &shown);
        }
        for port in 0..d.ports {
            let uops = i.port_uops.get(port).copied().unwrap_or(0.0);
            table.shade(uops, 1.0, &format!("{uops:.2}"));
        }
        table.text(&notes(i));
        table.end_row()?;
    }
    table.end()
}

fn latency(i: &InstructionDetail) -> (f64, String) {
    match i.latency {
        Some((least, most)) if least == most => (most.into(), most.to_string()),
        Some((least, most)) => (most.into(), format!("{least}–{most}")),
        None => (0.0, String::new()),
    }
}
