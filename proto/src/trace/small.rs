//! The event column: everything but record words, one kind byte and the fields each.

use std::ops::Range;

use super::column::{Bad, Cursor, put_varint, unzigzag, zigzag};
use crate::event::{EndReason, Event, ModuleDef, ProcessEvent, RegionDef};
use crate::wire::limits::{MAX_STRINGS, MAX_TEXT_BYTES};
use crate::word::{BlockId, GuestAddr, ProcessId, StreamId};

const BLOCK: u8 = 1;
const MODULE: u8 = 2;
const REGION: u8 = 3;
const STREAM_START: u8 = 4;
const RECORDS: u8 = 5;
const STREAM_END: u8 = 6;
const LOST: u8 = 7;
const NOTICE: u8 = 8;
// From version 2 of the format on.
const FORKED: u8 = 9;
const ENTERED: u8 = 10;
const REPLACED: u8 = 11;
const ENDED: u8 = 12;
const EXITED: u8 = 16;
const SIGNALED: u8 = 17;
const EXEC: u8 = 18;
const PRODUCER_DIED: u8 = 19;
const TRUNCATED: u8 = 20;
const COMPLETE: u8 = 21;

/// What both sides remember between events of a chunk, so that block definitions stay short.
#[derive(Default)]
pub(super) struct Previous {
    id: u32,
    address: u64,
}

