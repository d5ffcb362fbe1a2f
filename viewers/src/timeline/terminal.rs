//! The timeline in the terminal, in the spirit of llvm-mca's: a row per µop, a column per cycle.
//!
//! What a µop waits for has a glyph of its own. The wait for the front end is drawn on the µop
//! that it kept from coming: from the delivery of the µop before it. Rows are grouped to sections
//! that begin at the first cycle of their first row; what is beyond the right edge is marked.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::{self, Read, Write};

use super::labels::{Append, Labels};
use super::read::Reader;
use super::{ANY_PORT, Header, Instruction, Kind, Late, NO_PORT, TimelineError, Uop};
use crate::escape::escape;
use crate::layout::cut;
use crate::style::{Paint, Style};

/// Rows between two headings.
const SECTION: u64 = 24;

/// Columns before the cycles: number, port and text.
const NUMBER: usize = 9;
const TEXT: usize = 34;

/// What a µop can be doing in a cycle: glyph and meaning, in the order of its life.
pub(crate) const STATES: [(char, &str); 8] = [
    ('.', "waiting for the front end"),
    ('#', "in the queue: issue width or a full buffer behind it"),
    (
        '=',
        "waiting for an input (dependency), or in the scheduler's own delay",
    ),
    ('p', "inputs there, waiting for its port"),
    ('e', "executing"),
    ('E', "last cycle of execution"),
    ('-', "done, waiting to retire in order"),
    ('R', "retires"),
];

/// The same on an in-order core, which has no scheduler and no queue behind issue.
const IN_ORDER: [(char, &str); 8] = [
    ('.', "waiting for the front end"),
    (
        '#',
        "on the way to issue: fetched, or all slots of a cycle taken",
    ),
    ('=', "kept from issuing by something else"),
    ('p', "waiting for a unit"),
    ('e', "executing"),
    ('E', "last cycle of execution"),
    ('-', "done, waiting to retire in order"),
    ('R', "retires"),
];

/// The states of a core, by what it is.
pub(crate) const fn states(in_order: bool) -> [(char, &'static str); 8] {
    if in_order { IN_ORDER } else { STATES }
}

/// What keeps an instruction of an in-order core from issuing: in rows in the place of '.' or '='.
const KEPT: [(char, Late); 12] = [
    ('m', Late::Redirect),
    ('i', Late::InstructionCache),
    ('v', Late::Value),
    ('l', Late::Load),
    ('2', Late::L2),
    ('M', Late::Dram),
    ('t', Late::Translation),
    ('g', Late::Pairing),
    ('w', Late::WriteBack),
    ('s', Late::Serialization),
    ('d', Late::Division),
    ('b', Late::StoreBuffer),
];

/// The letter of what kept a µop of an in-order core from issuing, where that has one of its own.
pub(crate) fn letter(late: Late) -> Option<char> {
    let kept = KEPT.iter().find(|(_, kept)| *kept == late);
    kept.map(|(letter, _)| *letter)
}

/// What rows are made of, each with its meaning.
pub(crate) fn legend(in_order: bool) -> Vec<(char, &'static str)> {
    let kept = |front_end: bool| {
        let kept = KEPT
            .into_iter()
            .filter(move |(_, late)| late.is_front_end() == front_end);
        kept.map(|(letter, late)| (letter, late.text()))
    };
    let mut all = Vec::new();
    for (glyph, meaning) in states(in_order) {
        if in_order && glyph == '=' {
            all.extend(kept(false));
        }
        all.push((glyph, meaning));
        if in_order && glyph == '.' {
            all.extend(kept(true));
        }
    }
    all
}

/// What was drawn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drawn {
    /// The thread; none in an empty timeline.
    pub thread: Option<u32>,
    /// Its instruction records.
    pub records: u64,
    /// Its records beyond the last cycle.
    pub beyond: u64,
    /// Other threads in the file.
    pub others: BTreeSet<u32>,
}

