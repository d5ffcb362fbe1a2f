//! The C edge of a broker written in Rust.
//!
//! No panic crosses the edge, and records and code bytes cross it without a copy: an event's
//! pointers lead into the broker itself, which is not touched until the next call.

use std::cell::UnsafeCell;
use std::ffi::{c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use mcad_proto::event::{Arch, EndReason, Event, ProcessEvent};

use crate::broker::{Broker, Features, StopFn};
use crate::config::Config;
use crate::ffi::{self, mcad_broker, mcad_event, mcad_session, mcad_str};

/// Exports `mcad_broker_entry` for a [`Broker`].
///
/// Use it once, in a crate of type `cdylib` that nothing links to: two of these symbols cannot
/// live in one executable.
#[macro_export]
macro_rules! export_broker {
    ($broker:ty) => {
        /// Entry point of the broker ABI.
        #[unsafe(no_mangle)]
        pub extern "C" fn mcad_broker_entry() -> *const $crate::ffi::mcad_broker {
            $crate::export::description::<$broker>()
        }
    };
}

/// The ABI's description of a [`Broker`].
#[must_use]
pub const fn description<B: Broker>() -> &'static mcad_broker {
    const {
        &mcad_broker {
            size: size_of::<mcad_broker>(),
            abi_version: ffi::MCAD_BROKER_ABI_VERSION,
            reserved: 0,
            features: B::FEATURES.0,
            name: mcad_str::of(B::NAME),
            help: mcad_str::of(B::HELP),
            open: Some(open::<B>),
            next: Some(next::<B>),
            stop: Some(stop::<B>),
            close: Some(close::<B>),
            sources: mcad_str::of(crate::SOURCES),
        }
    }
}

/// What `mcad_session` points at. `next` alone uses `inner`; `stop` only reads `stopper`, which
/// makes it safe beside a running `next`.
struct Session<B> {
    inner: UnsafeCell<Inner<B>>,
    stopper: Option<StopFn>,
}

struct Inner<B> {
    broker: B,
    /// Owned texts of the event that was handed out last.
    held: Held,
    /// Set by an error: only `close` is allowed then.
    failed: bool,
}

/// Owned parts of an event; kept until the next call because the event points at them.
#[derive(Default)]
struct Held {
    text: String,
    command: Vec<String>,
    strings: Vec<mcad_str>,
}

/// SAFETY: as the header says for `open`.
unsafe extern "C" fn open<B: Broker>(
    config: mcad_str,
    session: *mut *mut mcad_session,
    error: *mut c_char,
    error_cap: usize,
    error_len: *mut usize,
) -> c_int {
    let result = catch_unwind(|| {
        // SAFETY: the host passes `len` readable bytes.
        let text = unsafe { bytes(config.data, config.len) };
        let text = str::from_utf8(text).map_err(|e| format!("the configuration: {e}"))?;
        let broker = B::open(&Config::decode(text)?)?;
        let stopper = broker.stopper();
        Ok::<_, String>(Box::new(Session {
            inner: UnsafeCell::new(Inner {
                broker,
                held: Held::default(),
                failed: false,
            }),
            stopper,
        }))
    });
    let message = match result {
        Ok(Ok(opened)) if !session.is_null() => {
            // SAFETY: the host passes a place for the session.
            unsafe { session.write(Box::into_raw(opened).cast()) };
            return 0;
        }
        Ok(Ok(_)) => "open needs a place for the session".to_owned(),
        Ok(Err(message)) => message,
        Err(panic) => panic_text(B::NAME, panic.as_ref()),
    };
    let len = prefix_len(&message, error_cap);
    if !error.is_null() {
        // SAFETY: `error` has room for `error_cap` bytes and `len` is at most that.
        unsafe { std::ptr::copy_nonoverlapping(message.as_ptr().cast(), error, len) };
    }
    if !error_len.is_null() {
        // SAFETY: the host passes a place for the length.
        unsafe { error_len.write(if error.is_null() { 0 } else { len }) };
    }
    1
}

