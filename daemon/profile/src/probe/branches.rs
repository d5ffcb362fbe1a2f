//! Branches: where targets are kept, how deep calls are followed, what history predicts, and what
//! a wrong prediction costs.

use std::fmt::Write;

use super::alike::{NEXT, jumps, through_order};
use super::{Axis, Point, Probe, Source, counted, random, repeated};

pub(super) const PROBES: &[Probe] = &[
    Probe {
        name: "taken-16",
        what: "jumps to the next 16 bytes, by number of jumps: levels of branch target buffers",
        axis: BRANCHES,
        unit: "cycles per jump",
        points: || taken(16),
    },
    Probe {
        name: "taken-64",
        what: "jumps to the next 64 bytes, by number of jumps: the same, and lines of code",
        axis: BRANCHES,
        unit: "cycles per jump",
        points: || taken(64),
    },
    Probe {
        name: "taken-random",
        what: "jumps 16 bytes apart in random order, by number of jumps: which of more than fit a buffer still has",
        axis: BRANCHES,
        unit: "cycles per jump",
        points: taken_random,
    },
    Probe {
        name: "taken-conditional",
        what: "conditional branches, always taken, to the next 32 bytes, by number of branches",
        axis: BRANCHES,
        unit: "cycles per branch",
        points: taken_conditional,
    },
    Probe {
        name: "calls",
        what: "calls within calls and their returns, by depth: the return stack",
        axis: Axis {
            name: "depth",
            unit: "",
            logarithmic: false,
        },
        unit: "cycles per call and return",
        points: calls,
    },
    Probe {
        name: "leaf-calls",
        what: "four calls of functions in a row, by no-operations in each function: what calls cost more than jumps",
        axis: Axis {
            name: "no-operations",
            unit: "",
            logarithmic: false,
        },
        unit: "cycles per call",
        points: leaf_calls,
    },
    Probe {
        name: "indirect",
        what: "an indirect jump that goes to its targets in turn, by number of targets",
        axis: Axis {
            name: "targets",
            unit: "",
            logarithmic: true,
        },
        unit: "cycles per jump",
        points: indirect,
    },
    Probe {
        name: "indirect-pattern",
        what: "an indirect jump to one of five targets in a random order that recurs, by its length: what the indirect predictor holds",
        axis: Axis {
            name: "length",
            unit: "",
            logarithmic: true,
        },
        unit: "cycles per jump",
        points: || indirect_pattern(5),
    },
    Probe {
        name: "indirect-bits",
        what: "the same with two targets: how many targets back its history goes",
        axis: Axis {
            name: "length",
            unit: "",
            logarithmic: true,
        },
        unit: "cycles per jump",
        points: || indirect_pattern(2),
    },
    Probe {
        name: "indirect-places",
        what: "jumps through memory to each other, each with one target, by their number: where last targets are kept",
        axis: PLACES,
        unit: "cycles per jump",
        points: || {
            by_places(
                &[64, 512, 1024, 2048, 4096, 8192, 16_384, 32_768],
                |places| places,
            )
        },
    },
    Probe {
        name: "indirect-order",
        what: "the same in a random order of 8192 that recurs: targets told apart by what was executed before",
        axis: PLACES,
        unit: "cycles per jump",
        points: || by_places(&[4, 16, 64, 256, 512, 1024, 2048, 4096], |_| 8192),
    },
    Probe {
        name: "pattern",
        what: "a conditional branch in a random order that recurs, by its length: what the direction predictor holds",
        axis: Axis {
            name: "length",
            unit: "",
            logarithmic: true,
        },
        unit: "cycles per branch",
        points: pattern,
    },
    Probe {
        name: "pattern-apart",
        what: "a conditional branch in a random order of 256 that recurs, by taken branches between its turns: \
               whether it has a history of its own",
        axis: Axis {
            name: "taken branches between",
            unit: "",
            logarithmic: false,
        },
        unit: "cycles per branch",
        points: pattern_apart,
    },
    Probe {
        name: "history",
        what: "a branch that does what a random one did, by taken branches between the two: what \
               stands out is the end of the history that predicts it",
        axis: Axis {
            name: "taken branches between",
            unit: "",
            logarithmic: true,
        },
        unit: "cycles per round",
        points: history,
    },
    Probe {
        name: "loop-count",
        what: "a loop in a loop, by its number of turns: how long its end is foreseen",
        axis: Axis {
            name: "turns",
            unit: "",
            logarithmic: true,
        },
        unit: "cycles per loop",
        points: loop_count,
    },
    Probe {
        name: "misprediction",
        what: "a branch on a bit that is always the same or random, alone and behind a load",
        axis: Axis {
            name: "branch",
            unit: "",
            logarithmic: false,
        },
        unit: "cycles per branch",
        points: misprediction,
    },
];

