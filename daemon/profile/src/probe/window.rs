//! Sizes of the out-of-order window by the distance method (Wong, "Measuring Reorder Buffer
//! Capacity", 2013): two misses so many instructions apart overlap only while what lies between
//! them fits in.

use super::chase::{NODES, ring, sweep};
use super::{Axis, Point, Probe, Source, counted, repeated};

const UNIT: &str = "cycles per pair of misses";

pub(super) const PROBES: &[Probe] = &[
    Probe {
        name: "reorder-buffer",
        what: "two misses with no-operations between them",
        axis: Axis::plain("instructions between"),
        unit: UNIT,
        points: || points("nop", 32, 704, 32),
    },
    Probe {
        name: "scheduler",
        what: "two misses with additions between them that wait for the first",
        axis: Axis::plain("instructions between"),
        unit: UNIT,
        points: || points("add rdx, rax", 8, 136, 8),
    },
    Probe {
        name: "load-queue",
        what: "two misses with loads between them",
        axis: Axis::plain("instructions between"),
        unit: UNIT,
        points: || points("mov rcx, [rdi + 64]", 16, 304, 16),
    },
    Probe {
        name: "store-queue",
        what: "two misses with stores between them",
        axis: Axis::plain("instructions between"),
        unit: UNIT,
        points: || points("mov [rdi + 64], rcx", 8, 136, 8),
    },
    Probe {
        name: "integer-registers",
        what: "two misses with instructions between them that write an integer register",
        axis: Axis::plain("instructions between"),
        unit: UNIT,
        points: || points("lea ecx, [rdi + 1]", 32, 480, 32),
    },
];

/// Nodes of the ring, each in a page of its own, and more than all rounds use.
const NODE_COUNT: u64 = 1 << 14;
const STRIDE: u64 = 2048 + 64;
/// What is written afterwards, so that the nodes are in memory on all cores.
const SWEPT: usize = 64 << 20;
const TURNS: u64 = 100;

fn points(filler: &str, from: u64, to: u64, step: u64) -> Vec<Point> {
    let end = NODES + (NODE_COUNT * STRIDE) as usize;
    let setup = ring(NODE_COUNT, STRIDE, true) + &sweep(end, SWEPT);
    let point = |between: u64| {
        let filler = repeated(between, filler);
        let body = format!("    mov rax, [rax]\n{filler}    mov rbx, [rbx]\n{filler}");
        let run = format!(
            "    mov rax, [rdi]
    mov rbx, [rdi + 8]
    test rbx, rbx
    jnz 4f
    lea rbx, [rdi + {half}]
4:
{body}    mov [rdi], rax
    mov [rdi + 8], rbx",
            half = NODES as u64 + NODE_COUNT / 2 * STRIDE,
            body = counted(TURNS, &body)
        );
        Point::new(
            between as f64,
            Source {
                setup: setup.clone(),
                run,
                data: end + SWEPT,
                operations: TURNS as f64,
                ..Source::default()
            },
        )
    };
    (from..=to).step_by(step as usize).map(point).collect()
}
