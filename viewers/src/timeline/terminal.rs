//! The timeline in the terminal, in the spirit of llvm-mca's: a row per µop, a column per cycle.
//!
//! What a µop waits for has a glyph of its own. The wait for the front end is drawn on the µop
//! that it kept from coming: from the delivery of the µop before it. Rows are grouped to sections
//! that begin at the first cycle of their first row; what is beyond the right edge is marked.

use std::io::{self, Read, Write};

use super::read::Reader;
use super::{Code, Instruction, Kind, NO_PORT, TimelineError, Uop};
use crate::escape::escape;
use crate::layout::cut;
use crate::style::{Paint, Style};

/// Rows between two headings.
const SECTION: u64 = 24;

/// Columns before the cycles: number, port and text.
const NUMBER: usize = 9;
const TEXT: usize = 34;

/// Glyphs with their meaning, in the order of the legend.
const LEGEND: [(char, &str); 8] = [
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

/// Draws at most `max_cycles` cycles of the file's first thread. Returns the records that were
/// left out.
///
/// # Errors
/// [`TimelineError`] of the file or the output.
pub fn write<R: Read>(
    timeline: &mut Reader<R>,
    style: Style,
    max_cycles: u64,
    out: &mut dyn Write,
) -> Result<u64, TimelineError> {
    let header = timeline.header();
    let title = format!("{} ({}), {}", header.cpu, header.name, header.window);
    writeln!(out, "{}", style.paint(Paint::Heading, escape(&title)))?;
    for (glyph, meaning) in LEGEND {
        writeln!(out, "  {glyph}  {meaning}")?;
    }
    writeln!(out, "  >  goes on beyond the right edge")?;
    let columns = style.width.saturating_sub(NUMBER + TEXT + 6).max(16) as u64;
    let mut rows = 0;
    let mut base = 0;
    let mut first = None;
    let mut before = None;
    let mut left_out = 0;
    let mut i = Instruction::default();
    while timeline.next(&mut i)? {
        let begin = i.begin();
        let (thread, start) = *first.get_or_insert((i.thread, begin));
        if thread != i.thread || begin.saturating_sub(start) >= max_cycles {
            left_out += 1;
            continue;
        }
        let Some(code) = timeline.code(i.code) else {
            continue;
        };
        for (n, uop) in i.uops.iter().enumerate() {
            if rows % SECTION == 0 {
                base = uop.delivered;
                section(base, columns, style, out)?;
            }
            rows += 1;
            label(&i, n, uop, code, out)?;
            writeln!(out, "{}", row(uop, before, base, columns))?;
            before = Some(uop.delivered);
        }
    }
    Ok(left_out)
}

fn section(base: u64, columns: u64, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let mut scale = String::new();
    for column in 0..columns {
        scale.push(match (base + column) % 10 {
            0 => '|',
            5 => ':',
            _ => ' ',
        });
    }
    let line = format!(
        "\n{:>NUMBER$} {:>2} {:<TEXT$} {}  from cycle {base}",
        "number",
        "on",
        "instruction",
        scale.trim_end(),
    );
    writeln!(out, "{}", style.paint(Paint::Dim, line))
}

fn label(i: &Instruction, n: usize, uop: &Uop, code: &Code, out: &mut dyn Write) -> io::Result<()> {
    let text = match (uop.kind, n) {
        (Kind::StackSync, _) => "(rsp synchronisation)".to_owned(),
        (Kind::Merge, _) => "(register merge)".to_owned(),
        (Kind::Own, n) if n == i.first_own() && i.pair => format!("{} + jump", escape(&code.text)),
        (Kind::Own, n) if n == i.first_own() => escape(&code.text).into_owned(),
        (Kind::Own, _) => format!("… {}", escape(&code.text)),
    };
    let port = if uop.port == NO_PORT {
        String::new()
    } else {
        format!("{:X}", uop.port)
    };
    write!(
        out,
        "{:>NUMBER$} {port:>2} {:<TEXT$} ",
        i.number,
        cut(&text, TEXT)
    )
}

/// The cycles of a µop from `base` on.
fn row(uop: &Uop, before: Option<u64>, base: u64, columns: u64) -> String {
    let first = before.map_or(uop.delivered, |before| (before + 1).min(uop.delivered));
    let mut cells = String::new();
    for cycle in base..base + columns {
        if cycle > uop.retired {
            break;
        }
        cells.push(glyph(uop, first, cycle));
    }
    if uop.retired >= base + columns {
        cells.pop();
        cells.push('>');
    }
    cells
}

/// What a µop does in a cycle.
fn glyph(uop: &Uop, first: u64, cycle: u64) -> char {
    let executes = uop.port != NO_PORT;
    match cycle {
        c if c < first => ' ',
        c if c < uop.delivered => '.',
        c if c == uop.retired => 'R',
        c if c < uop.issued => '#',
        _ if !executes => '-',
        c if c < uop.ready => '=',
        c if c < uop.dispatched => 'p',
        c if c + 1 < uop.executed => 'e',
        c if c < uop.executed => 'E',
        _ => '-',
    }
}
