//! Memory renaming: chains through the stack, as calls and spilled values make them.

use std::fmt::Write;

use super::{Axis, Point, Probe, Source, counted, repeated};

pub(super) const PROBES: &[Probe] = &[
    Probe {
        name: "spills",
        what: "a chain through one 8-byte place, by how it is addressed",
        axis: Axis {
            name: "address",
            unit: "",
            logarithmic: false,
        },
        unit: "cycles per store and load",
        points: by_address,
    },
    Probe {
        name: "rewritten",
        what: "a chain through one place whose address is moved to its register anew for each link, by links \
               in a loop: how many loads are learnt",
        axis: Axis {
            name: "links",
            unit: "",
            logarithmic: false,
        },
        unit: "cycles per link",
        points: by_rewritten,
    },
    Probe {
        name: "saved-registers",
        what: "a function that saves and restores registers which the caller's chain goes through",
        axis: Axis {
            name: "registers saved",
            unit: "",
            logarithmic: false,
        },
        unit: "cycles per call",
        points: by_saved,
    },
    Probe {
        name: "arguments",
        what: "a function whose arguments and result lie on the stack",
        axis: Axis {
            name: "arguments",
            unit: "",
            logarithmic: false,
        },
        unit: "cycles per call",
        points: by_arguments,
    },
];

const TURNS: u64 = 2000;

fn by_rewritten() -> Vec<Point> {
    let link = "mov rsi, rdi\n    mov rax, [rsi + 64]\n    add rax, 16\n    mov [rsi + 64], rax";
    let point = |links: u64| {
        let source = Source {
            run: counted(TURNS, &repeated(links, link)),
            data: 8192,
            operations: (TURNS * links) as f64,
            ..Source::default()
        };
        Point::new(links as f64, source)
    };
    [4, 8, 16, 24, 32, 40, 44, 48, 64, 96]
        .into_iter()
        .map(point)
        .collect()
}

fn by_address() -> Vec<Point> {
    let unrolled = 10;
    let chains = [
        ("[rsp - 64]", "mov [rsp - 64], rax\n    mov rax, [rsp - 64]"),
        ("push, pop", "push rax\n    pop rax"),
        ("[rbp + 64]", "mov [rbp + 64], rax\n    mov rax, [rbp + 64]"),
        ("[rdi + 64]", "mov [rdi + 64], rax\n    mov rax, [rdi + 64]"),
        (
            "[rdi + rbx]",
            "mov [rdi + rbx], rax\n    mov rax, [rdi + rbx]",
        ),
        ("rsp, rbp", "mov [rsp - 64], rax\n    mov rax, [rbp - 64]"),
        ("add [rsp - 64]", "add qword ptr [rsp - 64], 1"),
        ("add [rdi + 64]", "add qword ptr [rdi + 64], 1"),
    ];
    let point = |(n, (name, lines)): (usize, (&str, &str))| {
        let run = format!(
            "    push rbp
    xor ebx, ebx
    lea rbp, [rdi + 256]
    .ifc \"{name}\", \"rsp, rbp\"
    mov rbp, rsp
    .endif
{}    pop rbp",
            counted(TURNS, &repeated(unrolled, lines))
        );
        let source = Source {
            run,
            data: 8192,
            operations: (TURNS * unrolled) as f64,
            ..Source::default()
        };
        Point::named(n, name, source)
    };
    chains.into_iter().enumerate().map(point).collect()
}

/// The measured part, with a function before its end.
fn calls(body: &str, function: &str) -> Source {
    Source {
        run: format!(
            "{}    jmp 7f
    .p2align 5
6:
{function}    ret
7:",
            counted(TURNS, body)
        ),
        data: 8192,
        operations: TURNS as f64,
        ..Source::default()
    }
}

fn by_saved() -> Vec<Point> {
    let registers = ["rbx", "rbp", "r12", "r13", "r14", "rsi"];
    let point = |saved: usize| {
        let saved = registers.iter().take(saved);
        let (mut push, mut pop, mut chain) = (String::new(), String::new(), String::new());
        for register in saved.clone() {
            let _ = writeln!(push, "    push {register}\n    mov {register}, rax");
            let _ = writeln!(chain, "    add {register}, 1");
        }
        for register in saved.rev() {
            let _ = writeln!(pop, "    pop {register}");
        }
        let body = format!("{chain}    call 6f");
        let source = calls(&body, &format!("{push}    add rax, 1\n{pop}"));
        Point::new(push.lines().count() as f64 / 2.0, source)
    };
    (0..=registers.len()).map(point).collect()
}

fn by_arguments() -> Vec<Point> {
    let point = |arguments: u64| {
        let (mut give, mut take) = (String::new(), String::new());
        for n in 0..arguments {
            let _ = writeln!(give, "    mov [rsp - {}], rax", 128 + 8 * n);
            let _ = writeln!(take, "    add rax, [rsp - {}]", 120 + 8 * n);
        }
        let function = format!("{take}    mov [rsp - 192], rax\n");
        let body = format!("{give}    call 6f\n    mov rax, [rsp - 200]");
        Point::new(arguments as f64, calls(&body, &function))
    };
    (1..=6).map(point).collect()
}
