//! The seccomp filter of a cell: pages may be mapped and unmapped, by the harness's own `syscall`
//! instruction; everything else, and everything from elsewhere, is a signal that ends the run.

use super::image::BEHIND_SYSCALL;

const ARCH_X86_64: u32 = 0xc000_003e;
const LOAD: u16 = 0x20;
const JUMP_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;
const ALLOW: u32 = 0x7fff_0000;
const TRAP: u32 = 0x0003_0000;
/// Offsets in `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
const POINTER_LOW: u32 = 8;
const POINTER_HIGH: u32 = 12;

/// Instructions of the filter, as `struct sock_filter`.
const LENGTH: usize = 11;

fn program() -> [(u16, u8, u8, u32); LENGTH] {
    // Jumps count instructions to skip; the last but one allows, the last traps.
    [
        (LOAD, 0, 0, ARCH),
        (JUMP_EQUAL, 0, 8, ARCH_X86_64),
        (LOAD, 0, 0, POINTER_LOW),
        (JUMP_EQUAL, 0, 6, BEHIND_SYSCALL as u32),
        (LOAD, 0, 0, POINTER_HIGH),
        (JUMP_EQUAL, 0, 4, (BEHIND_SYSCALL >> 32) as u32),
        (LOAD, 0, 0, NUMBER),
        (JUMP_EQUAL, 1, 0, libc::SYS_mmap as u32),
        (JUMP_EQUAL, 0, 1, libc::SYS_munmap as u32),
        (RETURN, 0, 0, ALLOW),
        (RETURN, 0, 0, TRAP),
    ]
}

/// `struct sock_fprog` with its program behind it, for memory at `address`.
pub(super) fn bytes(address: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend((LENGTH as u64).to_le_bytes());
    bytes.extend((address + 16).to_le_bytes());
    for (code, yes, no, operand) in program() {
        bytes.extend(code.to_le_bytes());
        bytes.extend([yes, no]);
        bytes.extend(operand.to_le_bytes());
    }
    bytes
}
