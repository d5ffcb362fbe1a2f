//! Batches: numbered groups of events.

use capnp::struct_list;

use crate::batch::EventBatch;
use crate::event::Event;
use crate::generated::mcad_capnp::event;
use crate::wire::limits::{MAX_BATCH_EVENTS, MAX_BATCH_WORDS, MAX_FRAME_BYTES};
use crate::wire::{Problem, read};

/// A received batch.
pub struct Batch<'a> {
    pub(super) sequence: u64,
    pub(super) events: struct_list::Reader<'a, event::Owned>,
}

impl<'a> Batch<'a> {
    /// Number of the batch, from 0 without gaps.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The events in order; to be called once (each reading counts against the traversal limit).
    pub fn events(&self) -> impl Iterator<Item = Result<Event<'a>, Problem>> + use<'a> {
        let mut words = 0;
        self.events.iter().map(move |event| {
            let event = read::event(event)?;
            if let Event::Records { words: more, .. } = &event {
                words += more.len();
                if words > MAX_BATCH_WORDS {
                    return Err(Problem::Invalid(format!(
                        "a batch with more than {MAX_BATCH_WORDS} record words"
                    )));
                }
            }
            Ok(event)
        })
    }
}

impl std::fmt::Debug for Batch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batch")
            .field("sequence", &self.sequence)
            .field("events", &self.events.len())
            .finish()
    }
}

/// Collects events until a batch is worth sending.
///
/// [`Event::Session`] and [`Event::End`] are no parts of a batch; the conversation has messages
/// of its own for them.
#[derive(Default)]
pub struct BatchBuilder {
    batch: EventBatch,
}

/// What the coding of one event takes beyond its data, in bytes: five words and rounding.
const EVENT_BYTES: usize = 48;

impl BatchBuilder {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an event; record words in excess of `max_words` do not fit and are left to the next
    /// batch. Returns how many words of [`Event::Records`] were taken; other events are taken
    /// whole.
    pub fn push(&mut self, event: &Event<'_>, max_words: usize) -> usize {
        match event {
            Event::Records { stream, words } => {
                let room = max_words.min(MAX_BATCH_WORDS);
                let taken = words.len().min(room.saturating_sub(self.batch.words()));
                if taken > 0 {
                    self.batch.push(&Event::Records {
                        stream: *stream,
                        words: &words[..taken],
                    });
                }
                taken
            }
            Event::Session(_) | Event::End(_) => 0,
            event => {
                self.batch.push(event);
                0
            }
        }
    }

    /// Whether there is nothing to send.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    /// Record words collected.
    #[must_use]
    pub fn words(&self) -> usize {
        self.batch.words()
    }

    /// About how long the batch's payload is, in bytes; never less than it really is.
    #[must_use]
    pub fn payload_bytes(&self) -> usize {
        let batch = &self.batch;
        64 + batch.len() * EVENT_BYTES + batch.words() * 8 + batch.code() + batch.text()
    }

    /// Whether another event could make the batch longer than a receiver accepts.
    #[must_use]
    pub fn is_full(&self, max_words: usize) -> bool {
        self.batch.words() >= max_words.min(MAX_BATCH_WORDS)
            || self.batch.len() >= MAX_BATCH_EVENTS
            || self.payload_bytes() >= MAX_FRAME_BYTES / 4
    }

    /// Empties the batch and keeps its memory.
    pub fn clear(&mut self) {
        self.batch.clear();
    }

    /// The events collected, in order.
    pub fn events(&self) -> impl ExactSizeIterator<Item = Event<'_>> {
        self.batch.events()
    }

    /// Appends the batch as a frame to `out`.
    pub fn encode(&self, sequence: u64, out: &mut Vec<u8>) {
        super::write::batch(sequence, self.events(), self.payload_bytes(), out);
    }
}
