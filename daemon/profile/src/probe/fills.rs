//! Lines that come into the first level: what that takes of the loads' and stores' time.

use std::fmt::Write;

use super::{Axis, Point, Probe, Source, counted, touched};

pub(super) const PROBES: &[Probe] = &[
    Probe {
        name: "fills",
        what: "a line from the second level, with so many loads beside it that hit the first",
        axis: Axis {
            name: "loads",
            unit: "",
            logarithmic: false,
        },
        unit: UNIT,
        points: || by_companions("mov rbx, [rsp - {}]"),
    },
    Probe {
        name: "fills-stores",
        what: "a line from the second level, with so many stores beside it that hit the first",
        axis: Axis {
            name: "stores",
            unit: "",
            logarithmic: false,
        },
        unit: UNIT,
        points: || by_companions("mov [rsp - {}], rsi"),
    },
];

const UNIT: &str = "cycles per line";

/// Lines that are read, 128 KiB: more than first levels have, less than second ones.
const LINES: u64 = 2048;
/// Lines of a page.
const PAGE_LINES: u64 = 64;
const TURNS: u64 = 20;

/// One load of each line, pages in order and their lines out of it, each with so many accesses to one line of the stack.
fn by_companions(companion: &str) -> Vec<Point> {
    let point = |companions: u64| {
        let mut body = String::new();
        for n in 0..PAGE_LINES {
            // 37 has no factor in common with a page's lines.
            let _ = writeln!(body, "    mov rax, [rdi + {}]", n * 37 % PAGE_LINES * 64);
            for other in 0..companions {
                let place = 8 * (1 + (n + other) % 8);
                let _ = writeln!(body, "    {}", companion.replace("{}", &place.to_string()));
            }
        }
        body += "    add rdi, 4096";
        let run = format!(
            "    mov r14d, {TURNS}
5:
{}    sub rdi, {}
    dec r14
    jnz 5b",
            counted(LINES / PAGE_LINES, &body),
            LINES * 64
        );
        let setup = touched(LINES / PAGE_LINES);
        Point::new(
            companions as f64,
            Source {
                setup,
                run,
                data: (LINES * 64) as usize,
                operations: (TURNS * LINES) as f64,
                ..Source::default()
            },
        )
    };
    [0, 1, 2, 3, 4, 5, 6, 8, 10, 12]
        .into_iter()
        .map(point)
        .collect()
}
