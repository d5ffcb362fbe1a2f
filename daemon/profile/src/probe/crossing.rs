//! Loads and stores that cross a boundary: of a line, of a part of one, of a page.

use super::{Axis, Point, Probe, Source, counted, repeated};

const PLACE: Axis = Axis {
    name: "place in the page",
    unit: "bytes",
    logarithmic: false,
};

pub(super) const PROBES: &[Probe] = &[
    Probe {
        name: "crossing-chain",
        what: "loads of 8 bytes, each from where the one before said",
        axis: PLACE,
        unit: "cycles per load",
        points: || by_place(8, |at| format!("mov rax, [rdi + rax + {at}]")),
    },
    Probe {
        name: "crossing-chain-16",
        what: "loads of 16 bytes, each from where the one before said",
        axis: PLACE,
        unit: "cycles per load",
        points: || {
            by_place(16, |at| {
                format!("movups xmm0, [rdi + rax + {at}]\n    movq rax, xmm0")
            })
        },
    },
    Probe {
        name: "crossing-loads-4",
        what: "loads of 4 bytes, which wait for nothing",
        axis: PLACE,
        unit: "cycles per load",
        points: || by_place(4, |at| format!("mov eax, [rdi + {at}]")),
    },
    Probe {
        name: "crossing-loads-8",
        what: "loads of 8 bytes, which wait for nothing",
        axis: PLACE,
        unit: "cycles per load",
        points: || by_place(8, |at| format!("mov rax, [rdi + {at}]")),
    },
    Probe {
        name: "crossing-loads-16",
        what: "loads of 16 bytes, which wait for nothing",
        axis: PLACE,
        unit: "cycles per load",
        points: || by_place(16, |at| format!("movups xmm0, [rdi + {at}]")),
    },
    Probe {
        name: "crossing-loads-32",
        what: "loads of 32 bytes, which wait for nothing",
        axis: PLACE,
        unit: "cycles per load",
        points: || by_place(32, |at| format!("vmovups ymm0, [rdi + {at}]")),
    },
    Probe {
        name: "crossing-stores-8",
        what: "stores of 8 bytes to two lines in turn",
        axis: PLACE,
        unit: "cycles per store",
        points: || stores(8, "mov", "rax"),
    },
    Probe {
        name: "crossing-stores-16",
        what: "stores of 16 bytes to two lines in turn",
        axis: PLACE,
        unit: "cycles per store",
        points: || stores(16, "movups", "xmm0"),
    },
    Probe {
        name: "crossing-stores-32",
        what: "stores of 32 bytes to two lines in turn",
        axis: PLACE,
        unit: "cycles per store",
        points: || stores(32, "vmovups", "ymm0"),
    },
];

const TURNS: u64 = 400;
const UNROLLED: u64 = 20;
const PAGE: u64 = 4096;

/// Where accesses of so many bytes lie: at the beginning of a page, over the end of 8, 16 and 32 bytes, of a line, and of a page,
/// by half of what they are and by a byte.
fn places(size: u64) -> impl Iterator<Item = u64> {
    let over = [8, 16, 32, 64, 128, PAGE].into_iter();
    let places = over.flat_map(move |end| {
        let by = [size / 2, 1].map(|by| end + by - size.min(end + by));
        by.into_iter().chain([end])
    });
    let mut places: Vec<u64> = places.chain([0]).collect();
    places.sort_unstable();
    places.dedup();
    places.into_iter()
}

fn by_place(size: u64, line: impl Fn(u64) -> String) -> Vec<Point> {
    let point = |at: u64| {
        let source = Source {
            run: format!(
                "    xor eax, eax\n{}",
                counted(TURNS, &repeated(UNROLLED, &line(at)))
            ),
            data: 2 * PAGE as usize,
            operations: (TURNS * UNROLLED) as f64,
            ..Source::default()
        };
        Point::new(at as f64, source)
    };
    places(size).map(point).collect()
}

/// Two lines in turn, so that no two stores in a row are written together.
fn stores(size: u64, store: &str, register: &str) -> Vec<Point> {
    let point = |at: u64| {
        let line = format!(
            "{store} [rdi + {at}], {register}\n    {store} [rdi + {}], {register}",
            at + 2 * PAGE + 256
        );
        let source = Source {
            run: counted(TURNS, &repeated(UNROLLED / 2, &line)),
            data: 4 * PAGE as usize,
            operations: (TURNS * UNROLLED) as f64,
            ..Source::default()
        };
        Point::new(at as f64, source)
    };
    places(size).map(point).collect()
}
