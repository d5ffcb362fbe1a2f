//! Frames: 4 bytes `MCAD`, the payload's length (u32, little-endian, a multiple of 8), the payload.
//!
//! All frames are multiples of 8 bytes long, so payloads stay aligned in the decoder's buffer and
//! record words are used in place.

use std::io::{ErrorKind, Read};

use capnp::Word;
use capnp::message::{Reader, ReaderOptions};
use capnp::serialize::{BufferSegments, read_message_from_flat_slice};

use crate::wire::error::{Problem, ProtocolError};
use crate::wire::limits::{MAX_FRAME_BYTES, MAX_HELLO_BYTES};
use crate::wire::message::Message;
use crate::wire::read;

/// First bytes of every frame.
pub const MAGIC: [u8; 4] = *b"MCAD";

pub(super) const HEADER_BYTES: usize = 8;

/// The least free space that [`FrameDecoder::space`] offers, in bytes.
const READ_BYTES: usize = 64 << 10;

/// Deepest nesting in a message: Message, Batch, list, Event, data and some to grow.
const NESTING: i32 = 12;

/// Cuts a byte stream into frames. Holds at most one frame and one read ahead; memory grows with
/// the bytes that came, not with the length that a header claims.
pub struct FrameDecoder {
    peer: String,
    max_frame: usize,
    buffer: Vec<Word>,
    /// Bytes of `buffer` before the next frame; a multiple of 8.
    start: usize,
    /// Bytes of `buffer` that are filled.
    end: usize,
    /// Bytes of the stream before `buffer[start]`.
    offset: u64,
}

/// A complete frame.
#[derive(Clone, Copy)]
pub struct Frame<'a> {
    peer: &'a str,
    offset: u64,
    payload: &'a [u8],
}

impl FrameDecoder {
    /// A decoder for a new connection: accepts [`MAX_HELLO_BYTES`] until told otherwise.
    #[must_use]
    pub fn new(peer: impl Into<String>) -> Self {
        Self {
            peer: peer.into(),
            max_frame: MAX_HELLO_BYTES,
            buffer: Vec::new(),
            start: 0,
            end: 0,
            offset: 0,
        }
    }

    /// Sets the longest payload that is accepted from now on, at most [`MAX_FRAME_BYTES`].
    pub fn set_max_frame(&mut self, bytes: usize) {
        self.max_frame = bytes.min(MAX_FRAME_BYTES);
    }

    /// Who sends.
    #[must_use]
    pub fn peer(&self) -> &str {
        &self.peer
    }

    /// Bytes of the stream that were taken as whole frames.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Free space to read into; tell with [`FrameDecoder::filled`] how much of it was used.
    pub fn space(&mut self) -> &mut [u8] {
        if self.start > 0 {
            let bytes = Word::words_to_bytes_mut(&mut self.buffer);
            bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.buffer.len() * 8 - self.end < READ_BYTES {
            let bytes = (self.end + READ_BYTES).max(self.end * 2);
            let zero = capnp::word(0, 0, 0, 0, 0, 0, 0, 0);
            self.buffer.resize(bytes.div_ceil(8), zero);
        }
        &mut Word::words_to_bytes_mut(&mut self.buffer)[self.end..]
    }

    /// Says that the first `bytes` of [`FrameDecoder::space`] were filled.
    pub fn filled(&mut self, bytes: usize) {
        self.end = (self.end + bytes).min(self.buffer.len() * 8);
    }

    /// Copies bytes in.
    pub fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let space = self.space();
            let n = space.len().min(bytes.len());
            space[..n].copy_from_slice(&bytes[..n]);
            self.filled(n);
            bytes = &bytes[n..];
        }
    }

    /// Takes the next frame, `None` when more bytes are needed.
    ///
    /// # Errors
    /// [`Problem::Magic`] and [`Problem::Length`]; the stream cannot be followed further.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, ProtocolError> {
        let Some(need) = self.pending()? else {
            return Ok(None);
        };
        if self.end - self.start < need {
            return Ok(None);
        }
        let payload = self.start + HEADER_BYTES..self.start + need;
        let offset = self.offset;
        self.start += need;
        self.offset += need as u64;
        Ok(Some(Frame {
            peer: &self.peer,
            offset,
            payload: &Word::words_to_bytes(&self.buffer)[payload],
        }))
    }

    /// Length of the frame that is coming in, header included, once its header is there.
    fn pending(&self) -> Result<Option<usize>, ProtocolError> {
        let bytes = &Word::words_to_bytes(&self.buffer)[self.start..self.end];
        // A foreign peer that sends less than a header is told apart as early as possible.
        let seen = bytes.len().min(MAGIC.len());
        if bytes[..seen] != MAGIC[..seen] {
            let mut found = [0; 4];
            found[..seen].copy_from_slice(&bytes[..seen]);
            return Err(Problem::Magic { found }.at(&self.peer, self.offset));
        }
        let Some(&[_, _, _, _, a, b, c, d]) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        if length > self.max_frame || !length.is_multiple_of(8) || length == 0 {
            let problem = Problem::Length {
                length: length as u64,
                limit: self.max_frame,
            };
            return Err(problem.at(&self.peer, self.offset));
        }
        Ok(Some(HEADER_BYTES + length))
    }

    /// To be called when the stream ended: whether it ended between frames.
    ///
    /// # Errors
    /// [`Problem::Truncated`].
    pub fn finish(&self) -> Result<(), ProtocolError> {
        let have = self.end - self.start;
        if have == 0 {
            return Ok(());
        }
        let need = self.pending()?.unwrap_or(HEADER_BYTES);
        Err(Problem::Truncated { have, need }.at(&self.peer, self.offset))
    }
}

