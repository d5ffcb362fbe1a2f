//! A byte source with look-ahead, so that the reader can search for the next chunk after damage
//! without being able to seek.

use std::io::{self, ErrorKind, Read};

/// Bytes asked from the source at once.
const READ: usize = 256 << 10;

pub(super) struct Input<R> {
    source: R,
    buffer: Vec<u8>,
    at: usize,
    ended: bool,
    /// Bytes of the source before `buffer[at]`.
    offset: u64,
}

impl<R: Read> Input<R> {
    pub fn new(source: R) -> Self {
        Self {
            source,
            buffer: Vec::new(),
            at: 0,
            ended: false,
            offset: 0,
        }
    }

    pub fn source(&mut self) -> &mut R {
        &mut self.source
    }

    pub fn into_source(self) -> R {
        self.source
    }

    /// Bytes consumed.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The next `len` bytes without consuming them; fewer only where the source ends. Memory grows
    /// with the bytes that are there, not with `len`.
    pub fn peek(&mut self, len: usize) -> io::Result<&[u8]> {
        while self.buffer.len() - self.at < len && !self.ended {
            if self.at > 0 {
                self.buffer.drain(..self.at);
                self.at = 0;
            }
            let have = self.buffer.len();
            let wanted = READ.max(have).min(len.saturating_sub(have).max(READ));
            self.buffer.resize(have + wanted, 0);
            let result = self.source.read(&mut self.buffer[have..]);
            self.buffer.truncate(have + *result.as_ref().unwrap_or(&0));
            match result {
                Ok(0) => self.ended = true,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let end = self.buffer.len().min(self.at + len);
        Ok(&self.buffer[self.at..end])
    }

    /// Consumes bytes that were peeked.
    pub fn consume(&mut self, len: usize) {
        let len = len.min(self.buffer.len() - self.at);
        self.at += len;
        self.offset += len as u64;
    }

    /// Consumes up to where one of `magics` begins (at least one byte), or to the end.
    pub fn skip_to(&mut self, magics: &[[u8; 4]]) -> io::Result<()> {
        let mut first = 1;
        loop {
            let window = self.peek(READ)?;
            if window.len() < 4 + first {
                let rest = window.len();
                self.consume(rest);
                return Ok(());
            }
            let found = window
                .windows(4)
                .skip(first)
                .position(|w| magics.iter().any(|m| m == w));
            match found {
                Some(at) => {
                    self.consume(first + at);
                    return Ok(());
                }
                None => {
                    // A magic may begin in the last three bytes.
                    let passed = window.len() - 3;
                    self.consume(passed);
                    first = 0;
                }
            }
        }
    }
}
