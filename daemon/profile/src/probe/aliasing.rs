//! Loads whose address has the same low 12 bits as an older store's: the core may take them for
//! dependent until it knows better.

use super::{Axis, Point, Probe, Source, counted, repeated};

pub(super) const PROBES: &[Probe] = &[Probe {
    name: "aliasing",
    what: "a load 4 KiB behind a store, with the load's value in the next store's data",
    axis: Axis {
        name: "distance beyond 4 KiB",
        unit: "bytes",
        logarithmic: false,
    },
    unit: "cycles per store and load",
    points,
}];

const TURNS: u64 = 400;
const UNROLLED: u64 = 10;

fn points() -> Vec<Point> {
    let point = |offset: i64| {
        let lines = format!(
            "mov [rdi + rbx], rax\n    mov rcx, [rdi + rbx + {}]\n    add rax, rcx",
            4096 + offset
        );
        let run = format!(
            "    mov ebx, 256\n{}",
            counted(TURNS, &repeated(UNROLLED, &lines))
        );
        Point::new(
            offset as f64,
            Source {
                setup: "    mov qword ptr [rdi], 1\n    mov qword ptr [rdi + 4096], 1".to_owned(),
                run,
                data: 16_384,
                operations: (TURNS * UNROLLED) as f64,
                ..Source::default()
            },
        )
    };
    [-64, -16, -8, -4, 0, 4, 8, 16, 64].map(point).into()
}
