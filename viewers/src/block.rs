//! `mcad block` for people: cycles of all CPUs side by side, then for each what bounds the block,
//! its instructions, and the cycles of its first iterations. All of it fits the terminal: where a
//! table is too wide, the ports get tables of their own, and timelines go on in further parts.

mod graph;

use std::io::{self, Write};
use std::ops::Range;

pub use graph::{dependencies, dot};
use mcad_report::block::{Delivered, Detail, InstructionDetail, Limit, Part, TimelineUop};

use crate::layout::{Align, Table, cut, wrapped};
use crate::style::{Paint, Style};
use crate::timeline::terminal;

/// Columns of a timeline at most; later cycles are cut.
const TIMELINE_CYCLES: u64 = 160;

/// What the letters of a timeline mean.
const STATES: [&str; 9] = [
    "D delivered to the decode queue",
    "f waiting for rename",
    "I issued",
    "d waiting for inputs",
    "p waiting for its port",
    "E dispatched   e executing",
    "X done",
    "- waiting for older ones",
    "R retired",
];

/// A name for people.
#[must_use]
pub fn part_name(part: Part) -> &'static str {
    match part {
        Part::Predecoder => "predecoder",
        Part::Decoders => "decoders",
        Part::UopCache => "µop cache",
        Part::LoopStream => "loop stream detector",
        Part::Issue => "issue",
        Part::Ports => "ports",
        Part::Divider => "divider",
        Part::Throughput => "throughput of one form",
        Part::Dependencies => "dependencies",
        Part::Retirement => "retirement",
    }
}

/// The parts that bound it, in words.
pub(crate) fn bottleneck(detail: &Detail) -> String {
    let names: Vec<&str> = detail.bottlenecks.iter().map(|p| part_name(*p)).collect();
    let names = names.join(", ");
    if detail.explained {
        names
    } else if detail.in_order {
        "what its instructions wait for in order".to_owned()
    } else {
        format!("several parts together (nearest: {names})")
    }
}

/// One line per CPU: both notions and the bottleneck.
///
/// # Errors
/// What the output says.
pub fn summary(details: &[&Detail], style: Style, out: &mut dyn Write) -> io::Result<()> {
    let mut table = Table::new([
        ("CPU", Align::Left),
        ("unrolled", Align::Right),
        ("loop", Align::Right),
        ("bottleneck", Align::Left),
    ])
    .wrapping();
    for d in details {
        let chosen = |cycles: f64, mode: &str| {
            let mark = if d.mode == mode { "*" } else { " " };
            format!("{cycles:.2}{mark}")
        };
        table.row(vec![
            d.cpu.clone(),
            chosen(d.unrolled, "unrolled"),
            chosen(d.looped, "loop"),
            bottleneck(d),
        ]);
    }
    table.write(style, out)?;
    writeln!(out, "  cycles per iteration; * is what the rest is about")
}

/// Everything about the block on one CPU.
///
/// # Errors
/// What the output says.
pub fn detail(d: &Detail, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let at = match d.alignment {
        0 => String::new(),
        at => format!(", {at} bytes behind the start of a cache line"),
    };
    let title = format!(
        "{}: {:.2} cycles per iteration, {}{at}",
        d.cpu_full_name, d.cycles, d.mode
    );
    heading(&title, style, out)?;
    let bound = format!("bound by {}", bottleneck(d));
    for line in wrapped(&bound, style.width.saturating_sub(2)) {
        writeln!(out, "  {line}")?;
    }
    if d.approximated > 0 {
        writeln!(
            out,
            "  {} instructions have figures of a similar form",
            d.approximated
        )?;
    }
    by_alignment(d, style, out)?;
    limits(d, style, out)?;
    chain(d, style, out)?;
    instructions(d, style, out)
}

/// A title behind an empty line.
fn heading(title: &str, style: Style, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out)?;
    for line in wrapped(title, style.width) {
        writeln!(out, "{}", style.paint(Paint::Heading, line))?;
    }
    Ok(())
}

