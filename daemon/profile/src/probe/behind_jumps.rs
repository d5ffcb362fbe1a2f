//! Straight code behind an indirect jump whose target changes: how many lines of it are predicted while fetch is behind.

use super::{Axis, Point, Probe, Source, random, repeated};
use std::fmt::Write;

pub(super) const PROBES: &[Probe] = &[Probe {
    name: "behind-indirect",
    what: "an indirect jump to one of sixteen targets in an order of 64 that recurs, by lines of code at each target",
    axis: Axis {
        name: "lines",
        unit: "",
        logarithmic: false,
    },
    unit: "cycles per jump",
    points,
}];

/// Targets, and jumps until their order recurs.
const TARGETS: u64 = 16;
const ORDER: u64 = 64;
/// A no-operation of fourteen bytes, of which a line has few µops.
const LONG: &str = "    .byte 0x66, 0x66, 0x66, 0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0";

fn points() -> Vec<Point> {
    let point = |lines: u64| {
        let jumps = 200 * ORDER;
        let mut order = String::new();
        for n in random::numbers(ORDER, TARGETS) {
            let _ = writeln!(order, "    .quad target_{n}");
        }
        // The jump back is in the last line.
        let straight = repeated((64 * lines - 12) / 14, LONG);
        let mut places = String::new();
        for n in 0..TARGETS {
            let _ = write!(
                places,
                "    .p2align 6\ntarget_{n}:\n{straight}    dec ecx\n    jnz next_jump\n    jmp order_end\n"
            );
        }
        let run = format!(
            "    .pushsection .data\n    .p2align 6\norder:\n{order}    .popsection
    lea rbx, [rip + order]
    mov rsi, rbx
    lea rdx, [rbx + {end}]
    mov ecx, {jumps}
    .p2align 6
next_jump:
    mov rax, [rsi]
    add rsi, 8
    cmp rsi, rdx
    cmove rsi, rbx
    jmp rax
{places}order_end:
",
            end = 8 * ORDER
        );
        let source = Source {
            run,
            operations: jumps as f64,
            ..Source::default()
        };
        Point::new(lines as f64, source)
    };
    (1..=8).map(point).collect()
}
