//! The bytes of an ELF file, of which only so many are taken: paths come from peers, and a file's
//! headers may say anything.

use std::borrow::Cow;
use std::path::Path;

use object::{ObjectSection, ReadCache};

use crate::files::{Rationed, open_regular};

/// Most bytes read of one file; the symbol tables of a browser with debug information have a fifth.
const MAX_READ: u64 = 1 << 30;

/// Largest section, unpacked.
const MAX_SECTION: u64 = 1 << 30;

/// Opens a regular file for reading here and there.
///
/// # Errors
/// A text for the log.
pub(super) fn open(path: &Path) -> Result<ReadCache<Rationed>, String> {
    let file = open_regular(path).map_err(|error| error.to_string())?;
    Ok(ReadCache::new(Rationed::new(file, MAX_READ)))
}

/// A section's content, unpacked; `None` where it cannot be had or is too large.
pub(super) fn content<'d>(section: &impl ObjectSection<'d>) -> Option<Cow<'d, [u8]>> {
    let data = section.compressed_data().ok()?;
    if data.uncompressed_size > MAX_SECTION {
        return None;
    }
    data.decompress().ok()
}
