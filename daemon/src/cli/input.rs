//! Input files of the commands that read tables: plain or packed, or stdin.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use anyhow::Context;

/// First bytes of a file in xz format.
const XZ: &[u8] = b"\xfd7zXZ\0";

/// Opens a file; `-` is stdin, and a file in xz format is unpacked.
///
/// # Errors
/// Names the file.
pub fn open(path: &Path) -> anyhow::Result<Box<dyn Read + Send>> {
    if path.as_os_str() == "-" {
        return Ok(Box::new(io::stdin()));
    }
    let name = path.display();
    let file = File::open(path).with_context(|| format!("cannot open {name}"))?;
    let mut file = BufReader::with_capacity(1 << 16, file);
    let start = file
        .fill_buf()
        .with_context(|| format!("cannot read {name}"))?;
    if start.starts_with(XZ) {
        return Ok(Box::new(liblzma::read::XzDecoder::new_multi_decoder(file)));
    }
    Ok(Box::new(file))
}