/// Cycles that occur at some address modulo 64, least first, and at which: `0-15, 48`.
pub(crate) fn alignments(d: &Detail) -> Vec<(f64, String)> {
    let mut found: Vec<(f64, Vec<Range<usize>>)> = Vec::new();
    for (at, &cycles) in d.alignments.iter().enumerate() {
        // Alike as far as they are printed.
        let alike = |known: f64| (known - cycles).abs() < 0.005;
        let place = match found.iter().position(|(known, _)| alike(*known)) {
            Some(place) => place,
            None => {
                found.push((cycles, Vec::new()));
                found.len() - 1
            }
        };
        let Some((_, ranges)) = found.get_mut(place) else {
            continue;
        };
        match ranges.last_mut() {
            Some(last) if last.end == at => last.end += 1,
            _ => ranges.push(at..at + 1),
        }
    }
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    let words = |range: Range<usize>| match range.len() {
        1 => range.start.to_string(),
        _ => format!("{}-{}", range.start, range.end - 1),
    };
    let text = |ranges: Vec<Range<usize>>| {
        let ranges: Vec<String> = ranges.into_iter().map(words).collect();
        ranges.join(", ")
    };
    found
        .into_iter()
        .map(|(c, ranges)| (c, text(ranges)))
        .collect()
}

fn by_alignment(d: &Detail, style: Style, out: &mut dyn Write) -> io::Result<()> {
    if d.alignments.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n  By the address modulo 64")?;
    let mut table = Table::new([("cycles", Align::Right), ("at", Align::Left)]).wrapping();
    for (cycles, places) in alignments(d) {
        table.row(vec![format!("{cycles:.2}"), places]);
    }
    table.write(style, out)
}

fn limits(d: &Detail, style: Style, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\n  If each part were the only one")?;
    let mut table = Table::new([
        ("cycles", Align::Right),
        ("part", Align::Left),
        ("why", Align::Left),
    ])
    .wrapping();
    for limit in &d.limits {
        let mark = if d.explained && d.bottlenecks.contains(&limit.part) {
            "!"
        } else {
            " "
        };
        table.row(vec![
            format!("{:.2}{mark}", limit.cycles),
            part_name(limit.part).to_owned(),
            evidence(limit, d),
        ]);
    }
    table.write(style, out)
}

/// Why a part bounds it so.
pub(crate) fn evidence(limit: &Limit, d: &Detail) -> String {
    let mut text = limit.evidence.clone();
    let some = !limit.instructions.is_empty() && limit.instructions.len() < d.instructions.len();
    if some && limit.instructions.len() <= 8 {
        let numbers: Vec<String> = limit.instructions.iter().map(ToString::to_string).collect();
        text.push_str(&format!(" (instructions {})", numbers.join(", ")));
    }
    if !limit.used && !text.ends_with("quicker") {
        text.push_str("; not on this block's way");
    }
    text
}

fn chain(d: &Detail, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let Some(chain) = &d.chain else {
        if d.in_order {
            return Ok(());
        }
        return writeln!(
            out,
            "\n  The block is too large to look for its longest chain"
        );
    };
    if chain.steps.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n  Longest chain from iteration to iteration")?;
    for step in &chain.steps {
        let text = d
            .instructions
            .get(step.instruction as usize)
            .map_or("", |i| i.text.as_str());
        let text = cut(text, style.width.saturating_sub(15));
        writeln!(out, "  {:>6}  {:>3}  {text}", step.cycles, step.instruction)?;
    }
    Ok(())
}

/// A figure that is empty when it is nothing.
fn figure(value: f64) -> String {
    if value < 0.005 {
        String::new()
    } else {
        format!("{value:.2}")
    }
}

fn instructions(d: &Detail, style: Style, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\n  Instructions, per iteration in the steady state")?;
    let figures = figures(d);
    let latencies = has_latencies(d);
    let sums = |of: &[Figures]| -> Vec<String> {
        let sum = |f: &Figures| figure(f.values.iter().sum());
        of.iter().map(sum).collect()
    };
    let table = |of: &[Figures], texts: bool| {
        let mut columns: Vec<(String, Align)> = vec![("#".into(), Align::Right)];
        columns.extend(of.iter().map(|f| (f.head.clone(), Align::Right)));
        if texts {
            columns.extend(latencies.then(|| ("lat".into(), Align::Right)));
            columns.push(("instruction".into(), Align::Left));
            columns.push(("notes".into(), Align::Left));
        }
        let mut table = Table::new(columns).wrapping();
        for (n, i) in d.instructions.iter().enumerate() {
            let mut row = vec![n.to_string()];
            let value = |f: &Figures| f.values.get(n).copied().unwrap_or(0.0);
            row.extend(of.iter().map(|f| figure(value(f))));
            if texts {
                row.extend(latencies.then(|| latency(i)));
                row.extend([i.text.clone(), notes(i)]);
            }
            table.row(row);
        }
        let mut row = vec![if texts { "" } else { "all" }.to_owned()];
        row.extend(sums(of));
        if texts {
            row.extend(latencies.then(String::new));
            row.extend(["all".to_owned(), String::new()]);
        }
        table.row(row);
        table
    };
    let whole = table(&figures, true);
    if whole.least_width() <= style.width {
        return whole.write(style, out);
    }
    // What is said of each first, then the figures, as many columns at a time as there is room for.
    table(&[], true).write(style, out)?;
    let mut rest = figures.as_slice();
    while !rest.is_empty() {
        let fits = |n: &usize| table(&rest[..*n], false).least_width() <= style.width;
        let some = (1..=rest.len()).rev().find(fits).unwrap_or(1);
        let (now, later) = rest.split_at(some);
        writeln!(out)?;
        table(now, false).write(style, out)?;
        rest = later;
    }
    Ok(())
}

