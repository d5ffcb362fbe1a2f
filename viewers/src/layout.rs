//! Plain tables: right-aligned figures, left-aligned names, the last column cut to the width.
//!
//! Cells are expected to be escaped already (see [`crate::escape`]). A column's width counts
//! characters, which is right for the names that programs have.

use std::io::{self, Write};

use crate::style::{Paint, Style};

/// Narrowest that a name column is cut to.
const MIN_NAME: usize = 8;

/// Narrowest that a column of text that goes on below is made before others give way.
const MIN_WRAPPED: usize = 24;

/// How a column's cells are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Names.
    Left,
    /// Figures.
    Right,
}

/// A table that is filled row by row and written once.
#[derive(Debug)]
pub struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
    wraps: bool,
}

impl Table {
    /// An empty table with these column heads.
    pub fn new<S: Into<String>>(columns: impl IntoIterator<Item = (S, Align)>) -> Self {
        Self {
            columns: columns
                .into_iter()
                .map(|(head, align)| (head.into(), align))
                .collect(),
            rows: Vec::new(),
            wraps: false,
        }
    }

    /// Makes the last column, of text, go on in further lines where it is too long, instead of being
    /// cut; others give way before.
    #[must_use]
    pub fn wrapping(mut self) -> Self {
        self.wraps = true;
        self
    }

    /// Columns that it takes at least if no name is cut.
    #[must_use]
    pub fn least_width(&self) -> usize {
        let mut widths = self.widths(usize::MAX);
        if let Some(last) = widths.last_mut().filter(|_| self.wraps) {
            *last = (*last).min(MIN_WRAPPED);
        }
        widths.iter().sum::<usize>() + 2 * widths.len()
    }

    /// Adds a row; missing cells stay empty, surplus ones are not shown.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Writes heads and rows, two spaces between columns, indented by two.
    ///
    /// # Errors
    /// What the output says.
    pub fn write(&self, style: Style, out: &mut dyn Write) -> io::Result<()> {
        let widths = self.widths(style.width);
        let heads: Vec<&str> = self.columns.iter().map(|(head, _)| head.as_str()).collect();
        if heads.iter().any(|head| !head.is_empty()) {
            let line = self.line(&heads, &widths);
            writeln!(out, "{}", style.paint(Paint::Dim, line))?;
        }
        let last = self.columns.len().saturating_sub(1);
        for row in &self.rows {
            let mut cells: Vec<&str> = row.iter().map(String::as_str).collect();
            let long = cells.get(last).copied().filter(|_| self.wraps);
            let width = widths.get(last).copied().unwrap_or(0);
            let lines = long.map_or_else(Vec::new, |text| wrapped(text, width));
            if let (Some(cell), Some(first)) = (cells.get_mut(last), lines.first()) {
                *cell = first;
            }
            writeln!(out, "{}", self.line(&cells, &widths))?;
            for more in lines.iter().skip(1) {
                let mut cells = vec![""; last];
                cells.push(more);
                writeln!(out, "{}", self.line(&cells, &widths))?;
            }
        }
        Ok(())
    }

    fn widths(&self, total: usize) -> Vec<usize> {
        let mut widths: Vec<usize> = self
            .columns
            .iter()
            .map(|(head, _)| head.chars().count())
            .collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        // Names give way: the widest left-aligned columns shrink until the line fits.
        let gaps = 2 * widths.len();
        while widths.iter().sum::<usize>() + gaps > total {
            // What goes on below gives way first.
            if let Some(last) = widths
                .last_mut()
                .filter(|w| self.wraps && **w > MIN_WRAPPED)
            {
                *last -= 1;
                continue;
            }
            let widest = widths
                .iter()
                .enumerate()
                .filter(|(i, width)| self.columns[*i].1 == Align::Left && **width > MIN_NAME)
                .max_by_key(|(_, width)| **width)
                .map(|(i, _)| i);
            match widest {
                Some(i) => widths[i] -= 1,
                None => break,
            }
        }
        widths
    }

    fn line(&self, cells: &[&str], widths: &[usize]) -> String {
        let mut line = String::new();
        for (i, (width, (_, align))) in widths.iter().zip(&self.columns).enumerate() {
            let cell = cut(cells.get(i).copied().unwrap_or(""), *width);
            line.push_str("  ");
            match align {
                Align::Left => line.push_str(&format!("{cell:<width$}")),
                Align::Right => line.push_str(&format!("{cell:>width$}")),
            }
        }
        line.truncate(line.trim_end().len());
        line
    }
}

/// Lines of at most so many characters, broken between words; a longer word is a line of its own.
#[must_use]
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Cuts text to a width, marking the cut.
#[must_use]
pub fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(width.saturating_sub(1)).collect();
    short.push('…');
    short
}

/// A count with separators: `12,345,678`.
#[must_use]
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `part` of `whole` in percent with one decimal, `0.0 %` of nothing.
#[must_use]
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "0.0 %".to_owned();
    }
    format!("{:.1} %", part as f64 * 100.0 / whole as f64)
}

/// Whether [`percent`] says more than 0.0 %.
#[must_use]
pub const fn tells(part: u64, whole: u64) -> bool {
    part > 0 && part.saturating_mul(2000) >= whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_grouped() {
        for (count, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (1_234_567, "1,234,567"),
            (u64::MAX, "18,446,744,073,709,551,615"),
        ] {
            assert_eq!(grouped(count), text);
        }
    }

    #[test]
    fn long_text_goes_on_below_where_it_may() -> io::Result<()> {
        let mut table = Table::new([("n", Align::Right), ("why", Align::Left)]).wrapping();
        table.row(vec!["1".into(), "one two three four".into()]);
        table.row(vec!["2".into(), "five".into()]);
        assert_eq!(table.least_width(), 2 + 1 + 2 + 18);
        let mut out = Vec::new();
        let style = Style {
            width: 16,
            ..Style::plain()
        };
        table.write(style, &mut out)?;
        let text = String::from_utf8_lossy(&out);
        let expected = "  n  why\n  1  one two\n     three four\n  2  five\n";
        assert_eq!(text, expected);
        Ok(())
    }

    #[test]
    fn names_shrink_and_figures_do_not() -> io::Result<()> {
        let mut table = Table::new([("cycles", Align::Right), ("function", Align::Left)]);
        table.row(vec!["123456".into(), "f".repeat(200)]);
        let mut out = Vec::new();
        let style = Style {
            width: 60,
            colour: false,
            functions: 12,
        };
        table.write(style, &mut out)?;
        let text = String::from_utf8_lossy(&out);
        assert!(
            text.lines().all(|line| line.chars().count() <= 60),
            "{text}"
        );
        assert!(text.contains("123456") && text.contains('…'));
        Ok(())
    }
}
