//! Writes a trace file to anything that takes bytes, a pipe too.

use std::io::Write;

use zstd::bulk::Compressor;
use zstd::zstd_safe::CParameter;

use super::chunk::Header;
use super::encode::Encoder;
use super::index::{self, ChunkInfo, Totals};
use super::library::Library;
use super::small::{self, Previous};
use super::{CHUNK_BYTES, CHUNK_WORDS, TraceError};
use crate::event::{Event, ProcessEvent, SessionInfo};
use crate::word::{ProcessId, StreamId};

/// zstd level: the columns are small already, higher levels cost more than they gain.
const LEVEL: i32 = 1;

/// Totals of a finished recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceSummary {
    /// Bytes written.
    pub bytes: u64,
    /// Record words.
    pub words: u64,
    /// Instructions executed, as the blocks' definitions say.
    pub instructions: u64,
    /// Chunks.
    pub chunks: u64,
}

/// Records a session.
///
/// At most one chunk is kept back; what was written before a crash or a full disk stays readable
/// up to the last whole chunk. After an error the recording is over: drop the writer and go on
/// without.
pub struct TraceWriter<W: Write> {
    out: W,
    name: String,
    offset: u64,
    over: bool,
    events: Vec<u8>,
    previous: Previous,
    /// The process entered last: each chunk says it again.
    process: ProcessId,
    encoder: Encoder,
    library: Library,
    /// Records that are not yet in the event column: neighbours of one stream become one entry.
    open: Option<(StreamId, usize)>,
    words: usize,
    chunk_words: usize,
    first_word: u64,
    compressor: Compressor<'static>,
    plain: Vec<u8>,
    packed: Vec<u8>,
    chunks: Vec<ChunkInfo>,
    totals: Totals,
}

impl<W: Write> TraceWriter<W> {
    /// Starts a file, named `name` in messages, and writes its header.
    ///
    /// # Errors
    /// [`TraceError::Write`].
    pub fn new(out: W, name: impl Into<String>, info: &SessionInfo) -> Result<Self, TraceError> {
        let name = name.into();
        let compressor = compressor().map_err(|source| TraceError::Write {
            file: name.clone(),
            offset: 0,
            source,
        })?;
        let mut writer = Self {
            out,
            name,
            offset: 0,
            over: false,
            events: Vec::new(),
            previous: Previous::default(),
            process: ProcessId::FIRST,
            encoder: Encoder::default(),
            library: Library::default(),
            open: None,
            words: 0,
            chunk_words: CHUNK_WORDS,
            first_word: 0,
            compressor,
            plain: Vec::new(),
            packed: Vec::new(),
            chunks: Vec::new(),
            totals: Totals::default(),
        };
        writer.encoder.clear();
        writer.put(&index::file_header(info))?;
        Ok(writer)
    }

    /// Sets the record words per chunk, 1 to 1 Mi, which is what it is without this. Smaller
    /// chunks keep less back and compress worse.
    #[must_use]
    pub fn chunk_words(mut self, words: usize) -> Self {
        self.chunk_words = words.clamp(1, CHUNK_WORDS);
        self
    }

    /// Passes on what the output holds back; records since the last chunk stay here.
    ///
    /// # Errors
    /// [`TraceError::Write`].
    pub fn flush(&mut self) -> Result<(), TraceError> {
        self.out.flush().map_err(|source| self.failed(source))
    }

    /// Records an event. [`Event::Session`] is in the header already and changes nothing.
    ///
    /// # Errors
    /// [`TraceError::Write`] once, [`TraceError::Over`] for every later call.
    pub fn event(&mut self, event: &Event<'_>) -> Result<(), TraceError> {
        if self.over {
            return Err(TraceError::Over {
                file: self.name.clone(),
            });
        }
        let mut entered = None;
        match event {
            Event::Session(_) => return Ok(()),
            Event::Records { stream, words } => return self.records(*stream, words),
            Event::Block(block) => {
                if self.encoder.define(block.id.0, block.instructions) {
                    self.library.add(block);
                }
                self.totals.blocks += 1;
            }
            Event::StreamStart(_) => self.totals.streams += 1,
            Event::Lost { count, .. } => {
                self.totals.lost = self.totals.lost.saturating_add(*count);
            }
            Event::End(reason) => self.totals.end = Some(reason.clone()),
            Event::Process {
                id,
                what: ProcessEvent::Entered,
            } => entered = Some(*id),
            _ => {}
        }
        self.close_records();
        self.begin_chunk();
        small::put_event(event, &mut self.previous, &mut self.events);
        self.process = entered.unwrap_or(self.process);
        self.flush_if_full()
    }

