//! Code: how fast it comes from the µop cache, from the decoders, and from each level of cache.

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
