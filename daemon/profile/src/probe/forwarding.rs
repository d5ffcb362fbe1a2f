//! Store-to-load forwarding by offset and size: a chain through memory.

use super::{Axis, Point, Probe, Source, counted, repeated};

const OFFSET: Axis = Axis {
    name: "offset of the load in what was stored",
    unit: "bytes",
    logarithmic: false,
};
const UNIT: &str = "cycles per store and load";

pub(super) const PROBES: &[Probe] = &[
    Probe {
        name: "forward-8-in-8",
        what: "8 bytes stored, 8 bytes loaded",
        axis: OFFSET,
        unit: UNIT,
        points: || offsets("rax", "rax", 8, "mov"),
    },
    Probe {
        name: "forward-4-in-8",
        what: "8 bytes stored, 4 bytes loaded",
        axis: OFFSET,
        unit: UNIT,
        points: || offsets("rax", "eax", 8, "mov"),
    },
    Probe {
        name: "forward-1-in-8",
        what: "8 bytes stored, 1 byte loaded",
        axis: OFFSET,
        unit: UNIT,
        points: || offsets("rax", "eax", 8, "movzx"),
    },
    Probe {
        name: "forward-8-in-4",
        what: "4 bytes stored, 8 bytes loaded",
        axis: OFFSET,
        unit: UNIT,
        points: || offsets("eax", "rax", 4, "mov"),
    },
    Probe {
        name: "forward-4-in-16",
        what: "16 bytes stored from a vector, 4 bytes loaded",
        axis: OFFSET,
        unit: UNIT,
        points: || {
            in_a_vector(
                "movups [rdi + 128], xmm0",
                "mov eax, [rdi + {}]\n    movd xmm0, eax",
                0..=12,
            )
        },
    },
    Probe {
        name: "forward-8-in-16",
        what: "16 bytes stored from a vector, 8 bytes loaded",
        axis: OFFSET,
        unit: UNIT,
        points: || {
            in_a_vector(
                "movups [rdi + 128], xmm0",
                "mov rax, [rdi + {}]\n    movq xmm0, rax",
                0..=8,
            )
        },
    },
    Probe {
        name: "forward-16-in-32",
        what: "32 bytes stored from a vector, 16 bytes loaded",
        axis: OFFSET,
        unit: UNIT,
        points: || {
            in_a_vector(
                "vmovups [rdi + 128], ymm0",
                "vmovups xmm0, [rdi + {}]",
                0..=16,
            )
        },
    },
    Probe {
        name: "forward-line",
        what: "8 bytes stored and loaded, by place in a line: stores over two lines",
        axis: Axis {
            name: "place in the line",
            unit: "bytes",
            logarithmic: false,
        },
        unit: UNIT,
        points: across_lines,
    },
    Probe {
        name: "forward-partly",
        what: "loads of which a store has a part, each turn by itself: how long they wait until that is written",
        axis: Axis {
            name: "stored and loaded",
            unit: "",
            logarithmic: false,
        },
        unit: "cycles per turn",
        points: partly,
    },
    Probe {
        name: "forward-moves",
        what: "48 bytes that are stored eight at a time and moved on by two vectors of 32, each turn by itself",
        axis: Axis {
            name: "moved",
            unit: "",
            logarithmic: false,
        },
        unit: "cycles per turn",
        points: moves,
    },
    Probe {
        name: "renamed-loads",
        what: "a chain of three cycles through memory: whether loads go on being renamed, by how often a branch is not taken",
        axis: Axis {
            name: "one in",
            unit: "turns",
            logarithmic: true,
        },
        unit: "cycles per turn",
        points: renamed,
    },
    Probe {
        name: "ahead-of-stores",
        what: "a chain of loads, each of which makes the address of a store by four multiplications, to the next load's place once in so many turns: whether loads wait for addresses",
        axis: Axis {
            name: "one in",
            unit: "turns",
            logarithmic: true,
        },
        unit: "cycles per turn",
        points: ahead,
    },
    Probe {
        name: "ahead-by",
        what: "a store, and a load from so many cycles behind its address, of which one in eight is from its place",
        axis: Axis {
            name: "load behind the store's address",
            unit: "cycles",
            logarithmic: false,
        },
        unit: "cycles per turn",
        points: ahead_by,
    },
];

