//! Reading the published rows: one JSON object a line, xz-compressed.
//!
//! Two generations exist: that of 2022 (AVX-512 complete, no operand lists) and that of 2025
//! (operand lists, newer names). The differences end here.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use liblzma::read::XzDecoder;
use serde::Deserialize;
use serde_json::Value;

/// The figures of a row, or what differs from them in a variant of it.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Figures {
    pub uops: Option<u64>,
    pub retire_slots: Option<u64>,
    pub uops_mite: Option<u64>,
    pub uops_ms: Option<u64>,
    pub ports: Option<BTreeMap<String, u64>>,
    pub div_cycles: Option<f64>,
    pub tp: Option<f64>,
    pub complex_decoder: Option<bool>,
    pub simple_decoders: Option<u8>,
    pub lat: Option<Vec<(String, String, String, f64)>>,
}

/// One row as published.
#[derive(Clone, Debug, Deserialize)]
pub struct Row {
    pub iform: String,
    pub string: String,
    #[serde(default)]
    pub attrs: BTreeMap<String, String>,
    #[serde(flatten)]
    pub figures: Figures,
    pub indexed: Option<Figures>,
    pub same_reg: Option<Figures>,
    #[serde(default)]
    flags_read: Vec<String>,
    #[serde(default)]
    flags_written: Vec<String>,
    #[serde(default)]
    pub macro_fusible: Vec<String>,
    locked: Option<Value>,
    x_locked: Option<Value>,
    operands: Option<Vec<Value>>,
}

/// An operand as the rows of 2025 list it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedOperand {
    pub name: String,
    pub kind: String,
    pub read: bool,
    pub written: bool,
}

impl Row {
    /// Whether the access is locked, explicitly or by its nature.
    pub fn is_locked(&self) -> bool {
        let truth = |v: &Option<Value>| match v {
            Some(Value::Bool(b)) => *b,
            Some(Value::String(s)) => s == "1",
            Some(Value::Number(n)) => n.as_u64() == Some(1),
            _ => false,
        };
        truth(&self.locked) || truth(&self.x_locked)
    }

    /// The flags read and written: single letters, or the groups `C` and `SPAZO`.
    pub fn flags(&self) -> (Vec<String>, Vec<String>) {
        let mut read = self.flags_read.clone();
        let mut written = self.flags_written.clone();
        for operand in self.operands.iter().flatten() {
            let texts = |key: &str| {
                let list = operand.get(4).and_then(|o| o.get(key))?.as_array()?;
                Some(list.iter().filter_map(|v| v.as_str().map(str::to_owned)))
            };
            read.extend(texts("flags_read").into_iter().flatten());
            written.extend(texts("flags_written").into_iter().flatten());
        }
        (read, written)
    }

    /// The operand list, if the row has one.
    pub fn listed_operands(&self) -> Option<Vec<ListedOperand>> {
        let list = self.operands.as_ref()?;
        let operand = |o: &Value| {
            let access = o.get(2)?.as_str()?;
            Some(ListedOperand {
                name: o.get(0)?.as_str()?.to_owned(),
                kind: o.get(1)?.as_str()?.to_owned(),
                read: access.contains('r'),
                written: access.contains('w'),
            })
        };
        list.iter().map(operand).collect()
    }
}

/// The file of a CPU's rows below a folder.
pub fn path(from: &Path, name: &str) -> PathBuf {
    from.join(format!("{name}.jsonl.xz"))
}

/// Reads all rows of a file.
///
/// # Errors
/// When it cannot be read or a line is not a row; the error names file and line.
pub fn read(from: &Path, name: &str) -> Result<Vec<Row>> {
    let path = path(from, name);
    let file = File::open(&path).with_context(|| {
        format!(
            "{}: --from names the folder with CPU.jsonl.xz files",
            path.display()
        )
    })?;
    let reader = BufReader::new(XzDecoder::new(file));
    let mut rows = Vec::new();
    for (number, line) in reader.lines().enumerate() {
        let place = || format!("{}:{}", path.display(), number + 1);
        let line = line.with_context(place)?;
        rows.push(serde_json::from_str(&line).with_context(place)?);
    }
    if rows.is_empty() {
        bail!("{}: no rows", path.display());
    }
    Ok(rows)
}
