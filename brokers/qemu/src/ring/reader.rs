//! The reader's side of the ring: chunks in, batches of words and control messages out.
//!
//! Order: the control log is read to its committed end before each data chunk, so a definition
//! comes before any record that names it. Where the log says that the process runs a new program it
//! is read no further until the first chunk of that program is there; then the old program's
//! unfinished chunks are taken, whose threads are gone. After the emulator's end
//! [`Reader::salvage`] takes what unfinished chunks hold.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::time::Duration;

use rustix::thread::futex;

use super::RingError;
use super::control::{self, Message};
use super::layout::{CONTROL, DATA, Desc, FREE, FULL, LAST, OPEN};
use super::memory::Memory;

/// Receives what the reader finds, in order.
pub trait Sink {
    /// A control message.
    ///
    /// # Errors
    /// [`RingError::Damaged`] for what cannot be.
    fn message(&mut self, message: Message<'_>) -> Result<(), RingError>;
    /// What comes next is of the program that the last [`Message::Command`] names; all streams of
    /// the one before have ended.
    fn replaced(&mut self);
    /// A stream's first chunk is about to come.
    fn stream_start(&mut self, stream: u32);
    /// `chunks` chunks of the stream are missing before what comes next.
    fn lost(&mut self, stream: u32, chunks: u64);
    /// Words of a stream, none of them zero.
    ///
    /// # Errors
    /// [`RingError::Damaged`] for words that cannot be.
    fn words(&mut self, stream: u32, words: Vec<u64>) -> Result<(), RingError>;
    /// The stream ended.
    fn stream_end(&mut self, stream: u32);
}

/// Reads a ring.
#[derive(Debug)]
pub struct Reader {
    memory: Arc<Memory>,
    ready_head: u32,
    free_tail: u32,
    control: Option<ControlCursor>,
    /// Sequence number of the next chunk by live stream.
    streams: HashMap<u32, u64>,
    /// Programs that the process has replaced, as far as chunks were taken.
    program: u32,
    /// The control log goes on with a program whose chunks have not come.
    waits: bool,
}

#[derive(Clone, Copy, Debug)]
struct ControlCursor {
    chunk: u32,
    /// Bytes of it that were read.
    at: usize,
    seq: u64,
}

impl Reader {
    /// A reader of a fresh ring.
    #[must_use]
    pub fn new(memory: Arc<Memory>) -> Self {
        let free_tail = memory.header().free_tail.load(Relaxed);
        Self {
            memory,
            ready_head: 0,
            free_tail,
            control: None,
            streams: HashMap::new(),
            program: 0,
            waits: false,
        }
    }

    /// Takes one finished chunk; false when there is none.
    ///
    /// # Errors
    /// [`RingError::Damaged`].
    pub fn step(&mut self, sink: &mut impl Sink) -> Result<bool, RingError> {
        let memory = Arc::clone(&self.memory);
        let header = memory.header();
        if header.ready_tail.load(Acquire) == self.ready_head {
            return Ok(false);
        }
        let index = memory.ready_slot(self.ready_head).load(Acquire);
        self.ready_head = self.ready_head.wrapping_add(1);
        header.ready_head.store(self.ready_head, Release);
        let desc = memory
            .desc(index)
            .filter(|d| d.state.load(Acquire) == FULL && d.kind.load(Relaxed) == DATA)
            .ok_or_else(|| RingError::Damaged(format!("chunk {index} is queued but not full")))?;
        self.take_chunk(index, desc, sink)?;
        Ok(true)
    }

