//! The report as one HTML file: no network, no foreign code, light and dark.
//!
//! Everything that comes from the traced program goes through [`escape::html`], or [`data`] into
//! the timeline's JSON. A content policy in the file allows the file's own style and scripts by
//! their hashes and nothing else, so that even a name that got through could do nothing. Without
//! scripts the tables are in the report's order; sorting and the timeline are missing.
//!
//! [`escape::html`]: crate::escape::html
//! [`data`]: timeline::Excerpt

pub mod block;
mod blocks;
mod cpu;
mod flame;
mod graph;
mod lines;
mod measured;
mod misses;
mod processes;
mod slots;
mod table;
mod timeline;

use std::io::{self, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use mcad_report::Report;
use sha2::{Digest, Sha256};

use crate::escape::html as esc;
use crate::gains;
use crate::layout::grouped;
use crate::{Style, View, ViewError};
use table::{Table, figure, name};
pub use timeline::Excerpt;

const STYLE: &str = include_str!("html/style.css");
const SORT: &str = include_str!("html/sort.js");
const TIMELINE: &str = include_str!("html/timeline.js");

/// The `html` view.
#[derive(Debug, Default)]
pub struct Html {
    timeline: Option<Excerpt>,
}

/// The page without a timeline.
pub static PLAIN: Html = Html { timeline: None };

impl Html {
    /// With a timeline.
    #[must_use]
    pub const fn with(timeline: Excerpt) -> Self {
        Self {
            timeline: Some(timeline),
        }
    }
}

impl View for Html {
    fn name(&self) -> &'static str {
        "html"
    }

    fn description(&self) -> &'static str {
        "a self-contained page for the browser"
    }

    fn write(&self, report: &Report, _: Style, out: &mut dyn Write) -> Result<(), ViewError> {
        page(
            report,
            &gains::without_ideals(report),
            self.timeline.as_ref(),
            out,
        )
        .map_err(|source| ViewError::Write {
            view: self.name(),
            source,
        })
    }
}

/// The page up to its title, which is escaped; the header stays open.
fn head(title: &str, what: &str, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src \
         data:; style-src {}; script-src {} {}\">\n\
         <link rel=\"icon\" href=\"data:,\">\n\
         <title>mcad: {title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<header>\n\
         <p class=\"brand\">mcad <span>{what}</span></p>\n<h1>{title}</h1>",
        hash(STYLE),
        hash(SORT),
        hash(TIMELINE),
    )
}

/// The hash of a style or script, as a content policy names it.
fn hash(text: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)))
}

/// The page of a report; `all` has the CPUs with perfect parts too.
fn page(
    all: &Report,
    report: &Report,
    timeline: Option<&Excerpt>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let command = if report.program.command.is_empty() {
        &report.run.source
    } else {
        &report.program.command.join(" ")
    };
    let title = esc(command);
    head(&title, "predicted cycles", out)?;
    summary(report, out)?;
    writeln!(out, "</header>\n<main>")?;
    cpu::cards(report, out)?;
    contents(report, timeline, out)?;
    measured::section(report, out)?;
    processes::section(report, out)?;
    misses::gains(all, out)?;
    for (number, cpu) in report.cpus.iter().enumerate() {
        cpu::section(report, number, cpu, out)?;
    }
    if let Some(timeline) = timeline {
        timeline.section(out)?;
    }
    unknown(report, out)?;
    if !report.notes.is_empty() {
        writeln!(out, "<section id=\"notes\"><h2>Notes</h2>\n<ul>")?;
        for note in &report.notes {
            writeln!(out, "<li>{}</li>", esc(note))?;
        }
        writeln!(out, "</ul></section>")?;
    }
    writeln!(
        out,
        "</main>\n<footer>mcad {}</footer>\n<script>{SORT}</script>",
        esc(&report.tool.version),
    )?;
    if timeline.is_some() {
        writeln!(out, "<script>{TIMELINE}</script>")?;
    }
    writeln!(out, "</body>\n</html>")
}

fn summary(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let trace = &report.trace;
    if !report.program.complete {
        writeln!(
            out,
            "<p class=\"warn\">Incomplete trace ({}): the figures cover what was received.</p>",
            esc(&report.program.end)
        )?;
    }
    if trace.lost_records > 0 {
        writeln!(
            out,
            "<p class=\"warn\">{} records are missing: {}</p>",
            grouped(trace.lost_records),
            esc(&trace.why_lost().join("; "))
        )?;
    }
    let plural = |count: u64, what: &str| {
        let s = if count == 1 { "" } else { "s" };
        format!("<b>{}</b> {what}{s}", grouped(count))
    };
    writeln!(
        out,
        "<p class=\"facts\">{} · {} in {} of {} · {} · {}</p>",
        esc(&report.program.end),
        plural(trace.instructions, "instruction"),
        plural(trace.blocks_executed, "execution"),
        plural(trace.distinct_blocks, "block"),
        plural(trace.memory_accesses, "memory access").replace("accesss", "accesses"),
        plural(trace.threads, "thread"),
    )
}

/// Links to the parts of the page.
fn contents(report: &Report, timeline: Option<&Excerpt>, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "<nav aria-label=\"Contents\">")?;
    for (number, cpu) in report.cpus.iter().enumerate() {
        let mut link = |part: &str, text: &str| {
            writeln!(out, "<a href=\"#cpu{number}{part}\">{}</a>", esc(text))
        };
        link("", &cpu.cpu)?;
        if report.cpus.len() == 1 {
            for (part, text, there) in [
                ("-functions", "functions", !cpu.functions.is_empty()),
                ("-calls", "calls", !cpu.calls.is_empty()),
                ("-misses", "misses", cpu.memory.is_some()),
                ("-branches", "branches", cpu.branches.is_some()),
                ("-lines", "source lines", !cpu.lines.is_empty()),
                ("-blocks", "blocks", !cpu.blocks.is_empty()),
                ("-regions", "regions", !cpu.regions.is_empty()),
            ] {
                if there {
                    link(part, text)?;
                }
            }
        }
    }
    for (part, text, there) in [
        ("measured", "measured", report.run.measured.is_some()),
        ("processes", "processes", !report.processes.is_empty()),
        ("threads", "threads", processes::have_threads(report)),
        ("timeline", "timeline", timeline.is_some()),
        (
            "unknown",
            "instructions without figures",
            !report.unknown_instructions.forms.is_empty(),
        ),
        ("notes", "notes", !report.notes.is_empty()),
    ] {
        if there {
            writeln!(out, "<a href=\"#{part}\">{text}</a>")?;
        }
    }
    writeln!(out, "</nav>")
}

fn unknown(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let unknown = &report.unknown_instructions;
    if unknown.forms.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "<section id=\"unknown\"><h2>Instructions without figures of their own</h2>\n\
         <p>{} unknown, {} approximated</p>",
        grouped(unknown.count),
        grouped(unknown.approximated)
    )?;
    let heads = [
        name("form"),
        name("treated as"),
        name("CPU"),
        figure("executed"),
    ];
    let mut table = Table::begin(out, "", &heads)?;
    for form in &unknown.forms {
        table.text(&form.form);
        table.text(&form.treatment);
        table.text(&form.cpu);
        table.count(form.count);
        table.end_row()?;
    }
    table.end()?;
    writeln!(out, "</section>")
}

#[cfg(test)]
mod tests;
