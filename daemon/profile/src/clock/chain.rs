//! Chains of dependent instructions with a known latency, timed.

use std::arch::asm;
use std::arch::x86_64::{__rdtscp, _mm_lfence, _rdtsc};

/// Instructions in one round of a chain.
const UNROLLED: u64 = 48;
/// Rounds of multiplications: about 14 000 cycles, well above what reading the counter takes.
const ROUNDS: u64 = 96;

/// The time-stamp counter; nothing before or behind it is reordered across.
pub(super) fn ticks() -> u64 {
    // SAFETY: both instructions are in the baseline of x86-64.
    unsafe {
        _mm_lfence();
        let ticks = _rdtsc();
        _mm_lfence();
        ticks
    }
}

fn ticks_behind() -> u64 {
    let mut core = 0;
    // SAFETY: `core` is written; rdtscp is on all CPUs since Nehalem and K8.
    unsafe {
        let ticks = __rdtscp(&mut core);
        _mm_lfence();
        ticks
    }
}

macro_rules! chain {
    ($name:ident, $instruction:literal, $latency:literal, $rounds:expr, $doc:literal) => {
        #[doc = $doc]
        pub(super) fn $name() -> f64 {
            let (rounds, x, y): (u64, u64, u64) = ($rounds, 3, 5);
            let started = ticks();
            // SAFETY: registers and flags only.
            unsafe {
                asm!(
                    "2:",
                    ".rept 48",
                    $instruction,
                    ".endr",
                    "dec {n}",
                    "jnz 2b",
                    n = inout(reg) rounds => _,
                    x = inout(reg) x => _,
                    y = in(reg) y,
                    options(nomem, nostack),
                );
            }
            let ended = ticks_behind();
            let cycles = ($latency * $rounds * UNROLLED) as f64;
            cycles / ended.wrapping_sub(started).max(1) as f64
        }
    };
}

chain!(
    multiplications,
    "imul {x}, {y}",
    3,
    ROUNDS,
    "Core cycles per tick, if a multiplication takes three."
);
chain!(
    exclusive_ors,
    "xor {x}, {y}",
    1,
    3 * ROUNDS,
    "Core cycles per tick, if an exclusive-or takes one."
);
