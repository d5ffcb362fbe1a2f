//! What the ring's reader finds, as events in a queue.

use std::collections::VecDeque;

use mcad_proto::event::{BlockDef, EndReason, Event, ModuleDef, SessionInfo};
use mcad_proto::word::{BlockId, GuestAddr, StreamId};

use crate::phantom;
use crate::ring::control::Message;
use crate::ring::reader::Sink;

/// An event with its data.
#[derive(Debug)]
pub(crate) enum Pending {
    Session(SessionInfo),
    Block {
        id: u32,
        address: u64,
        instructions: u16,
        code: Vec<u8>,
    },
    Module(ModuleDef),
    StreamStart(u32),
    Records(u32, Vec<u64>),
    StreamEnd(u32),
    Lost(u64, String),
    Notice(String),
    End(EndReason),
}

impl Pending {
    /// The event, borrowing its data.
    pub(crate) fn event(&self) -> Event<'_> {
        match self {
            Self::Session(info) => Event::Session(info.clone()),
            Self::Block {
                id,
                address,
                instructions,
                code,
            } => Event::Block(BlockDef {
                id: BlockId(*id),
                address: GuestAddr(*address),
                instructions: *instructions,
                bytes: code,
            }),
            Self::Module(module) => Event::Module(module.clone()),
            Self::StreamStart(stream) => Event::StreamStart(StreamId(*stream)),
            Self::Records(stream, words) => Event::Records {
                stream: StreamId(*stream),
                words,
            },
            Self::StreamEnd(stream) => Event::StreamEnd(StreamId(*stream)),
            Self::Lost(count, reason) => Event::Lost {
                count: *count,
                reason: reason.clone(),
            },
            Self::Notice(text) => Event::Notice(text.clone()),
            Self::End(reason) => Event::End(reason.clone()),
        }
    }
}

/// Events that wait to be asked for.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    pub(crate) events: VecDeque<Pending>,
    /// The emulator may count a cut-off instruction at the end of a block.
    pub(crate) phantoms: bool,
}

impl Sink for Queue {
    fn message(&mut self, message: Message<'_>) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        self.events.push_back(match message {
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
                let mut code = code.to_vec();
                if self.phantoms && instructions > 1 && phantom::is_phantom(last_address, last) {
                    instructions -= 1;
                    code = before.to_vec();
                }
                Pending::Block {
                    id,
                    address,
                    instructions,
                    code,
                }
            }
            Message::Module {
                start,
                end,
                file_offset,
                path,
            } => Pending::Module(ModuleDef {
                path: text(path),
                start: GuestAddr(start),
                end: GuestAddr(end),
                file_offset,
            }),
            Message::Notice(bytes) => Pending::Notice(text(bytes)),
        });
    }

    fn stream_start(&mut self, stream: u32) {
        self.events.push_back(Pending::StreamStart(stream));
    }

    fn lost(&mut self, stream: u32, chunks: u64) {
        self.events.push_back(Pending::Lost(
            chunks,
            format!("{chunks} chunks of thread {stream} never arrived"),
        ));
    }

    fn words(&mut self, stream: u32, words: Vec<u64>) {
        self.events.push_back(Pending::Records(stream, words));
    }

    fn stream_end(&mut self, stream: u32) {
        self.events.push_back(Pending::StreamEnd(stream));
    }
}
