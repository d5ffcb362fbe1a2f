//! What stands at both ends of a file: header, index, trailer. Both are Cap'n Proto messages of
//! the schema (`TraceHeader`, `TraceIndex`) behind a magic, a length and a hash.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use capnp::message::{Builder, ReaderOptions};
use capnp::serialize;

use super::chunk::{fnv1a, u32_at};
use super::encode::Counts;
use super::reader::TraceReader;
use super::{FILE_MAGIC, INDEX_MAGIC, MAX_META_BYTES, TRAILER_MAGIC, TraceError, VERSION};
use crate::event::{Arch, EndReason, Event, SessionInfo};
use crate::generated::mcad_capnp as schema;
use crate::wire::{Hello, read_arch, read_end, string_list, string_of, write_arch, write_end};
use crate::word::{TAG_ACCESS, TAG_BLOCK, tag_of};

/// Magic, version, length, hash of what follows.
pub(super) const FILE_PREFIX: usize = 20;
/// Magic, length, hash of what follows.
pub(super) const INDEX_PREFIX: usize = 12;
/// Offset of the index, magic.
pub(super) const TRAILER: usize = 16;

/// One chunk of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkInfo {
    /// Where it begins in the file.
    pub offset: u64,
    /// Its bytes in the file.
    pub length: u32,
    /// Record words in the file before it.
    pub first_word: u64,
    /// Record words in it.
    pub words: u32,
}

/// What a file is about, without its records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceInfo {
    /// What is known of the session.
    pub session: SessionInfo,
    /// Program and version that wrote the file.
    pub tool: String,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// The chunks, in order.
    pub chunks: Vec<ChunkInfo>,
    /// Record words.
    pub words: u64,
    /// Block executions.
    pub block_executions: u64,
    /// Memory access words.
    pub accesses: u64,
    /// Instructions executed, as the blocks' definitions say.
    pub instructions: u64,
    /// Blocks defined.
    pub blocks: u32,
    /// Threads.
    pub streams: u32,
    /// Record words that the events report as missing.
    pub lost: u64,
    /// How the session ended.
    pub end: EndReason,
    /// Whether the index was there; without it the file was read as a whole.
    pub indexed: bool,
    /// What is damaged or missing, for people.
    pub problems: Vec<String>,
}

impl TraceInfo {
    /// Bytes of the file per instruction executed; `None` for a file without instructions.
    #[must_use]
    pub fn bytes_per_instruction(&self) -> Option<f64> {
        (self.instructions > 0).then(|| self.file_bytes as f64 / self.instructions as f64)
    }
}

/// Totals that go into the index.
#[derive(Clone, Debug, Default)]
pub(super) struct Totals {
    pub counts: Counts,
    pub blocks: u32,
    pub streams: u32,
    pub lost: u64,
    pub end: Option<EndReason>,
}

pub(super) fn file_header(info: &SessionInfo) -> Vec<u8> {
    let mut message = Builder::new_default();
    let mut header = message.init_root::<schema::trace_header::Builder<'_>>();
    header.set_arch(write_arch(info.arch));
    header.set_features(if info.memory { Hello::MEMORY } else { 0 });
    header.set_producer(&*info.producer);
    header.set_tool(concat!("mcad ", env!("CARGO_PKG_VERSION")));
    let mut command = header.init_command(info.command.len() as u32);
    for (i, argument) in info.command.iter().enumerate() {
        command.set(i as u32, &**argument);
    }
    let payload = serialize::write_message_to_words(&message);
    let mut out = FILE_MAGIC.to_vec();
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.extend_from_slice(&fnv1a(&payload).to_le_bytes());
    out.extend_from_slice(&payload);
    out
}

/// Length of the header's message, from the file's first [`FILE_PREFIX`] bytes (or fewer).
pub(super) fn header_length(prefix: &[u8], file: &str) -> Result<usize, TraceError> {
    let file = || file.to_owned();
    let seen = prefix.len().min(8);
    if prefix[..seen] != FILE_MAGIC[..seen] || seen == 0 {
        return Err(TraceError::Foreign {
            file: file(),
            found: prefix[..seen].to_vec(),
        });
    }
    if prefix.len() < FILE_PREFIX {
        return Err(TraceError::Header {
            file: file(),
            what: format!("the file ends after {} bytes", prefix.len()),
        });
    }
    let found = u32_at(prefix, 8);
    if found == 0 || found > VERSION {
        return Err(TraceError::Version {
            file: file(),
            found,
        });
    }
    let length = u32_at(prefix, 12) as usize;
    if length > MAX_META_BYTES {
        return Err(TraceError::Header {
            file: file(),
            what: format!("it claims {length} bytes"),
        });
    }
    Ok(length)
}