const TURNS: u64 = 400;
const UNROLLED: u64 = 10;

fn chain(lines: &str, operations: u64) -> Source {
    Source {
        run: counted(TURNS, &repeated(UNROLLED, lines)),
        data: 8192,
        operations: (TURNS * UNROLLED * operations) as f64,
        ..Source::default()
    }
}

/// The load depends on the store's data; the store's data on the load.
fn offsets(stored: &str, loaded: &str, size: i64, load: &str) -> Vec<Point> {
    let by = match load {
        "mov" => "",
        _ => "byte ptr ",
    };
    // Indexed addresses, so that no core renames memory.
    let point = |offset: i64| {
        let lines = format!(
            "mov [rdi + rbx + 128], {stored}\n    {load} {loaded}, {by}[rdi + rbx + {}]",
            128 + offset
        );
        let mut source = chain(&lines, 1);
        source.run = format!("    xor ebx, ebx\n{}", source.run);
        Point::new(offset as f64, source)
    };
    (-size..=size).map(point).collect()
}

/// A vector is stored, a part of it loaded, and the next vector made of that.
fn in_a_vector(store: &str, load: &str, offsets: std::ops::RangeInclusive<i64>) -> Vec<Point> {
    let point = |offset: i64| {
        let load = load.replace("{}", &(128 + offset).to_string());
        Point::new(offset as f64, chain(&format!("{store}\n    {load}"), 1))
    };
    offsets.map(point).collect()
}

/// Nothing is handed from turn to turn: a load that waits for a store to be written holds up the retirement of the next turn's.
fn partly() -> Vec<Point> {
    let cases = [
        ("8 in the lower 4", "mov [rdi], eax", "mov rcx, [rdi]"),
        ("8 in the upper 4", "mov [rdi + 4], eax", "mov rcx, [rdi]"),
        ("8 four bytes on", "mov [rdi], rax", "mov rcx, [rdi + 4]"),
        ("16 in the lower 8", "mov [rdi], rax", "movups xmm0, [rdi]"),
        (
            "16 in the upper 8",
            "mov [rdi + 8], rax",
            "movups xmm0, [rdi]",
        ),
        (
            "16 in two of 8",
            "mov [rdi], rax\n    mov [rdi + 8], rax",
            "movups xmm0, [rdi]",
        ),
        (
            "16 in 16 and the lower 8",
            "movups [rdi], xmm1\n    mov [rdi], rax",
            "movups xmm0, [rdi]",
        ),
        (
            "16 in 16 and the lower 8, 48 no-operations before that",
            "movups [rdi], xmm1\n    .rept 48\n    nop\n    .endr\n    mov [rdi], rax",
            "movups xmm0, [rdi]",
        ),
        (
            "8 in two eights of 16",
            "movups [rdi], xmm1",
            "mov rcx, [rdi + 4]",
        ),
        ("8 in the lowest 1", "mov [rdi], al", "mov rcx, [rdi]"),
        ("16 in the lowest 1", "mov [rdi], al", "movups xmm0, [rdi]"),
        ("16 in the lowest 4", "mov [rdi], eax", "movups xmm0, [rdi]"),
        ("32 in the lowest 1", "mov [rdi], al", "vmovups ymm0, [rdi]"),
        (
            "32 in the lowest 8",
            "mov [rdi], rax",
            "vmovups ymm0, [rdi]",
        ),
        (
            "32 in the lower 16",
            "movups [rdi], xmm1",
            "vmovups ymm0, [rdi]",
        ),
    ];
    let point = |(n, (label, stores, load)): (usize, (&str, &str, &str))| {
        Point::named(n, label, chain(&format!("{stores}\n    {load}"), 1))
    };
    cases.into_iter().enumerate().map(point).collect()
}

