//! The ring's layout in Rust: mirrors `qemu-plugin/mcad_ring.h`, field for field.
//!
//! Fields are atomics where both sides touch them, so references into the shared memory are sound
//! whatever the other side does. The test `layout_matches_the_header` compiles the header and
//! compares every size, offset and constant.

use mcad_proto::event::Arch;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Acquire};

/// `MCAD_RING_MAGIC`.
pub const MAGIC: u64 = 0x3167_6e69_7244_434d;
/// `MCAD_RING_VERSION`.
pub const VERSION: u32 = 4;
/// `MCAD_RING_HEADER_BYTES`.
pub const HEADER_BYTES: usize = 4096;
/// `MCAD_RING_PATH_BYTES`.
pub const PATH_BYTES: usize = 1024;
/// `MCAD_RING_MEMORY`: record memory accesses.
pub const OPTION_MEMORY: u32 = 1;
/// `MCAD_RING_FOLLOW`: trace the new program of an `execve` as well.
pub const OPTION_FOLLOW: u32 = 2;
/// `MCAD_RING_ARCH_X86_64`.
pub const ARCH_X86_64: u32 = 1;
/// `MCAD_RING_ARCH_AARCH64`.
pub const ARCH_AARCH64: u32 = 2;
/// `MCAD_RING_ARCH_RISCV64`.
pub const ARCH_RISCV64: u32 = 3;
/// `MCAD_RING_ARCH_RISCV32`.
pub const ARCH_RISCV32: u32 = 4;
/// `MCAD_ATTACHED`.
pub const ATTACHED: u32 = 1;
/// `MCAD_HANDOVER`.
pub const HANDOVER: u32 = 3;
/// `MCAD_SLOT_FREE`.
pub const SLOT_FREE: u32 = 1;
/// `MCAD_SLOT_CLAIMED`.
pub const SLOT_CLAIMED: u32 = 2;
/// `MCAD_SLOT_FAILED`.
pub const SLOT_FAILED: u32 = 3;
/// `MCAD_EXEC_TRIED`.
pub const EXEC_TRIED: u32 = 1;
/// `MCAD_CHUNK_FREE`.
pub const FREE: u32 = 0;
/// `MCAD_CHUNK_OPEN`.
pub const OPEN: u32 = 1;
/// `MCAD_CHUNK_FULL`.
pub const FULL: u32 = 2;
/// `MCAD_CHUNK_DATA`.
pub const DATA: u32 = 1;
/// `MCAD_CHUNK_CONTROL`.
pub const CONTROL: u32 = 2;
/// `MCAD_CHUNK_LAST`.
pub const LAST: u32 = 1;
/// `MCAD_MESSAGE_BLOCK`.
pub const MESSAGE_BLOCK: u32 = 1;
/// `MCAD_MESSAGE_MODULE`.
pub const MESSAGE_MODULE: u32 = 2;
/// `MCAD_MESSAGE_NOTICE`.
pub const MESSAGE_NOTICE: u32 = 3;
/// `MCAD_MESSAGE_COMMAND`.
pub const MESSAGE_COMMAND: u32 = 4;
/// `MCAD_MESSAGE_FORK`.
pub const MESSAGE_FORK: u32 = 5;
/// `MCAD_MESSAGE_WAITED`.
pub const MESSAGE_WAITED: u32 = 6;

/// `struct mcad_ring_header`.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs)] // The C header documents them.
pub struct Header {
    pub magic: AtomicU64,
    pub version: AtomicU32,
    pub header_bytes: AtomicU32,
    pub total_bytes: AtomicU64,
    pub chunk_count: AtomicU32,
    pub chunk_bytes: AtomicU32,
    pub descs_offset: AtomicU64,
    pub ready_offset: AtomicU64,
    pub free_offset: AtomicU64,
    pub chunks_offset: AtomicU64,

