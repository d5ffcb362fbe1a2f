//! What memory holds when a program starts, as its file says.

/// Most segments of a file that are kept.
const MAX_SEGMENTS: usize = 64;

/// A part of memory that a file fills.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Segment {
    start: u32,
    /// The bytes that the file has; those behind are zero.
    bytes: Box<[u8]>,
    /// Bytes in memory.
    len: u32,
}

/// The segments of a loaded file. Zeros behind what a segment has in the file are its data as well.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    segments: Vec<Segment>,
}

impl Image {
    /// Adds a segment of `len` bytes from `start` on, the first of which are `bytes`.
    pub fn add(&mut self, start: u32, bytes: &[u8], len: u32) {
        if self.segments.len() < MAX_SEGMENTS {
            let bytes: Box<[u8]> = bytes.iter().take(len as usize).copied().collect();
            self.segments.push(Segment { start, bytes, len });
        }
    }

    /// The byte at an address; `None` outside of the file's segments.
    #[must_use]
    pub fn byte(&self, address: u32) -> Option<u8> {
        self.segments.iter().find_map(|segment| {
            let into = address.checked_sub(segment.start)?;
            let inside = into < segment.len;
            inside.then(|| segment.bytes.get(into as usize).copied().unwrap_or(0))
        })
    }

    /// Whether these bytes are at an address: code that was executed shows whether the file is the one that
    /// was.
    #[must_use]
    pub fn holds(&self, address: u64, bytes: &[u8]) -> bool {
        let mut at = (address..).zip(bytes);
        at.all(|(at, byte)| u32::try_from(at).ok().and_then(|at| self.byte(at)) == Some(*byte))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_has_its_bytes_and_then_zeros() {
        let mut image = Image::default();
        image.add(0x1000, &[1, 2, 3, 4], 8);
        image.add(0xffff_fffc, &[9], 4);
        let bytes = [0xfff, 0x1000, 0x1003, 0x1004, 0x1007, 0x1008, 0xffff_fffc];
        let found = bytes.map(|at| image.byte(at));
        assert_eq!(
            found,
            [None, Some(1), Some(4), Some(0), Some(0), None, Some(9)]
        );
        assert!(image.holds(0x1002, &[3, 4, 0]));
        assert!(!image.holds(0x1002, &[3, 5]));
        assert!(!image.holds(0x1006, &[0, 0, 0]));
        assert!(!image.holds(0x1_0000_1000, &[1]));
    }
}