impl<'a> Frame<'a> {
    /// The payload; 8-byte aligned.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// Bytes of the connection before this frame.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Adds this frame's place to a problem.
    #[must_use]
    pub fn error(&self, problem: Problem) -> ProtocolError {
        problem.at(self.peer, self.offset)
    }

    /// Starts reading the message.
    ///
    /// # Errors
    /// [`Problem::Malformed`].
    pub fn open(self) -> Result<Opened<'a>, ProtocolError> {
        let reader = open_message(self.payload).map_err(|problem| self.error(problem))?;
        Ok(Opened {
            frame: self,
            reader,
        })
    }
}

/// Reads a payload's segment table; each message gets a reader and traversal limit of its own.
pub(crate) fn open_message(
    mut payload: &[u8],
) -> Result<Reader<BufferSegments<&'_ [u8]>>, Problem> {
    let options = ReaderOptions {
        // Honest messages are traversed once; twice their size leaves room for double reads.
        traversal_limit_in_words: Some(payload.len() / 8 * 2 + 64),
        nesting_limit: NESTING,
    };
    Ok(read_message_from_flat_slice(&mut payload, options)?)
}

/// A frame whose message can be read; borrowed parts of the message live as long as this.
pub struct Opened<'a> {
    frame: Frame<'a>,
    reader: Reader<BufferSegments<&'a [u8]>>,
}

impl Opened<'_> {
    /// Reads the message; to be called once (each reading counts against the traversal limit).
    ///
    /// # Errors
    /// [`Problem::Malformed`], [`Problem::Invalid`].
    pub fn message(&self) -> Result<Message<'_>, ProtocolError> {
        read::message(&self.reader).map_err(|problem| self.error(problem))
    }

    /// Adds this frame's place to a problem.
    #[must_use]
    pub fn error(&self, problem: Problem) -> ProtocolError {
        self.frame.error(problem)
    }
}

/// Reads frames from a blocking source.
pub struct FrameReader<R> {
    source: R,
    decoder: FrameDecoder,
}

impl<R: Read> FrameReader<R> {
    /// Reads from `source`, named `peer` in errors.
    pub fn new(source: R, peer: impl Into<String>) -> Self {
        Self {
            source,
            decoder: FrameDecoder::new(peer),
        }
    }

    /// See [`FrameDecoder::set_max_frame`].
    pub fn set_max_frame(&mut self, bytes: usize) {
        self.decoder.set_max_frame(bytes);
    }

    /// The source, for example to set a time limit.
    pub fn source(&mut self) -> &mut R {
        &mut self.source
    }

    /// Reads until a frame is complete; `None` when the source ended between frames.
    ///
    /// # Errors
    /// [`Problem::Io`] (also when the source's time limit passed; the call may then be repeated),
    /// [`Problem::Truncated`] and those of [`FrameDecoder::next_frame`].
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, ProtocolError> {
        while !self.complete()? {
            match self.source.read(self.decoder.space()) {
                Ok(0) => {
                    self.decoder.finish()?;
                    return Ok(None);
                }
                Ok(n) => self.decoder.filled(n),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    let offset = self.decoder.offset;
                    return Err(Problem::Io(error).at(&self.decoder.peer, offset));
                }
            }
        }
        self.decoder.next_frame()
    }

    fn complete(&self) -> Result<bool, ProtocolError> {
        let need = self.decoder.pending()?;
        Ok(need.is_some_and(|need| self.decoder.end - self.decoder.start >= need))
    }
}
