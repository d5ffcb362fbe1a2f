//! What the kernel leaves behind: how long code and data of the program take right after a system
//! call or a page fault, whose own time is not in the figures.

use super::chase::ring;
use super::{Axis, Point, Probe, Source, repeated};

pub(super) const PROBES: &[Probe] = &[
    Probe {
        name: "kernel-branches",
        what: "448 lines of code, each ending in a jump, behind what the kernel did",
        axis: DONE,
        unit: "cycles per line",
        points: || behind(&jumps()),
    },
    Probe {
        name: "kernel-straight",
        what: "448 lines of straight code behind what the kernel did",
        axis: DONE,
        unit: "cycles per line",
        points: || behind(&straight()),
    },
    Probe {
        name: "kernel-data",
        what: "a chase through 640 lines behind what the kernel did",
        axis: DONE,
        unit: "cycles per line",
        points: || behind(&chase()),
    },
    Probe {
        name: "kernel-calls",
        what: "calls and their returns behind a system call and so many calls nested in each other",
        axis: Axis {
            name: "nested calls",
            unit: "",
            logarithmic: false,
        },
        unit: "cycles per call",
        points: calls,
    },
];

const DONE: Axis = Axis {
    name: "what the kernel did",
    unit: "",
    logarithmic: false,
};

/// Calls in a row.
const CALLS: u64 = 1000;
/// Lines of code: half of what a first level of 32 KiB and most µop caches hold.
const LINES: u64 = 448;
/// Lines of data: of the 768 of 48 KiB.
const NODES: u64 = 640;
/// Pages of memory that nobody has touched: one for each round.
const FRESH: u64 = super::program::MAX_ROUNDS as u64;
/// Where what is done has its file name, its buffer, and the address of the next fresh page, from
/// the start of the data on: behind the nodes of the chase.
const PLACE: u64 = super::chase::NODES as u64 + 64 * NODES + 4096;

/// What the program does then.
fn jumps() -> Source {
    let line =
        "    .rept 6\n    nop dword ptr [rax]\n    .endr\n    jmp 6f\n    .p2align 6, 0xcc\n6:\n";
    Source {
        run: format!("    .p2align 6\n    .rept {LINES}\n{line}    .endr\n"),
        operations: LINES as f64,
        ..Source::default()
    }
}

fn straight() -> Source {
    Source {
        run: format!(
            "    .p2align 6\n{}",
            repeated(16 * LINES, "nop dword ptr [rax + 1]")
        ),
        operations: LINES as f64,
        ..Source::default()
    }
}

fn chase() -> Source {
    Source {
        setup: ring(NODES, 64, true),
        run: format!(
            "    mov rax, [rdi]\n{}    mov [rdi], rax\n",
            repeated(NODES, "mov rax, [rax]")
        ),
        operations: NODES as f64,
        ..Source::default()
    }
}

/// A function that is called again and again, behind `getppid` and behind a recursion that deep.
fn calls() -> Vec<Point> {
    let nested = |depth: u64| match depth {
        0 => String::new(),
        _ => format!(
            "    jmp 6f
5:  dec edx
    jz 4f
    call 5b
4:  ret
6:  mov edx, {depth}
    call 5b
"
        ),
    };
    let run = format!(
        "    jmp 6f
    .p2align 6
5:
{}    ret
    .p2align 6
6:  mov ecx, {CALLS}
7:  call 5b
{}    dec ecx
    jnz 7b
",
        repeated(4, "nop dword ptr [rax + 1]"),
        repeated(2, "nop dword ptr [rax + 1]"),
    );
    [0u64, 1, 2, 3, 4, 6, 8, 12]
        .into_iter()
        .map(|depth| {
            let before = format!("    mov eax, 110\n    syscall\n{}", nested(depth));
            let source = Source {
                before,
                run: run.clone(),
                operations: CALLS as f64,
                ..Source::default()
            };
            Point::new(depth as f64, source)
        })
        .collect()
}

/// `work` behind each of the things that a kernel does.
fn behind(work: &Source) -> Vec<Point> {
    let call = |number: u32, arguments: &str| {
        format!("{arguments}    mov eax, {number}\n    syscall\n    lea rdi, [rip + data]\n")
    };
    let name = format!("    lea rdi, [rdi + {PLACE}]\n");
    let opened = call(2, &format!("{name}    xor esi, esi\n    xor edx, edx\n"));
    let buffer = format!("    lea rsi, [rdi + {}]\n    mov edx, 4096\n", PLACE + 4096);
    let file = format!("    mov edi, [rdi + {}]\n", PLACE + 2048);
    // pread64 from the start, so that every round reads the same.
    let read = call(17, &format!("{buffer}    xor r10d, r10d\n{file}"));
    let touched = format!(
        "    mov rax, [rdi + {next}]\n    mov [rax], rax\n    add rax, 4096\n    mov [rdi + {next}], rax\n",
        next = PLACE + 1024
    );
    let all = [
        ("nothing", String::new()),
        ("getppid", call(110, "")),
        (
            "stat",
            call(4, &format!("    lea rsi, [rdi + {}]\n{name}", PLACE + 4096)),
        ),
        (
            "open and close",
            format!("{opened}{}", call(3, "    mov edi, eax\n")),
        ),
        ("read 4 KiB", read),
        ("page fault", touched),
    ];
    // The file is `/proc/self/exe`'s: the probe itself, 4 KiB of which are there. The pages are
    // mapped by themselves, and not as large ones.
    let setup = format!(
        "{}    mov rax, [rip + 7f]
    mov [rdi + {PLACE}], rax
    mov rax, [rip + 7f + 8]
    mov [rdi + {PLACE} + 8], rax
    jmp 6f
7:  .asciz \"/proc/self/exe\"
    .p2align 4
6:
{opened}    mov [rdi + {PLACE} + 2048], eax
    mov esi, {bytes}
    mov edx, 3
    mov r10d, 0x22
    mov r8, -1
    xor r9d, r9d
    xor edi, edi
    mov eax, 9
    syscall
    mov r12, rax
    mov rdi, rax
    mov esi, {bytes}
    mov edx, 15
    mov eax, 28
    syscall
    lea rdi, [rip + data]
    mov [rdi + {PLACE} + 1024], r12
",
        work.setup,
        bytes = FRESH * 4096,
    );
    let point = |(n, (done, before)): (usize, (&str, String))| {
        let source = Source {
            setup: setup.clone(),
            before,
            data: PLACE as usize + 16_384,
            ..work.clone()
        };
        Point::named(n, done, source)
    };
    all.into_iter().enumerate().map(point).collect()
}
