//! Events on their way from the feeder to the simulation thread.
//!
//! A batch copies what events borrow, once, into two buffers that are used again and again. Its
//! size is bounded, so a queue of n batches is bounded in bytes.

use std::ops::Range;

use mcad_proto::event::{BlockDef, EndReason, Event, ModuleDef, RegionDef, SessionInfo};
use mcad_proto::word::{BlockId, GuestAddr, StreamId};

/// Record words in one batch at most (512 KiB).
pub(super) const MAX_WORDS: usize = 1 << 16;
/// Bytes of code in one batch; the last block may go beyond by its own size.
const MAX_CODE: usize = 1 << 18;
/// Events in one batch.
const MAX_ITEMS: usize = 1 << 12;
/// Bytes of text in one batch; the last event may go beyond by its own.
const MAX_TEXT: usize = 1 << 18;

#[derive(Debug)]
enum Item {
    Session(SessionInfo),
    Block {
        id: BlockId,
        address: GuestAddr,
        instructions: u16,
        code: Range<usize>,
    },
    Module(ModuleDef),
    Region(RegionDef),
    StreamStart(StreamId),
    Records {
        stream: StreamId,
        words: Range<usize>,
    },
    StreamEnd(StreamId),
    Lost {
        count: u64,
        reason: String,
    },
    Notice(String),
    End(EndReason),
}

/// A bounded number of events in order.
#[derive(Debug, Default)]
pub(super) struct Batch {
    words: Vec<u64>,
    code: Vec<u8>,
    items: Vec<Item>,
    /// Bytes of names and messages in `items`.
    text: usize,
}

/// Bytes of text that an event owns.
fn text_bytes(event: &Event<'_>) -> usize {
    match event {
        Event::Session(info) => {
            let words = info.command.iter().map(String::len).sum::<usize>();
            info.producer.len() + words + info.command.len() * size_of::<String>()
        }
        Event::Module(module) => module.path.len(),
        Event::Region(region) => region.name.len(),
        Event::Lost { reason, .. } => reason.len(),
        Event::Notice(text) => text.len(),
        Event::End(EndReason::ProducerDied(text) | EndReason::Truncated(text)) => text.len(),
        Event::Block(_)
        | Event::StreamStart(_)
        | Event::Records { .. }
        | Event::StreamEnd(_)
        | Event::End(_) => 0,
    }
}

impl Batch {
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Bytes that the batch carries.
    pub(super) fn bytes(&self) -> usize {
        self.words.len() * 8 + self.code.len() + self.items.len() * size_of::<Item>() + self.text
    }

    /// Makes room for the next events; keeps the memory.
    pub(super) fn clear(&mut self) {
        self.words.clear();
        self.code.clear();
        self.items.clear();
        self.text = 0;
    }

    /// Whether it should be sent before anything is added.
    pub(super) fn is_full(&self) -> bool {
        self.words.len() >= MAX_WORDS
            || self.code.len() >= MAX_CODE
            || self.items.len() >= MAX_ITEMS
            || self.text >= MAX_TEXT
    }

    /// Appends as many of these words as fit and returns the rest.
    pub(super) fn push_records<'w>(&mut self, stream: StreamId, words: &'w [u64]) -> &'w [u64] {
        let room = MAX_WORDS - self.words.len().min(MAX_WORDS);
        let (now, later) = words.split_at(words.len().min(room));
        if !now.is_empty() {
            let start = self.words.len();
            self.words.extend_from_slice(now);
            self.items.push(Item::Records {
                stream,
                words: start..self.words.len(),
            });
        }
        later
    }

    /// Appends an event other than records.
    pub(super) fn push(&mut self, event: Event<'_>) {
        self.text += text_bytes(&event);
        let item = match event {
            Event::Session(info) => Item::Session(info),
            Event::Block(block) => {
                let start = self.code.len();
                self.code.extend_from_slice(block.bytes);
                Item::Block {
                    id: block.id,
                    address: block.address,
                    instructions: block.instructions,
                    code: start..self.code.len(),
                }
            }
            Event::Module(module) => Item::Module(module),
            Event::Region(region) => Item::Region(region),
            Event::StreamStart(stream) => Item::StreamStart(stream),
            Event::Records { stream, words } => {
                let start = self.words.len();
                self.words.extend_from_slice(words);
                Item::Records {
                    stream,
                    words: start..self.words.len(),
                }
            }
            Event::StreamEnd(stream) => Item::StreamEnd(stream),
            Event::Lost { count, reason } => Item::Lost { count, reason },
            Event::Notice(text) => Item::Notice(text),
            Event::End(reason) => Item::End(reason),
        };
        self.items.push(item);
    }

    /// The events, as they were pushed.
    pub(super) fn events(&self) -> impl Iterator<Item = Event<'_>> {
        self.items.iter().map(|item| match item {
            Item::Session(info) => Event::Session(info.clone()),
            Item::Block {
                id,
                address,
                instructions,
                code,
            } => Event::Block(BlockDef {
                id: *id,
                address: *address,
                instructions: *instructions,
                bytes: &self.code[code.clone()],
            }),
            Item::Module(module) => Event::Module(module.clone()),
            Item::Region(region) => Event::Region(region.clone()),
            Item::StreamStart(stream) => Event::StreamStart(*stream),
            Item::Records { stream, words } => Event::Records {
                stream: *stream,
                words: &self.words[words.clone()],
            },
            Item::StreamEnd(stream) => Event::StreamEnd(*stream),
            Item::Lost { count, reason } => Event::Lost {
                count: *count,
                reason: reason.clone(),
            },
            Item::Notice(text) => Event::Notice(text.clone()),
            Item::End(reason) => Event::End(reason.clone()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_out_as_they_went_in() {
        let words = [1, 2, 3];
        let events = [
            Event::Block(BlockDef {
                id: BlockId(0),
                address: GuestAddr(16),
                instructions: 1,
                bytes: &[0x90],
            }),
            Event::StreamStart(StreamId(1)),
            Event::Records {
                stream: StreamId(1),
                words: &words,
            },
            Event::Lost {
                count: 2,
                reason: "r".into(),
            },
            Event::StreamEnd(StreamId(1)),
            Event::End(EndReason::Exited(0)),
        ];
        let mut batch = Batch::default();
        for _ in 0..2 {
            for event in &events {
                batch.push(event.clone());
            }
            assert_eq!(batch.events().collect::<Vec<_>>(), events);
            batch.clear();
        }
    }

    #[test]
    fn long_texts_fill_a_batch() {
        let mut batch = Batch::default();
        let pushed = (0..MAX_ITEMS)
            .take_while(|_| {
                let full = batch.is_full();
                batch.push(Event::Notice("x".repeat(1 << 14)));
                !full
            })
            .count();
        assert_eq!(pushed, MAX_TEXT >> 14);
        assert!(batch.bytes() >= MAX_TEXT);
        batch.clear();
        assert_eq!(batch.bytes(), 0);
    }

    #[test]
    fn records_beyond_the_bound_wait_for_the_next_batch() {
        let words = vec![7; MAX_WORDS + 5];
        let mut batch = Batch::default();
        let rest = batch.push_records(StreamId(0), &words);
        assert_eq!(rest.len(), 5);
        assert!(batch.is_full());
        assert_eq!(batch.push_records(StreamId(0), rest).len(), 5);
        assert_eq!(batch.events().count(), 1);
    }
}