    /// Reads the control log to its committed end.
    ///
    /// # Errors
    /// [`RingError::Damaged`].
    pub fn drain_control(&mut self, sink: &mut impl Sink) -> Result<(), RingError> {
        if self.waits {
            return Ok(());
        }
        let memory = Arc::clone(&self.memory);
        let header = memory.header();
        let mut cursor = match self.control {
            Some(cursor) => cursor,
            None if !header.is_attached() => return Ok(()),
            None => ControlCursor {
                chunk: header.first_control.load(Relaxed),
                at: 0,
                seq: 0,
            },
        };
        loop {
            let damaged =
                |what| RingError::Damaged(format!("control chunk {}: {what}", cursor.chunk));
            let desc = memory
                .desc(cursor.chunk)
                .filter(|d| d.kind.load(Relaxed) == CONTROL && d.seq.load(Relaxed) == cursor.seq)
                .ok_or_else(|| damaged("is not the one that should follow"))?;
            // The successor is linked after the last message was committed.
            let next = desc.next.load(Acquire);
            let used = desc.used.load(Acquire) as usize;
            let log = self
                .copy_bytes(cursor.chunk, cursor.at, used)
                .ok_or_else(|| damaged("has an impossible length"))?;
            let mut rest = log.as_slice();
            while !rest.is_empty() {
                let (message, after) = control::take(rest)?;
                rest = after;
                sink.message(message)?;
                if matches!(message, Message::Command(_)) {
                    self.waits = true;
                    cursor.at = used - rest.len();
                    self.control = Some(cursor);
                    return Ok(());
                }
            }
            cursor.at = used;
            if next == 0 {
                self.control = Some(cursor);
                return Ok(());
            }
            self.give_back(cursor.chunk, desc);
            cursor = ControlCursor {
                chunk: next - 1,
                at: 0,
                seq: cursor.seq + 1,
            };
        }
    }

    /// After the last writer is gone: takes the finished chunks, then the words that unfinished
    /// ones hold, then ends all streams.
    ///
    /// # Errors
    /// [`RingError::Damaged`]; what came before it was delivered.
    pub fn salvage(&mut self, sink: &mut impl Sink) -> Result<(), RingError> {
        while self.step(sink)? {}
        self.drain_control(sink)?;
        self.take_unfinished(u32::MAX, sink)?;
        // A new program that got no further than to be loaded.
        while std::mem::take(&mut self.waits) {
            self.end_streams(sink);
            sink.replaced();
            self.drain_control(sink)?;
        }
        self.end_streams(sink);
        Ok(())
    }

    fn end_streams(&mut self, sink: &mut impl Sink) {
        let mut open: Vec<u32> = self.streams.keys().copied().collect();
        open.sort_unstable();
        for stream in open {
            sink.stream_end(stream);
        }
        self.streams.clear();
    }

    /// Takes what lies in chunks of programs up to `program` that nobody queues any more.
    fn take_unfinished(&mut self, program: u32, sink: &mut impl Sink) -> Result<(), RingError> {
        let memory = Arc::clone(&self.memory);
        let mut left = Vec::new();
        for index in 0..memory.chunk_count() as u32 {
            if let Some(desc) = memory.desc(index)
                && desc.kind.load(Relaxed) == DATA
                && matches!(desc.state.load(Acquire), OPEN | FULL)
                && desc.program.load(Relaxed) <= program
            {
                left.push((
                    desc.program.load(Relaxed),
                    desc.stream.load(Relaxed),
                    desc.seq.load(Relaxed),
                    index,
                    desc,
                ));
            }
        }
        left.sort_by_key(|&(program, stream, seq, index, _)| (program, stream, seq, index));
        for (.., index, desc) in left {
            self.take_chunk(index, desc, sink)?;
        }
        Ok(())
    }

    /// The first chunk of another program has come.
    fn turn_to(&mut self, program: u32, sink: &mut impl Sink) -> Result<(), RingError> {
        let before = std::mem::replace(&mut self.program, program);
        for _ in before..program {
            self.drain_control(sink)?;
            if !std::mem::take(&mut self.waits) {
                return Err(RingError::Damaged(format!(
                    "a chunk of program {program}, which was never announced"
                )));
            }
            // What is queued of the old program came before; what its other threads were filling
            // when they ended is in nobody's queue.
            self.take_unfinished(before, sink)?;
            self.end_streams(sink);
            sink.replaced();
        }
        Ok(())
    }