const BRANCHES: Axis = Axis {
    name: "branches",
    unit: "",
    logarithmic: true,
};

const PLACES: Axis = Axis {
    name: "places",
    unit: "",
    logarithmic: true,
};

/// Least branches in a run.
const LEAST: u64 = 20_000;

/// Turns of a loop over `each` operations so that enough are measured.
fn turns(each: u64) -> u64 {
    (LEAST / each).max(3)
}

fn chain(branches: u64, unit: &str, spacing: u64) -> Source {
    let turns = turns(branches);
    let body = format!(
        "    .p2align 6\n    .rept {branches}\n    {unit}\n    .p2align {}, 0xcc\n6:\n    .endr\n",
        spacing.trailing_zeros()
    );
    Source {
        run: counted(turns, &body),
        operations: (turns * branches) as f64,
        ..Source::default()
    }
}

fn taken(spacing: u64) -> Vec<Point> {
    [
        4, 8, 16, 32, 64, 96, 128, 192, 256, 512, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12_288,
        16_384, 24_576, 32_768,
    ]
    .into_iter()
    .map(|n| Point::new(n as f64, chain(n, "jmp 6f", spacing)))
    .collect()
}

fn taken_random() -> Vec<Point> {
    let point = |count: u64| {
        let (first, next) = random::path(count);
        let turns = turns(count);
        let mut body = format!("    jmp jump_{first}\n");
        for (n, next) in next.iter().enumerate() {
            let to = next.map_or("jumps_end".to_owned(), |to| format!("jump_{to}"));
            let _ = write!(body, "    .p2align 4, 0xcc\njump_{n}:\n    jmp {to}\n");
        }
        body.push_str("jumps_end:\n");
        let source = Source {
            run: counted(turns, &body),
            operations: (turns * count) as f64,
            ..Source::default()
        };
        Point::new(count as f64, source)
    };
    let counts = [
        1024, 4096, 6144, 8192, 12_288, 14_336, 16_384, 18_432, 20_480, 24_576, 32_768,
    ];
    counts.map(point).into()
}

fn taken_conditional() -> Vec<Point> {
    [8, 64, 256, 1024, 2048, 4096, 8192, 16_384, 32_768]
        .into_iter()
        .map(|n| {
            let mut source = chain(n, "jnc 6f", 32);
            // The loop's counter leaves the carry alone.
            source.run = format!("    clc\n{}", source.run);
            Point::new(n as f64, source)
        })
        .collect()
}

fn calls() -> Vec<Point> {
    [
        1u64, 2, 4, 8, 12, 15, 16, 17, 20, 22, 23, 24, 25, 28, 31, 32, 33, 36, 40, 48, 51, 52, 53,
        56, 64,
    ]
    .into_iter()
    .map(|depth| {
        let turns = turns(depth);
        let mut functions = String::new();
        for n in 0..depth {
            let inner = if n + 1 < depth {
                format!("    call nested_{}\n", n + 1)
            } else {
                String::new()
            };
            let _ = write!(
                functions,
                "    .p2align 5\nnested_{n}:\n    nop\n{inner}    nop\n    ret\n"
            );
        }
        let body = counted(turns, "    call nested_0\n");
        Point::new(
            depth as f64,
            Source {
                run: format!("{body}    jmp calls_end\n{functions}calls_end:\n"),
                operations: (turns * depth) as f64,
                ..Source::default()
            },
        )
    })
    .collect()
}

