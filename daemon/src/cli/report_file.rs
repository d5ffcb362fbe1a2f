//! Reads JSON reports: of this schema version and older ones, with messages that name file and way out.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use anyhow::{Context, bail};
use mcad_proto::trace::FILE_MAGIC;
use mcad_report::{Report, SCHEMA_VERSION};

use crate::report_text;

/// Longest report that is read: far above what a run gives, far below what hurts.
const MAX_BYTES: u64 = 256 << 20;

/// Enough of a report to see which version of the schema it has.
#[derive(serde::Deserialize)]
struct Begin {
    schema_version: Option<u64>,
}

/// Reads a report; `-` is stdin.
///
/// # Errors
/// When it cannot be read, is no report, or is one of a later schema version.
pub(super) fn read(path: &Path) -> anyhow::Result<Report> {
    let name = path.display().to_string();
    if path.as_os_str() == "-" {
        return read_from(io::stdin().lock(), &name);
    }
    let file = File::open(path).with_context(|| format!("cannot open {name}"))?;
    read_from(BufReader::new(file), &name)
}

/// Reads a report from what is called `name` in messages.
///
/// # Errors
/// As [`read`].
pub(super) fn read_from(input: impl Read, name: &str) -> anyhow::Result<Report> {
    let mut text = Vec::new();
    input
        .take(MAX_BYTES + 1)
        .read_to_end(&mut text)
        .with_context(|| format!("cannot read {name}"))?;
    if text.len() as u64 > MAX_BYTES {
        bail!(
            "{name} is longer than {} MiB; reports are far shorter",
            MAX_BYTES >> 20
        );
    }
    if text.is_empty() {
        bail!("{name} is empty");
    }
    if text.starts_with(&FILE_MAGIC) {
        bail!(
            "{name} is a trace and no report; `mcad replay {name} --json REPORT.json` makes one of it"
        );
    }
    let begin = match serde_json::from_slice::<Begin>(&text) {
        Ok(begin) => begin.schema_version,
        Err(error) if error.is_data() => None,
        Err(error) => {
            return Err(error)
                .with_context(|| format!("{name} is no JSON report (line and column say where)"));
        }
    };
    match begin {
        Some(version) if (1..=u64::from(SCHEMA_VERSION)).contains(&version) => {}
        Some(version) => bail!(
            "{name} has schema version {version}; this mcad reads 1 to {SCHEMA_VERSION}: make the \
             report again, or use the mcad that made it"
        ),
        None => bail!("{name} is JSON but no mcad report: schema_version is missing"),
    }
    report_text::parse(&text).with_context(|| format!("{name} is a damaged report"))
}
