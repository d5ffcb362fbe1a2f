//! Function ranges from `.eh_frame`: every function of an x86-64 program has one, also when the
//! symbol table was stripped (System V ABI, AMD64 supplement, 4.2.4).

use std::ops::Range;

use gimli::{BaseAddresses, CieOrFde, EhFrame, LittleEndian, UnwindSection};
use object::{Object, ObjectSection, ReadRef};

use super::image;

/// The ELF addresses of all functions that have unwind information; unsorted. What follows a
/// damaged entry is left out.
pub(super) fn ranges<'d, R: ReadRef<'d>>(file: &object::File<'d, R>) -> Vec<Range<u64>> {
    let mut ranges = Vec::new();
    let Some(section) = file.section_by_name(".eh_frame") else {
        return ranges;
    };
    let Some(data) = image::content(&section) else {
        return ranges;
    };
    let mut bases = BaseAddresses::default().set_eh_frame(section.address());
    if let Some(text) = file.section_by_name(".text") {
        bases = bases.set_text(text.address());
    }
    if let Some(got) = file.section_by_name(".got") {
        bases = bases.set_got(got.address());
    }
    let frames = EhFrame::new(&data, LittleEndian);
    let mut entries = frames.entries(&bases);
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else {
            continue;
        };
        let Ok(fde) = partial.parse(EhFrame::cie_from_offset) else {
            continue;
        };
        let start = fde.initial_address();
        if let Some(end) = start.checked_add(fde.len()).filter(|end| *end > start) {
            ranges.push(start..end);
        }
    }
    ranges
}
