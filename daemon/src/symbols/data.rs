//! What memory holds when a program starts: the segments of a 32-bit RISC-V file, where it was mapped.

use std::path::Path;

use mcad_core::simulation::Image;
use mcad_proto::event::ModuleDef;
use object::{Architecture, Object, ObjectSegment};

use super::elf::ElfSymbols;
use super::image;

/// Most bytes of a segment that are kept: data of programs that stand on no library.
const MAX_BYTES: u64 = 16 << 20;

/// The image of a mapped file; `None` of one that is missing, of another kind, or mapped in a way that its
/// headers do not say.
pub(super) fn read(module: &ModuleDef, symbols: &ElfSymbols) -> Option<Image> {
    let cache = image::open(Path::new(&module.path)).ok()?;
    let file = object::File::parse(&cache).ok()?;
    if file.architecture() != Architecture::Riscv32 {
        return None;
    }
    let linked = symbols.address(module.file_offset)?;
    let moved = module.start.0.wrapping_sub(linked);
    let mut image = Image::default();
    for segment in file.segments() {
        let start = u32::try_from(segment.address().wrapping_add(moved)).ok()?;
        let len = u32::try_from(segment.size()).ok()?;
        let data = segment.data().ok()?;
        if data.len() as u64 > MAX_BYTES {
            return None;
        }
        image.add(start, data, len);
    }
    Some(image)
}
