//! Byte columns with variable-length numbers (LEB128), and zigzag for signed ones.

use std::ops::Range;

/// A chunk's content did not decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bad(pub &'static str);

#[inline]
pub(super) fn put_varint(out: &mut Vec<u8>, value: u64) {
    if value < 0x80 {
        out.push(value as u8);
    } else {
        // Memory takes it.
        let _ = leb128::write::unsigned(out, value);
    }
}

#[inline]
pub(super) const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

#[inline]
pub(super) const fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// A place in a column that lies somewhere in a chunk's bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cursor {
    at: usize,
    end: usize,
}

impl Cursor {
    /// The column of `len` bytes from `at`; the caller checked that the bytes are there.
    pub fn new(at: usize, len: usize) -> Self {
        Self { at, end: at + len }
    }

    pub fn is_empty(&self) -> bool {
        self.at == self.end
    }

    #[inline]
    pub fn byte(&mut self, data: &[u8]) -> Result<u8, Bad> {
        if self.at == self.end {
            return Err(Bad("a column ends early"));
        }
        let byte = data[self.at];
        self.at += 1;
        Ok(byte)
    }

    #[inline]
    pub fn varint(&mut self, data: &[u8]) -> Result<u64, Bad> {
        // Nearly all are short.
        match data[self.at..self.end] {
            [byte, ..] if byte < 0x80 => {
                self.at += 1;
                Ok(byte.into())
            }
            _ => self.long_varint(data),
        }
    }

    fn long_varint(&mut self, data: &[u8]) -> Result<u64, Bad> {
        let mut left = &data[self.at..self.end];
        let value = leb128::read::unsigned(&mut left).map_err(|error| match error {
            leb128::read::Error::IoError(_) => Bad("a column ends early"),
            leb128::read::Error::Overflow => Bad("a number is too long"),
        })?;
        self.at = self.end - left.len();
        Ok(value)
    }

    /// Passes over `len` bytes; returns where they are.
    pub fn range(&mut self, len: u64) -> Result<Range<usize>, Bad> {
        let left = self.end - self.at;
        match usize::try_from(len) {
            Ok(len) if len <= left => {
                let from = self.at;
                self.at += len;
                Ok(from..self.at)
            }
            _ => Err(Bad("a column ends early")),
        }
    }

    pub fn bytes<'a>(&mut self, data: &'a [u8], len: u64) -> Result<&'a [u8], Bad> {
        Ok(&data[self.range(len)?])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive() {
        let values = [0, 1, 127, 128, 300, u64::from(u32::MAX), 1 << 48, u64::MAX];
        let mut out = Vec::new();
        for value in values {
            put_varint(&mut out, value);
        }
        let mut cursor = Cursor::new(0, out.len());
        for value in values {
            assert_eq!(cursor.varint(&out), Ok(value));
        }
        assert!(cursor.is_empty());
        assert!(cursor.varint(&out).is_err());
        for value in [0, -1, 1, i64::MIN, i64::MAX] {
            assert_eq!(unzigzag(zigzag(value)), value);
        }
        let endless = [0xff; 20];
        assert!(Cursor::new(0, 20).varint(&endless).is_err());
    }
}