/// One entry of the column.
pub(super) enum Entry {
    Block {
        id: BlockId,
        address: GuestAddr,
        instructions: u16,
        /// Where the code is in the chunk.
        code: Range<usize>,
    },
    Event(Event<'static>),
    /// So many words of the stream are in the other columns.
    Records {
        stream: StreamId,
        words: u64,
    },
}

pub(super) fn put_records(stream: StreamId, words: usize, out: &mut Vec<u8>) {
    out.push(RECORDS);
    put_varint(out, stream.0.into());
    put_varint(out, words as u64);
}

/// Writes any event but the session's start, which is the file's header, and records.
pub(super) fn put_event(event: &Event<'_>, previous: &mut Previous, out: &mut Vec<u8>) {
    match event {
        Event::Session(_) | Event::Records { .. } => {}
        Event::Block(block) => {
            out.push(BLOCK);
            put_varint(out, zigzag(i64::from(block.id.0) - i64::from(previous.id)));
            let step = block.address.0.wrapping_sub(previous.address);
            put_varint(out, zigzag(step as i64));
            put_varint(out, block.instructions.into());
            put_bytes(block.bytes, out);
            *previous = Previous {
                id: block.id.0.wrapping_add(1),
                address: block.address.0,
            };
        }
        Event::Module(module) => {
            out.push(MODULE);
            put_varint(out, module.start.0);
            put_varint(out, module.end.0);
            put_varint(out, module.file_offset);
            put_text(&module.path, out);
        }
        Event::Region(region) => {
            out.push(REGION);
            put_varint(out, region.start.0);
            put_varint(out, region.end.0);
            put_text(&region.name, out);
        }
        Event::StreamStart(stream) => {
            out.push(STREAM_START);
            put_varint(out, stream.0.into());
        }
        Event::StreamEnd(stream) => {
            out.push(STREAM_END);
            put_varint(out, stream.0.into());
        }
        Event::Process { id, what } => put_process(*id, what, out),
        Event::Lost { count, reason } => {
            out.push(LOST);
            put_varint(out, *count);
            put_text(reason, out);
        }
        Event::Notice(text) => {
            out.push(NOTICE);
            put_text(text, out);
        }
        Event::End(reason) => put_end(reason, out),
    }
}

/// Says which process what follows belongs to.
pub(super) fn put_entered(id: ProcessId, out: &mut Vec<u8>) {
    put_process(id, &ProcessEvent::Entered, out);
}

fn put_process(id: ProcessId, what: &ProcessEvent, out: &mut Vec<u8>) {
    out.push(match what {
        ProcessEvent::Forked { .. } => FORKED,
        ProcessEvent::Entered => ENTERED,
        ProcessEvent::Replaced { .. } => REPLACED,
        ProcessEvent::Ended(_) => ENDED,
    });
    put_varint(out, id.0.into());
    match what {
        ProcessEvent::Forked { parent } => put_varint(out, parent.0.into()),
        ProcessEvent::Entered => {}
        ProcessEvent::Replaced { command } => {
            let count = command.len().min(MAX_STRINGS);
            put_varint(out, count as u64);
            for word in command.iter().take(count) {
                put_text(word, out);
            }
        }
        ProcessEvent::Ended(reason) => put_end(reason, out),
    }
}

fn put_end(reason: &EndReason, out: &mut Vec<u8>) {
    let (kind, status, text) = match reason {
        EndReason::Exited(status) => (EXITED, *status, ""),
        EndReason::Signaled(signal) => (SIGNALED, *signal, ""),
        EndReason::Exec(status) => (EXEC, *status, ""),
        EndReason::ProducerDied(text) => (PRODUCER_DIED, 0, &**text),
        EndReason::Truncated(text) => (TRUNCATED, 0, &**text),
        EndReason::Complete => (COMPLETE, 0, ""),
    };
    out.push(kind);
    put_varint(out, zigzag(status.into()));
    put_text(text, out);
}

/// Reads the next entry; the cursor is not at its end.
pub(super) fn entry(
    data: &[u8],
    cursor: &mut Cursor,
    previous: &mut Previous,
) -> Result<Entry, Bad> {
    let kind = cursor.byte(data)?;
    let event = match kind {
        BLOCK => {
            let id = i64::from(previous.id).wrapping_add(unzigzag(cursor.varint(data)?));
            let id = u32::try_from(id).map_err(|_| Bad("a block id is out of range"))?;
            let step = unzigzag(cursor.varint(data)?) as u64;
            let address = previous.address.wrapping_add(step);
            let instructions = u16::try_from(cursor.varint(data)?)
                .map_err(|_| Bad("a block with an impossible number of instructions"))?;
            let len = cursor.varint(data)?;
            let code = cursor.range(len)?;
            *previous = Previous {
                id: id.wrapping_add(1),
                address,
            };
            return Ok(Entry::Block {
                id: BlockId(id),
                address: GuestAddr(address),
                instructions,
                code,
            });
        }
        MODULE => Event::Module(ModuleDef {
            start: GuestAddr(cursor.varint(data)?),
            end: GuestAddr(cursor.varint(data)?),
            file_offset: cursor.varint(data)?,
            path: take_text(data, cursor)?,
        }),
        REGION => Event::Region(RegionDef {
            start: GuestAddr(cursor.varint(data)?),
            end: GuestAddr(cursor.varint(data)?),
            name: take_text(data, cursor)?,
        }),
        STREAM_START => Event::StreamStart(take_stream(data, cursor)?),
        RECORDS => {
            return Ok(Entry::Records {
                stream: take_stream(data, cursor)?,
                words: cursor.varint(data)?,
            });
        }
        STREAM_END => Event::StreamEnd(take_stream(data, cursor)?),
        LOST => Event::Lost {
            count: cursor.varint(data)?,
            reason: take_text(data, cursor)?,
        },
        NOTICE => Event::Notice(take_text(data, cursor)?),
        FORKED..=ENDED => Event::Process {
            id: take_process(data, cursor)?,
            what: match kind {
                FORKED => ProcessEvent::Forked {
                    parent: take_process(data, cursor)?,
                },
                ENTERED => ProcessEvent::Entered,
                REPLACED => ProcessEvent::Replaced {
                    command: take_command(data, cursor)?,
                },
                _ => {
                    let kind = cursor.byte(data)?;
                    ProcessEvent::Ended(take_end(kind, data, cursor)?)
                }
            },
        },
        EXITED..=COMPLETE => Event::End(take_end(kind, data, cursor)?),
        _ => return Err(Bad("an unknown kind of event")),
    };
    Ok(Entry::Event(event))
}

fn take_end(kind: u8, data: &[u8], cursor: &mut Cursor) -> Result<EndReason, Bad> {
    let status = i32::try_from(unzigzag(cursor.varint(data)?))
        .map_err(|_| Bad("an exit status is out of range"))?;
    let text = take_text(data, cursor)?;
    Ok(match kind {
        EXITED => EndReason::Exited(status),
        SIGNALED => EndReason::Signaled(status),
        EXEC => EndReason::Exec(status),
        PRODUCER_DIED => EndReason::ProducerDied(text),
        TRUNCATED => EndReason::Truncated(text),
        COMPLETE => EndReason::Complete,
        _ => return Err(Bad("an unknown kind of end")),
    })
}

fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Longer texts than are read are cut where they are written.
fn put_text(text: &str, out: &mut Vec<u8>) {
    let mut len = text.len().min(MAX_TEXT_BYTES);
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    put_bytes(&text.as_bytes()[..len], out);
}

fn take_stream(data: &[u8], cursor: &mut Cursor) -> Result<StreamId, Bad> {
    u32::try_from(cursor.varint(data)?)
        .map(StreamId)
        .map_err(|_| Bad("a stream number is out of range"))
}

fn take_process(data: &[u8], cursor: &mut Cursor) -> Result<ProcessId, Bad> {
    u32::try_from(cursor.varint(data)?)
        .map(ProcessId)
        .map_err(|_| Bad("a process number is out of range"))
}

fn take_command(data: &[u8], cursor: &mut Cursor) -> Result<Vec<String>, Bad> {
    let count = cursor.varint(data)?;
    if count > MAX_STRINGS as u64 {
        return Err(Bad("a command line of too many words"));
    }
    (0..count).map(|_| take_text(data, cursor)).collect()
}

fn take_text(data: &[u8], cursor: &mut Cursor) -> Result<String, Bad> {
    let len = cursor.varint(data)?;
    let bytes = cursor.bytes(data, len)?;
    match str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(Bad("a text is no UTF-8")),
    }
}
