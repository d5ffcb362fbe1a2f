//! Reads a trace file from anything that gives bytes, a pipe too.

use std::collections::VecDeque;
use std::io::Read;
use std::ops::Range;

use zstd::bulk::Decompressor;

use super::behind::Behind;
use super::chunk::{self, Header};
use super::column::{Bad, Cursor};
use super::decode::Decoder;
use super::index::{self, ChunkInfo, FILE_PREFIX, INDEX_PREFIX};
use super::input::Input;
use super::mend::Mender;
use super::small::{self, Entry, Previous};
use super::{CHUNK_MAGIC, INDEX_MAGIC, READ_WORDS, TraceError};
use crate::event::{BlockDef, EndReason, Event, ProcessEvent, SessionInfo};
use crate::word::{BlockId, GuestAddr, ProcessId, StreamId};

/// Replays a recorded session.
///
/// Every whole chunk is delivered. Damage becomes [`Event::Lost`] with the chunk and its place, and
/// reading goes on behind it; a file that ends early ends with [`EndReason::Truncated`]. Delivered
/// block ids are dense even behind damage (then they are not the file's own).
pub struct TraceReader<R: Read> {
    input: Input<R>,
    name: String,
    session: SessionInfo,
    tool: String,
    decompressor: Option<Decompressor<'static>>,
    chunks: Vec<ChunkInfo>,
    state: State,
    /// The current chunk, uncompressed.
    data: Vec<u8>,
    /// Repeated definitions; looked at only behind damage.
    recall: Cursor,
    events: Cursor,
    previous: Previous,
    /// The process entered last; chunks repeat it.
    process: ProcessId,
    decoder: Decoder,
    /// Whether there is a current chunk.
    in_chunk: bool,
    /// Chunk headers seen, so the number of the current chunk from 1.
    seen: u64,
    /// Words of the current chunk that are not yet delivered.
    chunk_left: u64,
    /// Words of the current records entry that are not yet delivered, and their stream.
    records: (StreamId, usize),
    words: Vec<u64>,
    /// Words that the chunks so far account for.
    expected_word: u64,
    /// Where damage begins whose extent is known when the next chunk is found.
    gap: Option<u64>,
    /// The session's end, once it was read, with what stands behind it.
    behind: Option<Behind>,
    mender: Mender,
    queue: VecDeque<Event<'static>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Start,
    Chunks,
    /// The session's end was delivered or queued.
    End,
}

/// What [`TraceReader::step`] found in the current chunk.
enum Step {
    Block {
        id: BlockId,
        address: GuestAddr,
        instructions: u16,
        code: Range<usize>,
    },
    Words(StreamId),
    /// Nothing to deliver, or something was queued.
    Other,
}

impl<R: Read> TraceReader<R> {
    /// Reads the header; `name` stands for the file in messages.
    ///
    /// # Errors
    /// [`TraceError::Foreign`], [`TraceError::Version`], [`TraceError::Header`],
    /// [`TraceError::Read`].
    pub fn new(source: R, name: impl Into<String>) -> Result<Self, TraceError> {
        let name = name.into();
        let mut input = Input::new(source);
        let failed = |source| TraceError::Read {
            file: name.clone(),
            offset: 0,
            source,
        };
        let length = index::header_length(input.peek(FILE_PREFIX).map_err(failed)?, &name)?;
        let bytes = input.peek(FILE_PREFIX + length).map_err(failed)?;
        let header = |what: String| TraceError::Header {
            file: name.clone(),
            what,
        };
        if bytes.len() < FILE_PREFIX + length {
            let what = format!("the file ends after {} bytes", bytes.len());
            return Err(header(what));
        }
        let (prefix, payload) = bytes.split_at(FILE_PREFIX);
        let (session, tool) = index::read_header(prefix, payload).map_err(header)?;
        input.consume(FILE_PREFIX + length);
        Ok(Self {
            input,
            name,
            session,
            tool,
            decompressor: None,
            chunks: Vec::new(),
            state: State::Start,
            data: Vec::new(),
            recall: Cursor::default(),
            events: Cursor::default(),
            previous: Previous::default(),
            process: ProcessId::FIRST,
            decoder: Decoder::default(),
            in_chunk: false,
            seen: 0,
            chunk_left: 0,
            records: (StreamId(0), 0),
            words: Vec::new(),
            expected_word: 0,
            gap: None,
            behind: None,
            mender: Mender::default(),
            queue: VecDeque::new(),
        })
    }

