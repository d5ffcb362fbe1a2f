//! Files of `hex,cycles` lines, or `hex,ERR,reason`; further fields are ignored.

use std::io::Read;

use anyhow::bail;

use super::lines::Lines;

/// Most rows: thirty times those of the largest collection.
pub const MAX_ROWS: usize = 10_000_000;

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The block, in lower case.
    pub hex: String,
    /// Cycles per iteration, or why there are none.
    pub cycles: Result<f64, String>,
}

/// Reads all rows; empty lines and a heading are passed over.
///
/// # Errors
/// Names the file and the line.
pub fn read(input: impl Read, name: &str) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut lines = Lines::new(input, name);
    while let Some((n, line)) = lines.next_line()? {
        let mut fields = line.splitn(3, ',');
        let hex = fields.next().unwrap_or("").trim().to_ascii_lowercase();
        let value = fields.next().unwrap_or("").trim();
        let heading = n == 1 && matches!(hex.as_str(), "hex" | "block" | "bytes");
        if line.is_empty() || heading {
            continue;
        }
        let cycles = if value == "ERR" {
            Err(fields.next().unwrap_or("ERR").trim().to_owned())
        } else {
            match value.parse::<f64>() {
                Ok(cycles) if cycles.is_finite() && cycles >= 0.0 => Ok(cycles),
                _ => bail!(
                    "{name}, line {n}: '{value}' is no number of cycles; lines are hex,cycles \
                     or hex,ERR,reason"
                ),
            }
        };
        if rows.len() == MAX_ROWS {
            bail!("{name} has more than {MAX_ROWS} rows");
        }
        rows.push(Row { hex, cycles });
    }
    Ok(rows)
}

/// Reads labels: rows with positive cycles.
///
/// # Errors
/// Names the file and what is wrong with it.
pub fn read_labels(input: impl Read, name: &str) -> anyhow::Result<Vec<Row>> {
    let rows = read(input, name)?;
    if rows.is_empty() {
        bail!("{name} has no labels");
    }
    for row in &rows {
        match &row.cycles {
            Ok(cycles) if *cycles > 0.0 => {}
            _ => bail!("{name}: the label of {} is not a positive number", row.hex),
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_or_named() {
        let text = "hex,cycles\n90,0.25,0.01\n\n0F0B,ERR,no figures\n";
        let rows = read(text.as_bytes(), "f").unwrap();
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0].cycles, Ok(0.25));
        assert_eq!(rows[1].hex, "0f0b");
        assert_eq!(rows[1].cycles, Err("no figures".into()));
        let error = read("90,1\n90,x\n".as_bytes(), "f").unwrap_err();
        assert!(error.to_string().contains("f, line 2"), "{error}");
        assert!(read_labels("90,0\n".as_bytes(), "f").is_err());
        assert!(read_labels("".as_bytes(), "f").is_err());
    }
}
