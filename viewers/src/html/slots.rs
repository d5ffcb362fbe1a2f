//! Where issue slots went, as bars: of a program, and small ones in tables.

use std::fmt::Write as _;
use std::io::{self, Write};

use mcad_report::{SlotStack, TopDown};

use super::table::Table;
use crate::escape::html as esc;
use crate::layout::percent;
use crate::text::verdict;

/// Classes of the kinds, in the order of [`verdict::kinds`].
const CLASSES: [&str; 6] = ["ret", "spec", "fe", "mem", "core", "oth"];

/// A kind of slots: class, name, slots.
pub(super) type Kind = (&'static str, &'static str, u64);

/// The kinds of a program.
pub(super) fn of_program(t: &TopDown) -> [Kind; 6] {
    classed(verdict::kinds_of_program(t))
}

fn classed(kinds: [(&'static str, u64); 6]) -> [Kind; 6] {
    let mut classes = CLASSES.into_iter();
    kinds.map(|(name, slots)| (classes.next().unwrap_or(""), name, slots))
}

/// A bar of all kinds.
pub(super) fn bar(kinds: &[Kind; 6], class: &str, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", svg(kinds, class))
}

/// The bar of a piece of code.
pub(super) fn of_code(slots: &SlotStack) -> [Kind; 6] {
    classed(verdict::kinds(slots))
}

fn svg(kinds: &[Kind; 6], class: &str) -> String {
    let all: u64 = kinds.iter().fold(0, |sum, k| sum.saturating_add(k.2));
    if all == 0 {
        return String::new();
    }
    let mut text = format!(
        "<svg class=\"{class}\" viewBox=\"0 0 100 1\" preserveAspectRatio=\"none\" role=\"img\" \
         aria-label=\"Issue slots\">"
    );
    let mut x = 0.0;
    for (class, name, slots) in kinds {
        let width = *slots as f64 * 100.0 / all as f64;
        if *slots > 0 {
            let share = percent(*slots, all);
            let _ = write!(
                text,
                "<rect class=\"{class}\" x=\"{x:.2}\" width=\"{width:.2}\" height=\"1\">\
                 <title>{name}: {share}</title></rect>"
            );
        }
        x += width;
    }
    text.push_str("</svg>");
    text
}

/// A table's cell: a small bar, and what bounds the code.
pub(super) fn cell(slots: Option<&SlotStack>, table: &mut Table<'_>) {
    let Some(slots) = slots.filter(|slots| slots.sum() > 0) else {
        table.text("");
        return;
    };
    let verdict = esc(&verdict::of(slots).text());
    let bar = svg(&of_code(slots), "slots");
    table.html("slots", &format!("{bar} <small>{verdict}</small>"));
}
