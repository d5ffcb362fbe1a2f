//! The comparison as JSON, indented: everything, for scripts.

use std::io::{self, Write};

use super::Diff;
use crate::escape::json;

/// Writes the comparison; ends with a newline.
///
/// # Errors
/// What the output says.
pub fn write(diff: &Diff, out: &mut dyn Write) -> io::Result<()> {
    json::pretty(out, diff)?;
    out.write_all(b"\n")
}
