//! Tables that a click on a head sorts: figures by their value, texts by the alphabet.

use std::fmt::Write as _;
use std::io::{self, Write};

use crate::escape::html as esc;
use crate::layout::{grouped, percent};

/// Letters from which on code may be cut.
const LONG: usize = 40;

/// A column's head.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head<'a> {
    text: &'a str,
    class: &'static str,
    title: &'static str,
}

impl Head<'_> {
    /// With an explanation.
    pub(super) const fn titled(mut self, title: &'static str) -> Self {
        self.title = title;
        self
    }
}

/// A column of texts.
pub(super) const fn name(text: &str) -> Head<'_> {
    Head {
        text,
        class: "",
        title: "",
    }
}

/// A column of figures.
pub(super) const fn figure(text: &str) -> Head<'_> {
    Head {
        text,
        class: "n",
        title: "",
    }
}

/// A narrow column of figures with a shade each.
pub(super) const fn heat(text: &str) -> Head<'_> {
    Head {
        text,
        class: "n heat",
        title: "",
    }
}

/// A table that is being written.
pub(super) struct Table<'o> {
    out: &'o mut dyn Write,
    row: String,
}

impl<'o> Table<'o> {
    pub(super) fn begin(
        out: &'o mut dyn Write,
        class: &str,
        heads: &[Head<'_>],
    ) -> io::Result<Self> {
        write!(
            out,
            "<div class=\"scroll\" tabindex=\"0\"><table class=\"sort {class}\"><thead><tr>"
        )?;
        for head in heads {
            write!(out, "<th scope=\"col\" class=\"{}\"", head.class)?;
            if !head.title.is_empty() {
                write!(out, " title=\"{}\"", head.title)?;
            }
            write!(out, ">{}</th>", esc(head.text))?;
        }
        writeln!(out, "</tr></thead><tbody>")?;
        Ok(Self {
            out,
            row: String::new(),
        })
    }

    /// A cell of foreign text.
    pub(super) fn text(&mut self, text: &str) {
        self.html("", &esc(text));
    }

    /// A cell of foreign code, on one line however long; a long one's whole text shows on hover.
    pub(super) fn code(&mut self, text: &str) {
        let text = esc(text);
        if text.chars().count() > LONG {
            let _ = write!(
                self.row,
                "<td class=\"name code\" title=\"{text}\">{text}</td>"
            );
        } else {
            self.html("code", &text);
        }
    }

    /// A cell of text that is HTML already.
    pub(super) fn html(&mut self, class: &str, html: &str) {
        let _ = write!(self.row, "<td class=\"name {class}\">{html}</td>");
    }

    /// A cell of a number.
    pub(super) fn count(&mut self, count: u64) {
        self.figure(count as f64, &grouped(count));
    }

    /// A cell of a figure as it is shown.
    pub(super) fn figure(&mut self, value: f64, shown: &str) {
        let _ = write!(
            self.row,
            "<td class=\"n\" data-v=\"{value}\">{}</td>",
            esc(shown)
        );
    }

    /// A cell of a share of a whole, with a bar that is full at `longest`.
    pub(super) fn share(&mut self, part: u64, whole: u64, longest: u64) {
        let _ = write!(
            self.row,
            "<td class=\"n share\" data-v=\"{part}\">{}{}</td>",
            percent(part, whole),
            meter(part as f64 / longest.max(1) as f64)
        );
    }

    /// A cell that is darker the larger its figure is against `most`; 0 stays empty.
    pub(super) fn shade(&mut self, value: f64, most: f64, shown: &str) {
        let share = if most > 0.0 { value / most } else { 0.0 };
        let shade = (share * 8.0).ceil().clamp(0.0, 8.0);
        let shown = if value > 0.0 { shown } else { "" };
        let _ = write!(
            self.row,
            "<td class=\"n heat h{shade}\" data-v=\"{value}\">{}</td>",
            esc(shown)
        );
    }

    pub(super) fn end_row(&mut self) -> io::Result<()> {
        writeln!(self.out, "<tr>{}</tr>", self.row)?;
        self.row.clear();
        Ok(())
    }

    pub(super) fn end(self) -> io::Result<()> {
        writeln!(self.out, "</tbody></table></div>")
    }
}

/// A bar of this length, 1 at most. It is a picture since the page's policy has no place for
/// styles of single elements.
fn meter(length: f64) -> String {
    let length = length.clamp(0.0, 1.0) * 100.0;
    format!(
        "<svg class=\"meter\" viewBox=\"0 0 100 1\" preserveAspectRatio=\"none\" \
         aria-hidden=\"true\"><rect width=\"{length:.1}\" height=\"1\"/></svg>"
    )
}

/// Says how many rows a table leaves out, and which share of `whole` their cycles are.
pub(super) fn left_out(
    what: &str,
    cycles: impl ExactSizeIterator<Item = u64>,
    whole: u64,
    out: &mut dyn Write,
) -> io::Result<()> {
    let number = cycles.len();
    if number == 0 {
        return Ok(());
    }
    writeln!(
        out,
        "<p class=\"dim\">{} more {what} with {} of the cycles are in the JSON report.</p>",
        grouped(number as u64),
        percent(cycles.fold(0, u64::saturating_add), whole)
    )
}
