//! What the ring's reader finds, as events in a queue.

use mcad_proto::batch::EventBatch;
use mcad_proto::event::{BlockDef, Event, ModuleDef};
use mcad_proto::word::{BlockId, GuestAddr, StreamId};

use crate::phantom;
use crate::ring::control::Message;
use crate::ring::reader::Sink;

/// Events that wait to be asked for.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    events: EventBatch,
    /// Those that were handed out.
    taken: usize,
    /// The emulator may count a cut-off instruction at the end of a block.
    pub(crate) phantoms: bool,
}

impl Queue {
    pub(crate) fn is_empty(&self) -> bool {
        self.taken == self.events.len()
    }

    pub(crate) fn push(&mut self, event: &Event<'_>) {
        // What was handed out is no longer borrowed.
        if self.is_empty() {
            self.events.clear();
            self.taken = 0;
        }
        self.events.push(event);
    }

    /// The next event, which lives until something is pushed.
    pub(crate) fn pop(&mut self) -> Option<Event<'_>> {
        let event = self.events.get(self.taken)?;
        self.taken += 1;
        Some(event)
    }
}

impl Sink for Queue {
    fn message(&mut self, message: Message<'_>) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match message {
            Message::Block {
                address,
                id,
                instructions,
                last_bytes,
                code,
            } => {
                let last_at = code.len().saturating_sub(last_bytes as usize);
                let (before, last) = code.split_at(last_at);
                let last_address = address.wrapping_add(last_at as u64);
                let mut instructions = u16::try_from(instructions).unwrap_or(u16::MAX);
                let mut bytes = code;
                if self.phantoms && instructions > 1 && phantom::is_phantom(last_address, last) {
                    instructions -= 1;
                    bytes = before;
                }
                self.push(&Event::Block(BlockDef {
                    id: BlockId(id),
                    address: GuestAddr(address),
                    instructions,
                    bytes,
                }));
            }
            Message::Module {
                start,
                end,
                file_offset,
                path,
            } => self.push(&Event::Module(ModuleDef {
                path: text(path),
                start: GuestAddr(start),
                end: GuestAddr(end),
                file_offset,
            })),
            Message::Notice(bytes) => self.push(&Event::Notice(text(bytes))),
        }
    }

    fn stream_start(&mut self, stream: u32) {
        self.push(&Event::StreamStart(StreamId(stream)));
    }

    fn lost(&mut self, stream: u32, chunks: u64) {
        self.push(&Event::Lost {
            count: chunks,
            reason: format!("{chunks} chunks of thread {stream} never arrived"),
        });
    }

    fn words(&mut self, stream: u32, words: Vec<u64>) {
        self.push(&Event::Records {
            stream: StreamId(stream),
            words: &words,
        });
    }

    fn stream_end(&mut self, stream: u32) {
        self.push(&Event::StreamEnd(StreamId(stream)));
    }
}
