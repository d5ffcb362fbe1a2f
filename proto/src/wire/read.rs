//! Messages from their Cap'n Proto readers. Every getter that takes from the traversal limit is
//! called once; every length is checked before memory is taken for it.

use capnp::message::{Reader, ReaderSegments};
use capnp::{text, text_list};

use crate::event::{Arch, BlockDef, EndReason, Event, ModuleDef, ProcessEvent, RegionDef};
use crate::generated::mcad_capnp as schema;
use crate::wire::limits::{MAX_BATCH_EVENTS, MAX_CODE_BYTES, MAX_STRINGS, MAX_TEXT_BYTES};
use crate::wire::message::{
    Accepted, Hello, Message, Progress, Refusal, Refused, ReportPart, Role, SessionStatus, Status,
};
use crate::wire::{Batch, Problem};
use crate::word::{BlockId, GuestAddr, MAX_BLOCK_INSTRUCTIONS, ProcessId, StreamId};

/// Sessions that are read from a status message.
const MAX_STATUS_SESSIONS: u32 = 1 << 16;

pub(super) fn message<S: ReaderSegments>(reader: &Reader<S>) -> Result<Message<'_>, Problem> {
    use schema::message::Which;
    let root = reader.get_root::<schema::message::Reader<'_>>()?;
    Ok(match root.which()? {
        Which::Hello(hello) => Message::Hello(read_hello(hello?)?),
        Which::HelloReply(reply) => read_reply(reply?)?,
        Which::Batch(batch) => {
            let batch = batch?;
            let events = batch.get_events()?;
            if events.len() as usize > MAX_BATCH_EVENTS {
                return Err(Problem::Invalid(format!(
                    "a batch of {} events; at most {MAX_BATCH_EVENTS} are accepted",
                    events.len()
                )));
            }
            Message::Batch(Batch {
                sequence: batch.get_sequence(),
                events,
            })
        }
        Which::End(reason) => {
            let reason = reason?;
            Message::End {
                reason: end(reason)?,
                batches: reason.get_batches(),
            }
        }
        Which::Credit(credit) => Message::Credit(credit),
        Which::Progress(progress) => {
            let progress = progress?;
            Message::Progress(Progress {
                instructions: progress.get_instructions(),
                cycles: progress.get_cycles(),
                records: progress.get_records(),
            })
        }
        Which::ReportPart(part) => {
            let part = part?;
            Message::ReportPart(ReportPart {
                total: part.get_total(),
                offset: part.get_offset(),
                data: part.get_data()?,
            })
        }
        Which::Failure(text) => Message::Failure(string_of(text?)?),
        Which::Stop(text) => Message::Stop(string_of(text?)?),
        Which::StatusRequest(()) => Message::StatusRequest,
        Which::Status(status) => Message::Status(read_status(status?)?),
        Which::Shutdown(now) => Message::Shutdown { now },
        Which::ShutdownReply(running) => Message::ShutdownReply { running },
    })
}

fn read_hello(hello: schema::hello::Reader<'_>) -> Result<Hello, Problem> {
    let options = hello.get_options()?;
    if options.len() as usize > MAX_STRINGS {
        return Err(too_many(options.len()));
    }
    Ok(Hello {
        min_version: hello.get_min_version(),
        max_version: hello.get_max_version(),
        role: match hello.get_role()? {
            schema::Role::Trace => Role::Trace,
            schema::Role::Control => Role::Control,
        },
        arch: arch(hello.get_arch()?),
        features: hello.get_features(),
        token: string_of(hello.get_token()?)?,
        producer: string_of(hello.get_producer()?)?,
        command: string_list(hello.get_command()?)?,
        options: options
            .iter()
            .map(|o| Ok((string_of(o.get_key()?)?, string_of(o.get_value()?)?)))
            .collect::<Result<_, Problem>>()?,
    })
}

