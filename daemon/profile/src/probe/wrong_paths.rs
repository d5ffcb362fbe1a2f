//! A random branch on what a load brings from behind the first level: whether loads further on ask for their lines before the
//! branch is executed, on a wrong path that joins the right one.

use super::{Axis, Point, Probe, Source, counted, random, repeated};

pub(super) const PROBES: &[Probe] = &[
    Probe {
        name: "wrong-path-second",
        what: "a random branch behind a load from the second level, by what lies between where its two ways part and join",
        axis: AXIS,
        unit: UNIT,
        points: || points(256),
    },
    Probe {
        name: "wrong-path-third",
        what: "the same behind a load from the third level",
        axis: AXIS,
        unit: UNIT,
        points: || points(8 << 10),
    },
];

const AXIS: Axis = Axis {
    name: "arms",
    unit: "",
    logarithmic: false,
};
const UNIT: &str = "cycles per branch";

/// Points of loads from so many KiB.
fn points(kib: u64) -> Vec<Point> {
    // What the next load's address is made of is in rbx; after each arm come both ways together.
    let nops = |count| repeated(count, "    nop");
    let arms = [
        ("one no-operation", nops(1)),
        ("forty no-operations", nops(40)),
        (
            "ten no-operations in each",
            format!("{}    jmp 5f\n4:\n{}5:\n", nops(10), nops(10)),
        ),
        (
            "a change of the next load's address",
            "    xor rbx, r9\n".into(),
        ),
    ];
    let point = |(x, (label, arm)): (usize, (&str, String))| {
        let turns = 10_000;
        let joint = if arm.contains("4:") { "" } else { "4:\n" };
        let body = format!(
            "    mov rax, rbx
{}    mov rbx, rax
    shr rax, 16
    and eax, {}
    mov rsi, rbx
    add rsi, [rdi + rax]
    test rsi, r8
    jz 4f
{arm}{joint}",
            random::NEXT,
            (kib << 10) - 64,
        );
        // Where the last random number is kept: a sequence that recurs is learnt.
        let (bytes, kept) = (kib << 10, kib << 10);
        let source = Source {
            setup: format!(
                "    mov ecx, {bytes}
    xor eax, eax
    rep stosb
{}    mov [rdi], rax
",
                random::begin()
            ),
            run: format!(
                "    mov rbx, [rdi + {kept}]
    mov r8, 1 << 60
    mov r9, 0x5a5a5a00000
{}    mov [rdi + {kept}], rbx
",
                counted(turns, &body),
            ),
            data: bytes as usize + 4096,
            operations: turns as f64,
            ..Source::default()
        };
        Point::named(x, label, source)
    };
    arms.into_iter().enumerate().map(point).collect()
}
