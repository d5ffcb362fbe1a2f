//! `--json FILE` of commands whose tables go to stdout: one meaning for all of them.
//!
//! JSON goes to the file beside the tables; `-` is stdout, and takes the place of the tables.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::destination::{self, Destination};

/// The option, as parsed.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct JsonArgs {
    /// Write JSON to FILE, too; - is stdout, in place of the tables
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl JsonArgs {
    /// Opens the place before the work begins; `others` are the command's other outputs.
    ///
    /// # Errors
    /// Names the place that cannot be written, or that is to take two outputs.
    pub fn open<'a>(
        &'a self,
        others: impl IntoIterator<Item = &'a Path>,
    ) -> anyhow::Result<JsonOutput> {
        destination::all_different(self.json.iter().map(PathBuf::as_path).chain(others))?;
        let open = self.json.as_deref().map(Destination::open);
        Ok(JsonOutput(open.transpose()?))
    }
}

/// The place, opened; none if no JSON is asked for.
#[derive(Debug)]
pub struct JsonOutput(Option<Destination>);

impl JsonOutput {
    /// Whether stdout is its own, so that no table may go there.
    pub fn is_stdout(&self) -> bool {
        self.0.as_ref().is_some_and(Destination::is_stdout)
    }

    /// Whether any is asked for.
    pub const fn wanted(&self) -> bool {
        self.0.is_some()
    }

    /// Writes the value, if it is asked for.
    ///
    /// # Errors
    /// When the place cannot be written.
    pub fn write(self, value: &impl Serialize) -> anyhow::Result<()> {
        self.write_with(|out| -> anyhow::Result<()> {
            serde_json::to_writer_pretty(&mut *out, value)?;
            Ok(writeln!(out)?)
        })
    }

    /// The same, written by `write`.
    ///
    /// # Errors
    /// When the place cannot be written.
    pub fn write_with<E: Into<anyhow::Error>>(
        self,
        write: impl FnOnce(&mut dyn Write) -> Result<(), E>,
    ) -> anyhow::Result<()> {
        self.0.map_or(Ok(()), |place| place.write(write))
    }
}
