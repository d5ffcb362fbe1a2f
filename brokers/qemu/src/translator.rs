//! What a ring's reader finds, said in the session's terms: its ids of blocks, streams, processes.

use std::collections::HashMap;

use mcad_proto::event::{BlockDef, EndReason, Event, ModuleDef, ProcessEvent};
use mcad_proto::word::{BlockId, GuestAddr, ProcessId, StreamId, TAG_ACCESS, tag_of};

use crate::blocks::{Blocks, Known};
use crate::phantom;
use crate::queue::Queue;
use crate::ring::RingError;
use crate::ring::control::Message;
use crate::ring::reader::Sink;

/// Most processes of one session, as many as the simulation takes; those beyond it run and are not
/// reported.
pub(crate) const MAX_PROCESSES: u32 = 1 << 16;
/// Most statuses that are kept until those are forgotten that nobody needs.
const MAX_STATUSES: usize = 1 << 12;

/// What all processes have in common.
#[derive(Debug)]
pub(crate) struct Common {
    pub(crate) queue: Queue,
    blocks: Blocks,
    next_stream: u32,
    /// How many processes are told of.
    pub(crate) most: u32,
    /// Processes beside the first so far.
    processes: u32,
    /// Of these, the ones that are not told of.
    pub(crate) untold: u32,
    /// The emulator may count a cut-off instruction at the end of a block.
    pub(crate) phantoms: bool,
    pub(crate) born: Vec<Birth>,
    /// How children ended, by process id of the system, from those who waited for them.
    pub(crate) statuses: HashMap<u32, u32>,
}

impl Common {
    pub(crate) fn new(most: u32) -> Self {
        Self {
            queue: Queue::default(),
            blocks: Blocks::default(),
            next_stream: 0,
            most,
            processes: 0,
            untold: 0,
            phantoms: false,
            born: Vec::new(),
            statuses: HashMap::new(),
        }
    }
}

/// A process that is about to begin.
#[derive(Debug)]
pub(crate) struct Birth {
    pub(crate) slot: usize,
    pub(crate) own: Own,
}

/// A process's own.
#[derive(Debug, Default)]
pub(crate) struct Own {
    pub(crate) id: ProcessId,
    known: Known,
    /// The session's stream of each of its own.
    streams: HashMap<u32, Stream>,
    /// Command line of the program whose chunks are to come.
    command: Vec<String>,
    /// Beyond [`Common::most`]: what it does is taken from its ring and not told.
    untold: bool,
}

#[derive(Clone, Copy, Debug)]
struct Stream {
    id: StreamId,
    /// It has executed a block.
    begun: bool,
}

/// Tells of one process.
pub(crate) struct Translator<'a> {
    pub(crate) own: &'a mut Own,
    pub(crate) common: &'a mut Common,
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl Translator<'_> {
    fn push(&mut self, event: &Event<'_>) {
        if !self.own.untold {
            self.common.queue.push_of(self.own.id, event);
        }
    }

    fn block(
        &mut self,
        id: u32,
        address: u64,
        instructions: u32,
        last_bytes: u32,
        code: &[u8],
    ) -> Result<(), RingError> {
        if id != self.own.known.next() {
            return Err(RingError::Damaged(format!(
                "block {id} is defined when {} is due",
                self.own.known.next()
            )));
        }
        if self.own.untold {
            self.own.known.pass();
            return Ok(());
        }
        let last_at = code.len().saturating_sub(last_bytes as usize);
        let (before, last) = code.split_at(last_at);
        let last_address = address.wrapping_add(last_at as u64);
        let mut instructions = u16::try_from(instructions).unwrap_or(u16::MAX);
        let mut bytes = code;
        if self.common.phantoms && instructions > 1 && phantom::is_phantom(last_address, last) {
            instructions -= 1;
            bytes = before;
        }
        let blocks = &mut self.common.blocks;
        let (id, new) = self.own.known.define(blocks, address, instructions, bytes);
        if new {
            self.push(&Event::Block(BlockDef {
                id: BlockId(id),
                address: GuestAddr(address),
                instructions,
                bytes,
            }));
        }
        Ok(())
    }

    fn fork(&mut self, slot: u32, blocks: u32) -> Result<(), RingError> {
        let known = self.own.known.fork(blocks).ok_or_else(|| {
            RingError::Damaged(format!("a fork with {blocks} blocks, which are not there"))
        })?;
        let untold = self.own.untold || self.common.processes + 1 >= self.common.most;
        let id = if untold {
            self.common.untold += 1;
            ProcessId(self.common.most)
        } else {
            self.common.processes += 1;
            let id = ProcessId(self.common.processes);
            let parent = self.own.id;
            let forked = ProcessEvent::Forked { parent };
            self.common.queue.push_process(id, forked);
            id
        };
        self.common.born.push(Birth {
            slot: slot as usize,
            own: Own {
                id,
                known,
                untold,
                ..Own::default()
            },
        });
        Ok(())
    }
}