/// Reads the header's message. Returns the session and the tool.
pub(super) fn read_header(prefix: &[u8], payload: &[u8]) -> Result<(SessionInfo, String), String> {
    if u32_at(prefix, 16) != fnv1a(payload) {
        return Err("its checksum is wrong".into());
    }
    let message = open(payload)?;
    (|| {
        let header = message.get_root::<schema::trace_header::Reader<'_>>()?;
        let arch: Option<Arch> = read_arch(header.get_arch()?);
        let info = SessionInfo {
            arch: arch.ok_or_else(|| {
                crate::wire::Problem::Invalid("an unknown instruction set".into())
            })?,
            producer: string_of(header.get_producer()?)?,
            command: string_list(header.get_command()?)?,
            memory: header.get_features() & Hello::MEMORY != 0,
        };
        Ok((info, string_of(header.get_tool()?)?))
    })()
    .map_err(|e: crate::wire::Problem| e.to_string())
}

/// Copies a message to aligned memory and opens it.
fn open(payload: &[u8]) -> Result<capnp::message::Reader<capnp::serialize::OwnedSegments>, String> {
    let options = ReaderOptions {
        traversal_limit_in_words: Some(payload.len() / 8 * 2 + 64),
        nesting_limit: 8,
    };
    serialize::read_message(payload, options).map_err(|e| e.to_string())
}

pub(super) fn index(chunks: &[ChunkInfo], totals: &Totals, offset: u64) -> Vec<u8> {
    let mut message = Builder::new_default();
    let mut index = message.init_root::<schema::trace_index::Builder<'_>>();
    index.set_words(totals.counts.words);
    index.set_block_executions(totals.counts.blocks);
    index.set_accesses(totals.counts.accesses);
    index.set_instructions(totals.counts.instructions);
    index.set_blocks(totals.blocks);
    index.set_streams(totals.streams);
    index.set_lost(totals.lost);
    let end = totals.end.clone();
    write_end(
        &end.unwrap_or_else(|| EndReason::Truncated(NO_END.into())),
        index.reborrow().init_end(),
    );
    let mut list = index.init_chunks(chunks.len() as u32);
    for (i, chunk) in chunks.iter().enumerate() {
        let mut coded = list.reborrow().get(i as u32);
        coded.set_offset(chunk.offset);
        coded.set_length(chunk.length);
        coded.set_first_word(chunk.first_word);
        coded.set_words(chunk.words);
    }
    let payload = serialize::write_message_to_words(&message);
    let mut out = INDEX_MAGIC.to_vec();
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.extend_from_slice(&fnv1a(&payload).to_le_bytes());
    out.extend_from_slice(&payload);
    out.extend_from_slice(&offset.to_le_bytes());
    out.extend_from_slice(&TRAILER_MAGIC);
    out
}

/// What a file says whose writer was never told how the session ended.
pub(super) const NO_END: &str = "the recording stopped before the session ended";

fn read_index(payload: &[u8], info: &mut TraceInfo) -> Result<(), String> {
    let message = open(payload)?;
    (|| {
        let index = message.get_root::<schema::trace_index::Reader<'_>>()?;
        info.words = index.get_words();
        info.block_executions = index.get_block_executions();
        info.accesses = index.get_accesses();
        info.instructions = index.get_instructions();
        info.blocks = index.get_blocks();
        info.streams = index.get_streams();
        info.lost = index.get_lost();
        info.end = read_end(index.get_end()?)?;
        for chunk in index.get_chunks()? {
            info.chunks.push(ChunkInfo {
                offset: chunk.get_offset(),
                length: chunk.get_length(),
                first_word: chunk.get_first_word(),
                words: chunk.get_words(),
            });
        }
        info.indexed = true;
        Ok(())
    })()
    .map_err(|e: crate::wire::Problem| e.to_string())
}

