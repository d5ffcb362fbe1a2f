//! Streams: reading, writing and copying by size, with prefetchers and store misses at work.

use super::{Axis, Point, Probe, Source, counted, touched};

const SIZE: Axis = Axis {
    name: "size",
    unit: "KiB",
    logarithmic: true,
};
const UNIT: &str = "cycles per line";

pub(super) const PROBES: &[Probe] = &[
    Probe {
        name: "read-stream",
        what: "reading in order, 16 bytes at a time, again and again",
        axis: SIZE,
        unit: UNIT,
        points: || streams(Kind::Read),
    },
    Probe {
        name: "write-stream",
        what: "writing in order, 16 bytes at a time, again and again",
        axis: SIZE,
        unit: UNIT,
        points: || streams(Kind::Write),
    },
    Probe {
        name: "copy",
        what: "copying in order, 16 bytes at a time, again and again",
        axis: SIZE,
        unit: UNIT,
        points: || streams(Kind::Copy),
    },
];

#[derive(Clone, Copy)]
enum Kind {
    Read,
    Write,
    Copy,
}

/// Lines of one round, at least.
const LINES: u64 = 8192;

fn streams(kind: Kind) -> Vec<Point> {
    let sizes = [
        8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768,
    ];
    sizes.into_iter().map(|kib| point(kind, kib)).collect()
}

fn point(kind: Kind, kib: u64) -> Point {
    let lines = kib * 1024 / 64;
    let parts: &[&str] = match kind {
        Kind::Read => &["movaps xmm0, [rsi + {}]"],
        Kind::Write => &["movaps [rsi + {}], xmm0"],
        Kind::Copy => &["movaps xmm0, [rsi + {}]", "movaps [rsi + rbx + {}], xmm0"],
    };
    let mut body = String::new();
    for offset in [0, 16, 32, 48] {
        for part in parts {
            body += &format!("    {}\n", part.replace("{}", &offset.to_string()));
        }
    }
    body += "    add rsi, 64";
    let passes = LINES.div_ceil(lines);
    // The copy is not a multiple of 4 KiB away from the original.
    let distance = (kib * 1024).next_multiple_of(4096) + 2048 + 64;
    let run = format!(
        "    mov r14d, {passes}
    mov rbx, {distance}
5:  mov rsi, rdi
{}    dec r14
    jnz 5b",
        counted(lines, &body)
    );
    let all = match kind {
        Kind::Copy => distance + kib * 1024,
        Kind::Read | Kind::Write => kib * 1024,
    };
    let setup = touched(all.div_ceil(4096));
    Point::new(
        kib as f64,
        Source {
            setup,
            run,
            data: all as usize + 4096,
            operations: (passes * lines) as f64,
            ..Source::default()
        },
    )
}
