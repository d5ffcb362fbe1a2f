//! Calls through jumps whose targets stand in memory, as those of functions of shared libraries are,
//! and as dispatch tables have them: what such a jump costs the predictor before and after its target
//! has changed.

use std::fmt::Write;

use super::{Axis, Point, Probe, Source, counted};

/// Calls in a turn.
const CALLS: u64 = 8;
const TURNS: u64 = 4000;

pub(super) const PROBES: &[Probe] = &[Probe {
    name: "linked-calls",
    what: "eight calls through jumps to addresses in memory, by how many of these were others before \
           (as where the dynamic linker finds a function when it is called first)",
    axis: Axis {
        name: "jumps that went elsewhere",
        unit: "",
        logarithmic: false,
    },
    unit: "cycles per call",
    points: linked_calls,
}];

fn linked_calls() -> Vec<Point> {
    (0..=CALLS)
        .map(|changed| {
            let mut calls = String::new();
            let mut functions = String::new();
            for n in 0..CALLS {
                let _ = writeln!(calls, "    call link_{n}\n    .p2align 6");
                let _ = writeln!(
                    functions,
                    "    .p2align 6\nlink_{n}: jmp [rip + place_{n}]\n    .p2align 6\nlinked_{n}: ret\n    \
                     .p2align 6\nother_{n}: ret\n    .pushsection .data\nplace_{n}: .quad linked_{n}\n    \
                     .popsection"
                );
            }
            let mut setup = String::new();
            for n in 0..changed {
                let _ = writeln!(setup, "    lea rax, [rip + other_{n}]\n    mov [rip + place_{n}], rax");
            }
            // A target that was there more than once is known when it changes.
            let _ = write!(setup, "{}", counted(8, &calls));
            for n in 0..changed {
                let _ = writeln!(setup, "    lea rax, [rip + linked_{n}]\n    mov [rip + place_{n}], rax");
            }
            let body = counted(TURNS, &calls);
            Point::new(
                changed as f64,
                Source {
                    setup,
                    // Elsewhere: the measured part begins where it is called.
                    run: format!(
                        "{body}    .pushsection .text.links, \"ax\"\n{functions}    .popsection\n"
                    ),
                    operations: (TURNS * CALLS) as f64,
                    ..Source::default()
                },
            )
        })
        .collect()
}