/// Draws at most `max_cycles` cycles of one thread: this one, or the first in the file.
///
/// # Errors
/// [`TimelineError`] of the file or the output.
pub fn write<R: Read>(
    timeline: &mut Reader<R>,
    style: Style,
    thread: Option<u32>,
    max_cycles: u64,
    out: &mut dyn Write,
) -> Result<Drawn, TimelineError> {
    let header = timeline.header().clone();
    let title = format!("{} ({}), {}", header.cpu, header.name, header.window);
    writeln!(out, "{}", style.paint(Paint::Heading, escape(&title)))?;
    for (glyph, meaning) in legend(header.in_order) {
        writeln!(out, "  {glyph}  {meaning}")?;
    }
    writeln!(out, "  >  goes on beyond the right edge")?;
    let taken = NUMBER + TEXT + 3 + port_width(&header);
    let columns = style.width.saturating_sub(taken).max(16) as u64;
    let mut rows = 0;
    let mut base = 0;
    let mut first = None;
    let mut before = None;
    let mut drawn = Drawn {
        thread,
        ..Drawn::default()
    };
    let mut labels = Labels::default();
    let mut i = Instruction::default();
    let mut line = Vec::new();
    while timeline.next(&mut i)? {
        if *drawn.thread.get_or_insert(i.thread) != i.thread {
            drawn.others.insert(i.thread);
            continue;
        }
        let begin = i.begin();
        if begin.saturating_sub(*first.get_or_insert(begin)) >= max_cycles {
            drawn.beyond += 1;
            continue;
        }
        drawn.records += 1;
        let text = labels.get(i.code, timeline.code(i.code), |code, label| {
            label.text(&escape(&code.text));
        });
        let text = std::str::from_utf8(text).unwrap_or_default();
        for (n, uop) in i.uops.iter().enumerate() {
            if rows % SECTION == 0 {
                base = uop.delivered;
                section(base, columns, port_width(&header), style, out)?;
            }
            rows += 1;
            line.clear();
            label(&header, &i, n, uop, text, &mut line);
            let first = first_cycle(&header, uop, before);
            row(uop, header.in_order, first, base, columns, &mut line);
            line.push(b'\n');
            out.write_all(&line)?;
            before = Some(turn(&header, uop));
        }
    }
    Ok(drawn)
}

fn section(
    base: u64,
    columns: u64,
    ports: usize,
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut scale = String::new();
    for column in 0..columns {
        scale.push(match (base + column) % 10 {
            0 => '|',
            5 => ':',
            _ => ' ',
        });
    }
    let line = format!(
        "\n{:>NUMBER$}{:>ports$} {:<TEXT$} {}  from cycle {base}",
        "number",
        "on",
        "instruction",
        scale.trim_end(),
    );
    writeln!(out, "{}", style.paint(Paint::Dim, line))
}

/// Number, port and text of a row.
fn label(header: &Header, i: &Instruction, n: usize, uop: &Uop, text: &str, line: &mut Vec<u8>) {
    let text: Cow<'_, str> = match (uop.kind, n) {
        (Kind::StackSync, _) => "(rsp synchronisation)".into(),
        (Kind::Merge, _) => "(register merge)".into(),
        (Kind::Own, n) if n == i.first_own() && i.pair => format!("{text} + jump").into(),
        (Kind::Own, n) if n == i.first_own() => text.into(),
        (Kind::Own, _) => format!("… {text}").into(),
    };
    let mut digits = itoa::Buffer::new();
    right(digits.format(i.number), NUMBER, line);
    let port = match uop.port {
        NO_PORT | ANY_PORT => String::new(),
        port => header.port_name(port),
    };
    right(&port, port_width(header), line);
    let text = cut(&text, TEXT);
    line.push(b' ');
    line.text(&text);
    pad((TEXT + 1).saturating_sub(text.chars().count()), line);
}

/// Columns of a port's name, with the space before it.
fn port_width(header: &Header) -> usize {
    let widths = header.port_names.iter().map(|name| name.chars().count());
    widths.max().unwrap_or(0).clamp(2, TEXT) + 1
}

fn right(text: &str, width: usize, line: &mut Vec<u8>) {
    pad(width.saturating_sub(text.len()), line);
    line.text(text);
}

fn pad(width: usize, line: &mut Vec<u8>) {
    line.extend(std::iter::repeat_n(b' ', width));
}

