//! Misses at once: chases side by side, and loads whose addresses do not depend on each other.

use std::fmt::Write;

use super::chase::{NODES, ring};
use super::{Axis, Point, Probe, Source, counted};

pub(super) const PROBES: &[Probe] = &[
    Probe {
        name: "parallel-l3",
        what: "loads of chases side by side through 8 MiB: misses of the second level at once",
        axis: CHASES,
        unit: "cycles per load",
        points: || by_chases(8 << 20),
    },
    Probe {
        name: "parallel-memory",
        what: "loads of chases side by side through 64 MiB: misses of all caches at once",
        axis: CHASES,
        unit: "cycles per load",
        points: || by_chases(64 << 20),
    },
    Probe {
        name: "independent",
        what: "independent loads at random addresses, by working set: fill buffers and bandwidth",
        axis: Axis {
            name: "working set",
            unit: "KiB",
            logarithmic: true,
        },
        unit: "cycles per load",
        points: independent,
    },
];

const CHASES: Axis = Axis {
    name: "chases",
    unit: "",
    logarithmic: false,
};

/// Registers for chases.
const REGISTERS: [&str; 12] = [
    "rax", "rbx", "rcx", "rdx", "rsi", "rbp", "r8", "r9", "r10", "r11", "r12", "r13",
];
/// Turns of the loop.
const TURNS: u64 = 12_000;

fn by_chases(bytes: u64) -> Vec<Point> {
    let nodes = bytes / 64;
    let setup = ring(nodes, 64, true);
    let point = |chases: usize| {
        let (mut before, mut body, mut after) = (String::new(), String::new(), String::new());
        for (n, register) in REGISTERS.iter().take(chases).enumerate() {
            // They begin far apart in the ring, and go on where they were.
            let start = NODES as u64 + n as u64 * (nodes / 12) * 64;
            let _ = write!(
                before,
                "    mov {register}, [rdi + {place}]
    test {register}, {register}
    jnz 4f
    lea {register}, [rdi + {start}]
4:
",
                place = 64 + 8 * n
            );
            let _ = writeln!(body, "    mov {register}, [{register}]");
            let _ = writeln!(after, "    mov [rdi + {}], {register}", 64 + 8 * n);
        }
        let run = format!("{before}{}{after}", counted(TURNS, &body));
        Point::new(
            chases as f64,
            Source {
                setup: setup.clone(),
                run,
                data: NODES + bytes as usize,
                operations: (TURNS * chases as u64) as f64,
                ..Source::default()
            },
        )
    };
    (1..=REGISTERS.len()).map(point).collect()
}

fn independent() -> Vec<Point> {
    let loads = 40_000u64;
    let point = |kib: u64| {
        let mask = kib * 1024 - 64;
        // A sequence of its own (Knuth's MMIX) whose upper bits are the address.
        let body = format!(
            "    imul rax, rbx
    add rax, rcx
    mov rdx, rax
    shr rdx, 24
    and rdx, {mask}
    mov rsi, [rdi + rdx]"
        );
        let run = format!(
            "    mov rax, [rip + data]
    mov rbx, 6364136223846793005
    mov rcx, 1442695040888963407
{}    mov [rip + data], rax",
            counted(loads, &body)
        );
        // All pages are touched before.
        let setup = format!(
            "    mov ecx, {}
    mov rax, rdi
3:  mov [rax + 8], rcx
    add rax, 64
    dec rcx
    jnz 3b",
            kib * 1024 / 64
        );
        Point::new(
            kib as f64,
            Source {
                setup,
                run,
                data: kib as usize * 1024,
                operations: loads as f64,
                ..Source::default()
            },
        )
    };
    [16, 64, 256, 512, 2048, 8192, 16_384, 65_536]
        .into_iter()
        .map(point)
        .collect()
}
