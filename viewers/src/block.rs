//! `mcad block` for people: cycles of all CPUs side by side, then for each what bounds the block,
//! its instructions, and the cycles of its first iterations.

use std::io::{self, Write};

use mcad_report::block::{Delivered, Detail, Limit, Part, TimelineUop};

use crate::layout::{Align, Table};
use crate::style::{Paint, Style};

/// Columns of a timeline at most; later cycles are cut.
const TIMELINE_CYCLES: u64 = 160;

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

fn bottleneck(detail: &Detail) -> String {
    let names: Vec<&str> = detail.bottlenecks.iter().map(|p| part_name(*p)).collect();
    let names = names.join(", ");
    if detail.explained {
        names
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
    ]);
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
    let title = format!(
        "{}: {:.2} cycles per iteration, {}",
        d.cpu_full_name, d.cycles, d.mode
    );
    writeln!(out, "\n{}", style.paint(Paint::Heading, title))?;
    writeln!(out, "  bound by {}", bottleneck(d))?;
    if d.approximated > 0 {
        writeln!(
            out,
            "  {} instructions have figures of a similar form",
            d.approximated
        )?;
    }
    limits(d, style, out)?;
    chain(d, out)?;
    instructions(d, style, out)
}

fn limits(d: &Detail, style: Style, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\n  If each part were the only one")?;
    let mut table = Table::new([
        ("cycles", Align::Right),
        ("part", Align::Left),
        ("why", Align::Left),
    ]);
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

fn evidence(limit: &Limit, d: &Detail) -> String {
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

fn chain(d: &Detail, out: &mut dyn Write) -> io::Result<()> {
    let Some(chain) = &d.chain else {
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
    let mut columns: Vec<(String, Align)> = vec![("#".into(), Align::Right)];
    // Sources that deliver nothing have no column.
    type Source = (&'static str, fn(&Delivered) -> f64);
    let sources: [Source; 5] = [
        ("decod", |s| s.decoders),
        ("cache", |s| s.uop_cache),
        ("loop", |s| s.loop_stream),
        ("micro", |s| s.microcode),
        ("insert", |s| s.inserted),
    ];
    let sources: Vec<Source> = sources
        .into_iter()
        .filter(|(_, of)| d.instructions.iter().any(|i| of(&i.delivered) > 0.0))
        .collect();
    columns.extend(sources.iter().map(|s| (s.0.to_owned(), Align::Right)));
    columns.push(("exec".into(), Align::Right));
    // Numbers get a letter, as uops.info has it.
    let head = |name: &String| match name.as_str() {
        short if short.chars().count() == 1 => format!("p{}", short.to_lowercase()),
        name => name.to_owned(),
    };
    columns.extend(d.port_names.iter().map(|name| (head(name), Align::Right)));
    columns.push(("lat".into(), Align::Right));
    columns.push(("instruction".into(), Align::Left));
    columns.push(("notes".into(), Align::Left));
    let mut table = Table::new(columns);
    let mut sums = vec![0.0; sources.len() + 1 + d.ports];
    for (n, i) in d.instructions.iter().enumerate() {
        let mut values: Vec<f64> = sources.iter().map(|(_, of)| of(&i.delivered)).collect();
        values.push(i.executed);
        values.extend((0..d.ports).map(|p| i.port_uops.get(p).copied().unwrap_or(0.0)));
        for (sum, value) in sums.iter_mut().zip(&values) {
            *sum += value;
        }
        let mut row = vec![n.to_string()];
        row.extend(values.into_iter().map(figure));
        row.push(match i.latency {
            Some((least, most)) if least == most => least.to_string(),
            Some((least, most)) => format!("{least}-{most}"),
            None => String::new(),
        });
        row.push(i.text.clone());
        let mut notes = i.notes.clone();
        if i.divider > 0 {
            notes.push(format!("divider {} cycles", i.divider));
        }
        row.push(notes.join("; "));
        table.row(row);
    }
    let mut row = vec![String::new()];
    row.extend(sums.into_iter().map(figure));
    row.push(String::new());
    row.push("all".to_owned());
    table.row(row);
    table.write(style, out)
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
    writeln!(out, "\n{}", style.paint(Paint::Heading, title))?;
    writeln!(
        out,
        "  D delivered to the decode queue   f waiting for rename   I issued\n  \
         d waiting for inputs   p waiting for its port   E dispatched   e executing\n  \
         X done   - waiting for older ones   R retired"
    )?;
    let end = d.timeline.iter().map(|u| u.retired + 1).max().unwrap_or(0);
    let shown = end.min(TIMELINE_CYCLES);
    let ruler: String = (0..shown)
        .map(|n| {
            if n % 10 == 0 {
                char::from_digit((n / 10 % 10) as u32, 10).unwrap_or('?')
            } else {
                '.'
            }
        })
        .collect();
    writeln!(out, "\n  iter   #  port  {ruler}  instruction")?;
    let mut last = None;
    for uop in &d.timeline {
        let place = (uop.iteration, uop.instruction);
        let text = if uop.inserted {
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
            "  {:>4} {:>3}  {port:>4}  {}  {text}",
            uop.iteration,
            uop.instruction,
            cells(uop, shown)
        );
        writeln!(out, "{}", line.trim_end())?;
    }
    if end > shown {
        writeln!(out, "  (cycles {shown} to {end} are cut; --json has them)")?;
    }
    Ok(())
}

fn cells(uop: &TimelineUop, cycles: u64) -> String {
    (0..cycles)
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
        };
        assert_eq!(cells(&uop, 15), " DfIddppEeX--R ");
        let none = TimelineUop {
            port: None,
            ready: 3,
            dispatched: 3,
            executed: 3,
            retired: 5,
            ..uop
        };
        assert_eq!(cells(&none, 7), " DfI-R ");
    }
}