/// Each move waits for the stores of the one before, since its vectors lie in two of these or more.
fn moves() -> Vec<Point> {
    let stored: String = (0..6)
        .map(|n| format!("    mov [rdi + {}], rax\n", 8 * n))
        .collect();
    let moved = |from: u32, to: u32| {
        format!(
            "\
    vmovdqu ymm0, [rdi + {from}]
    vmovdqu ymm1, [rdi + {}]
    vmovdqu [rdi + {to}], ymm0
    vmovdqu [rdi + {}], ymm1
",
            from + 16,
            to + 16
        )
    };
    let times = |count: u32| -> String {
        let steps = (0..count).map(|n| moved(64 * n, 64 * (n + 1)));
        stored.clone() + &steps.collect::<String>()
    };
    let nops = |count: u32| format!("    .rept {count}\n    nop\n    .endr\n");
    let cases = [
        ("once", times(1)),
        ("once, and 80 no-operations", times(1) + &nops(80)),
        (
            "once, behind 60 no-operations",
            stored.clone() + &nops(60) + &moved(0, 64),
        ),
        ("twice", times(2)),
        ("three times", times(3)),
        ("to and fro", moved(0, 64) + &moved(64, 0)),
    ];
    let point =
        |(n, (label, body)): (usize, (&str, String))| Point::named(n, label, chain(&body, 1));
    cases.into_iter().enumerate().map(point).collect()
}

/// The branch skips one instruction, so that both its ways are as long.
fn renamed() -> Vec<Point> {
    const LINKS: u64 = 20_000;
    let point = |period: u64| {
        let lines = format!(
            "    mov rax, [rdi]\n    imul rax, rbx\n    mov [rdi], rax\n    test r15d, {}\n    jnz 1f\n    nop\n1:",
            period - 1
        );
        let source = Source {
            run: counted(LINKS, &lines),
            data: 8192,
            operations: LINKS as f64,
            ..Source::default()
        };
        Point::new(period as f64, source)
    };
    [2, 4, 8, 16, 32, 64, 128, 256].map(point).into()
}

/// Turns of which one in `period` stores to the place of a load, and the others to the next line; rbx is the chain, and 0.
fn meeting(period: u64, address: &str, accesses: &str) -> Source {
    const LINKS: u64 = 20_000;
    let lines = format!(
        "    xor ecx, ecx\n    test r15d, {}\n    setnz cl\n    shl ecx, 6\n{address}{accesses}",
        period - 1
    );
    Source {
        run: format!("    xor ebx, ebx\n{}", counted(LINKS, &lines)),
        data: 8192,
        operations: LINKS as f64,
        ..Source::default()
    }
}

fn ahead() -> Vec<Point> {
    let address = format!(
        "    mov rbx, [rdi + rbx]\n    mov rdx, rbx\n{}",
        "    imul rdx, rdx\n".repeat(4)
    );
    let store = "    add rdx, rcx\n    mov qword ptr [rdi + rdx], 0";
    let point = |period: u64| Point::new(period as f64, meeting(period, &address, store));
    [1, 2, 4, 8, 16, 32, 64, 128, 256, 512].map(point).into()
}

fn ahead_by() -> Vec<Point> {
    let point = |behind: i64| {
        let times = |n: i64| usize::try_from(n).unwrap_or(0);
        let address = format!(
            "    mov rdx, rbx\n    imul rdx, rdx\n    imul rdx, rdx\n    add rcx, rdi\n    mov rax, rdx\n{}{}",
            "    imul rax, rax\n".repeat(times(-behind / 3)),
            "    bswap edx\n".repeat(times(behind)),
        );
        let accesses = "    mov qword ptr [rcx + rax], 0\n    mov rbx, [rdi + rdx]";
        Point::new(behind as f64, meeting(8, &address, accesses))
    };
    [-6, -3, 0, 1, 2, 3, 4, 6].map(point).into()
}

fn across_lines() -> Vec<Point> {
    let point = |place: i64| {
        let lines = format!(
            "mov [rdi + rbx + {at}], rax\n    mov rax, [rdi + rbx + {at}]",
            at = 64 + place
        );
        let mut source = chain(&lines, 1);
        source.run = format!("    xor ebx, ebx\n{}", source.run);
        Point::new(place as f64, source)
    };
    [0, 8, 16, 48, 56, 57, 58, 60, 62, 63].map(point).into()
}
