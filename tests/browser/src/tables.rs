//! Whether the tables of a page sort: every head is pressed twice, the first of each table with the mouse, and what the
//! table shows then is compared.

use std::fmt::Display;

use anyhow::Result;
use serde_json::Value;

use crate::Page;

/// What came of pressing all heads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sorting {
    /// Tables.
    pub tables: usize,
    /// Columns in which not all cells are the same.
    pub telling: usize,
    /// Columns that do not sort, and how.
    pub failures: Vec<String>,
}

/// Presses the heads of all `table.sort`, each after opening what it is folded into and closing all else. Only the first
/// head of a table is pressed with the mouse, which waits for frames; of the others nothing may lie above the place where it
/// would press.
///
/// # Errors
/// When the browser fails.
pub fn press_all_heads(page: &mut Page<'_>) -> Result<Sorting> {
    let widths = page.evaluate(
        "[...document.querySelectorAll('table.sort')].map(t => t.tHead.rows[0].cells.length)",
    )?;
    let mut sorting = Sorting::default();
    for (table, width) in widths.as_array().into_iter().flatten().enumerate() {
        sorting.tables += 1;
        page.evaluate(&format!(
            "(() => {{ const table = document.querySelectorAll('table.sort')[{table}]; \
             document.querySelectorAll('details').forEach(d => d.open = d.contains(table)); }})()"
        ))?;
        let mut first = Vec::new();
        for _ in 0..2 {
            page.click(&format!("{}.firstChild", head(table, 0)))?;
            first.push(page.evaluate(&shown(table, "0"))?);
        }
        sorting.column(table, 0, &first);
        let others = page.evaluate(&format!(
            "[...Array({width}).keys()].slice(1).map(column => [0, 1].map(() => {{ \
             const e = {}.firstChild; \
             e.scrollIntoView({{block: 'center', inline: 'center'}}); \
             const r = e.getBoundingClientRect(); \
             const there = document.elementFromPoint(r.left + r.width / 2, r.top + r.height / 2); \
             if (!e.contains(there)) return ['it is covered']; \
             e.click(); return {}; }}))",
            head(table, "column"),
            shown(table, "column")
        ))?;
        for (n, presses) in others.as_array().into_iter().flatten().enumerate() {
            let presses = presses.as_array().map_or(&[][..], Vec::as_slice);
            sorting.column(table, n + 1, presses);
        }
    }
    Ok(sorting)
}

impl Sorting {
    /// A column, as it is shown after each press of its head.
    fn column(&mut self, table: usize, column: usize, presses: &[Value]) {
        let shown: Vec<Shown> = presses.iter().map(Shown::read).collect();
        let mut fail = |what: &str| {
            let failure = format!("table {table}, column {column}: {what}");
            self.failures.push(failure);
        };
        for wrong in shown.iter().filter_map(Shown::wrong) {
            fail(&wrong);
        }
        match shown.as_slice() {
            [once, twice] if once.direction != twice.direction => {}
            _ => fail("one direction only"),
        }
        self.telling += usize::from(shown.first().is_some_and(|shown| shown.telling));
    }
}

/// The expression of a column's head.
#[must_use]
pub fn head(table: usize, column: impl Display) -> String {
    format!("document.querySelectorAll('table.sort')[{table}].tHead.rows[0].cells[{column}]")
}

/// The expression of what [`Shown`] says of a column, whose number is an expression.
fn shown(table: usize, column: &str) -> String {
    format!(
        "(() => {{ const head = {}; \
         const cells = [...head.closest('table').tBodies[0].rows].map(r => r.cells[{column}]); \
         const texts = cells.map(c => c.textContent); \
         const order = (good) => texts.every((x, n) => !n || good(texts[n - 1].localeCompare(x))); \
         return [head.ariaSort, cells.every(c => c.dataset.v) ? cells.map(c => +c.dataset.v) : null, \
         order(c => c <= 0), order(c => c >= 0), new Set(texts).size > 1]; }})()",
        head(table, column)
    )
}

/// A column as it is shown.
struct Shown {
    /// As its head says.
    direction: String,
    /// Its figures, if it is a column of figures.
    figures: Option<Vec<f64>>,
    /// Whether its texts are in the order of the alphabet, forwards and backwards.
    texts: [bool; 2],
    /// Not all cells are the same.
    telling: bool,
}

impl Shown {
    fn read(read: &Value) -> Self {
        let figures = read[1].as_array();
        Self {
            direction: read[0].as_str().unwrap_or("none").to_owned(),
            figures: figures.map(|all| all.iter().filter_map(Value::as_f64).collect()),
            texts: [read[2] == true, read[3] == true],
            telling: read[4] == true,
        }
    }

    /// What is wrong with the order.
    fn wrong(&self) -> Option<String> {
        let ordered = match (self.direction.as_str(), &self.figures) {
            ("ascending", Some(figures)) => figures.is_sorted(),
            ("descending", Some(figures)) => figures.iter().rev().is_sorted(),
            ("ascending", None) => self.texts[0],
            ("descending", None) => self.texts[1],
            (other, _) => return Some(format!("its head says {other}")),
        };
        let figures = || self.figures.as_deref().unwrap_or_default();
        (!ordered).then(|| format!("not {}: {:?}", self.direction, figures()))
    }
}