fn leaf_calls() -> Vec<Point> {
    [0u64, 4, 8, 16, 24, 32, 48]
        .into_iter()
        .map(|nops| {
            let turns = turns(4);
            let mut calls = String::new();
            let mut functions = String::new();
            for n in 0..4 {
                let _ = writeln!(calls, "    call leaf_{n}");
                let _ = write!(
                    functions,
                    "    .p2align 6\nleaf_{n}:\n{}    ret\n",
                    repeated(nops, "nop dword ptr [rax + 1]")
                );
            }
            let body = counted(turns, &calls);
            Point::new(
                nops as f64,
                Source {
                    run: format!("{body}    jmp leaves_end\n{functions}leaves_end:\n"),
                    operations: (turns * 4) as f64,
                    ..Source::default()
                },
            )
        })
        .collect()
}

fn indirect() -> Vec<Point> {
    [1u64, 2, 3, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048]
        .into_iter()
        .map(|targets| {
            let turns = turns(targets);
            let body = format!(
                "    lea rsi, [rip + targets]
    lea rdx, [rip + targets + {end}]
    mov ecx, {jumps}
    .p2align 6
next_jump:
    mov rax, [rsi]
    add rsi, 8
    cmp rsi, rdx
    lea rbx, [rdx - {end}]
    cmove rsi, rbx
    jmp rax
    .rept {targets}
    .p2align 4
6:  dec ecx
    jnz next_jump
    jmp indirect_end
    .pushsection .data
    .quad 6b
    .popsection
    .endr
indirect_end:
",
                end = 8 * targets,
                jumps = turns * targets,
            );
            let run = format!(
                "    .pushsection .data\n    .p2align 6\ntargets:\n    .popsection\n{body}"
            );
            Point::new(
                targets as f64,
                Source {
                    run,
                    operations: (turns * targets) as f64,
                    ..Source::default()
                },
            )
        })
        .collect()
}

/// So many indirect jumps, to targets in a random order that recurs after `length` of them. Each target has text before its label, and
/// code from there to the jump back.
pub(super) fn jumps_in_order(
    targets: u64,
    length: u64,
    jumps: u64,
    (before, code): (&str, &str),
) -> Source {
    let mut order = String::new();
    for n in random::numbers(length, targets) {
        let _ = writeln!(order, "    .quad target_{n}");
    }
    let mut places = String::new();
    for n in 0..targets {
        let _ = write!(
            places,
            "{before}target_{n}:\n{code}    dec ecx\n    jnz next_jump\n    jmp order_end\n"
        );
    }
    let run = format!(
        "    .pushsection .data\n    .p2align 6\norder:\n{order}    .popsection
    lea rbx, [rip + order]
    mov rsi, rbx
    lea rdx, [rbx + {end}]
    mov ecx, {jumps}
    .p2align 6
next_jump:
    mov rax, [rsi]
    add rsi, 8
    cmp rsi, rdx
    cmove rsi, rbx
    jmp rax
{places}order_end:
",
        end = 8 * length
    );
    Source {
        run,
        operations: jumps as f64,
        ..Source::default()
    }
}

fn indirect_pattern(targets: u64) -> Vec<Point> {
    [4u64, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096]
        .into_iter()
        .map(|length| {
            let jumps = turns(length).max(16) * length;
            let each = ("    .p2align 4\n", "");
            Point::new(length as f64, jumps_in_order(targets, length, jumps, each))
        })
        .collect()
}

/// Jumps in lines of their own, executed in a random order so many times in all.
fn by_places(places: &[u64], length: impl Fn(u64) -> u64) -> Vec<Point> {
    let point = |&places: &u64| {
        let length = length(places);
        let turns = turns(length);
        let mut order: Vec<u64> = (0..length).map(|n| n % places).collect();
        random::shuffle(&mut order);
        let mut data = String::new();
        for place in &order {
            let _ = writeln!(data, "    .quad place_{place}");
        }
        let mut jumps = String::new();
        for place in 0..places {
            let _ = write!(
                jumps,
                "    .p2align 6\nplace_{place}:\n    add rsi, 8\n    jmp [rsi]\n"
            );
        }
        let run = format!(
            "    .pushsection .data\n    .p2align 6\norder:\n{data}    .quad next_turn\n    .popsection
    mov ecx, {turns}
again:
    lea rsi, [rip + order]
    jmp [rsi]
next_turn:
    dec ecx
    jnz again
    jmp places_end
{jumps}places_end:
"
        );
        Point::new(
            places as f64,
            Source {
                run,
                operations: (turns * length) as f64,
                ..Source::default()
            },
        )
    };
    places.iter().map(point).collect()
}

