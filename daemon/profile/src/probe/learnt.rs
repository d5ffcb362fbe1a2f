//! Orders of directions that are new and then recur: how soon they are learnt, and how many find room.

use std::fmt::Write;

use super::random::{self, NEXT};
use super::{Axis, Point, Probe, Source, counted};

pub(super) const PROBES: &[Probe] = &[Probe {
    name: "learnt",
    what: "ten turns of a row of eight branches in a random order, which is another one after that: how soon it is learnt where others were before",
    axis: Axis {
        name: "length of the order",
        unit: "",
        logarithmic: true,
    },
    unit: "cycles per branch",
    points,
}];

/// Branches in a row.
const BRANCHES: u64 = 8;
/// Turns of each order, and orders of a run.
const TURNS: u64 = 10;
const ORDERS: u64 = 3;
/// Of the data, what is no direction.
const STATE: u64 = 64;

fn points() -> Vec<Point> {
    let mut row = String::new();
    for n in 0..BRANCHES {
        let _ = writeln!(
            row,
            "    .p2align 5
    movzx ebx, byte ptr [rsi + {n}]
    test ebx, ebx
    jnz 4f
    nop
    nop
    nop
4:"
        );
    }
    let _ = write!(row, "    add rsi, {BRANCHES}");
    let point = |length: u64| {
        // Random numbers go on from run to run.
        let run = format!(
            "    mov rax, [rdi]
    mov r14d, {ORDERS}
5:  lea rsi, [rdi + {STATE}]
    mov ecx, {length}
6:
{NEXT}    mov rdx, rax
    shr rdx, 33
    and edx, 1
    mov [rsi], dl
    inc rsi
    dec ecx
    jnz 6b
    mov r13d, {TURNS}
7:  lea rsi, [rdi + {STATE}]
{}    dec r13d
    jnz 7b
    dec r14d
    jnz 5b
    mov [rdi], rax",
            counted(length / BRANCHES, &row)
        );
        Point::new(
            length as f64,
            Source {
                setup: random::begin() + "    mov [rdi], rax",
                run,
                data: (STATE + length) as usize,
                operations: (ORDERS * TURNS * length) as f64,
                ..Source::default()
            },
        )
    };
    [512, 1024, 2048, 4096, 6144, 8192, 12_288, 16_384]
        .into_iter()
        .map(point)
        .collect()
}
