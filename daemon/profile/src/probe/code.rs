//! Code: how fast it comes from the µop cache, from the decoders, and from each level of cache.

use std::fmt::Write;

use super::random;
use super::{Axis, Point, Probe, Source, counted, repeated};

pub(super) const PROBES: &[Probe] = &[
    Probe {
        name: "code-nops",
        what: "straight code of four-byte nops, by its size: µop cache, L1I, L2, page walks",
        axis: SIZE,
        unit: "cycles per 64 bytes",
        points: || straight("nop dword ptr [rax + 1]", 4),
    },
    Probe {
        name: "code-stores",
        what: "straight code of four-byte stores, by its size: less µops than the decoders have",
        axis: SIZE,
        unit: "cycles per 64 bytes",
        points: || straight("mov dword ptr [rsp - 8], eax", 4),
    },
    Probe {
        name: "code-lines",
        what: "code that jumps over three of four lines, by the bytes it spans: what run-ahead hides",
        axis: SIZE,
        unit: "cycles per line",
        points: lines,
    },
    Probe {
        name: "code-random",
        what: "blocks of two lines of long no-operations, each with a jump to the next in random order, by their bytes",
        axis: SIZE,
        unit: "cycles per block",
        points: random_blocks,
    },
    Probe {
        name: "code-pages",
        what: "jumps, each to another line of the next page, by the number of pages: instruction TLBs",
        axis: Axis {
            name: "pages",
            unit: "",
            logarithmic: true,
        },
        unit: "cycles per jump",
        points: pages,
    },
    Probe {
        name: "decoded",
        what: "256 KiB of straight no-operations, by the bytes of each: what the decoders take in a cycle",
        axis: Axis {
            name: "bytes of an instruction",
            unit: "",
            logarithmic: false,
        },
        unit: "cycles per instruction",
        points: decoded,
    },
];

const SIZE: Axis = Axis {
    name: "size of code",
    unit: "KiB",
    logarithmic: true,
};

const SIZES: [u64; 13] = [1, 4, 8, 16, 24, 32, 48, 64, 256, 512, 1024, 2048, 4096];

fn straight(instruction: &str, bytes: u64) -> Vec<Point> {
    let point = |kib: u64| {
        let count = kib * 1024 / bytes;
        let turns = (1024 / kib).max(2);
        Point::new(
            kib as f64,
            Source {
                run: counted(turns, &repeated(count, instruction)),
                operations: (turns * kib * 16) as f64,
                ..Source::default()
            },
        )
    };
    SIZES.into_iter().map(point).collect()
}

fn lines() -> Vec<Point> {
    let point = |kib: u64| {
        let jumps = kib * 4;
        let turns = (8192 / jumps).max(2);
        let body = format!(
            "    .p2align 6\n    .rept {jumps}\n    .rept 6\n    nop dword ptr [rax]\n    .endr\n    \
             jmp 6f\n    .p2align 8, 0xcc\n6:\n    .endr\n"
        );
        Point::new(
            kib as f64,
            Source {
                run: counted(turns, &body),
                operations: (turns * jumps) as f64,
                ..Source::default()
            },
        )
    };
    [1, 4, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096]
        .into_iter()
        .map(point)
        .collect()
}

/// Lines of a block of code whose order is random.
const BLOCK_LINES: u64 = 2;

fn random_blocks() -> Vec<Point> {
    let point = |kib: u64| {
        let count = kib * 1024 / (2 * 64 * BLOCK_LINES);
        let turns = (4096 / count).max(2);
        let (first, next) = random::path(count);
        let nops = 8 * BLOCK_LINES - 1;
        let mut body = format!("    jmp block_{first}\n");
        for (n, next) in next.iter().enumerate() {
            let to = next.map_or("blocks_end".to_owned(), |to| format!("block_{to}"));
            let _ = write!(
                body,
                "    .p2align 8, 0xcc\nblock_{n}:\n{}    jmp {to}\n",
                repeated(nops, EIGHT)
            );
        }
        body.push_str("blocks_end:\n");
        Point::new(
            kib as f64,
            Source {
                run: counted(turns, &body),
                operations: (turns * count) as f64,
                ..Source::default()
            },
        )
    };
    [16, 64, 256, 512, 1024, 2048]
        .into_iter()
        .map(point)
        .collect()
}

/// Eight bytes that do nothing.
const EIGHT: &str = "nop dword ptr [rax + rax + 0x1000]";

fn pages() -> Vec<Point> {
    let point = |pages: u64| {
        let turns = (8192 / pages).max(3);
        let body = format!(
            "    .p2align 12\n    .rept {pages}\n    jmp 6f\n    .skip 4096 + 64 - 5, 0xcc\n6:\n    .endr\n"
        );
        Point::new(
            pages as f64,
            Source {
                run: counted(turns, &body),
                operations: (turns * pages) as f64,
                ..Source::default()
            },
        )
    };
    [32, 60, 72, 96, 128, 256, 512, 1024, 2048, 3072]
        .into_iter()
        .map(point)
        .collect()
}

fn decoded() -> Vec<Point> {
    const KIB: u64 = 256;
    let instructions = [
        "nop",
        "xchg ax, ax",
        "nop dword ptr [rax]",
        "nop dword ptr [rax + 1]",
        "nop dword ptr [rax + rax + 1]",
        "nop word ptr [rax + rax + 1]",
        "nop dword ptr [rax + 0x1000]",
        EIGHT,
    ];
    (1u64..)
        .zip(instructions)
        .map(|(bytes, instruction)| {
            let count = KIB * 1024 / bytes;
            Point::new(
                bytes as f64,
                Source {
                    run: counted(4, &repeated(count, instruction)),
                    operations: (4 * count) as f64,
                    ..Source::default()
                },
            )
        })
        .collect()
}