    /// What is known of the session.
    #[must_use]
    pub fn session(&self) -> &SessionInfo {
        &self.session
    }

    /// Program and version that wrote the file.
    #[must_use]
    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// The sound chunks read so far.
    #[must_use]
    pub fn chunks(&self) -> &[ChunkInfo] {
        &self.chunks
    }

    /// The source, for example to set a time limit. Reading from it spoils the reader.
    pub fn source_mut(&mut self) -> &mut R {
        self.input.source()
    }

    pub(super) fn into_source(self) -> R {
        self.input.into_source()
    }

    /// The next event; [`Event::Session`] first, `None` after [`Event::End`].
    ///
    /// # Errors
    /// [`TraceError::Read`]; the call may be repeated then, which lets a source have time limits.
    /// Damage is no error, see [`TraceReader`].
    #[allow(clippy::should_implement_trait)] // events borrow from the reader
    pub fn next(&mut self) -> Result<Option<Event<'_>>, TraceError> {
        if self.state == State::Start {
            self.state = State::Chunks;
            return Ok(Some(Event::Session(self.session.clone())));
        }
        loop {
            if let Some(event) = self.queue.pop_front() {
                return Ok(Some(event));
            }
            if self.state == State::End {
                return Ok(None);
            }
            if let Some(behind) = &mut self.behind {
                let offset = self.input.offset();
                let read = behind.read(&mut self.input);
                read.map_err(|e| read_error(&self.name, offset, e))?;
                let (what, end) = (behind.left_out(self.input.offset()), behind.end.clone());
                if let Some(what) = what {
                    self.lost(1, format!("{}: {what}", self.name));
                }
                self.end(end);
                continue;
            }
            if !self.in_chunk {
                self.next_chunk()?;
                continue;
            }
            match self.step() {
                Ok(Step::Block {
                    id,
                    address,
                    instructions,
                    code,
                }) => {
                    return Ok(Some(Event::Block(BlockDef {
                        id,
                        address,
                        instructions,
                        bytes: &self.data[code],
                    })));
                }
                Ok(Step::Words(stream)) => {
                    return Ok(Some(Event::Records {
                        stream,
                        words: &self.words,
                    }));
                }
                Ok(Step::Other) => {}
                Err(Bad(what)) => self.spoilt(what),
            }
        }
    }

    /// Goes on in the current chunk.
    fn step(&mut self) -> Result<Step, Bad> {
        let (stream, left) = self.records;
        if left > 0 {
            let count = left.min(READ_WORDS);
            self.words.clear();
            self.decoder
                .words(&self.data, stream.0, count, &mut self.words)?;
            self.records.1 -= count;
            self.chunk_left -= count as u64;
            self.mender.words(stream, &mut self.words);
            return Ok(if self.words.is_empty() {
                Step::Other
            } else {
                Step::Words(stream)
            });
        }
        if !self.recall.is_empty() {
            return self.recall_step();
        }
        if self.events.is_empty() {
            if self.chunk_left != 0 || !self.decoder.is_done() {
                return Err(Bad("it holds more than its events say"));
            }
            self.leave_chunk();
            return Ok(Step::Other);
        }
        match small::entry(&self.data, &mut self.events, &mut self.previous)? {
            Entry::Records { stream, words } => {
                if words > self.chunk_left {
                    return Err(Bad("it holds fewer records than its events say"));
                }
                if self.mender.needs_start(stream) {
                    self.mender.start(stream);
                    self.queue.push_back(Event::StreamStart(stream));
                }
                self.records = (stream, words as usize);
            }
            Entry::Block {
                id,
                address,
                instructions,
                code,
            } => {
                let dense = self.mender.define(id.0);
                return Ok(Step::Block {
                    id: BlockId(dense),
                    address,
                    instructions,
                    code,
                });
            }
            Entry::Event(event) => {
                match event {
                    Event::StreamStart(stream) => self.mender.start(stream),
                    Event::StreamEnd(stream) if !self.mender.ends(stream) => {
                        return Ok(Step::Other);
                    }
                    Event::Process {
                        id,
                        what: ProcessEvent::Entered,
                    } if std::mem::replace(&mut self.process, id) == id => {
                        return Ok(Step::Other);
                    }
                    Event::End(reason) => {
                        self.leave_chunk();
                        self.behind = Some(Behind::new(reason));
                        return Ok(Step::Other);
                    }
                    _ => {}
                }
                self.queue.push_back(event);
            }
        }
        Ok(Step::Other)
    }

    /// Takes the next repeated definition.
    fn recall_step(&mut self) -> Result<Step, Bad> {
        let entry = small::entry(&self.data, &mut self.recall, &mut self.previous)?;
        if self.recall.is_empty() {
            self.previous = Previous::default();
        }
        match entry {
            Entry::Block {
                id,
                address,
                instructions,
                code,
            } if self.mender.needs_block(id.0) => Ok(Step::Block {
                id: BlockId(self.mender.define(id.0)),
                address,
                instructions,
                code,
            }),
            Entry::Block { .. } => Ok(Step::Other),
            _ => Err(Bad("it repeats something else than blocks")),
        }
    }

    /// Ends the current chunk and tells what had to be left out of it.
    fn leave_chunk(&mut self) {
        self.in_chunk = false;
        self.recall = Cursor::default();
        self.events = Cursor::default();
        self.records.1 = 0;
        self.chunk_left = 0;
        let dropped = self.mender.take_dropped();
        if dropped > 0 {
            self.lost(
                dropped,
                format!(
                    "{}: chunk {}: these records belong to blocks of a damaged chunk",
                    self.name, self.seen
                ),
            );
        }
    }

    /// Gives up the current chunk: its checksum is right, its content is not.
    fn spoilt(&mut self, what: &str) {
        let left = self.chunk_left;
        let reason = format!(
            "{}: chunk {}, which ends at byte {}, does not decode: {what}",
            self.name,
            self.seen,
            self.input.offset()
        );
        self.leave_chunk();
        self.lost(left, reason);
        self.mender.damage();
    }

    fn lost(&mut self, count: u64, reason: String) {
        self.queue.push_back(Event::Lost {
            count: count.max(1),
            reason,
        });
    }

    fn end(&mut self, reason: EndReason) {
        self.queue.push_back(Event::End(reason));
        self.state = State::End;
    }

    /// Finds and opens the next chunk, or ends the session.
    fn next_chunk(&mut self) -> Result<(), TraceError> {
        let offset = self.input.offset();
        let head = self.input.peek(chunk::HEADER_BYTES);
        let head = head.map_err(|e| read_error(&self.name, offset, e))?;
        let Some(header) = Header::decode(head) else {
            return self.no_chunk();
        };
        // Everything is there before anything changes: the call may be repeated after an error.
        let whole = self.input.peek(header.file_bytes());
        let whole = whole.map_err(|e| read_error(&self.name, offset, e))?;
        let have = whole.len();
        let unpacked = if have == header.file_bytes() {
            let packed = &whole[chunk::HEADER_BYTES..];
            unpack(&mut self.decompressor, packed, &header, &mut self.data)
        } else {
            Ok(())
        };
        self.seen += 1;
        if have == header.file_bytes() && header.words > 0 && header.first_word < self.expected_word
        {
            // Its records came before: it is a copy, or was put behind what followed it.
            let reason = format!(
                "{}: chunk {} (bytes {offset} to {}) is left out: its records, from {} on, belong \
                 before those already read",
                self.name,
                self.seen,
                offset + header.file_bytes() as u64,
                header.first_word
            );
            self.input.consume(header.file_bytes());
            self.lost(1, reason);
            self.mender.damage();
            return Ok(());
        }
        if self.gap.is_some() || header.first_word != self.expected_word {
            let count = header.first_word.saturating_sub(self.expected_word);
            let reason = self.gap_reason(self.gap.unwrap_or(offset), offset);
            self.gap = None;
            self.lost(count, reason);
            self.mender.damage();
        }
        self.expected_word = header.first_word.saturating_add(header.words.into());
        if have < header.file_bytes() {
            let what = format!(
                "{} ends at byte {} inside chunk {}: {} of its {} bytes and with them {} records are missing, and whatever came after",
                self.name,
                offset + have as u64,
                self.seen,
                header.file_bytes() - have,
                header.file_bytes(),
                header.words
            );
            self.lost(header.words.into(), what.clone());
            self.end(EndReason::Truncated(what));
            return Ok(());
        }
        self.input.consume(header.file_bytes());
        if let Err(what) = unpacked {
            let to = offset + header.file_bytes() as u64;
            let reason = format!(
                "{}: chunk {} (bytes {offset} to {to}) is damaged: {what}",
                self.name, self.seen
            );
            self.lost(header.words.into(), reason);
            self.mender.damage();
            return Ok(());
        }
        self.chunks.push(ChunkInfo {
            offset,
            length: header.file_bytes() as u32,
            first_word: header.first_word,
            words: header.words,
        });
        self.open_chunk(&header);
        Ok(())
    }

    fn open_chunk(&mut self, header: &Header) {
        let mut at = 0;
        let [recall, events, control, address, detail] = header.columns.map(|len| {
            let column = Cursor::new(at, len as usize);
            at += len as usize;
            column
        });
        self.recall = if self.mender.is_damaged() {
            recall
        } else {
            Cursor::default()
        };
        self.events = events;
        self.decoder.start(control, address, detail);
        self.previous = Previous::default();
        self.chunk_left = header.words.into();
        self.records.1 = 0;
        self.in_chunk = true;
    }

    /// There is no sound chunk header here: the index, the end of the file, or damage.
    fn no_chunk(&mut self) -> Result<(), TraceError> {
        let offset = self.input.offset();
        let failed = |name: &str, e| read_error(name, offset, e);
        let head = self.input.peek(chunk::HEADER_BYTES);
        let head = head.map_err(|e| failed(&self.name, e))?;
        if head.starts_with(&INDEX_MAGIC) && head.len() > INDEX_PREFIX {
            self.lost_at_end();
            self.end(EndReason::Truncated(index::NO_END.into()));
            return Ok(());
        }
        if head.len() < chunk::HEADER_BYTES {
            let rest = head.len();
            self.lost_at_end();
            let inside = if rest > 0 {
                " inside a chunk's header"
            } else {
                ""
            };
            self.end(EndReason::Truncated(format!(
                "{} ends at byte {}{inside}, after {} chunks and {} records, without the session's end: the recording was cut off",
                self.name,
                offset + rest as u64,
                self.seen,
                self.expected_word
            )));
            return Ok(());
        }
        self.gap.get_or_insert(offset);
        let skipped = self.input.skip_to(&[CHUNK_MAGIC, INDEX_MAGIC]);
        skipped.map_err(|e| failed(&self.name, e))
    }

    fn gap_reason(&self, from: u64, to: u64) -> String {
        if from == to {
            return format!("{}: chunks are missing before byte {to}", self.name);
        }
        format!("{}: bytes {from} to {to} hold no sound chunk", self.name)
    }

    fn lost_at_end(&mut self) {
        if let Some(from) = self.gap.take() {
            let reason = self.gap_reason(from, self.input.offset());
            self.lost(1, reason);
        }
    }
}

fn read_error(name: &str, offset: u64, source: std::io::Error) -> TraceError {
    TraceError::Read {
        file: name.to_owned(),
        offset,
        source,
    }
}

/// Decompresses a chunk into `data`.
fn unpack(
    decompressor: &mut Option<Decompressor<'static>>,
    packed: &[u8],
    header: &Header,
    data: &mut Vec<u8>,
) -> Result<(), String> {
    let decompressor = match decompressor {
        Some(decompressor) => decompressor,
        None => decompressor.insert(Decompressor::new().map_err(|e| e.to_string())?),
    };
    data.clear();
    data.reserve(header.bytes() as usize);
    let len = decompressor
        .decompress_to_buffer(packed, data)
        .map_err(|e| e.to_string())?;
    if len as u64 != header.bytes() {
        return Err(format!("it has {len} bytes instead of {}", header.bytes()));
    }
    Ok(())
}
