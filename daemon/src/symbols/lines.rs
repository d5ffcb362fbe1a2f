//! Source lines from DWARF. Sections are read into memory of our own, so that a file that shrinks
//! while it is used is an error and not a fault.

use std::path::Path;
use std::rc::Rc;

use addr2line::Context;
use gimli::{Dwarf, EndianRcSlice, LittleEndian, SectionId};
use object::Object;

use super::image;

type Slice = EndianRcSlice<LittleEndian>;

/// The line tables of one file.
pub(super) struct Lines {
    context: Context<Slice>,
}

impl Lines {
    /// Reads a file's DWARF; `None` when it has none that can be read.
    pub(super) fn read(path: &Path) -> Option<Self> {
        let cache = image::open(path).ok()?;
        let file = object::File::parse(&cache).ok()?;
        file.section_by_name(".debug_line")?;
        let load = |id: SectionId| -> Result<Slice, object::Error> {
            let data = match file.section_by_name(id.name()) {
                Some(section) => image::content(&section).unwrap_or_default(),
                None => Vec::new().into(),
            };
            Ok(Slice::new(Rc::from(&*data), LittleEndian))
        };
        let context = Dwarf::load(load)
            .map_err(|error| error.to_string())
            .and_then(|dwarf| Context::from_dwarf(dwarf).map_err(|error| error.to_string()));
        match context {
            Ok(context) => Some(Self { context }),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "unreadable debug information");
                None
            }
        }
    }

    /// `file:line` of an ELF address.
    pub(super) fn line(&self, address: u64) -> Option<String> {
        let location = self.context.find_location(address).ok()??;
        Some(format!("{}:{}", location.file?, location.line?))
    }
}
