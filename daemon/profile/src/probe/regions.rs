//! What prefetchers make of lines near each other: regions in random order with the same lines in
//! each, and lists whose nodes lie in order with steps of changing length.

use std::fmt::Write;

use super::chase::{NODES, ring};
use super::random::{self, NEXT};
use super::{Axis, Point, Probe, Source, counted};

const UNIT: &str = "cycles per load";

pub(super) const PROBES: &[Probe] = &[
    Probe {
        name: "region",
        what: "regions in random order, of each one line and then the one so many lines further",
        axis: Axis {
            name: "distance",
            unit: "lines",
            logarithmic: false,
        },
        unit: UNIT,
        points: by_distance,
    },
    Probe {
        name: "regions",
        what: "the first lines of so many regions in random order, then the third one after each",
        axis: Axis {
            name: "regions",
            unit: "",
            logarithmic: true,
        },
        unit: UNIT,
        points: by_regions,
    },
    Probe {
        name: "region-loads",
        what: "regions in random order, entered by so many loads, each with a distance of its own",
        axis: Axis {
            name: "loads",
            unit: "",
            logarithmic: true,
        },
        unit: UNIT,
        points: by_loads,
    },
    Probe {
        name: "ascending",
        what: "a list through 8 MiB in order, each node 0 to 2 lines further than the shortest step",
        axis: Axis {
            name: "shortest step",
            unit: "lines",
            logarithmic: false,
        },
        unit: UNIT,
        points: by_steps,
    },
    Probe {
        name: "strides",
        what: "lists in turn through 8 MiB, each by a load of its own that goes on by 296 bytes",
        axis: Axis {
            name: "loads",
            unit: "",
            logarithmic: true,
        },
        unit: UNIT,
        points: by_strides,
    },
    Probe {
        name: "stride-beside",
        what: "a list through 8 MiB whose load goes on by 296 bytes, with so many beside it that hit",
        axis: Axis {
            name: "other loads",
            unit: "",
            logarithmic: false,
        },
        unit: UNIT,
        points: by_others,
    },
];

/// Bytes from one region to the next.
const SPACING: u64 = 512;
/// Regions: with a second line each they have more than a second level holds, on pages that a second
/// TLB does.
const REGIONS: u64 = 12_288;

/// A ring through all regions in random order, with the second word that `link` writes: it gets the
/// address of a region in r8 and of the next one in r9, by numbers from 0 in r10.
fn regions(link: &str) -> String {
    let ring = ring(REGIONS, SPACING, true);
    format!(
        "{ring}
    mov r8, [rdi]
    xor r10d, r10d
3:  mov r9, [r8]
{link}
    mov r8, r9
    inc r10
    cmp r10, {REGIONS}
    jb 3b
"
    )
}

fn source(setup: String, body: &str, turns: u64, loads: u64) -> Source {
    Source {
        setup,
        run: format!(
            "    mov rax, [rdi]\n{}    mov [rdi], rax",
            counted(turns, body)
        ),
        data: NODES + ((REGIONS + 2) * SPACING) as usize,
        operations: (turns * loads) as f64,
        ..Source::default()
    }
}

const PAIR: &str = "    mov rax, [rax]\n    mov rax, [rax]";

fn by_distance() -> Vec<Point> {
    let distances = [-7_i64, -6, -5, -4, -3, -2, -1, 1, 2, 3, 4, 5, 6, 7];
    let point = |lines: i64| {
        let bytes = lines * 64;
        let setup = regions(&format!(
            "    mov [r8 + {bytes}], r9
    lea rdx, [r8 + {bytes}]
    mov [r8], rdx"
        ));
        Point::new(lines as f64, source(setup, PAIR, REGIONS, 2))
    };
    distances.into_iter().map(point).collect()
}

fn by_regions() -> Vec<Point> {
    let point = |regions_at_once: u64| {
        // The last of a batch goes on to the batch's first one's second line, which r11 keeps.
        let setup = regions(&format!(
            "    xor edx, edx
    mov rax, r10
    mov ecx, {regions_at_once}
    div rcx
    test rdx, rdx
    jne 6f
    lea r11, [r8 + 192]
6:  lea rax, [r9 + 192]
    inc rdx
    cmp rdx, rcx
    jne 7f
    mov rax, r9
    mov [r8], r11
7:  mov [r8 + 192], rax"
        ));
        Point::new(
            regions_at_once as f64,
            source(setup, "    mov rax, [rax]", 2 * REGIONS, 1),
        )
    };
    let counts = [1, 2, 4, 8, 16, 24, 32, 48, 64, 128, 256];
    counts.into_iter().map(point).collect()
}

