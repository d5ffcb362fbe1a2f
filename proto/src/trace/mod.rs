//! Trace files: a session's events, recorded (docs/TRACE-FORMAT.md).
//!
//! A file is a header, chunks, an index and a trailer. Each chunk decodes by itself and repeats
//! the block definitions that it needs, so damage stays local; the index only speeds up questions about the whole file. Record words are coded
//! against a prediction that writer and reader make alike (`predict`), and what is left is
//! compressed with zstd.
//!
//! A round trip keeps every event and word in order. How the words of one stream are grouped into
//! [`Event::Records`](crate::event::Event::Records) is not kept.

mod behind;
mod chunk;
mod column;
mod decode;
mod encode;
mod error;
pub(crate) mod forge;
mod index;
mod input;
mod library;
mod mend;
mod predict;
mod reader;
mod small;
mod writer;

pub use error::TraceError;
pub use index::{ChunkInfo, TraceInfo, info};
pub use reader::TraceReader;
pub use writer::{TraceSummary, TraceWriter};

/// Version of the format that is written; older ones are read. Version 1 knew one process only.
pub const VERSION: u32 = 3;

/// First bytes of a trace file.
pub const FILE_MAGIC: [u8; 8] = *b"MCADTRC\0";
/// First bytes of a chunk.
const CHUNK_MAGIC: [u8; 4] = *b"CHNK";
/// First bytes of the index.
const INDEX_MAGIC: [u8; 4] = *b"INDX";
/// Last bytes of a complete file.
const TRAILER_MAGIC: [u8; 8] = *b"MCADEND\0";

/// Most record words in a chunk.
const CHUNK_WORDS: usize = 1 << 20;
/// A chunk is closed when its uncompressed bytes reach this.
const CHUNK_BYTES: usize = 8 << 20;
/// Longest chunk that is read, compressed or not, in bytes: what is above [`CHUNK_BYTES`] is room
/// for the event that closed the chunk.
const MAX_CHUNK_BYTES: usize = 64 << 20;
/// Longest header or index that is read, in bytes.
const MAX_META_BYTES: usize = 64 << 20;
/// Record words that the reader hands out at once; they stay in the processor's cache.
const READ_WORDS: usize = 1 << 15;
