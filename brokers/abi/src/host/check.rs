//! Turns a foreign `mcad_event` into an [`Event`], or says which rule it breaks.
//!
//! Limits hold for every length before anything is read through its pointer. What a pointer leads
//! to cannot be checked: a broker is code of the same process.

use mcad_proto::event::{
    Arch, BlockDef, EndReason, Event, ModuleDef, ProcessEvent, RegionDef, SessionInfo,
};
use mcad_proto::word::{BlockId, GuestAddr, MAX_BLOCK_INSTRUCTIONS, ProcessId, StreamId};

use crate::ffi::{self, mcad_event, mcad_str};

// What comes from a broker may go to a daemon.
pub use mcad_proto::wire::limits::{MAX_CODE_BYTES, MAX_STRINGS, MAX_TEXT_BYTES};

/// Most bytes of all command-line arguments together.
pub const MAX_STRINGS_BYTES: usize = 8 << 20;
/// Most record words in one event (32 MiB).
pub const MAX_RECORD_WORDS: usize = 1 << 22;

/// Reads a text.
///
/// SAFETY: if `len` is not 0, `data` is null or leads to `len` readable bytes that live for `'a`.
pub(super) unsafe fn text<'a>(text: mcad_str, limit: usize) -> Result<&'a str, String> {
    if text.len > limit {
        return Err(format!(
            "a text of {} bytes, at most {limit} are taken",
            text.len
        ));
    }
    // SAFETY: as promised by the caller.
    let bytes = unsafe { slice(text.data.cast::<u8>(), text.len, "a text")? };
    str::from_utf8(bytes).map_err(|e| format!("a text that is not UTF-8: {e}"))
}

/// SAFETY: if `len` is not 0, `data` is null or leads to `len` readable `T`s that live for `'a`.
unsafe fn slice<'a, T>(data: *const T, len: usize, what: &str) -> Result<&'a [T], String> {
    if len == 0 {
        return Ok(&[]);
    }
    if data.is_null() {
        return Err(format!("{what} of length {len} at a null pointer"));
    }
    if !data.is_aligned() {
        return Err(format!(
            "{what} is not aligned to {} bytes",
            align_of::<T>()
        ));
    }
    // SAFETY: not null, aligned, readable as promised by the caller.
    Ok(unsafe { std::slice::from_raw_parts(data, len) })
}

