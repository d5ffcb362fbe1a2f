//! Chunks: a fixed header and one zstd frame with the five columns, one after the other.
//!
//! ```text
//!  0  "CHNK"                      20  length of the address column
//!  4  compressed length           24  length of the detail column
//!  8  length of the recall column 28  record words in the file before this chunk (8 bytes)
//! 12  length of the event column  36  record words in this chunk
//! 16  length of control           40  FNV-1a hash of bytes 0..40
//! ```
//!
//! Numbers are little-endian, 4 bytes but for one. The zstd frame has a checksum, so every flipped
//! bit is noticed.

use super::{CHUNK_MAGIC, CHUNK_WORDS, MAX_CHUNK_BYTES};

pub(super) const HEADER_BYTES: usize = 44;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Bytes of the zstd frame.
    pub compressed: u32,
    /// Bytes of the recall, event, control, address and detail columns.
    pub columns: [u32; 5],
    /// Record words of the file before this chunk.
    pub first_word: u64,
    /// Record words in this chunk.
    pub words: u32,
}

impl Header {
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&CHUNK_MAGIC);
        bytes[4..8].copy_from_slice(&self.compressed.to_le_bytes());
        for (i, len) in self.columns.iter().enumerate() {
            bytes[8 + 4 * i..12 + 4 * i].copy_from_slice(&len.to_le_bytes());
        }
        bytes[28..36].copy_from_slice(&self.first_word.to_le_bytes());
        bytes[36..40].copy_from_slice(&self.words.to_le_bytes());
        let hash = fnv1a(&bytes[..40]);
        bytes[40..].copy_from_slice(&hash.to_le_bytes());
        bytes
    }

    /// `None` when these bytes are no chunk header, or a damaged one.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; HEADER_BYTES] = bytes.first_chunk()?;
        if bytes[..4] != CHUNK_MAGIC || u32_at(bytes, 40) != fnv1a(&bytes[..40]) {
            return None;
        }
        let header = Self {
            compressed: u32_at(bytes, 4),
            columns: [8, 12, 16, 20, 24].map(|at| u32_at(bytes, at)),
            first_word: u64::from(u32_at(bytes, 28)) | u64::from(u32_at(bytes, 32)) << 32,
            words: u32_at(bytes, 36),
        };
        let fits = header.compressed as usize <= MAX_CHUNK_BYTES
            && header.bytes() <= MAX_CHUNK_BYTES as u64
            && header.words as usize <= CHUNK_WORDS;
        fits.then_some(header)
    }

    /// Uncompressed bytes.
    pub fn bytes(&self) -> u64 {
        self.columns.iter().copied().map(u64::from).sum()
    }

    /// Bytes in the file, with the header.
    pub fn file_bytes(&self) -> usize {
        HEADER_BYTES + self.compressed as usize
    }
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut value = [0; 4];
    value.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(value)
}

/// 32-bit FNV-1a; it changes with every single flipped bit.
pub(super) fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_flipped_bit_spoils_a_header() {
        let header = Header {
            compressed: 1000,
            columns: [1, 2, 3, 4, 5],
            first_word: 1 << 40,
            words: 77,
        };
        let bytes = header.encode();
        assert_eq!(Header::decode(&bytes), Some(header));
        for bit in 0..HEADER_BYTES * 8 {
            let mut bytes = bytes;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Header::decode(&bytes), None, "bit {bit}");
        }
        assert_eq!(Header::decode(&bytes[..43]), None);
    }
}