/// SAFETY: as the header says for `next`: a session from `open`, one thread at a time, `event`
/// points at `event->size` writable bytes.
unsafe extern "C" fn next<B: Broker>(
    session: *mut mcad_session,
    timeout_ms: u32,
    event: *mut mcad_event,
) -> c_int {
    // SAFETY: `size` is the first field of every version of the struct.
    let host_size = unsafe { (&raw const (*event).size).read() };
    if host_size < size_of::<mcad_event>() {
        // Nowhere to put a text that the host would find; hosts of version 1 have this size.
        return 1;
    }
    // SAFETY: `session` came from `open::<B>` and `stop` only reads the other field.
    let inner = unsafe { &mut *(*session.cast::<Session<B>>()).inner.get() };
    let Inner {
        broker,
        held,
        failed,
    } = inner;
    let mut out = mcad_event::EMPTY;
    let status = if *failed {
        held.text = "the session failed before; it can only be closed".into();
        1
    } else {
        let timeout = Duration::from_millis(timeout_ms.into());
        match catch_unwind(AssertUnwindSafe(|| {
            fill(broker.next(timeout)?, B::FEATURES, held, &mut out);
            Ok::<_, String>(())
        })) {
            Ok(Ok(())) => 0,
            Ok(Err(message)) => {
                held.text = message;
                1
            }
            Err(panic) => {
                held.text = panic_text(B::NAME, panic.as_ref());
                1
            }
        }
    };
    if status != 0 {
        *failed = true;
        out = mcad_event::EMPTY;
        out.text = mcad_str::of(&held.text);
    }
    out.size = host_size;
    // SAFETY: the host's struct is at least as large as ours, checked above.
    unsafe { event.write(out) };
    status
}

/// SAFETY: as the header says for `stop`.
unsafe extern "C" fn stop<B: Broker>(session: *mut mcad_session) {
    // SAFETY: a session from `open::<B>`; only the field that nobody changes is borrowed.
    let stopper = unsafe { &(*session.cast::<Session<B>>()).stopper };
    if let Some(stop) = stopper {
        // A panic here has no channel to be told through; the session's end shows what happened.
        let _ = catch_unwind(AssertUnwindSafe(|| stop()));
    }
}

/// SAFETY: as the header says for `close`; the session is not used afterwards.
unsafe extern "C" fn close<B: Broker>(session: *mut mcad_session) {
    if session.is_null() {
        return;
    }
    // SAFETY: made by `Box::into_raw` in `open::<B>`.
    let session = unsafe { Box::from_raw(session.cast::<Session<B>>()) };
    // As in `stop`.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(session)));
}

