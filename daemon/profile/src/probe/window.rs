//! Sizes of the out-of-order window by the distance method (Wong, "Measuring Reorder Buffer
//! Capacity", 2013): two long latencies so many instructions apart overlap only while what lies between
//! them fits in.
//!
//! The latencies are chains in registers, not misses, which other programs on the machine make longer: square
//! roots, and divisions of integers, some twenty cycles each, so that their own entries are few. What is between
//! them cannot retire before the first chain has.

use super::{Axis, Point, Probe, Source, counted, repeated};

const UNIT: &str = "cycles per pair of chains";

pub(super) const PROBES: &[Probe] = &[
    Probe {
        name: "reorder-buffer",
        what: "square roots and divisions with additions of integers and vectors and jumps that are not taken between them",
        axis: Axis::plain("instructions between"),
        unit: UNIT,
        points: || points("", MIXED, 33, 705, 32),
    },
    Probe {
        name: "scheduler",
        what: "the same with additions that wait for the first chain",
        axis: Axis::plain("instructions between"),
        unit: UNIT,
        points: || points(AWAITED, "add r9, r8", 8, 136, 8),
    },
    Probe {
        name: "load-queue",
        what: "the same with loads, behind one that waits for the first chain",
        axis: Axis::plain("instructions between"),
        unit: UNIT,
        points: || points(AWAITED_LOAD, "mov r9, [rdi + 64]", 16, 304, 16),
    },
    Probe {
        name: "store-queue",
        what: "the same with stores",
        axis: Axis::plain("instructions between"),
        unit: UNIT,
        points: || points("", "mov [rdi + 64], r9", 8, 136, 8),
    },
    Probe {
        name: "integer-registers",
        what: "the same with instructions that write an integer register",
        axis: Axis::plain("instructions between"),
        unit: UNIT,
        points: || points("", "lea r9d, [rdi + 1]", 32, 480, 32),
    },
    Probe {
        name: "vector-registers",
        what: "the same with instructions that write a vector register",
        axis: Axis::plain("instructions between"),
        unit: UNIT,
        points: || points("", VECTORS, 32, 480, 32),
    },
    Probe {
        name: "flags",
        what: "the same with instructions that write only the flags",
        axis: Axis::plain("instructions between"),
        unit: UNIT,
        points: || points("", "cmp r9d, r10d", 32, 480, 32),
    },
];

/// One in three writes an integer register, one a vector register, and one is a jump that is not taken, so that
/// none but the buffer is full; no-operations may share an entry with what is before them.
const MIXED: &str = "lea r9d, [rdi + 1]\n    paddd xmm2, xmm3\n    .byte 0x74, 0";
/// Four chains, so that none is longer than the square roots.
const VECTORS: &str =
    "paddd xmm2, xmm7\n    paddd xmm3, xmm7\n    paddd xmm4, xmm7\n    paddd xmm5, xmm7";
/// `r8` is there, 0, when the first chain ends.
const AWAITED: &str = "    movd r8d, xmm0\n";
/// The same, loaded from an address that is known then.
const AWAITED_LOAD: &str = "    movd r8d, xmm0\n    mov r8, [rdi + r8]\n";

/// Instructions of a chain.
const LINKS: u64 = 12;
const TURNS: u64 = 100;

/// Programs with `from` to `to` instructions between the chains, of which `filler` has as many as lines, behind what
/// waits for the first chain.
fn points(waits: &str, filler: &str, from: u64, to: u64, step: u64) -> Vec<Point> {
    // The root of 1.0 is 1.0, whose low half is 0.
    let setup = "    mov rax, 0x3ff0000000000000
    movq xmm8, rax
";
    let roots = repeated(LINKS, "sqrtpd xmm0, xmm0");
    let divisions = repeated(LINKS, "div ecx");
    let lines = filler.lines().count() as u64;
    let point = |between: u64| {
        let filler = repeated(between / lines, filler);
        let body = format!(
            "    lfence
    movaps xmm0, xmm8
    mov ecx, 1
    test ecx, ecx
{roots}{waits}{filler}    mov eax, 1
    xor edx, edx
{divisions}"
        );
        Point::new(
            between as f64,
            Source {
                setup: setup.to_owned(),
                run: counted(TURNS, &body),
                data: 4096,
                operations: TURNS as f64,
                ..Source::default()
            },
        )
    };
    (from..=to).step_by(step as usize).map(point).collect()
}