/// Summarises a file: from its index, or by reading all of it when the index is missing or
/// damaged.
///
/// # Errors
/// [`TraceError::Read`], and those of the header.
pub fn info(path: impl AsRef<Path>) -> Result<TraceInfo, TraceError> {
    let path = path.as_ref();
    let name = path.display().to_string();
    let failed = |offset, source| TraceError::Read {
        file: name.clone(),
        offset,
        source,
    };
    let mut file = File::open(path).map_err(|e| failed(0, e))?;
    let bytes = file.seek(SeekFrom::End(0)).map_err(|e| failed(0, e))?;
    file.seek(SeekFrom::Start(0)).map_err(|e| failed(0, e))?;
    let mut reader = TraceReader::new(&mut file, name.clone())?;
    let mut info = TraceInfo {
        session: reader.session().clone(),
        tool: reader.tool().to_owned(),
        file_bytes: bytes,
        chunks: Vec::new(),
        words: 0,
        block_executions: 0,
        accesses: 0,
        instructions: 0,
        blocks: 0,
        streams: 0,
        lost: 0,
        end: EndReason::Truncated(NO_END.into()),
        indexed: false,
        problems: Vec::new(),
    };
    let payload = load_index(reader.source_mut(), bytes).map_err(|e| failed(bytes, e))?;
    if let Some(payload) = payload {
        let mut indexed = info.clone();
        if read_index(&payload, &mut indexed).is_ok() {
            return Ok(indexed);
        }
    }
    let source = reader.into_source();
    source.seek(SeekFrom::Start(0)).map_err(|e| failed(0, e))?;
    scan(TraceReader::new(source, name.clone())?, &mut info)?;
    Ok(info)
}

/// The index's message, `None` when the file has no sound index.
fn load_index(file: &mut File, bytes: u64) -> std::io::Result<Option<Vec<u8>>> {
    let Some(trailer_at) = bytes.checked_sub(TRAILER as u64) else {
        return Ok(None);
    };
    file.seek(SeekFrom::Start(trailer_at))?;
    let mut trailer = [0; TRAILER];
    file.read_exact(&mut trailer)?;
    let offset = u64::from(u32_at(&trailer, 0)) | u64::from(u32_at(&trailer, 4)) << 32;
    let length = trailer_at
        .checked_sub(offset)
        .and_then(|len| len.checked_sub(INDEX_PREFIX as u64));
    let Some(length) = length.filter(|len| *len <= MAX_META_BYTES as u64) else {
        return Ok(None);
    };
    if trailer[8..] != TRAILER_MAGIC {
        return Ok(None);
    }
    file.seek(SeekFrom::Start(offset))?;
    let mut prefix = [0; INDEX_PREFIX];
    file.read_exact(&mut prefix)?;
    let mut payload = vec![0; length as usize];
    file.read_exact(&mut payload)?;
    let sound = prefix[..4] == INDEX_MAGIC
        && u64::from(u32_at(&prefix, 4)) == length
        && u32_at(&prefix, 8) == fnv1a(&payload);
    Ok(sound.then_some(payload))
}

/// Fills in what the index would have said.
fn scan<R: Read>(mut reader: TraceReader<R>, info: &mut TraceInfo) -> Result<(), TraceError> {
    let mut instructions: Vec<u16> = Vec::new();
    while let Some(event) = reader.next()? {
        match event {
            Event::Block(block) => {
                info.blocks += 1;
                // Delivered ids are dense, see TraceReader.
                instructions.push(block.instructions);
            }
            Event::Records { words, .. } => {
                info.words += words.len() as u64;
                for word in words {
                    match tag_of(*word) {
                        TAG_ACCESS => info.accesses += 1,
                        TAG_BLOCK => {
                            info.block_executions += 1;
                            let known = instructions.get(*word as u32 as usize);
                            info.instructions += known.map_or(0, |n| u64::from(*n));
                        }
                        _ => {}
                    }
                }
            }
            Event::StreamStart(_) => info.streams += 1,
            Event::Lost { count, reason } => {
                info.lost += count;
                info.problems.push(reason);
            }
            Event::End(reason) => info.end = reason,
            _ => {}
        }
    }
    info.chunks = reader.chunks().to_vec();
    Ok(())
}