fn by_loads() -> Vec<Point> {
    let point = |loads: u64| {
        let mut setup = regions(&format!(
            "    xor edx, edx
    mov rax, r10
    mov ecx, {loads}
    div rcx
    lea rcx, [rip + distances]
    movzx ecx, byte ptr [rcx + rdx]
    shl ecx, 6
    add rcx, r8
    mov [rcx], r9
    mov [r8], rcx"
        ));
        let (mut body, mut distances) = (String::new(), String::new());
        for n in 0..loads {
            // Like chance: of Weyl's sequence (the golden ratio).
            let chance = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
            let _ = writeln!(body, "{PAIR}\n    .skip {}, 0x90", chance % 9);
            let _ = writeln!(distances, "    .byte {}", 1 + chance / 9 % 6);
        }
        let _ = write!(
            setup,
            "    .section .rodata\ndistances:\n{distances}    .text\n"
        );
        // The ring goes round with the loads: each region is always entered by the same one.
        let turns = REGIONS / loads;
        Point::new(loads as f64, source(setup, &body, turns, 2 * loads))
    };
    let counts = [1, 16, 64, 128, 256, 512, 1024, 2048];
    counts.into_iter().map(point).collect()
}

/// Bytes of the list.
const LIST: u64 = 8 << 20;
/// Loads of one round.
const LOADS: u64 = 20_000;

fn by_steps() -> Vec<Point> {
    let point = |shortest: u64| {
        let setup = format!(
            "    lea rsi, [rdi + {NODES}]
    mov [rdi], rsi
    lea r8, [rsi + {LIST}]
    mov rbx, rsi
{begin}3:
{NEXT}    mov edx, eax
    imul rdx, rdx, 3
    shr rdx, 32
    add rdx, {shortest}
    shl rdx, 6
    add rdx, rbx
    cmp rdx, r8
    cmovae rdx, rsi
    mov [rbx], rdx
    mov rbx, rdx
    cmp rdx, rsi
    jne 3b
",
            begin = random::begin()
        );
        let source = listed(setup, "    mov rax, [rax]", LOADS, 1);
        Point::new(shortest as f64, source)
    };
    (1..=8).map(point).collect()
}

/// Bytes from a node to the next one of its list.
const STRIDE: u64 = 296;

/// A ring of `lists` lists in turn, one node of each after the other.
fn lists(lists: u64) -> String {
    let nodes = LIST / STRIDE / lists;
    format!(
        "    lea rsi, [rdi + {NODES}]
    mov [rdi], rsi
    mov r8, rsi
    mov ecx, {nodes}
3:  mov rbx, r8
    mov edx, {others}
    test edx, edx
    jz 7f
6:  lea rax, [rbx + {part}]
    mov [rbx], rax
    mov rbx, rax
    dec edx
    jnz 6b
7:  add r8, {STRIDE}
    mov [rbx], r8
    dec ecx
    jnz 3b
    mov [rbx], rsi
",
        others = lists - 1,
        part = nodes * STRIDE,
    )
}

fn by_strides() -> Vec<Point> {
    let point = |loads: u64| {
        let mut body = String::new();
        for n in 0..loads {
            let chance = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
            let _ = writeln!(body, "    mov rax, [rax]\n    .skip {}, 0x90", chance % 9);
        }
        listed(lists(loads), &body, LOADS / loads, loads)
    };
    let counts = [1, 2, 4, 8, 16, 32, 48, 64, 96, 128];
    let points = counts.into_iter();
    points.map(|n| Point::new(n as f64, point(n))).collect()
}

fn by_others() -> Vec<Point> {
    let point = |others: u64| {
        let mut body = String::from("    mov rax, [rax]\n");
        for n in 0..others {
            let chance = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
            let place = 8 + n % 16 * 8;
            let _ = writeln!(
                body,
                "    mov ecx, [rdi + {place}]\n    .skip {}, 0x90",
                chance % 5
            );
        }
        listed(lists(1), &body, LOADS, 1)
    };
    let counts = [0, 8, 16, 32, 48, 64, 96, 128];
    let points = counts.into_iter();
    points.map(|n| Point::new(n as f64, point(n))).collect()
}

/// A walk that goes on where it was, of so many turns of so many loads.
fn listed(setup: String, body: &str, turns: u64, loads: u64) -> Source {
    Source {
        setup,
        run: format!(
            "    mov rax, [rdi]\n{}    mov [rdi], rax",
            counted(turns, body)
        ),
        data: NODES + LIST as usize + STRIDE as usize,
        operations: (turns * loads) as f64,
        ..Source::default()
    }
}
