//! The types of `include/mcad_broker.h`, field by field. `tests/header.rs` compiles the header and
//! compares sizes, offsets and constants, so that this file cannot drift from it.

#![allow(non_camel_case_types)]

use std::ffi::{c_char, c_int, c_void};

/// Version of the ABI; raised when a meaning changes.
pub const MCAD_BROKER_ABI_VERSION: u32 = 2;
/// Oldest version that a host takes.
pub const OLDEST_ABI_VERSION: u32 = 1;

/// Feature bit: records carry memory accesses.
pub const MCAD_BROKER_MEMORY: u64 = 1;
/// Feature bit: reports mapped files.
pub const MCAD_BROKER_MODULES: u64 = 2;
/// Feature bit: runs or accompanies a real process.
pub const MCAD_BROKER_PROCESS: u64 = 4;

/// Nothing within the time limit.
pub const MCAD_EVENT_NONE: u32 = 0;
/// Start of a session.
pub const MCAD_EVENT_SESSION: u32 = 1;
/// A block's code.
pub const MCAD_EVENT_BLOCK: u32 = 2;
/// A mapped file.
pub const MCAD_EVENT_MODULE: u32 = 3;
/// A region of interest.
pub const MCAD_EVENT_REGION: u32 = 4;
/// A guest thread starts.
pub const MCAD_EVENT_STREAM_START: u32 = 5;
/// Record words.
pub const MCAD_EVENT_RECORDS: u32 = 6;
/// A guest thread ended.
pub const MCAD_EVENT_STREAM_END: u32 = 7;
/// Records are missing.
pub const MCAD_EVENT_LOST: u32 = 8;
/// A notice.
pub const MCAD_EVENT_NOTICE: u32 = 9;
/// The end.
pub const MCAD_EVENT_END: u32 = 10;
/// A process begins as a copy of another.
pub const MCAD_EVENT_PROCESS_FORKED: u32 = 11;
/// What follows is of a process.
pub const MCAD_EVENT_PROCESS_ENTERED: u32 = 12;
/// A process replaced itself.
pub const MCAD_EVENT_PROCESS_REPLACED: u32 = 13;
/// A process is over.
pub const MCAD_EVENT_PROCESS_ENDED: u32 = 14;

/// The program exited.
pub const MCAD_END_EXITED: i32 = 0;
/// A signal ended the program.
pub const MCAD_END_SIGNALED: i32 = 1;
/// The program replaced itself.
pub const MCAD_END_EXEC: i32 = 2;
/// The producer died.
pub const MCAD_END_PRODUCER_DIED: i32 = 3;
/// The input ended early.
pub const MCAD_END_TRUNCATED: i32 = 4;
/// The input was delivered completely.
pub const MCAD_END_COMPLETE: i32 = 5;

/// Guest instruction set: AMD64 in 64-bit mode.
pub const MCAD_ARCH_X86_64: u32 = 1;
/// Guest instruction set: AArch64.
pub const MCAD_ARCH_AARCH64: u32 = 2;
/// Guest instruction set: RISC-V with 64-bit registers.
pub const MCAD_ARCH_RISCV64: u32 = 3;
/// Guest instruction set: RISC-V with 32-bit registers.
pub const MCAD_ARCH_RISCV32: u32 = 4;

/// UTF-8 text with a length.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mcad_str {
    /// First byte; may be null when `len` is 0.
    pub data: *const c_char,
    /// Bytes.
    pub len: usize,
}

impl mcad_str {
    /// No text.
    pub const EMPTY: Self = Self {
        data: std::ptr::null(),
        len: 0,
    };

    /// Points at `text`, which must outlive the use of the result.
    #[must_use]
    pub const fn of(text: &str) -> Self {
        Self {
            data: text.as_ptr().cast(),
            len: text.len(),
        }
    }
}

/// One event; which fields are meaningful depends on `kind`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mcad_event {
    /// Size of the host's struct.
    pub size: usize,
    /// `MCAD_EVENT_*`.
    pub kind: u32,
    /// Instruction set.
    pub arch: u32,
    /// Guest thread.
    pub stream: u32,
    /// Block or process id.
    pub id: u32,
    /// Address of a block, module or region.
    pub address: u64,
    /// One past the last address of a module or region.
    pub end: u64,
    /// File offset of a module.
    pub offset: u64,
    /// Instructions of a block, words lost, the process that another is a copy of.
    pub count: u64,
    /// Code bytes or record words.
    pub data: *const c_void,
    /// Bytes or words at `data`.
    pub len: usize,
    /// Producer, path, name, reason or notice.
    pub text: mcad_str,
    /// Command line.
    pub strings: *const mcad_str,
    /// Entries at `strings`.
    pub strings_len: usize,
    /// `MCAD_END_*`.
    pub reason: i32,
    /// Exit status or signal.
    pub status: i32,
    /// `MCAD_BROKER_*` that hold for the session.
    pub features: u64,
}

impl mcad_event {
    /// An event without content.
    pub const EMPTY: Self = Self {
        size: size_of::<Self>(),
        kind: MCAD_EVENT_NONE,
        arch: 0,
        stream: 0,
        id: 0,
        address: 0,
        end: 0,
        offset: 0,
        count: 0,
        data: std::ptr::null(),
        len: 0,
        text: mcad_str::EMPTY,
        strings: std::ptr::null(),
        strings_len: 0,
        reason: 0,
        status: 0,
        features: 0,
    };
}

/// The broker's own state, opaque to the host.
#[repr(C)]
pub struct mcad_session {
    _private: [u8; 0],
}

/// `open` of a broker.
pub type OpenFn = unsafe extern "C" fn(
    config: mcad_str,
    session: *mut *mut mcad_session,
    error: *mut c_char,
    error_cap: usize,
    error_len: *mut usize,
) -> c_int;
/// `next` of a broker.
pub type NextFn = unsafe extern "C" fn(
    session: *mut mcad_session,
    timeout_ms: u32,
    event: *mut mcad_event,
) -> c_int;
/// `stop` and `close` of a broker.
pub type SessionFn = unsafe extern "C" fn(session: *mut mcad_session);

/// A broker's description of itself.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mcad_broker {
    /// Size of the broker's struct.
    pub size: usize,
    /// `MCAD_BROKER_ABI_VERSION`.
    pub abi_version: u32,
    /// Zero.
    pub reserved: u32,
    /// `MCAD_BROKER_*`.
    pub features: u64,
    /// Name.
    pub name: mcad_str,
    /// One line per configuration key.
    pub help: mcad_str,
    /// Opens a session.
    pub open: Option<OpenFn>,
    /// Waits for the next event.
    pub next: Option<NextFn>,
    /// Asks a session to end soon.
    pub stop: Option<SessionFn>,
    /// Frees a session.
    pub close: Option<SessionFn>,
    /// Which sources it was built from; appended, so not there in older descriptions.
    pub sources: mcad_str,
}

// SAFETY: a description is immutable data; its pointers lead to static text and to functions that
// the header requires to be callable from any thread.
unsafe impl Sync for mcad_broker {}
// SAFETY: as above.
unsafe impl Send for mcad_broker {}

/// The exported symbol.
pub const ENTRY_SYMBOL: &[u8] = b"mcad_broker_entry\0";
/// Type of the exported symbol.
pub type EntryFn = unsafe extern "C" fn() -> *const mcad_broker;
