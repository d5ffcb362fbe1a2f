//! The frame of a probe's program: a static executable without a C library.
//!
//! It reads how many rounds to run from the number of its arguments (its name is one of them, and at
//! least one other is there), so that the same file runs long natively and shortly under the
//! simulation. Each round times a chain of dependent
//! multiplications and then the measured part, both with the time-stamp counter between fences,
//! and keeps the ticks; at the end they are written to the standard output.

use std::fmt::Write;

use super::Source;

/// Symbol of the measured part.
pub const REGION: &str = "probe_run";
/// The first argument's first letter with which the program writes nothing.
pub const SILENT: char = 's';
/// Most rounds.
pub const MAX_ROUNDS: usize = 4096;
/// Multiplications of the calibrating chain.
const CHAIN: u64 = 2000;
/// Cycles of the chain: three each on all cores (uops.info), and its loop hides behind them.
pub const CHAIN_CYCLES: f64 = 3.0 * CHAIN as f64;
/// Bytes of a round in the output: ticks of the chain and of the measured part.
pub const ROUND_BYTES: usize = 16;

/// Reads the time-stamp counter into rax when all before is done, and before all behind.
const STAMP: &str = "    lfence
    rdtsc
    lfence
    shl rdx, 32
    or rax, rdx";

/// The text of the whole program.
#[must_use]
pub fn text(source: &Source) -> String {
    let mut text = String::new();
    let Source {
        setup,
        before,
        run,
        data,
        ..
    } = source;
    // What comes before the measured part is behind the end of the chain, which is the start
    // of that part's time where there is nothing between.
    let before = if before.is_empty() {
        String::new()
    } else {
        format!(
            "    pop rax
{before}
{STAMP}
    push rax
    lea rdi, [rip + data]
"
        )
    };
    // Twenty at a time: the loop costs nothing beside 60 cycles.
    let loops = CHAIN / 20;
    let _ = write!(
        text,
        "\
    .intel_syntax noprefix
    .bss
    .p2align 21
data:
    .skip {data}
    .p2align 12
ticks:
    .skip {ticks}
round:
    .skip 8
rounds:
    .skip 8
silent:
    .skip 8
    .text
    .globl _start
    .type _start, @function
_start:
    mov rax, [rsp]
    cmp rax, {MAX_ROUNDS}
    jbe 1f
    mov eax, {MAX_ROUNDS}
1:  mov [rip + rounds], rax
    mov rax, [rsp + 16]
    cmp byte ptr [rax], '{SILENT}'
    sete byte ptr [rip + silent]
    lea rdi, [rip + data]
{setup}
next_round:
    mov eax, 1
    mov r8d, 3
    mov r9d, {loops}
{STAMP}
    push rax
    .p2align 6
2:  .rept 20
    imul r8, r8
    .endr
    dec r9
    jnz 2b
{STAMP}
    pop rcx
    push rax
    sub rax, rcx
    mov rcx, [rip + round]
    shl rcx, 4
    lea rdx, [rip + ticks]
    mov [rdx + rcx], rax
    lea rdi, [rip + data]
{before}
    call {REGION}
    lfence
    rdtsc
    shl rdx, 32
    or rax, rdx
    pop rcx
    sub rax, rcx
    mov rcx, [rip + round]
    shl rcx, 4
    lea rdx, [rip + ticks]
    mov [rdx + rcx + 8], rax
    mov rax, [rip + round]
    inc rax
    mov [rip + round], rax
    cmp rax, [rip + rounds]
    jb next_round
    cmp byte ptr [rip + silent], 0
    jne 9f
    mov rdx, rax
    shl rdx, 4
    lea rsi, [rip + ticks]
    mov edi, 1
    mov eax, 1
    syscall
9:  xor edi, edi
    mov eax, 231
    syscall
    ud2
    .size _start, . - _start
    .p2align 12
    .globl {REGION}
    .type {REGION}, @function
{REGION}:
{run}
    ret
    .size {REGION}, . - {REGION}
",
        ticks = MAX_ROUNDS * ROUND_BYTES,
    );
    text
}
