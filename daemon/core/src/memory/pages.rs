//! Which pages a program has touched, and where its kernel left them.
//!
//! A page of anonymous memory is zeroed by the kernel when it is touched first, so its lines are
//! in the second level then; a page of a file comes from the page cache, in the third. Taken for
//! memory they would make every program's start a row of misses that it does not have.

use std::ops::Range;

use rustc_hash::FxHashMap;

/// Pages of 4 KiB that Linux maps around a page of a file that is touched (its
/// `fault_around_bytes`, 64 KiB unless somebody changes it).
pub const FAULT_AROUND: u64 = 16;

/// Mappings of files that are remembered.
const MAX_FILES: usize = 4096;

/// Pages of one word of the map below: those of 2 MiB.
const REGION: u64 = 512;

/// What touching a page meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// It was touched before.
    Known,
    /// The kernel zeroed it just now.
    Zeroed,
    /// The kernel mapped it, and its neighbours, from the page cache: from the first page to
    /// before the last.
    Mapped(u64, u64),
}

/// The pages of one program.
#[derive(Clone, Default)]
pub struct Pages {
    /// By region: one bit a page.
    touched: FxHashMap<u64, [u64; (REGION / 64) as usize]>,
    /// Page numbers of mapped files.
    files: Vec<Range<u64>>,
}

impl Pages {
    /// A file is mapped at these addresses.
    pub fn map_file(&mut self, addresses: Range<u64>) {
        let pages = addresses.start >> 12..addresses.end.div_ceil(1 << 12);
        if !self.files.contains(&pages) {
            if self.files.len() >= MAX_FILES {
                self.files.remove(0);
            }
            self.files.push(pages);
        }
    }

    /// These addresses are mapped anew or no more: they count as untouched.
    pub fn forget(&mut self, addresses: Range<u64>) {
        let pages = addresses.start >> 12..addresses.end.div_ceil(1 << 12);
        if (self.files.iter()).any(|file| file.start < pages.end && pages.start < file.end) {
            let rest = |file: &Range<u64>| {
                let before = file.start..file.end.min(pages.start).max(file.start);
                let behind = file.start.max(pages.end).min(file.end)..file.end;
                [before, behind]
            };
            let mut rest: Vec<_> = self.files.iter().flat_map(rest).collect();
            rest.retain(|file| !file.is_empty());
            rest.truncate(MAX_FILES);
            self.files = rest;
        }
        if pages.end.saturating_sub(pages.start) > REGION * self.touched.len() as u64 {
            self.touched.retain(|region, bits| {
                clear(*region, bits, &pages);
                true
            });
            return;
        }
        for region in pages.start / REGION..=pages.end / REGION {
            if let Some(bits) = self.touched.get_mut(&region) {
                clear(region, bits, &pages);
            }
        }
    }

    /// Whether a page was touched.
    #[must_use]
    pub fn is_touched(&self, page: u64) -> bool {
        let (word, bit) = place(page);
        self.touched
            .get(&(page / REGION))
            .is_some_and(|bits| bits[word] & bit != 0)
    }

    /// A page is touched.
    pub fn touch(&mut self, page: u64) -> Touch {
        let (word, bit) = place(page);
        let bits = self.touched.entry(page / REGION).or_default();
        if bits[word] & bit != 0 {
            return Touch::Known;
        }
        bits[word] |= bit;
        let Some(file) = self.files.iter().find(|file| file.contains(&page)).cloned() else {
            return Touch::Zeroed;
        };
        let first = page - page % FAULT_AROUND;
        let (first, end) = (first.max(file.start), (first + FAULT_AROUND).min(file.end));
        for around in first..end {
            let (word, bit) = place(around);
            self.touched.entry(around / REGION).or_default()[word] |= bit;
        }
        Touch::Mapped(first, end)
    }
}

fn place(page: u64) -> (usize, u64) {
    let n = page % REGION;
    ((n / 64) as usize, 1 << (n % 64))
}

fn clear(region: u64, bits: &mut [u64], pages: &Range<u64>) {
    for (n, word) in bits.iter_mut().enumerate() {
        let first = region * REGION + n as u64 * 64;
        if pages.start <= first && first + 64 <= pages.end {
            *word = 0;
            continue;
        }
        for bit in 0..64 {
            if pages.contains(&(first + bit)) {
                *word &= !(1 << bit);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_new_once() {
        let mut pages = Pages::default();
        assert_eq!(pages.touch(1000), Touch::Zeroed);
        assert_eq!(pages.touch(1000), Touch::Known);
        assert!(pages.is_touched(1000));
        assert!(!pages.is_touched(1001));
    }

    #[test]
    fn files_come_with_the_pages_around() {
        let mut pages = Pages::default();
        pages.map_file(0x1_2000..0x1_9000);
        assert_eq!(pages.touch(0x13), Touch::Mapped(0x12, 0x19));
        // Up to the mapping's ends.
        for page in 0x12..0x19 {
            assert_eq!(pages.touch(page), Touch::Known, "{page:#x}");
        }
        assert_eq!(pages.touch(0x19), Touch::Zeroed);
        assert_eq!(pages.touch(0x11), Touch::Zeroed);
    }

    #[test]
    fn what_is_mapped_over_a_file_leaves_the_rest_of_it() {
        let mut pages = Pages::default();
        pages.map_file(0x10_0000..0x20_0000);
        pages.forget(0x14_0000..0x16_0000);
        assert_eq!(pages.touch(0x150), Touch::Zeroed);
        assert_eq!(pages.touch(0x13f), Touch::Mapped(0x130, 0x140));
        assert_eq!(pages.touch(0x160), Touch::Mapped(0x160, 0x170));
        pages.forget(0x10_0000..0x20_0000);
        assert_eq!(pages.touch(0x13f), Touch::Zeroed);
    }

    #[test]
    fn what_is_unmapped_is_new_again() {
        for others in [0, 4000] {
            let mut pages = Pages::default();
            for region in 0..others {
                pages.touch((1 << 30) | (region * REGION));
            }
            for page in 0..2000 {
                pages.touch(page);
            }
            pages.forget(0x10_0000..0x20_0000);
            for page in 0..2000 {
                let expected = !(0x100..0x200).contains(&page);
                assert_eq!(pages.is_touched(page), expected, "{page:#x}");
            }
        }
    }
}
