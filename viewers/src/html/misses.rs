//! Misses and wrong predictions: of the program, and of its functions, lines and branches.

use std::io::{self, Write};

use mcad_report::branches::CodeBranches;
use mcad_report::memory::{CodeMisses, LevelCounts};
use mcad_report::{CpuReport, Report};

use super::lines::{Sources, short};
use super::table::{Head, Table, figure, name};
use crate::escape::html as esc;
use crate::gains;
use crate::text::memory::shows;

/// Rows of each table.
const ROWS: usize = 100;

/// Everything about misses and wrong predictions of one CPU.
pub(super) fn section(
    report: &Report,
    number: usize,
    cpu: &CpuReport,
    out: &mut dyn Write,
) -> io::Result<()> {
    let sources = Sources::of(report);
    if let Some(memory) = &cpu.memory {
        writeln!(out, "<h3 id=\"cpu{number}-misses\">Misses</h3>")?;
        let heads = [
            name("accesses"),
            figure("all"),
            figure("L1").titled("found in the first level"),
            figure("L2"),
            figure("L3"),
            figure("memory"),
            figure("misses per 1 000").titled("of the first level, per 1 000 instructions"),
        ];
        let mut table = Table::begin(out, "", &heads)?;
        let rows: [(&str, &LevelCounts); 3] = [
            ("loads", &memory.loads),
            ("stores", &memory.stores),
            ("lines of code", &memory.fetches),
        ];
        for (what, levels) in rows {
            table.text(what);
            for count in [levels.all(), levels.l1, levels.l2, levels.l3, levels.dram] {
                table.count(count);
            }
            per_thousand(levels.misses(), cpu, &mut table);
            table.end_row()?;
        }
        table.end()?;
        code_misses("function", &memory.functions, cpu, &sources, out)?;
        code_misses("line", &memory.lines, cpu, &sources, out)?;
    }
    let Some(branches) = &cpu.branches else {
        return Ok(());
    };
    writeln!(
        out,
        "<h3 id=\"cpu{number}-branches\">Branches predicted wrongly</h3>"
    )?;
    let heads = [
        name("branches"),
        figure("executed"),
        figure("taken"),
        figure("conditional").titled("conditional branches predicted the wrong way"),
        figure("indirect").titled("indirect jumps and calls predicted to a wrong target"),
        figure("returns").titled("returns predicted to a wrong target"),
        figure("found late").titled("taken branches that only the decoders found"),
        figure("overridden")
            .titled("conditional branches that a quick predictor had wrong and a slower one right"),
        figure("wrong per 1 000").titled("per 1 000 instructions"),
    ];
    let mut table = Table::begin(out, "", &heads)?;
    table.text("all");
    let wrong = [
        branches.wrong_directions,
        branches.wrong_targets,
        branches.wrong_returns,
    ];
    for count in [branches.executed, branches.taken] {
        table.count(count);
    }
    for count in wrong {
        table.count(count);
    }
    table.count(branches.decoded);
    table.count(branches.overridden);
    per_thousand(branches.wrong(), cpu, &mut table);
    table.end_row()?;
    table.end()?;
    code_branches("function", &branches.functions, cpu, &sources, out)?;
    code_branches("line", &branches.lines, cpu, &sources, out)?;
    code_branches("branch", &branches.branches, cpu, &sources, out)
}

fn per_thousand(count: u64, cpu: &CpuReport, table: &mut Table<'_>) {
    let value = 1000.0 * count as f64 / cpu.instructions.max(1) as f64;
    table.figure(value, &format!("{value:.2}"));
}

/// The cell that says what code a row is about.
fn place(what: &str, text: &str, module: &str, sources: &Sources<'_>, table: &mut Table<'_>) {
    if what == "line" {
        let source = sources.text(text).unwrap_or("").trim_start();
        let shown = format!(
            "<span title=\"{}\">{}</span> <code>{}</code>",
            esc(text),
            esc(short(text)),
            esc(source)
        );
        table.html("clip", &shown);
    } else {
        table.html("", &format!("{} <small>{}</small>", esc(text), esc(module)));
    }
}

fn code_misses(
    what: &str,
    all: &[CodeMisses],
    cpu: &CpuReport,
    sources: &Sources<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let rows = || {
        all.iter()
            .filter(|m| shows(m.l1.max(m.walks), cpu))
            .take(ROWS)
    };
    if rows().next().is_none() {
        return Ok(());
    }
    let heads: [Head<'_>; 6] = [
        name(what),
        figure("L1D").titled("loads and stores whose line the first level had not"),
        figure("L2").titled("nor the second"),
        figure("L3").titled("nor the third"),
        figure("page walks"),
        figure("L1D per 1 000").titled("per 1 000 instructions of the program"),
    ];
    let mut table = Table::begin(out, "", &heads)?;
    for m in rows() {
        place(what, &m.name, &m.module, sources, &mut table);
        for count in [m.l1, m.l2, m.l3, m.walks] {
            table.count(count);
        }
        per_thousand(m.l1, cpu, &mut table);
        table.end_row()?;
    }
    table.end()
}

fn code_branches(
    what: &str,
    all: &[CodeBranches],
    cpu: &CpuReport,
    sources: &Sources<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let rows = || {
        all.iter()
            .filter(|b| shows(b.wrong.max(b.decoded), cpu))
            .take(ROWS)
    };
    if rows().next().is_none() {
        return Ok(());
    }
    let heads = [
        name(what),
        figure("wrong"),
        figure("found late").titled("taken branches that only the decoders found"),
        figure("wrong per 1 000").titled("per 1 000 instructions of the program"),
    ];
    let mut table = Table::begin(out, "", &heads)?;
    for b in rows() {
        let text = b.place.as_deref().unwrap_or(&b.name);
        place(what, text, &b.module, sources, &mut table);
        table.count(b.wrong);
        table.count(b.decoded);
        per_thousand(b.wrong, cpu, &mut table);
        table.end_row()?;
    }
    table.end()
}

/// What the program would gain with a part made perfect.
pub(super) fn gains(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let gains = gains::of(report);
    if gains.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "<section id=\"gains\"><h2>What it would gain</h2>\n<p class=\"dim\">The same run with a \
         part of the CPU made perfect, one at a time.</p>"
    )?;
    let heads = [
        name("CPU"),
        name("perfect"),
        figure("cycles"),
        figure("cycles saved"),
        figure("share"),
    ];
    let mut table = Table::begin(out, "", &heads)?;
    let most = gains.iter().map(|g| g.cpu.cycles).max().unwrap_or(1);
    for gain in gains {
        let saved = gain.cpu.cycles.saturating_sub(gain.ideal.cycles);
        table.text(&gain.cpu.cpu);
        table.text(gain.what());
        table.count(gain.ideal.cycles);
        table.count(saved);
        table.share(saved, gain.cpu.cycles, most);
        table.end_row()?;
    }
    table.end()?;
    writeln!(out, "</section>")
}