/// Reads an event.
///
/// SAFETY: pointers are null or lead to as much readable memory as their lengths say, for `'a`.
pub(super) unsafe fn event<'a>(event: &mcad_event) -> Result<Event<'a>, String> {
    let owned_text = || {
        // SAFETY: the caller's promise.
        unsafe { text(event.text, MAX_TEXT_BYTES) }.map(str::to_owned)
    };
    let stream = StreamId(event.stream);
    let process = |what| Event::Process {
        id: ProcessId(event.id),
        what,
    };
    Ok(match event.kind {
        ffi::MCAD_EVENT_SESSION => Event::Session(SessionInfo {
            arch: match event.arch {
                ffi::MCAD_ARCH_X86_64 => Arch::X86_64,
                ffi::MCAD_ARCH_AARCH64 => Arch::AArch64,
                ffi::MCAD_ARCH_RISCV64 => Arch::RiscV64,
                ffi::MCAD_ARCH_RISCV32 => Arch::RiscV32,
                other => return Err(format!("unknown instruction set {other}")),
            },
            producer: owned_text()?,
            // SAFETY: the caller's promise.
            command: unsafe { strings(event)? },
            memory: event.features & ffi::MCAD_BROKER_MEMORY != 0,
        }),
        ffi::MCAD_EVENT_BLOCK => {
            if event.count == 0 || event.count > MAX_BLOCK_INSTRUCTIONS as u64 {
                return Err(format!(
                    "block {} has {} instructions, expected 1 to {MAX_BLOCK_INSTRUCTIONS}",
                    event.id, event.count
                ));
            }
            if event.len == 0 || event.len > MAX_CODE_BYTES {
                return Err(format!(
                    "block {} has {} code bytes, expected 1 to {MAX_CODE_BYTES}",
                    event.id, event.len
                ));
            }
            Event::Block(BlockDef {
                id: BlockId(event.id),
                address: GuestAddr(event.address),
                instructions: event.count as u16,
                // SAFETY: the caller's promise.
                bytes: unsafe { slice(event.data.cast(), event.len, "code")? },
            })
        }
        ffi::MCAD_EVENT_MODULE => {
            ordered(event, "module")?;
            Event::Module(ModuleDef {
                path: owned_text()?,
                start: GuestAddr(event.address),
                end: GuestAddr(event.end),
                file_offset: event.offset,
            })
        }
        ffi::MCAD_EVENT_REGION => {
            ordered(event, "region")?;
            Event::Region(RegionDef {
                name: owned_text()?,
                start: GuestAddr(event.address),
                end: GuestAddr(event.end),
            })
        }
        ffi::MCAD_EVENT_STREAM_START => Event::StreamStart(stream),
        ffi::MCAD_EVENT_RECORDS => {
            if event.len > MAX_RECORD_WORDS {
                return Err(format!(
                    "{} record words in one event, at most {MAX_RECORD_WORDS} are taken",
                    event.len
                ));
            }
            Event::Records {
                stream,
                // SAFETY: the caller's promise.
                words: unsafe { slice(event.data.cast(), event.len, "records")? },
            }
        }
        ffi::MCAD_EVENT_STREAM_END => Event::StreamEnd(stream),
        ffi::MCAD_EVENT_LOST => Event::Lost {
            // "Some, nobody knows how many" counts as one.
            count: event.count.max(1),
            reason: owned_text()?,
        },
        ffi::MCAD_EVENT_NOTICE => Event::Notice(owned_text()?),
        ffi::MCAD_EVENT_END => Event::End(end(event, owned_text)?),
        ffi::MCAD_EVENT_PROCESS_FORKED => process(ProcessEvent::Forked {
            parent: u32::try_from(event.count).map(ProcessId).map_err(|_| {
                format!("process {} is a copy of process {}", event.id, event.count)
            })?,
        }),
        ffi::MCAD_EVENT_PROCESS_ENTERED => process(ProcessEvent::Entered),
        ffi::MCAD_EVENT_PROCESS_REPLACED => process(ProcessEvent::Replaced {
            // SAFETY: the caller's promise.
            command: unsafe { strings(event)? },
        }),
        ffi::MCAD_EVENT_PROCESS_ENDED => process(ProcessEvent::Ended(end(event, owned_text)?)),
        other => return Err(format!("unknown kind {other}")),
    })
}

fn end(event: &mcad_event, text: impl Fn() -> Result<String, String>) -> Result<EndReason, String> {
    Ok(match event.reason {
        ffi::MCAD_END_EXITED => EndReason::Exited(event.status),
        ffi::MCAD_END_SIGNALED => EndReason::Signaled(event.status),
        ffi::MCAD_END_EXEC => EndReason::Exec(event.status),
        ffi::MCAD_END_PRODUCER_DIED => EndReason::ProducerDied(text()?),
        ffi::MCAD_END_TRUNCATED => EndReason::Truncated(text()?),
        ffi::MCAD_END_COMPLETE => EndReason::Complete,
        other => return Err(format!("unknown end reason {other}")),
    })
}

/// SAFETY: as for [`event`].
unsafe fn strings(event: &mcad_event) -> Result<Vec<String>, String> {
    if event.strings_len > MAX_STRINGS {
        return Err(format!(
            "{} strings, at most {MAX_STRINGS} are taken",
            event.strings_len
        ));
    }
    // SAFETY: the caller's promise.
    let parts = unsafe { slice(event.strings, event.strings_len, "the command line")? };
    let mut total = 0;
    let mut strings = Vec::with_capacity(parts.len());
    for part in parts {
        // SAFETY: the caller's promise.
        let part = unsafe { text(*part, MAX_TEXT_BYTES)? };
        total += part.len();
        if total > MAX_STRINGS_BYTES {
            return Err(format!(
                "a command line of more than {MAX_STRINGS_BYTES} bytes"
            ));
        }
        strings.push(part.to_owned());
    }
    Ok(strings)
}

fn ordered(event: &mcad_event, what: &str) -> Result<(), String> {
    if event.end < event.address {
        return Err(format!(
            "a {what} that ends at {:#x}, before its start {:#x}",
            event.end, event.address
        ));
    }
    Ok(())
}
