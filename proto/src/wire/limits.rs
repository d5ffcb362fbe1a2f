//! Limits on everything that is read from a peer or from a file.

use crate::word::MAX_BLOCK_INSTRUCTIONS;

/// Longest payload of the first frame of a connection, in bytes: room for a long command line.
pub const MAX_HELLO_BYTES: usize = 4 << 20;
/// Longest payload of any later frame, in bytes.
pub const MAX_FRAME_BYTES: usize = 16 << 20;
/// Most record words in one batch (8 MiB).
pub const MAX_BATCH_WORDS: usize = 1 << 20;
/// Most events in one batch.
pub const MAX_BATCH_EVENTS: usize = 1 << 16;
/// Longest single text (path, reason, argument), in bytes.
pub const MAX_TEXT_BYTES: usize = 1 << 20;
/// Most entries in a list of texts (command line, options).
pub const MAX_STRINGS: usize = 1 << 16;
/// Most code bytes of one block: no instruction of a supported set is longer than 16.
pub const MAX_CODE_BYTES: usize = MAX_BLOCK_INSTRUCTIONS * 16;
/// Longest report that is put together from parts, in bytes.
pub const MAX_REPORT_BYTES: u64 = 512 << 20;
/// Bytes of a report in one part.
pub const REPORT_PART_BYTES: usize = 1 << 20;
