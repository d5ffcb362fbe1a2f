//! Locked operations and fences.

use super::{Axis, Point, Probe, Source, counted, repeated};

pub(super) const PROBES: &[Probe] = &[
    Probe {
        name: "locked",
        what: "locked operations and fences on a line in the first level",
        axis: Axis {
            name: "operation",
            unit: "",
            logarithmic: false,
        },
        unit: "cycles per operation",
        points,
    },
    Probe {
        name: "locked-behind-work",
        what: "a locked addition and so many no-operations: whether it waits for older instructions to retire",
        axis: Axis {
            name: "no-operations",
            unit: "",
            logarithmic: false,
        },
        unit: "cycles per turn",
        points: || behind("nop"),
    },
    Probe {
        name: "locked-behind-stores",
        what: "a locked addition and so many stores: whether it waits for older stores to be written",
        axis: Axis {
            name: "stores",
            unit: "",
            logarithmic: false,
        },
        unit: "cycles per turn",
        points: || behind("mov [rdi + 64 + \\n * 8], rax"),
    },
];

const TURNS: u64 = 400;
const UNROLLED: u64 = 5;

/// A locked addition and so many of an instruction, whose number of eight is `\n`.
fn behind(instruction: &str) -> Vec<Point> {
    let point = |of: u64| {
        let eight = format!("    .irp n, 0, 1, 2, 3, 4, 5, 6, 7\n    {instruction}\n    .endr\n");
        let body = format!(
            "    lock add qword ptr [rdi], 1\n{}",
            eight.repeat(of as usize / 8)
        );
        let source = Source {
            run: counted(TURNS, &body),
            data: 8192,
            operations: TURNS as f64,
            ..Source::default()
        };
        Point::new(of as f64, source)
    };
    [0, 8, 16, 24, 32, 64, 96, 128, 192].map(point).to_vec()
}

fn points() -> Vec<Point> {
    let operations = [
        ("lock add", "lock add qword ptr [rdi], 1"),
        ("lock xadd", "lock xadd [rdi], rax"),
        ("lock cmpxchg", "lock cmpxchg [rdi], rbx"),
        ("xchg", "xchg [rdi], rax"),
        (
            "lock cmpxchg and xchg, half",
            "lock cmpxchg [rdi], rbx\n    xchg [rdi], rax",
        ),
        (
            "xchg, chain of 4 loads",
            "xchg [rdi], rax\n    mov rcx, [rdi + 64]\n    .rept 3\n    mov rcx, [rdi + rcx + 64]\n    .endr",
        ),
        (
            "lock add, two lines in turn",
            "lock add qword ptr [rdi], 1\n    lock add qword ptr [rdi + 64], 1",
        ),
        (
            "lock add, 8 additions",
            "lock add qword ptr [rdi], 1\n    .rept 8\n    add rbx, 1\n    .endr",
        ),
        (
            "lock add after 4 stores",
            ".irp n, 64, 128, 192, 256\n    mov [rdi + \\n], rax\n    .endr\n    lock add qword ptr [rdi], 1",
        ),
        ("mfence", "mov [rdi], rax\n    mfence"),
        ("lfence", "lfence"),
    ];
    let point = |(n, (name, lines)): (usize, (&str, &str))| {
        let source = Source {
            run: counted(TURNS, &repeated(UNROLLED, lines)),
            data: 8192,
            operations: (TURNS * UNROLLED) as f64,
            ..Source::default()
        };
        Point::named(n, name, source)
    };
    operations.into_iter().enumerate().map(point).collect()
}
