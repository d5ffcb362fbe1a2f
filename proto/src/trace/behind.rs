//! What stands behind the session's end in a trace file: the index and the trailer, and nothing else.
//!
//! More than that is of no session, or of another one: two recordings one behind the other, chunks out of
//! order (whose records were missed before the end), a file that was written over a longer one.

use std::io::{self, Read};

use super::chunk::{self, u32_at};
use super::index::{INDEX_PREFIX, TRAILER};
use super::input::Input;
use super::{FILE_MAGIC, INDEX_MAGIC, MAX_META_BYTES};
use crate::event::EndReason;

/// Bytes that are left out at once.
const SKIPPED: usize = 64 << 10;

/// The end that was read, and what was found behind it so far: time limits may interrupt.
pub(super) struct Behind {
    /// How the session ended.
    pub end: EndReason,
    indexed: bool,
    /// What does not belong there, from its first byte.
    more: Option<More>,
}

#[derive(Clone, Copy)]
struct More {
    from: u64,
    is_recording: bool,
}

impl Behind {
    pub fn new(end: EndReason) -> Self {
        Self {
            end,
            indexed: false,
            more: None,
        }
    }

    /// Reads to the end of the file. May be repeated after an error.
    pub fn read<R: Read>(&mut self, input: &mut Input<R>) -> io::Result<()> {
        loop {
            let offset = input.offset();
            let head = input.peek(chunk::HEADER_BYTES)?;
            let length = match index_length(head).filter(|_| !self.indexed) {
                _ if head.is_empty() => return Ok(()),
                Some(length) => length,
                None => {
                    self.more.get_or_insert(More {
                        from: offset,
                        is_recording: head.starts_with(&FILE_MAGIC),
                    });
                    SKIPPED
                }
            };
            let there = input.peek(length)?.len();
            input.consume(there);
            self.indexed = true;
        }
    }

    /// What was left out of a file that ends at `to`.
    pub fn left_out(&self, to: u64) -> Option<String> {
        let More { from, is_recording } = self.more?;
        let what = match is_recording {
            true => ": another recording begins there; give each a file of its own",
            false => "",
        };
        Some(format!(
            "bytes {from} to {to}, behind the session's end, are left out{what}"
        ))
    }
}

/// Bytes of the index that begins here, with the trailer; `head` is short only where the file ends.
fn index_length(head: &[u8]) -> Option<usize> {
    let seen = head.len().min(INDEX_MAGIC.len());
    if head[..seen] != INDEX_MAGIC[..seen] {
        return None;
    }
    let Some(prefix) = head.get(..INDEX_PREFIX) else {
        return Some(head.len());
    };
    let length = u32_at(prefix, 4) as usize;
    (length <= MAX_META_BYTES).then_some(INDEX_PREFIX + length + TRAILER)
}