    /// Copies the words of a data chunk (of an unfinished one those before the first zero) and
    /// gives it back.
    fn take_chunk(
        &mut self,
        index: u32,
        desc: &Desc,
        sink: &mut impl Sink,
    ) -> Result<(), RingError> {
        let program = desc.program.load(Relaxed);
        if program > self.program {
            self.turn_to(program, sink)?;
        }
        self.drain_control(sink)?;
        let (stream, seq) = (desc.stream.load(Relaxed), desc.seq.load(Relaxed));
        let finished = desc.state.load(Acquire) == FULL;
        let words = self.memory.words(index).unwrap_or_default();
        let limit = if finished {
            desc.used.load(Relaxed) as usize / size_of::<u64>()
        } else {
            words.len()
        };
        let words = words
            .get(..limit)
            .ok_or_else(|| RingError::Damaged(format!("chunk {index} claims {limit} words")))?;
        let copied: Vec<u64> = words
            .iter()
            .map(|word| word.load(Relaxed))
            .take_while(|&word| word != 0)
            .collect();
        if finished && copied.len() < limit {
            return Err(RingError::Damaged(format!(
                "chunk {seq} of stream {stream} has a hole at word {} of {limit}",
                copied.len()
            )));
        }
        let last = finished && desc.flags.load(Relaxed) & LAST != 0;
        self.give_back(index, desc);

        let expected = match self.streams.get(&stream) {
            Some(&expected) => expected,
            None => {
                sink.stream_start(stream);
                0
            }
        };
        if seq < expected {
            return Err(RingError::Damaged(format!(
                "chunk {seq} of stream {stream} came when {expected} was due"
            )));
        }
        if seq > expected {
            sink.lost(stream, seq - expected);
        }
        self.streams.insert(stream, seq + 1);
        if !copied.is_empty() {
            sink.words(stream, copied)?;
        }
        if last {
            self.streams.remove(&stream);
            sink.stream_end(stream);
        }
        Ok(())
    }

    fn copy_bytes(&self, chunk: u32, from: usize, to: usize) -> Option<Vec<u8>> {
        if !from.is_multiple_of(8) || !to.is_multiple_of(8) {
            return None;
        }
        let words = self.memory.words(chunk)?.get(from / 8..to / 8)?;
        Some(
            words
                .iter()
                .flat_map(|word| word.load(Relaxed).to_le_bytes())
                .collect(),
        )
    }

    /// Zeroes a chunk and queues it for the writers.
    fn give_back(&mut self, index: u32, desc: &Desc) {
        for word in self.memory.words(index).unwrap_or_default() {
            word.store(0, Relaxed);
        }
        desc.state.store(FREE, Relaxed);
        self.memory.free_slot(self.free_tail).store(index, Relaxed);
        self.free_tail = self.free_tail.wrapping_add(1);
        let header = self.memory.header();
        header.free_tail.store(self.free_tail, SeqCst);
        if header.writers_waiting.load(SeqCst) > 0 {
            let _ = futex::wake(&header.free_tail, futex::Flags::empty(), 1);
        }
    }
}

/// How much the writers of all rings have done: not what it was when there is something new.
/// `first` is the first process's ring.
#[must_use]
pub fn bell(first: &Memory) -> u32 {
    first.header().doorbell.load(SeqCst)
}

/// Sleeps until the bell is not as `heard` or `timeout` is over.
pub fn wait(first: &Memory, heard: u32, timeout: Duration) {
    let header = first.header();
    header.reader_waiting.store(1, SeqCst);
    let limit = futex::Timespec {
        tv_sec: timeout.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    };
    // Every outcome (woken, changed meanwhile, time-out, signal) means: look again.
    let _ = futex::wait(&header.doorbell, futex::Flags::empty(), heard, Some(&limit));
    header.reader_waiting.store(0, SeqCst);
}

/// Ends a [`wait`] early.
pub fn wake(first: &Memory) {
    let doorbell = &first.header().doorbell;
    doorbell.fetch_add(1, SeqCst);
    let _ = futex::wake(doorbell, futex::Flags::empty(), 1);
}
