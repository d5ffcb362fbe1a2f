//! Events that own their data: what they borrow is copied, once, into buffers that are used again.
//!
//! Whoever holds events longer than the broker's next call holds one of these: the queue between a
//! session's threads, a batch on its way to a daemon, a broker that reads ahead. Bounds are theirs;
//! the sizes here tell them when.

use std::ops::Range;

use crate::event::{BlockDef, EndReason, Event, ProcessEvent};
use crate::word::{BlockId, GuestAddr, StreamId};

/// An event whose bulk data lies in the buffers.
#[derive(Debug)]
enum Item {
    Block {
        id: BlockId,
        address: GuestAddr,
        instructions: u16,
        code: Range<usize>,
    },
    Records {
        stream: StreamId,
        words: Range<usize>,
    },
    Small(Event<'static>),
}

/// Events in order.
#[derive(Debug, Default)]
pub struct EventBatch {
    items: Vec<Item>,
    words: Vec<u64>,
    code: Vec<u8>,
    text: usize,
}

impl EventBatch {
    /// Bytes that an event takes beside its words, code and text.
    pub const ITEM_BYTES: usize = size_of::<Item>();

    /// Appends an event. Records that follow records of the same thread are joined with them.
    pub fn push(&mut self, event: &Event<'_>) {
        let small = match event {
            Event::Block(block) => {
                let start = self.code.len();
                self.code.extend_from_slice(block.bytes);
                self.items.push(Item::Block {
                    id: block.id,
                    address: block.address,
                    instructions: block.instructions,
                    code: start..self.code.len(),
                });
                return;
            }
            Event::Records { stream, words } => {
                let start = self.words.len();
                self.words.extend_from_slice(words);
                let end = self.words.len();
                match self.items.last_mut() {
                    Some(Item::Records {
                        stream: last,
                        words,
                    }) if last == stream => words.end = end,
                    _ => self.items.push(Item::Records {
                        stream: *stream,
                        words: start..end,
                    }),
                }
                return;
            }
            Event::Session(info) => Event::Session(info.clone()),
            Event::Module(module) => Event::Module(module.clone()),
            Event::Region(region) => Event::Region(region.clone()),
            Event::StreamStart(stream) => Event::StreamStart(*stream),
            Event::StreamEnd(stream) => Event::StreamEnd(*stream),
            Event::Process { id, what } => Event::Process {
                id: *id,
                what: what.clone(),
            },
            Event::Lost { count, reason } => Event::Lost {
                count: *count,
                reason: reason.clone(),
            },
            Event::Notice(text) => Event::Notice(text.clone()),
            Event::End(reason) => Event::End(reason.clone()),
        };
        self.text += text_bytes(&small);
        self.items.push(Item::Small(small));
    }

    /// Event `n`, from 0.
    #[must_use]
    pub fn get(&self, n: usize) -> Option<Event<'_>> {
        self.items.get(n).map(|item| self.event(item))
    }

    /// The events in order.
    pub fn events(&self) -> impl ExactSizeIterator<Item = Event<'_>> {
        self.items.iter().map(|item| self.event(item))
    }

    fn event(&self, item: &Item) -> Event<'_> {
        match item {
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
            Item::Records { stream, words } => Event::Records {
                stream: *stream,
                words: &self.words[words.clone()],
            },
            Item::Small(event) => event.clone(),
        }
    }

    /// Empties the batch and keeps its memory.
    pub fn clear(&mut self) {
        self.items.clear();
        self.words.clear();
        self.code.clear();
        self.text = 0;
    }

    /// Whether there is no event.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Number of events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Record words.
    #[must_use]
    pub fn words(&self) -> usize {
        self.words.len()
    }

    /// Bytes of code.
    #[must_use]
    pub fn code(&self) -> usize {
        self.code.len()
    }

    /// Bytes of names and messages.
    #[must_use]
    pub fn text(&self) -> usize {
        self.text
    }
}

/// Bytes of text that an event owns.
fn text_bytes(event: &Event<'_>) -> usize {
    let words = |command: &[String]| {
        let words = command.iter().map(String::len).sum::<usize>();
        words + size_of_val(command)
    };
    match event {
        Event::Session(info) => info.producer.len() + words(&info.command),
        Event::Process { what, .. } => match what {
            ProcessEvent::Replaced { command } => words(command),
            ProcessEvent::Ended(EndReason::ProducerDied(text) | EndReason::Truncated(text)) => {
                text.len()
            }
            _ => 0,
        },
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::word::ProcessId;

    #[test]
    fn events_come_out_as_they_went_in() {
        let records = |stream, words| Event::Records {
            stream: StreamId(stream),
            words,
        };
        let events = [
            Event::Block(BlockDef {
                id: BlockId(0),
                address: GuestAddr(16),
                instructions: 1,
                bytes: &[0x90],
            }),
            Event::StreamStart(StreamId(1)),
            records(1, &[1, 2, 3]),
            records(2, &[4]),
            Event::Lost {
                count: 2,
                reason: "r".into(),
            },
            Event::StreamEnd(StreamId(1)),
            Event::Process {
                id: ProcessId(1),
                what: ProcessEvent::Forked {
                    parent: ProcessId::FIRST,
                },
            },
            Event::End(EndReason::Exited(0)),
        ];
        let mut batch = EventBatch::default();
        for _ in 0..2 {
            events.iter().for_each(|event| batch.push(event));
            assert_eq!(batch.events().collect::<Vec<_>>(), events);
            assert_eq!(batch.get(3), Some(events[3].clone()));
            assert_eq!((batch.words(), batch.code(), batch.text()), (4, 1, 1));
            batch.clear();
            assert!(batch.is_empty() && batch.text() == 0);
        }
    }

    #[test]
    fn records_of_a_thread_are_joined() {
        let mut batch = EventBatch::default();
        for words in [[1, 2], [3, 4]] {
            batch.push(&Event::Records {
                stream: StreamId(7),
                words: &words,
            });
        }
        let whole = Event::Records {
            stream: StreamId(7),
            words: &[1, 2, 3, 4],
        };
        assert_eq!(batch.events().collect::<Vec<_>>(), [whole]);
    }
}