impl Sink for Translator<'_> {
    fn message(&mut self, message: Message<'_>) -> Result<(), RingError> {
        match message {
            Message::Block {
                address,
                id,
                instructions,
                last_bytes,
                code,
            } => return self.block(id, address, instructions, last_bytes, code),
            Message::Module {
                start,
                end,
                file_offset,
                path,
            } => {
                let path = text(path);
                let blocks = &mut self.common.blocks;
                self.own.known.map(blocks, &path, start..end, file_offset);
                self.push(&Event::Module(ModuleDef {
                    path,
                    start: GuestAddr(start),
                    end: GuestAddr(end),
                    file_offset,
                }));
            }
            Message::Notice(bytes) => self.push(&Event::Notice(text(bytes))),
            Message::Command(words) => {
                let mut words: Vec<String> = words.split(|&byte| byte == 0).map(text).collect();
                // Every word is terminated, so the last piece is empty, or was cut off.
                if words.last().is_some_and(String::is_empty) {
                    words.pop();
                }
                self.own.command = words;
            }
            Message::Fork { slot, blocks } => return self.fork(slot, blocks),
            Message::Waited { pid, status } => {
                if self.common.statuses.len() < MAX_STATUSES {
                    self.common.statuses.insert(pid, status);
                }
            }
        }
        Ok(())
    }

    fn replaced(&mut self) {
        let command = std::mem::take(&mut self.own.command);
        if self.own.untold {
            return;
        }
        let what = ProcessEvent::Replaced { command };
        self.common.queue.push_process(self.own.id, what);
    }

    fn stream_start(&mut self, stream: u32) {
        if self.own.untold {
            return;
        }
        let id = StreamId(self.common.next_stream);
        self.common.next_stream += 1;
        self.own.streams.insert(stream, Stream { id, begun: false });
        self.push(&Event::StreamStart(id));
    }

    fn lost(&mut self, stream: u32, chunks: u64) {
        let thread = self.own.streams.get(&stream).map_or(stream, |s| s.id.0);
        self.push(&Event::Lost {
            count: chunks,
            reason: format!("{chunks} chunks of thread {thread} never arrived"),
        });
    }

    fn words(&mut self, stream: u32, mut words: Vec<u64>) -> Result<(), RingError> {
        let Some(to) = self.own.streams.get_mut(&stream) else {
            return Ok(());
        };
        if !to.begun && self.own.id != ProcessId::FIRST {
            // A signal that waited for the child: what the emulator saves for the handler is no
            // access of the program's, and no block has begun.
            let before = words.iter().take_while(|&&word| tag_of(word) == TAG_ACCESS);
            let before = before.count();
            words.drain(..before);
        }
        to.begun |= !words.is_empty();
        let stream = to.id;
        if !self.own.known.translate(&mut words) {
            return Err(RingError::Damaged(
                "a block executes that was never defined".into(),
            ));
        }
        if !words.is_empty() {
            let words = &words;
            self.common.queue.push(&Event::Records { stream, words });
        }
        Ok(())
    }

    fn stream_end(&mut self, stream: u32) {
        if let Some(stream) = self.own.streams.remove(&stream) {
            self.common.queue.push(&Event::StreamEnd(stream.id));
        }
    }
}

impl Own {
    /// Whether anything of the process is told.
    pub(crate) const fn is_told(&self) -> bool {
        !self.untold
    }

    /// Ends what is open, and the process.
    pub(crate) fn end(&mut self, common: &mut Common, reason: Option<EndReason>) {
        if self.untold {
            return;
        }
        let mut open: Vec<StreamId> = self.streams.drain().map(|(_, stream)| stream.id).collect();
        open.sort_unstable();
        for stream in open {
            common.queue.push(&Event::StreamEnd(stream));
        }
        if let Some(reason) = reason {
            common
                .queue
                .push_process(self.id, ProcessEvent::Ended(reason));
        }
    }
}
