//! The seccomp filter of a cell: pages may be mapped and unmapped, by the harness's own `syscall`
//! instruction; everything else, and everything from elsewhere, is a signal that ends the run.

use std::mem::offset_of;

use libc::{
    BPF_ABS, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, SECCOMP_RET_ALLOW, SECCOMP_RET_TRAP,
    seccomp_data,
};

use super::image::BEHIND_SYSCALL;

/// `AUDIT_ARCH_X86_64` of `linux/audit.h`: the machine's ELF number, 64 bits, little-endian.
const ARCH_X86_64: u32 = libc::EM_X86_64 as u32 | 0x8000_0000 | 0x4000_0000;
const LOAD: u32 = BPF_LD | BPF_W | BPF_ABS;
const JUMP_EQUAL: u32 = BPF_JMP | BPF_JEQ | BPF_K;
const RETURN: u32 = BPF_RET | BPF_K;
const POINTER: usize = offset_of!(seccomp_data, instruction_pointer);

/// Instructions of the filter, as `struct sock_filter`.
const LENGTH: usize = 11;

fn program() -> [(u32, u8, u8, u32); LENGTH] {
    // Jumps count instructions to skip; the last but one allows, the last traps.
    [
        (LOAD, 0, 0, offset_of!(seccomp_data, arch) as u32),
        (JUMP_EQUAL, 0, 8, ARCH_X86_64),
        (LOAD, 0, 0, POINTER as u32),
        (JUMP_EQUAL, 0, 6, BEHIND_SYSCALL as u32),
        (LOAD, 0, 0, POINTER as u32 + 4),
        (JUMP_EQUAL, 0, 4, (BEHIND_SYSCALL >> 32) as u32),
        (LOAD, 0, 0, offset_of!(seccomp_data, nr) as u32),
        (JUMP_EQUAL, 1, 0, libc::SYS_mmap as u32),
        (JUMP_EQUAL, 0, 1, libc::SYS_munmap as u32),
        (RETURN, 0, 0, SECCOMP_RET_ALLOW),
        (RETURN, 0, 0, SECCOMP_RET_TRAP),
    ]
}

/// `struct sock_fprog` with its program behind it, for memory at `address`.
pub(super) fn bytes(address: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend((LENGTH as u64).to_le_bytes());
    bytes.extend((address + 16).to_le_bytes());
    for (code, yes, no, operand) in program() {
        bytes.extend((code as u16).to_le_bytes());
        bytes.extend([yes, no]);
        bytes.extend(operand.to_le_bytes());
    }
    bytes
}
