//! Whether the tables of a page sort: every head is pressed with the mouse, twice, and what the
//! table shows then is compared.

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

/// Presses the heads of all `table.sort`, after opening what is folded.
///
/// # Errors
/// When the browser fails.
pub fn press_all_heads(page: &mut Page<'_>) -> Result<Sorting> {
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")?;
    let widths = page.evaluate(
        "[...document.querySelectorAll('table.sort')].map(t => t.tHead.rows[0].cells.length)",
    )?;
    let mut sorting = Sorting::default();
    for (table, width) in widths.as_array().into_iter().flatten().enumerate() {
        sorting.tables += 1;
        for column in 0..width.as_u64().unwrap_or(0) {
            let head = head(table, column);
            let mut directions = Vec::new();
            for _ in 0..2 {
                page.click(&format!("{head}.firstChild"))?;
                let shown = Shown::read(page, table, column)?;
                if let Some(wrong) = shown.wrong() {
                    let failure = format!("table {table}, column {column}: {wrong}");
                    sorting.failures.push(failure);
                }
                sorting.telling += usize::from(shown.telling && directions.is_empty());
                directions.push(shown.direction);
            }
            if directions.first() == directions.last() {
                let failure = format!("table {table}, column {column}: one direction only");
                sorting.failures.push(failure);
            }
        }
    }
    Ok(sorting)
}

/// The expression of a column's head.
#[must_use]
pub fn head(table: usize, column: u64) -> String {
    format!("document.querySelectorAll('table.sort')[{table}].tHead.rows[0].cells[{column}]")
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
    fn read(page: &mut Page<'_>, table: usize, column: u64) -> Result<Self> {
        let read = page.evaluate(&format!(
            "(() => {{ const head = {}; \
             const cells = [...head.closest('table').tBodies[0].rows].map(r => r.cells[{column}]); \
             const texts = cells.map(c => c.textContent); \
             const order = (good) => texts.every((x, n) => !n || good(texts[n - 1].localeCompare(x))); \
             return [head.ariaSort, cells.every(c => c.dataset.v) ? cells.map(c => +c.dataset.v) : null, \
             order(c => c <= 0), order(c => c >= 0), new Set(texts).size > 1]; }})()",
            head(table, column)
        ))?;
        let figures = read[1].as_array();
        Ok(Self {
            direction: read[0].as_str().unwrap_or("none").to_owned(),
            figures: figures.map(|all| all.iter().filter_map(Value::as_f64).collect()),
            texts: [read[2] == true, read[3] == true],
            telling: read[4] == true,
        })
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