    pub reader_pid: AtomicU32,
    pub options: AtomicU32,
    pub slot: AtomicU32,
    pub slot_count: AtomicU32,
    pub slots_offset: AtomicU64,
    pub slot_bytes: AtomicU64,
    pub plugin_sources: AtomicU64,
    pub most_threads: AtomicU32,
    pad0: [AtomicU8; 20],

    pub attached: AtomicU32,
    pub producer_pid: AtomicU32,
    pub api_min: AtomicU32,
    pub api_current: AtomicU32,
    pub api_used: AtomicU32,
    pub first_control: AtomicU32,
    pub arch: AtomicU32,
    pub program: AtomicU32,
    pub claim: AtomicU32,
    pad1: [AtomicU8; 28],

    pub ended: AtomicU32,
    pub exec_state: AtomicU32,
    pub silenced: AtomicU32,
    pub exit_status: AtomicU32,
    pub children: AtomicU32,
    pub released: AtomicU32,
    pub deaf: AtomicU32,
    pub exec_sets_id: AtomicU32,
    pub threads: AtomicU32,
    pad2: [AtomicU8; 28],

    pub ready_tail: AtomicU32,
    pad3: [AtomicU8; 60],
    pub ready_head: AtomicU32,
    pub reader_waiting: AtomicU32,
    pad4: [AtomicU8; 56],
    pub doorbell: AtomicU32,
    pad8: [AtomicU8; 60],

    pub free_tail: AtomicU32,
    pad5: [AtomicU8; 60],
    pub free_head: AtomicU32,
    pub writers_waiting: AtomicU32,
    pub stalls: AtomicU64,
    pad6: [AtomicU8; 48],

    pub control_chunk: AtomicU32,
    pub control_used: AtomicU32,
    pub control_seq: AtomicU64,
    pub next_stream: AtomicU32,
    pub next_block: AtomicU32,
    pad7: [AtomicU8; 40],

    pub exec_path: [AtomicU8; PATH_BYTES],
    pub ring_path: [AtomicU8; PATH_BYTES],
}

impl Header {
    /// Instruction set of the emulator that has attached.
    #[must_use]
    pub fn arch(&self) -> Arch {
        match self.arch.load(Acquire) {
            ARCH_AARCH64 => Arch::AArch64,
            ARCH_RISCV64 => Arch::RiscV64,
            ARCH_RISCV32 => Arch::RiscV32,
            // The plugin writes no other.
            _ => Arch::X86_64,
        }
    }

    /// Whether an emulator has attached to the ring; then the fields that it fills are valid.
    #[must_use]
    pub fn is_attached(&self) -> bool {
        matches!(self.attached.load(Acquire), ATTACHED | HANDOVER)
    }
}

/// `struct mcad_chunk_desc`.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs)] // The C header documents them.
pub struct Desc {
    pub state: AtomicU32,
    pub kind: AtomicU32,
    pub stream: AtomicU32,
    pub flags: AtomicU32,
    pub seq: AtomicU64,
    pub used: AtomicU32,
    pub next: AtomicU32,
    pub program: AtomicU32,
    pad: [AtomicU8; 28],
}

/// Sizes of the fixed parts of control messages: `struct mcad_message` and its bodies.
pub mod message {
    /// `struct mcad_message`: kind, bytes.
    pub const HEAD: usize = 8;
    /// `struct mcad_message_block`: head, address, id, instructions, code bytes, last bytes.
    pub const BLOCK: usize = 32;
    /// `struct mcad_message_module`: head, start, end, file offset, path bytes, pad.
    pub const MODULE: usize = 40;
    /// `struct mcad_message_notice`: head, text bytes, pad.
    pub const NOTICE: usize = 16;
    /// `struct mcad_message_command`: head, text bytes, pad.
    pub const COMMAND: usize = 16;
    /// `struct mcad_message_fork`: head, slot, blocks.
    pub const FORK: usize = 16;
    /// `struct mcad_message_waited`: head, pid, status.
    pub const WAITED: usize = 16;
}
