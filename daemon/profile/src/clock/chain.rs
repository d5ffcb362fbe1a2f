//! Chains of dependent instructions with a known latency, timed.

use std::arch::asm;
use std::arch::x86_64::{__rdtscp, _mm_lfence, _rdtsc};

/// Instructions in one round of a chain.
const UNROLLED: u64 = 48;
/// Rounds of the shorter chain of multiplications.
const ROUNDS: u64 = 64;
/// How many times as long the longer one is; they differ by 18 432 cycles.
const LONGER: u64 = 3;

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
            let ticks_of = |rounds: u64| {
                let (x, y): (u64, u64) = (3, 5);
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
                ticks_behind().wrapping_sub(started)
            };
            // The difference is free of what reading the counter takes.
            let short = ticks_of($rounds);
            let long = ticks_of(LONGER * $rounds);
            let cycles = $latency * (LONGER - 1) * $rounds * UNROLLED;
            cycles as f64 / long.saturating_sub(short).max(1) as f64
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

/// Times that each code of [`fullness`] is repeated: some 600 cycles.
const SHORT: u64 = 20;

/// How long independent instructions take, four of which most cores can start in a cycle, by the time of dependent ones: about a
/// microsecond. Another hardware thread at work on the core lengthens the former alone.
pub(super) fn fullness() -> f64 {
    // Once for what the core has to learn.
    let _ = (dependent(), independent());
    let least = |code: fn() -> u64| code().min(code());
    least(independent) as f64 / least(dependent).max(1) as f64
}

/// Ticks that some code takes.
#[inline(always)]
fn timed(code: impl FnOnce()) -> u64 {
    let started = ticks();
    code();
    ticks().wrapping_sub(started)
}

fn dependent() -> u64 {
    // SAFETY: registers and flags only.
    timed(|| unsafe {
        asm!(
            "2:",
            ".rept 10",
            "imul {x}, {x}",
            ".endr",
            "dec {n}",
            "jnz 2b",
            n = inout(reg) SHORT => _,
            x = inout(reg) 3u64 => _,
            options(nomem, nostack),
        );
    })
}

fn independent() -> u64 {
    // SAFETY: registers and flags only.
    timed(|| unsafe {
        asm!(
            "2:",
            ".rept 30",
            "lea {a}, [{x} + 1]",
            "lea {b}, [{x} + 1]",
            "lea {c}, [{x} + 1]",
            "lea {d}, [{x} + 1]",
            ".endr",
            "dec {n}",
            "jnz 2b",
            n = inout(reg) SHORT => _,
            x = in(reg) 3u64,
            a = out(reg) _,
            b = out(reg) _,
            c = out(reg) _,
            d = out(reg) _,
            options(nomem, nostack),
        );
    })
}
