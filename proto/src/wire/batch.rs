//! Batches: numbered groups of events.

use capnp::struct_list;

use crate::event::{BlockDef, Event};
use crate::generated::mcad_capnp::event;
use crate::wire::limits::{MAX_BATCH_EVENTS, MAX_BATCH_WORDS, MAX_FRAME_BYTES};
use crate::wire::{Problem, read};
use crate::word::{BlockId, GuestAddr, StreamId};

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
    pub(super) items: Vec<Item>,
    words: Vec<u64>,
    bytes: Vec<u8>,
    text: usize,
}

/// An event whose bulk data lies in the builder's buffers.
pub(super) enum Item {
    Block {
        id: BlockId,
        address: GuestAddr,
        instructions: u16,
        code: std::ops::Range<usize>,
    },
    Records {
        stream: StreamId,
        words: std::ops::Range<usize>,
    },
    Small(Event<'static>),
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
        let item = match event {
            Event::Block(block) => {
                let from = self.bytes.len();
                self.bytes.extend_from_slice(block.bytes);
                Item::Block {
                    id: block.id,
                    address: block.address,
                    instructions: block.instructions,
                    code: from..self.bytes.len(),
                }
            }
            Event::Records { stream, words } => {
                let room = max_words
                    .min(MAX_BATCH_WORDS)
                    .saturating_sub(self.words.len());
                let taken = words.len().min(room);
                if taken == 0 {
                    return 0;
                }
                let from = self.words.len();
                self.words.extend_from_slice(&words[..taken]);
                let range = from..self.words.len();
                match self.items.last_mut() {
                    Some(Item::Records {
                        stream: last,
                        words,
                    }) if last == stream => words.end = range.end,
                    _ => self.items.push(Item::Records {
                        stream: *stream,
                        words: range,
                    }),
                }
                return taken;
            }
            Event::Session(_) | Event::End(_) => return 0,
            Event::Module(module) => {
                self.text += module.path.len();
                Item::Small(Event::Module(module.clone()))
            }
            Event::Region(region) => {
                self.text += region.name.len();
                Item::Small(Event::Region(region.clone()))
            }
            Event::StreamStart(stream) => Item::Small(Event::StreamStart(*stream)),
            Event::StreamEnd(stream) => Item::Small(Event::StreamEnd(*stream)),
            Event::Lost { count, reason } => {
                self.text += reason.len();
                Item::Small(Event::Lost {
                    count: *count,
                    reason: reason.clone(),
                })
            }
            Event::Notice(text) => {
                self.text += text.len();
                Item::Small(Event::Notice(text.clone()))
            }
        };
        self.items.push(item);
        0
    }

    /// Whether there is nothing to send.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Record words collected.
    #[must_use]
    pub fn words(&self) -> usize {
        self.words.len()
    }

    /// About how long the batch's payload is, in bytes; never less than it really is.
    #[must_use]
    pub fn payload_bytes(&self) -> usize {
        64 + self.items.len() * EVENT_BYTES + self.words.len() * 8 + self.bytes.len() + self.text
    }

    /// Whether another event could make the batch longer than a receiver accepts.
    #[must_use]
    pub fn is_full(&self, max_words: usize) -> bool {
        self.words.len() >= max_words.min(MAX_BATCH_WORDS)
            || self.items.len() >= MAX_BATCH_EVENTS
            || self.payload_bytes() >= MAX_FRAME_BYTES / 4
    }

    /// Empties the batch and keeps its memory.
    pub fn clear(&mut self) {
        self.items.clear();
        self.words.clear();
        self.bytes.clear();
        self.text = 0;
    }

    /// The events collected, in order.
    pub fn events(&self) -> impl ExactSizeIterator<Item = Event<'_>> {
        self.items.iter().map(|item| match item {
            Item::Block {
                id,
                address,
                instructions,
                code,
            } => Event::Block(BlockDef {
                id: *id,
                address: *address,
                instructions: *instructions,
                bytes: &self.bytes[code.clone()],
            }),
            Item::Records { stream, words } => Event::Records {
                stream: *stream,
                words: &self.words[words.clone()],
            },
            Item::Small(event) => event.clone(),
        })
    }

    /// Appends the batch as a frame to `out`.
    pub fn encode(&self, sequence: u64, out: &mut Vec<u8>) {
        super::write::batch(sequence, self.events(), self.payload_bytes(), out);
    }
}
