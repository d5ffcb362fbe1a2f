//! What a broker tells a session: the one stream of events that every analysis consumes.
//!
//! Order within a session: [`Event::Session`] first; a [`Event::Block`] before the first record
//! that names it; records of one stream in program order; [`Event::End`] last. Streams of
//! different threads have no order relative to each other beyond the order of their batches.
//! Blocks, modules and starts of streams belong to the process that was entered last
//! ([`ProcessEvent::Entered`]), at first to [`ProcessId::FIRST`].

use crate::word::{BlockId, GuestAddr, ProcessId, StreamId};

/// Guest instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Arch {
    /// AMD64 / Intel 64 in 64-bit mode.
    X86_64,
    /// AArch64, A64 instructions.
    AArch64,
    /// RISC-V with 64-bit registers.
    RiscV64,
    /// RISC-V with 32-bit registers.
    RiscV32,
}

impl Arch {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::X86_64, Self::AArch64, Self::RiscV64, Self::RiscV32];

    /// The name that QEMU and the kernel's `uname -m` use: `x86_64`, `aarch64`, `riscv64`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::AArch64 => "aarch64",
            Self::RiscV64 => "riscv64",
            Self::RiscV32 => "riscv32",
        }
    }

    /// The one of this name, as [`Arch::name`] gives it.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|arch| arch.name() == name)
    }
}

impl std::fmt::Display for Arch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// What is known of a session when it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionInfo {
    /// Guest instruction set.
    pub arch: Arch,
    /// Who produced the stream, for example `qemu 7.2.0, plugin API 1`.
    pub producer: String,
    /// The traced command, program first; empty when there is none (assembly input).
    pub command: Vec<String>,
    /// Whether records carry memory accesses.
    pub memory: bool,
}

/// A block's code, sent once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockDef<'a> {
    /// Identity, dense from 0 within the session.
    pub id: BlockId,
    /// Address of the first instruction.
    pub address: GuestAddr,
    /// Number of instructions.
    pub instructions: u16,
    /// The instructions' bytes, back to back.
    pub bytes: &'a [u8],
}

/// A file mapped into the guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleDef {
    /// Path of the file on the producer's machine.
    pub path: String,
    /// First mapped address.
    pub start: GuestAddr,
    /// One past the last mapped address.
    pub end: GuestAddr,
    /// Offset in the file of `start`.
    pub file_offset: u64,
}

/// Whether a file of this path is a shared object, by its name: `libc.so.6`, not `x.sort`.
#[must_use]
pub fn is_shared_object(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.ends_with(".so") || name.contains(".so.")
}

/// A region of interest: occurrences are timed and aggregated by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionDef {
    /// Name in reports.
    pub name: String,
    /// First address of the region.
    pub start: GuestAddr,
    /// One past the last address.
    pub end: GuestAddr,
}

/// Why a session ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// The program exited by itself with this status.
    Exited(i32),
    /// A signal ended the program (number as on Linux).
    Signaled(i32),
    /// The program replaced itself; what followed ran untraced and ended with this status (128
    /// plus the number when a signal ended it).
    Exec(i32),
    /// The emulator died or was killed; everything that it had written was taken.
    ProducerDied(String),
    /// The connection or file ended early; what came was taken.
    Truncated(String),
    /// Input without a process (assembly, hex) was delivered completely.
    Complete,
}

/// What becomes of a traced process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessEvent {
    /// It begins as a copy of another one, with the files mapped that the other had by then.
    Forked {
        /// The other one.
        parent: ProcessId,
    },
    /// Blocks, modules and starts of streams that follow are its own, until another is entered.
    Entered,
    /// It replaced itself by another program: its memory is new, and what its threads execute from
    /// here on is the new program's.
    Replaced {
        /// The new program's command line, program first.
        command: Vec<String>,
    },
    /// It is over; nothing of it follows.
    Ended(EndReason),
}

/// One event; borrowed data lives until the broker is asked for the next one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// Start of the session.
    Session(SessionInfo),
    /// A block's code.
    Block(BlockDef<'a>),
    /// A mapped file.
    Module(ModuleDef),
    /// A region of interest.
    Region(RegionDef),
    /// A guest thread starts.
    StreamStart(StreamId),
    /// Records of one thread, in program order (see [`crate::word`]).
    Records {
        /// The thread.
        stream: StreamId,
        /// The record words.
        words: &'a [u64],
    },
    /// A guest thread ended.
    StreamEnd(StreamId),
    /// A process other than the first, or a new program in any.
    Process {
        /// The process.
        id: ProcessId,
        /// What becomes of it.
        what: ProcessEvent,
    },
    /// Records that are known to be missing.
    Lost {
        /// How many words, where known; at least 1.
        count: u64,
        /// Why, for people.
        reason: String,
    },
    /// Something worth telling people that changes no result.
    Notice(String),
    /// The end; nothing follows.
    End(EndReason),
}

#[cfg(test)]
mod tests {
    use super::is_shared_object;

    #[test]
    fn shared_objects_are_told_by_their_names() {
        for path in ["/lib/libc.so.6", "ld-linux-x86-64.so.2", "/opt/x/plugin.so"] {
            assert!(is_shared_object(path), "{path}");
        }
        for path in [
            "/usr/bin/x.sort",
            "x.so-called",
            "/opt/x.so/program",
            "so",
            "",
        ] {
            assert!(!is_shared_object(path), "{path}");
        }
    }
}