/// A column of figures.
struct Figures {
    head: String,
    /// By instruction.
    values: Vec<f64>,
}

/// Where µops came from, how many were executed, and on which ports.
fn figures(d: &Detail) -> Vec<Figures> {
    let column = |head: &str, of: &dyn Fn(&InstructionDetail) -> f64| Figures {
        head: head.to_owned(),
        values: d.instructions.iter().map(of).collect(),
    };
    // Sources that deliver nothing have no column.
    type Source = (&'static str, fn(&Delivered) -> f64);
    let sources: [Source; 5] = [
        ("decod", |s| s.decoders),
        ("cache", |s| s.uop_cache),
        ("loop", |s| s.loop_stream),
        ("micro", |s| s.microcode),
        ("insert", |s| s.inserted),
    ];
    // An in-order core has no second way.
    let sources = sources.into_iter().filter(|_| !d.in_order);
    let mut all: Vec<Figures> = sources
        .map(|(head, of)| column(head, &|i| of(&i.delivered)))
        .filter(|f| f.values.iter().any(|v| *v > 0.0))
        .collect();
    all.push(column("exec", &|i| i.executed));
    // Numbers get a letter, as uops.info has it.
    let head = |name: &String| match name.as_str() {
        short if short.chars().count() == 1 => format!("p{}", short.to_lowercase()),
        name => name.to_owned(),
    };
    let ports = (0..d.ports).zip(&d.port_names);
    all.extend(
        ports.map(|(p, name)| column(&head(name), &|i| i.port_uops.get(p).copied().unwrap_or(0.0))),
    );
    all
}

/// Whether latencies are known, of an in-order core also apart from what instructions waited for.
pub(crate) fn has_latencies(d: &Detail) -> bool {
    !d.in_order || d.instructions.iter().any(|i| i.latency.is_some())
}

fn latency(i: &InstructionDetail) -> String {
    match i.latency {
        Some((least, most)) if least == most => least.to_string(),
        Some((least, most)) => format!("{least}-{most}"),
        None => String::new(),
    }
}

/// What is special about an instruction.
pub(crate) fn notes(i: &InstructionDetail) -> String {
    let divider = (i.divider > 0).then(|| format!("divider {} cycles", i.divider));
    let notes: Vec<&str> = i.notes.iter().chain(&divider).map(String::as_str).collect();
    notes.join("; ")
}

/// The first iterations, a line per µop and a column per cycle.
///
/// # Errors
/// What the output says.
pub fn timeline(d: &Detail, style: Style, out: &mut dyn Write) -> io::Result<()> {
    if d.timeline.is_empty() {
        return Ok(());
    }
    let title = format!("Timeline of the first iterations on {}", d.cpu_full_name);
    heading(&title, style, out)?;
    let mut line = String::new();
    let legend = match d.in_order {
        true => in_order_legend(d),
        false => STATES.map(str::to_owned).into(),
    };
    for meaning in legend {
        if !line.is_empty() && line.chars().count() + 5 + meaning.chars().count() > style.width {
            writeln!(out, "  {line}")?;
            line.clear();
        }
        if !line.is_empty() {
            line.push_str("   ");
        }
        line.push_str(&meaning);
    }
    writeln!(out, "  {line}")?;
    let end = d.timeline.iter().map(|u| u.retired + 1).max().unwrap_or(0);
    let shown = end.min(TIMELINE_CYCLES);
    // Numbers, port, and as much of the text as keeps half of the width for cycles.
    let longest = d.instructions.iter().map(|i| i.text.chars().count());
    let text = longest.max().unwrap_or(0).max("instruction".len());
    let room = style.width.saturating_sub(20);
    let text = text.min(room.saturating_sub(shown as usize).max(room / 2));
    let columns = (room - text).max(10) as u64;
    let mut from = 0;
    while from < shown {
        let to = (from + columns).min(shown);
        part(d, from..to, text, out)?;
        from = to;
    }
    if end > shown {
        writeln!(out, "  (cycles {shown} to {end} are cut; --json has them)")?;
    }
    Ok(())
}

/// The cycles of a timeline that fit beside each other, and the µops that are in them.
fn part(d: &Detail, cycles: Range<u64>, text: usize, out: &mut dyn Write) -> io::Result<()> {
    let ruler: String = cycles
        .clone()
        .map(|n| {
            if n % 10 == 0 {
                char::from_digit((n / 10 % 10) as u32, 10).unwrap_or('?')
            } else {
                '.'
            }
        })
        .collect();
    writeln!(
        out,
        "\n  iter   #  port  {ruler}  {}",
        cut("instruction", text)
    )?;
    let mut last = None;
    for uop in &d.timeline {
        if uop.retired < cycles.start || uop.delivered >= cycles.end {
            continue;
        }
        let place = (uop.iteration, uop.instruction);
        let what = if uop.inserted {
            "(inserted)"
        } else if last == Some(place) {
            ""
        } else {
            last = Some(place);
            d.instructions
                .get(uop.instruction as usize)
                .map_or("", |i| i.text.as_str())
        };
        let port = uop
            .port
            .and_then(|p| d.port_names.get(usize::from(p)))
            .map_or("-".to_owned(), |name| name.to_lowercase());
        let line = format!(
            "  {:>4} {:>3}  {port:>4}  {}  {}",
            uop.iteration,
            uop.instruction,
            match d.in_order {
                true => in_order_cells(uop, cycles.clone()),
                false => cells(uop, cycles.clone()),
            },
            cut(what, text)
        );
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// What the letters of an in-order core mean, as far as they occur.
fn in_order_legend(d: &Detail) -> Vec<String> {
    let end = d.timeline.iter().map(|u| u.retired + 1).max().unwrap_or(0);
    let rows: Vec<String> = (d.timeline.iter())
        .map(|uop| in_order_cells(uop, 0..end))
        .collect();
    let occurs = |letter: char| rows.iter().any(|row| row.contains(letter));
    let legend = terminal::legend(true).into_iter();
    let legend = legend.filter(|(letter, _)| occurs(*letter));
    legend
        .map(|(letter, meaning)| format!("{letter} {meaning}"))
        .collect()
}

/// As in a whole program's timeline.
fn in_order_cells(uop: &TimelineUop, cycles: Range<u64>) -> String {
    let mut line = Vec::new();
    // All of it: the cycles that are cut go on in the next part.
    let whole = uop.retired.saturating_add(2);
    terminal::row(&uop.into(), true, uop.delivered, 0, whole, &mut line);
    let cell = |n| line.get(n as usize).map_or(' ', |cell| char::from(*cell));
    cycles.map(cell).collect()
}

fn cells(uop: &TimelineUop, cycles: Range<u64>) -> String {
    cycles
        .map(|n| match n {
            n if n < uop.delivered || n > uop.retired => ' ',
            n if n == uop.retired => 'R',
            n if n == uop.delivered && n < uop.issued => 'D',
            n if n < uop.issued => 'f',
            n if n == uop.issued => 'I',
            // A µop without a port is done when it is issued.
            _ if uop.port.is_none() => '-',
            n if n < uop.ready => 'd',
            n if n < uop.dispatched => 'p',
            n if n == uop.dispatched => 'E',
            n if n < uop.executed => 'e',
            n if n == uop.executed => 'X',
            _ => '-',
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use mcad_report::Cause;

    use super::*;

    #[test]
    fn a_uop_goes_through_all_states_in_order() {
        let uop = TimelineUop {
            iteration: 0,
            instruction: 0,
            inserted: false,
            port: Some(1),
            delivered: 1,
            issued: 3,
            ready: 6,
            dispatched: 8,
            executed: 10,
            retired: 13,
            held: None,
        };
        assert_eq!(cells(&uop, 0..15), " DfIddppEeX--R ");
        let none = TimelineUop {
            port: None,
            ready: 3,
            dispatched: 3,
            executed: 3,
            retired: 5,
            ..uop
        };
        assert_eq!(cells(&none, 0..7), " DfI-R ");
        // In order there is no rename, and what is waited for has its letter.
        let held = TimelineUop {
            ready: 8,
            held: Some(Cause::WriteBack),
            ..uop
        };
        assert_eq!(in_order_cells(&held, 0..15), " ##wwwwweE---R ");
        assert_eq!(in_order_cells(&held, 5..9), "wwwe");
    }
}