/// Describes `event` in `out`; owned parts move to `held`, borrowed ones are pointed at.
fn fill(event: Option<Event<'_>>, features: Features, held: &mut Held, out: &mut mcad_event) {
    let Some(event) = event else {
        return;
    };
    match event {
        Event::Session(info) => {
            out.kind = ffi::MCAD_EVENT_SESSION;
            out.arch = match info.arch {
                Arch::X86_64 => ffi::MCAD_ARCH_X86_64,
                Arch::AArch64 => ffi::MCAD_ARCH_AARCH64,
                Arch::RiscV64 => ffi::MCAD_ARCH_RISCV64,
                Arch::RiscV32 => ffi::MCAD_ARCH_RISCV32,
                // A new instruction set gets its number in the header first; 0 is refused there.
                _ => 0,
            };
            out.features = features.0 & !ffi::MCAD_BROKER_MEMORY;
            if info.memory {
                out.features |= ffi::MCAD_BROKER_MEMORY;
            }
            held.text = info.producer;
            hold_command(info.command, held, out);
            out.text = mcad_str::of(&held.text);
        }
        Event::Block(block) => {
            out.kind = ffi::MCAD_EVENT_BLOCK;
            out.id = block.id.0;
            out.address = block.address.0;
            out.count = block.instructions.into();
            out.data = block.bytes.as_ptr().cast();
            out.len = block.bytes.len();
        }
        Event::Module(module) => {
            out.kind = ffi::MCAD_EVENT_MODULE;
            out.address = module.start.0;
            out.end = module.end.0;
            out.offset = module.file_offset;
            hold_text(module.path, held, out);
        }
        Event::Region(region) => {
            out.kind = ffi::MCAD_EVENT_REGION;
            out.address = region.start.0;
            out.end = region.end.0;
            hold_text(region.name, held, out);
        }
        Event::StreamStart(stream) => {
            out.kind = ffi::MCAD_EVENT_STREAM_START;
            out.stream = stream.0;
        }
        Event::Records { stream, words } => {
            out.kind = ffi::MCAD_EVENT_RECORDS;
            out.stream = stream.0;
            out.data = words.as_ptr().cast();
            out.len = words.len();
        }
        Event::StreamEnd(stream) => {
            out.kind = ffi::MCAD_EVENT_STREAM_END;
            out.stream = stream.0;
        }
        Event::Lost { count, reason } => {
            out.kind = ffi::MCAD_EVENT_LOST;
            out.count = count;
            hold_text(reason, held, out);
        }
        Event::Notice(text) => {
            out.kind = ffi::MCAD_EVENT_NOTICE;
            hold_text(text, held, out);
        }
        Event::Process { id, what } => {
            out.id = id.0;
            match what {
                ProcessEvent::Forked { parent } => {
                    out.kind = ffi::MCAD_EVENT_PROCESS_FORKED;
                    out.count = parent.0.into();
                }
                ProcessEvent::Entered => out.kind = ffi::MCAD_EVENT_PROCESS_ENTERED,
                ProcessEvent::Replaced { command } => {
                    out.kind = ffi::MCAD_EVENT_PROCESS_REPLACED;
                    hold_command(command, held, out);
                }
                ProcessEvent::Ended(reason) => {
                    out.kind = ffi::MCAD_EVENT_PROCESS_ENDED;
                    hold_end(reason, held, out);
                }
            }
        }
        Event::End(reason) => {
            out.kind = ffi::MCAD_EVENT_END;
            hold_end(reason, held, out);
        }
    }
}

fn hold_end(reason: EndReason, held: &mut Held, out: &mut mcad_event) {
    let (code, status, text) = match reason {
        EndReason::Exited(status) => (ffi::MCAD_END_EXITED, status, None),
        EndReason::Signaled(signal) => (ffi::MCAD_END_SIGNALED, signal, None),
        EndReason::Exec(status) => (ffi::MCAD_END_EXEC, status, None),
        EndReason::ProducerDied(what) => (ffi::MCAD_END_PRODUCER_DIED, 0, Some(what)),
        EndReason::Truncated(what) => (ffi::MCAD_END_TRUNCATED, 0, Some(what)),
        EndReason::Complete => (ffi::MCAD_END_COMPLETE, 0, None),
    };
    out.reason = code;
    out.status = status;
    if let Some(text) = text {
        hold_text(text, held, out);
    }
}

fn hold_command(command: Vec<String>, held: &mut Held, out: &mut mcad_event) {
    held.command = command;
    held.strings = held.command.iter().map(|s| mcad_str::of(s)).collect();
    out.strings = held.strings.as_ptr();
    out.strings_len = held.strings.len();
}

fn hold_text(text: String, held: &mut Held, out: &mut mcad_event) {
    held.text = text;
    out.text = mcad_str::of(&held.text);
}

/// SAFETY: `data` leads to `len` readable bytes, or `len` is 0.
unsafe fn bytes<'a>(data: *const c_char, len: usize) -> &'a [u8] {
    if data.is_null() || len == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(data.cast(), len) }
}

fn panic_text(name: &str, panic: &(dyn std::any::Any + Send)) -> String {
    let what = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("unknown cause");
    format!("internal error in the {name} broker: {what}")
}

/// Length of the longest prefix of `text` that fits into `limit` bytes.
fn prefix_len(text: &str, limit: usize) -> usize {
    let mut len = text.len().min(limit);
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    len
}