    fn records(&mut self, stream: StreamId, mut words: &[u64]) -> Result<(), TraceError> {
        while !words.is_empty() {
            let taken = words
                .len()
                .min(self.chunk_words.saturating_sub(self.words).max(1));
            let (now, later) = words.split_at(taken);
            match &mut self.open {
                Some((open, count)) if *open == stream => *count += taken,
                _ => {
                    self.close_records();
                    self.open = Some((stream, taken));
                }
            }
            self.encoder.words(stream.0, now);
            self.words += taken;
            words = later;
            self.flush_if_full()?;
        }
        Ok(())
    }

    fn close_records(&mut self) {
        if let Some((stream, words)) = self.open.take() {
            self.begin_chunk();
            small::put_records(stream, words, &mut self.events);
        }
    }

    /// Each chunk says first which process was entered, since the one before may get lost.
    fn begin_chunk(&mut self) {
        if self.events.is_empty() && self.process != ProcessId::FIRST {
            small::put_entered(self.process, &mut self.events);
        }
    }

    fn flush_if_full(&mut self) -> Result<(), TraceError> {
        let bytes = self.events.len() + self.encoder.len();
        if self.words >= self.chunk_words || bytes >= CHUNK_BYTES {
            return self.chunk();
        }
        Ok(())
    }

    /// Writes what was kept back as a chunk.
    fn chunk(&mut self) -> Result<(), TraceError> {
        self.close_records();
        if self.events.is_empty() {
            return Ok(());
        }
        let recall = self.library.recall(&mut self.encoder.used);
        let columns: [&[u8]; 5] = [
            recall,
            &self.events,
            &self.encoder.control,
            &self.encoder.address,
            &self.encoder.detail,
        ];
        self.plain.clear();
        for column in columns {
            self.plain.extend_from_slice(column);
        }
        let lengths = columns.map(|column| column.len() as u32);
        self.packed.clear();
        self.packed
            .reserve(zstd::zstd_safe::compress_bound(self.plain.len()));
        if let Err(source) = self
            .compressor
            .compress_to_buffer(&self.plain, &mut self.packed)
        {
            return Err(self.failed(source));
        }
        let header = Header {
            compressed: self.packed.len() as u32,
            columns: lengths,
            first_word: self.first_word,
            words: self.words as u32,
        };
        self.chunks.push(ChunkInfo {
            offset: self.offset,
            length: header.file_bytes() as u32,
            first_word: self.first_word,
            words: header.words,
        });
        self.first_word += self.words as u64;
        self.words = 0;
        self.events.clear();
        self.previous = Previous::default();
        self.encoder.clear();
        self.put(&header.encode())?;
        let packed = std::mem::take(&mut self.packed);
        let result = self.put(&packed);
        self.packed = packed;
        result
    }

    /// Writes the last chunk and the index.
    ///
    /// # Errors
    /// [`TraceError::Write`], or [`TraceError::Over`] when it was returned before.
    pub fn finish(self) -> Result<TraceSummary, TraceError> {
        self.finish_into().map(|(summary, _)| summary)
    }

    /// The same, and gives back what was written to.
    ///
    /// # Errors
    /// As [`TraceWriter::finish`].
    pub fn finish_into(mut self) -> Result<(TraceSummary, W), TraceError> {
        if self.over {
            return Err(TraceError::Over { file: self.name });
        }
        self.chunk()?;
        self.totals.counts = self.encoder.counts;
        let index = index::index(&self.chunks, &self.totals, self.offset);
        self.put(&index)?;
        if let Err(source) = self.out.flush() {
            return Err(self.failed(source));
        }
        let summary = TraceSummary {
            bytes: self.offset,
            words: self.totals.counts.words,
            instructions: self.totals.counts.instructions,
            chunks: self.chunks.len() as u64,
        };
        Ok((summary, self.out))
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), TraceError> {
        if let Err(source) = self.out.write_all(bytes) {
            return Err(self.failed(source));
        }
        self.offset += bytes.len() as u64;
        Ok(())
    }

    fn failed(&mut self, source: std::io::Error) -> TraceError {
        self.over = true;
        TraceError::Write {
            file: self.name.clone(),
            offset: self.offset,
            source,
        }
    }
}

pub(super) fn compressor() -> std::io::Result<Compressor<'static>> {
    let mut compressor = Compressor::new(LEVEL)?;
    compressor.set_parameter(CParameter::ChecksumFlag(true))?;
    Ok(compressor)
}
