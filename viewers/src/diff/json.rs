//! The comparison as JSON, indented: everything, for scripts.

use std::io::{self, Write};

use super::Diff;

/// Writes the comparison; ends with a newline.
///
/// # Errors
/// What the output says.
pub fn write(diff: &Diff, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, diff)?;
    out.write_all(b"\n")
}
