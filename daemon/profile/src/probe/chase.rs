//! Latency of loads: pointer chases by working set, by pages, and by stride.

use std::fmt::Write;

use super::random::{self, NEXT};
use super::{Axis, Point, Probe, Source, counted, repeated};

pub(super) const PROBES: &[Probe] = &[
    Probe {
        name: "load-latency",
        what: "latency of a load by working set, lines in random order",
        axis: Axis {
            name: "working set",
            unit: "KiB",
            logarithmic: true,
        },
        unit: "cycles per load",
        points: by_working_set,
    },
    Probe {
        name: "tlb-reach",
        what: "latency of a load by pages, one line of each in random order",
        axis: Axis {
            name: "pages",
            unit: "",
            logarithmic: true,
        },
        unit: "cycles per load",
        points: by_pages,
    },
    Probe {
        name: "stride-latency",
        what: "latency of a load by stride through 4 MiB: what prefetchers leave of it",
        axis: Axis {
            name: "stride",
            unit: "bytes",
            logarithmic: true,
        },
        unit: "cycles per load",
        points: by_stride,
    },
];

/// Where the nodes begin: behind the page in which a chase keeps where it is.
pub(super) const NODES: usize = 4096;
/// Loads of one round.
const LEAST_LOADS: u64 = 20_000;
const MOST_LOADS: u64 = 1 << 18;
/// Loads of one turn of the loop.
const UNROLLED: u64 = 16;

/// Text that makes a ring of `nodes` nodes, `stride` bytes apart, each the address of the next: in
/// order, or in one random cycle (Sattolo's shuffle).
pub(super) fn ring(nodes: u64, stride: u64, shuffled: bool) -> String {
    let mut text = format!(
        "\
    lea rsi, [rdi + {NODES}]
    mov rbx, rsi
    mov ecx, {nodes}
3:  lea rdx, [rbx + {stride}]
    cmp ecx, 1
    cmove rdx, rsi
    mov [rbx], rdx
    mov rbx, rdx
    dec rcx
    jnz 3b
    mov [rdi], rsi
"
    );
    if shuffled {
        // Exchanging what two nodes of different cycles point to joins the cycles, so each first
        // points to itself.
        let _ = write!(
            text,
            "\
    mov rbx, rsi
    mov ecx, {nodes}
3:  mov [rbx], rbx
    add rbx, {stride}
    dec rcx
    jnz 3b
{begin}    mov ecx, {nodes} - 1
3:
{NEXT}    mov edx, eax
    imul rdx, rcx
    shr rdx, 32
    imul rdx, rdx, {stride}
    imul rbx, rcx, {stride}
    mov r8, [rsi + rdx]
    mov r9, [rsi + rbx]
    mov [rsi + rdx], r9
    mov [rsi + rbx], r8
    dec rcx
    jnz 3b
",
            begin = random::begin()
        );
    }
    text
}

fn chase(nodes: u64, stride: u64, shuffled: bool) -> Source {
    let loads = nodes.clamp(LEAST_LOADS, MOST_LOADS) / UNROLLED * UNROLLED;
    let body = counted(loads / UNROLLED, &repeated(UNROLLED, "mov rax, [rax]"));
    Source {
        setup: ring(nodes, stride, shuffled),
        run: format!("    mov rax, [rdi]\n{body}    mov [rdi], rax"),
        data: NODES + (nodes * stride) as usize,
        operations: loads as f64,
        ..Source::default()
    }
}

fn by_working_set() -> Vec<Point> {
    let sizes = [
        8, 16, 24, 32, 40, 48, 56, 64, 96, 128, 192, 256, 384, 512, 768, 896, 1024, 1280, 1536,
        2048, 3072, 4096, 8192, 12_288, 16_384, 24_576, 32_768, 49_152, 65_536,
    ];
    let point = |kib: u64| {
        let nodes = kib * 1024 / 64;
        Point::new(kib as f64, chase(nodes, 64, true))
    };
    sizes.into_iter().map(point).collect()
}

fn by_pages() -> Vec<Point> {
    let pages = [
        16, 32, 48, 64, 80, 96, 112, 128, 256, 384, 512, 1024, 1536, 2048, 3072, 4096, 6144, 8192,
        16_384,
    ];
    let point = |pages: u64| {
        // Each in another line of its page, so that no set of a cache is overfull.
        Point::new(pages as f64, chase(pages, 4096 + 64, true))
    };
    pages.into_iter().map(point).collect()
}

fn by_stride() -> Vec<Point> {
    let strides = [
        8, 16, 32, 64, 128, 192, 256, 384, 512, 1024, 2048, 4096, 8192,
    ];
    let point = |stride: u64| {
        let nodes = (4 << 20) / stride;
        Point::new(stride as f64, chase(nodes, stride, false))
    };
    strides.into_iter().map(point).collect()
}