fn pattern() -> Vec<Point> {
    [8u64, 32, 128, 512, 1024, 2048, 4096, 8192, 16_384, 32_768]
        .into_iter()
        .map(|length| Point::new(length as f64, recurring(length, 0)))
        .collect()
}

fn pattern_apart() -> Vec<Point> {
    [0u64, 4, 8, 12, 16, 24, 32, 48]
        .into_iter()
        .map(|between| Point::new(between as f64, recurring(256, between)))
        .collect()
}

/// A branch in a random order of `length` directions that recurs, with taken jumps between its turns.
fn recurring(length: u64, between: u64) -> Source {
    let body = format!(
        "    cmp byte ptr [rsi], 0
    lea rsi, [rsi + 1]
    jz 4f
    nop
4:{NEXT}{}",
        jumps(between)
    );
    through_order((length, 2), turns(length).max(8), "", &body)
}

/// A sequence of random bits (Knuth's MMIX) in rax, of which bit 60 is used; kept in the data.
const RANDOM_START: &str = "    mov rax, [rdi]
    mov rbx, 6364136223846793005
    mov rcx, 1442695040888963407
";
const RANDOM_NEXT: &str = "    imul rax, rbx
    add rax, rcx
";
const RANDOM_END: &str = "    mov [rdi], rax\n";

fn history() -> Vec<Point> {
    [
        0u64, 8, 16, 32, 48, 64, 80, 92, 96, 128, 160, 192, 200, 256, 384, 512, 768, 1024,
    ]
    .into_iter()
    .map(|between| {
        let turns = 2000;
        let jumps = repeated(between, "jmp 6f\n    .p2align 3\n6:");
        let body = format!(
            "{RANDOM_NEXT}    bt rax, 60
    jc 4f
    jmp 5f
4:  nop
    jmp 5f
    .p2align 4
5:
{jumps}    bt rax, 60
    jc 4f
    nop
4:
"
        );
        Point::new(
            (between + 1) as f64,
            Source {
                run: format!("{RANDOM_START}{}{RANDOM_END}", counted(turns, &body)),
                data: 4096,
                operations: turns as f64,
                ..Source::default()
            },
        )
    })
    .collect()
}

fn loop_count() -> Vec<Point> {
    [2u64, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024]
        .into_iter()
        .map(|inner| {
            let turns = (40_000 / inner).max(200);
            let body = format!("    mov ecx, {inner}\n6:  dec ecx\n    jnz 6b\n");
            Point::new(
                inner as f64,
                Source {
                    run: counted(turns, &body),
                    operations: turns as f64,
                    ..Source::default()
                },
            )
        })
        .collect()
}

fn misprediction() -> Vec<Point> {
    let branches = 5000u64;
    // What the branch hangs on besides the random bit.
    let load = "    mov rdx, rax
    shr rdx, 40
    and edx, 0x3ffc0
    add rsi, [rdi + rdx + 64]
";
    let point = |x: usize, label: &str, before: &str, random: bool| {
        // Both sums have the same µops; only one has the random bit.
        let mask = if random { "0x1000000000000000" } else { "0" };
        let body = format!(
            "{RANDOM_NEXT}    mov rsi, rax
{before}    test rsi, r8
    jz 4f
    nop
4:
"
        );
        Point::named(
            x,
            label,
            Source {
                run: format!(
                    "    mov r8, {mask}\n{RANDOM_START}{}{RANDOM_END}",
                    counted(branches, &body)
                ),
                data: 64 + (256 << 10) + 4096,
                operations: branches as f64,
                ..Source::default()
            },
        )
    };
    vec![
        point(0, "the same", "", false),
        point(1, "random", "", true),
        point(2, "the same, behind a load", load, false),
        point(3, "random, behind a load", load, true),
    ]
}