fn read_reply(reply: schema::hello_reply::Reader<'_>) -> Result<Message<'_>, Problem> {
    use schema::hello_reply::Which;
    Ok(match reply.which()? {
        Which::Accepted(terms) => Message::Accepted(Accepted {
            version: terms.get_version(),
            session: terms.get_session(),
            credit: terms.get_credit(),
            max_frame: terms.get_max_frame(),
            max_words: terms.get_max_words(),
            features: terms.get_features(),
        }),
        Which::Refused(refused) => {
            use schema::Refusal as Coded;
            Message::Refused(Refused {
                // A reason that only a newer daemon knows is still explained by its message.
                reason: match refused.get_reason() {
                    Ok(Coded::Version) => Refusal::Version,
                    Ok(Coded::Token) => Refusal::Token,
                    Ok(Coded::Arch) => Refusal::Arch,
                    Ok(Coded::Busy) => Refusal::Busy,
                    Ok(Coded::Options) => Refusal::Options,
                    Ok(Coded::ShuttingDown) => Refusal::ShuttingDown,
                    Ok(Coded::Other) | Err(_) => Refusal::Other,
                },
                message: string_of(refused.get_message()?)?,
            })
        }
    })
}

fn read_status(status: schema::status::Reader<'_>) -> Result<Status, Problem> {
    let sessions = status.get_sessions()?;
    if sessions.len() > MAX_STATUS_SESSIONS {
        return Err(too_many(sessions.len()));
    }
    Ok(Status {
        version: string_of(status.get_version()?)?,
        uptime_seconds: status.get_uptime_seconds(),
        max_sessions: status.get_max_sessions(),
        finished_sessions: status.get_finished_sessions(),
        failed_sessions: status.get_failed_sessions(),
        resident_bytes: status.get_resident_bytes(),
        sessions: sessions
            .iter()
            .map(|s| {
                Ok(SessionStatus {
                    id: s.get_id(),
                    peer: string_of(s.get_peer()?)?,
                    command: string_of(s.get_command()?)?,
                    state: string_of(s.get_state()?)?,
                    seconds: s.get_seconds(),
                    instructions: s.get_instructions(),
                    records: s.get_records(),
                    queued_bytes: s.get_queued_bytes(),
                })
            })
            .collect::<Result<_, Problem>>()?,
    })
}

pub(super) fn event(event: schema::event::Reader<'_>) -> Result<Event<'_>, Problem> {
    use schema::event::Which;
    Ok(match event.which()? {
        Which::Block(block) => {
            let code = block.get_code()?;
            let instructions = block.get_instructions();
            if code.is_empty() || code.len() > MAX_CODE_BYTES {
                return Err(Problem::Invalid(format!(
                    "block {} has {} code bytes, expected 1 to {MAX_CODE_BYTES}",
                    block.get_id(),
                    code.len()
                )));
            }
            if instructions == 0 || usize::from(instructions) > MAX_BLOCK_INSTRUCTIONS {
                return Err(Problem::Invalid(format!(
                    "block {} has {instructions} instructions, expected 1 to \
                     {MAX_BLOCK_INSTRUCTIONS}",
                    block.get_id()
                )));
            }
            Event::Block(BlockDef {
                id: BlockId(block.get_id()),
                address: GuestAddr(block.get_address()),
                instructions,
                bytes: code,
            })
        }
        Which::Module(module) => {
            let path = string_of(module.get_path()?)?;
            range(&path, module.get_start(), module.get_end())?;
            Event::Module(ModuleDef {
                path,
                start: GuestAddr(module.get_start()),
                end: GuestAddr(module.get_end()),
                file_offset: module.get_file_offset(),
            })
        }
        Which::Region(region) => {
            let name = string_of(region.get_name()?)?;
            range(&name, region.get_start(), region.get_end())?;
            Event::Region(RegionDef {
                name,
                start: GuestAddr(region.get_start()),
                end: GuestAddr(region.get_end()),
            })
        }
        Which::StreamStart(stream) => Event::StreamStart(StreamId(stream)),
        Which::Records(records) => Event::Records {
            stream: StreamId(records.get_stream()),
            words: words(records.get_words()?)?,
        },
        Which::StreamEnd(stream) => Event::StreamEnd(StreamId(stream)),
        Which::Lost(lost) => Event::Lost {
            // "Some, nobody knows how many" counts as one.
            count: lost.get_count().max(1),
            reason: string_of(lost.get_reason()?)?,
        },
        Which::Notice(text) => Event::Notice(string_of(text?)?),
        Which::Process(process) => Event::Process {
            id: ProcessId(process.get_id()),
            what: process_event(process)?,
        },
    })
}

fn process_event(process: schema::event::process::Reader<'_>) -> Result<ProcessEvent, Problem> {
    use schema::event::process::Which;
    Ok(match process.which()? {
        Which::Forked(parent) => ProcessEvent::Forked {
            parent: ProcessId(parent),
        },
        Which::Entered(()) => ProcessEvent::Entered,
        Which::Replaced(command) => ProcessEvent::Replaced {
            command: string_list(command?)?,
        },
        Which::Ended(reason) => ProcessEvent::Ended(end(reason?)?),
    })
}

pub(crate) fn end(end: schema::end::Reader<'_>) -> Result<EndReason, Problem> {
    use schema::end::Which;
    Ok(match end.which()? {
        Which::Exited(status) => EndReason::Exited(status),
        Which::Signaled(signal) => EndReason::Signaled(signal),
        Which::Exec(status) => EndReason::Exec(status),
        Which::ProducerDied(text) => EndReason::ProducerDied(string_of(text?)?),
        Which::Truncated(text) => EndReason::Truncated(string_of(text?)?),
        Which::Complete(()) => EndReason::Complete,
    })
}

pub(crate) fn arch(arch: schema::Arch) -> Option<Arch> {
    match arch {
        schema::Arch::Unknown => None,
        schema::Arch::X8664 => Some(Arch::X86_64),
        schema::Arch::Aarch64 => Some(Arch::AArch64),
        schema::Arch::Riscv64 => Some(Arch::RiscV64),
        schema::Arch::Riscv32 => Some(Arch::RiscV32),
    }
}

pub(crate) fn string_of(text: text::Reader<'_>) -> Result<String, Problem> {
    if text.len() > MAX_TEXT_BYTES {
        return Err(Problem::Invalid(format!(
            "a text of {} bytes; at most {MAX_TEXT_BYTES} are accepted",
            text.len()
        )));
    }
    match text.to_str() {
        Ok(text) => Ok(text.to_owned()),
        Err(error) => Err(Problem::Invalid(format!(
            "a text that is no UTF-8: {error}"
        ))),
    }
}

pub(crate) fn string_list(list: text_list::Reader<'_>) -> Result<Vec<String>, Problem> {
    if list.len() as usize > MAX_STRINGS {
        return Err(too_many(list.len()));
    }
    list.iter().map(|text| string_of(text?)).collect()
}

/// The words in place: the frame's buffer is 8-byte aligned and Cap'n Proto aligns data.
fn words(bytes: &[u8]) -> Result<&[u64], Problem> {
    const {
        assert!(
            cfg!(target_endian = "little"),
            "record words are used in place"
        )
    };
    // SAFETY: every bit pattern is a valid u64; align_to checks the alignment.
    let (before, words, after) = unsafe { bytes.align_to::<u64>() };
    if before.is_empty() && after.is_empty() {
        return Ok(words);
    }
    Err(Problem::Invalid(format!(
        "record words of {} bytes, which is no multiple of 8",
        bytes.len()
    )))
}

fn range(name: &str, start: u64, end: u64) -> Result<(), Problem> {
    if start <= end {
        return Ok(());
    }
    Err(Problem::Invalid(format!(
        "{name:.60?} ends at {end:#x}, before its start {start:#x}"
    )))
}

fn too_many(count: u32) -> Problem {
    Problem::Invalid(format!("a list of {count} entries is too long"))
}
