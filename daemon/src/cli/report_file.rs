//! Reads JSON reports: of this schema version only, with messages that name file and way out.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use anyhow::{Context, bail};
use mcad_report::{Report, SCHEMA_VERSION};

/// Longest report that is read: far above what a run gives, far below what hurts.
const MAX_BYTES: u64 = 1 << 30;

/// Reads a report of this schema version; `-` is stdin.
///
/// # Errors
/// When it cannot be read, is no report, or is one of another schema version.
pub(super) fn read(path: &Path) -> anyhow::Result<Report> {
    let name = path.display().to_string();
    if path.as_os_str() == "-" {
        return read_from(io::stdin().lock(), &name);
    }
    let file = File::open(path).with_context(|| format!("cannot open {name}"))?;
    read_from(BufReader::new(file), &name)
}

/// Reads a report of this schema version from what is called `name` in messages.
///
/// # Errors
/// As [`read`].
pub(super) fn read_from(input: impl Read, name: &str) -> anyhow::Result<Report> {
    let mut text = String::new();
    input
        .take(MAX_BYTES)
        .read_to_string(&mut text)
        .with_context(|| format!("cannot read {name}"))?;
    let value: serde_json::Value = serde_json::from_str(&text)
        .with_context(|| format!("{name} is no JSON report (line and column say where)"))?;
    match value
        .get("schema_version")
        .and_then(serde_json::Value::as_u64)
    {
        Some(version) if version == u64::from(SCHEMA_VERSION) => {}
        Some(version) => bail!(
            "{name} has schema version {version}; this mcad reads {SCHEMA_VERSION}: make the \
             report again, or use the mcad that made it"
        ),
        None => bail!("{name} is JSON but no mcad report: schema_version is missing"),
    }
    serde_json::from_value(value).with_context(|| format!("{name} is a damaged report"))
}
