//! Latency of loads: pointer chases by working set, by pages, and by stride.

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

/// Text that makes a ring of `nodes` nodes, `stride` bytes apart, each the address of the next.
///
/// The next node of x is a x + c modulo their number, which visits all of them if c has no factor
/// in common with it and a - 1 has all its prime factors, and 4 if it has (Hull & Dobell, 1962).
pub(super) fn ring(nodes: u64, stride: u64, a: u64, c: u64) -> String {
    format!(
        "\
    lea rsi, [rdi + {NODES}]
    xor eax, eax
    mov r8d, {nodes}
    mov ecx, {nodes}
3:  mov rbx, rax
    imul rbx, rbx, {stride}
    add rbx, rsi
    imul rax, rax, {a}
    add rax, {c}
    xor edx, edx
    div r8
    mov rax, rdx
    imul rdx, rdx, {stride}
    add rdx, rsi
    mov [rbx], rdx
    dec rcx
    jnz 3b
    mov [rdi], rsi
"
    )
}

/// A multiplier that mixes a ring whose size has no prime factors but 2, 3, 5 and 7.
pub(super) fn multiplier(nodes: u64) -> u64 {
    420 * ((nodes as f64 * 0.618 / 420.0) as u64 + 1) + 1
}

/// Has no factor in common with such a size.
pub(super) const INCREMENT: u64 = 11;

fn chase(nodes: u64, stride: u64, a: u64, c: u64) -> Source {
    let loads = nodes.clamp(LEAST_LOADS, MOST_LOADS) / UNROLLED * UNROLLED;
    let body = counted(loads / UNROLLED, &repeated(UNROLLED, "mov rax, [rax]"));
    Source {
        setup: ring(nodes, stride, a, c),
        run: format!("    mov rax, [rdi]\n{body}    mov [rdi], rax"),
        data: NODES + (nodes * stride) as usize,
        operations: loads as f64,
    }
}

fn by_working_set() -> Vec<Point> {
    let sizes = [
        8, 16, 24, 32, 40, 48, 56, 64, 96, 128, 192, 256, 384, 512, 768, 896, 1024, 1280, 1536,
        2048, 3072, 4096, 8192, 12_288, 16_384, 24_576, 32_768, 49_152, 65_536,
    ];
    let point = |kib: u64| {
        let nodes = kib * 1024 / 64;
        let source = chase(nodes, 64, multiplier(nodes), INCREMENT);
        Point::new(kib as f64, source)
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
        let source = chase(pages, 4096 + 64, multiplier(pages), INCREMENT);
        Point::new(pages as f64, source)
    };
    pages.into_iter().map(point).collect()
}

fn by_stride() -> Vec<Point> {
    let strides = [
        8, 16, 32, 64, 128, 192, 256, 384, 512, 1024, 2048, 4096, 8192,
    ];
    let point = |stride: u64| {
        let nodes = (4 << 20) / stride;
        Point::new(stride as f64, chase(nodes, stride, 1, 1))
    };
    strides.into_iter().map(point).collect()
}