/// The cycle from which a µop is drawn: it waits for the front end from the [`turn`] of the one
/// `before` on. On an in-order core it only does so where the front end is what it waits for.
pub(crate) fn first_cycle(header: &Header, uop: &Uop, before: Option<u64>) -> u64 {
    let before = before.filter(|_| !header.in_order || uop.late.is_front_end());
    before.map_or(uop.delivered, |before| (before + 1).min(uop.delivered))
}

/// The cycle behind which the next µop could have come: of its delivery or, in order, of its start.
pub(crate) fn turn(header: &Header, uop: &Uop) -> u64 {
    if header.in_order {
        uop.dispatched
    } else {
        uop.delivered
    }
}

/// What a µop drawn from `first` does: each glyph with the cycle that it ends before. First it is
/// not there; then come the [`STATES`] in their order.
fn runs(uop: &Uop, first: u64) -> [(u8, u64); STATES.len() + 1] {
    // What needs no port neither waits nor executes once it is issued.
    let [ready, dispatched, executed] = if uop.port == NO_PORT {
        [uop.issued; 3]
    } else {
        [uop.ready, uop.dispatched, uop.executed]
    };
    // The last cycle is retirement, whatever a µop still seems to do then.
    let until = |end: u64| end.min(uop.retired);
    [
        (b' ', until(first)),
        (b'.', until(uop.delivered)),
        (b'#', until(uop.issued)),
        (b'=', until(ready)),
        (b'p', until(dispatched)),
        (b'e', until(executed.saturating_sub(1))),
        (b'E', until(executed)),
        (b'-', uop.retired),
        (b'R', uop.retired.saturating_add(1)),
    ]
}

/// Cycles that a µop drawn from `first` is in each of the [`STATES`].
pub(crate) fn cycles(uop: &Uop, first: u64) -> [u64; STATES.len()] {
    let mut cycles = [0; STATES.len()];
    let mut at = first;
    for (cycles, (_, end)) in cycles.iter_mut().zip(runs(uop, first).into_iter().skip(1)) {
        *cycles = end.saturating_sub(at);
        at = at.max(end);
    }
    cycles
}

/// The cycles from `base` on of a µop drawn from `first`, each as what it does then; on an in-order core
/// with the letter of what it waits for.
pub(crate) fn row(
    uop: &Uop,
    in_order: bool,
    first: u64,
    base: u64,
    columns: u64,
    line: &mut Vec<u8>,
) {
    let letter = letter(uop.late).filter(|_| in_order);
    let edge = base.saturating_add(columns);
    let mut at = base;
    for (glyph, end) in runs(uop, first) {
        let cycles = end.min(edge).saturating_sub(at);
        let glyph = match (glyph, letter) {
            (b'.' | b'=', Some(letter)) => letter as u8,
            (glyph, _) => glyph,
        };
        line.extend(std::iter::repeat_n(glyph, cycles as usize));
        at += cycles;
    }
    if uop.retired >= edge {
        line.pop();
        line.push(b'>');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_are_counted_as_they_are_drawn() {
        let waiting = Uop {
            port: 3,
            delivered: 5,
            issued: 9,
            ready: 12,
            dispatched: 13,
            executed: 17,
            retired: 20,
            ..Uop::default()
        };
        let quick = Uop {
            delivered: 5,
            issued: 6,
            ready: 6,
            dispatched: 6,
            executed: 7,
            retired: 8,
            ..waiting
        };
        let without = Uop {
            port: NO_PORT,
            ..waiting
        };
        for uop in [waiting, quick, without] {
            for before in [None, Some(2), Some(5)] {
                let first = first_cycle(&Header::default(), &uop, before);
                let mut drawn = Vec::new();
                row(&uop, false, first, first, 100, &mut drawn);
                let drawn = String::from_utf8(drawn).unwrap();
                let counted = cycles(&uop, first);
                assert_eq!(counted.iter().sum::<u64>(), uop.retired + 1 - first);
                for ((state, _), cycles) in STATES.iter().zip(counted) {
                    let cells = drawn.matches(*state).count();
                    assert_eq!(cells as u64, cycles, "{state} in {drawn:?}");
                }
            }
        }
    }
}
