//! Blocks of one line of 64 bytes and of two, by what leaves them: what the second line costs where the way through them varies.

use std::fmt::Write;

use super::{Axis, Point, Probe, Source, counted};

/// Groups of blocks in a turn, each behind a branch that goes either way, in an order of 32 turns.
const GROUPS: u64 = 6;
/// Blocks of a group.
const BLOCKS: u64 = 6;
const TURNS: u64 = 4000;

const AXIS: Axis = Axis::plain("left by");

pub(super) const PROBES: &[Probe] = &[
    Probe {
        name: "one-line-blocks",
        what: "blocks of a few instructions in one line, by what leaves them, where branches before them go either way",
        axis: AXIS,
        unit: "cycles per block",
        points: || points(false),
    },
    Probe {
        name: "two-line-blocks",
        what: "the same of blocks that begin in the line before the one that they are left from",
        axis: AXIS,
        unit: "cycles per block",
        points: || points(true),
    },
];

/// What leaves a block.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Exit {
    Jump,
    Conditional { varies: bool },
    Call,
    Indirect { places: u64 },
    Return { functions: u64 },
}

fn points(two_lines: bool) -> Vec<Point> {
    let all = GROUPS * BLOCKS;
    let exits = [
        ("a jump", Exit::Jump),
        (
            "a branch that is taken",
            Exit::Conditional { varies: false },
        ),
        (
            "one that goes either way",
            Exit::Conditional { varies: true },
        ),
        ("a call", Exit::Call),
        ("an indirect jump", Exit::Indirect { places: 1 }),
        ("one to four places", Exit::Indirect { places: 4 }),
        ("a return", Exit::Return { functions: all }),
        ("one to several places", Exit::Return { functions: 4 }),
    ];
    let each = exits.into_iter().enumerate();
    each.map(|(n, (label, exit))| Point::named(n, label, source(exit, two_lines)))
        .collect()
}

fn source(exit: Exit, two_lines: bool) -> Source {
    // Orders of 32 turns: bits of these two decide.
    let mut turn = "    mov ecx, r15d\n    mov r14d, 0x93d1a47c\n    rol r14d, cl\n".to_owned();
    let mut elsewhere = String::new();
    let (enter, rest) = match two_lines {
        // 24 bytes to the end of the line.
        true => ("    .p2align 6\n    .skip 40, 0xcc\n", "    .nops 24, 11\n"),
        false => ("    .p2align 6\n", "    nop\n"),
    };
    for group in 0..GROUPS {
        let _ = writeln!(
            turn,
            "    lea eax, [ecx + {}]\n    mov edx, 0x5a3c96e1\n    bt edx, eax\n    jc aside_{group}\n    nop\n    jmp group_{group}\n    \
             .p2align 6\naside_{group}:\n    nop\n    jmp group_{group}\n    .p2align 6\ngroup_{group}:",
            5 * group
        );
        for block in group * BLOCKS..(group + 1) * BLOCKS {
            let begin = format!("    jmp block_{block}\n{enter}block_{block}:\n{rest}");
            let _ = match exit {
                Exit::Jump => write!(
                    turn,
                    "{begin}    jmp left_{block}\n    .p2align 6\nleft_{block}:\n"
                ),
                Exit::Conditional { varies } => {
                    let branch = match varies {
                        true => "rol r14d, 1\n    jc",
                        false => "test rsp, rsp\n    jnz",
                    };
                    write!(
                        turn,
                        "{begin}    {branch} left_{block}\n    nop\n    .p2align 6\nleft_{block}:\n"
                    )
                }
                Exit::Call => {
                    let _ = write!(
                        elsewhere,
                        "    .p2align 6\nfunction_{block}:\n    nop\n    ret\n"
                    );
                    write!(turn, "{begin}    call function_{block}\n    .p2align 6\n")
                }
                Exit::Indirect { places } => {
                    let mut table = format!("places_{block}: .quad ");
                    let mut lines = String::new();
                    for place in 0..places {
                        let comma = if place > 0 { ", " } else { "" };
                        let _ = write!(table, "{comma}place_{block}_{place}");
                        let _ = write!(
                            lines,
                            "place_{block}_{place}:\n    jmp left_{block}\n    .p2align 6\n"
                        );
                    }
                    let _ = write!(
                        elsewhere,
                        "    .pushsection .data\n{table}\n    .popsection\n"
                    );
                    write!(
                        turn,
                        "{begin}    rol r14d, 3\n    mov eax, r14d\n    and eax, {}\n    \
                         lea r11, [rip + places_{block}]\n    jmp [r11 + 8 * rax]\n    .p2align 6\n{lines}left_{block}:\n",
                        places - 1
                    )
                }
                Exit::Return { functions } => {
                    if block < functions {
                        let _ = write!(elsewhere, "{enter}function_{block}:\n{rest}    ret\n");
                    }
                    write!(
                        turn,
                        "    jmp left_{block}\n    .p2align 6\nleft_{block}:\n    call function_{}\n",
                        block % functions
                    )
                }
            };
        }
    }
    Source {
        run: format!(
            "{}    .pushsection .text.blocks, \"ax\"\n{elsewhere}    .popsection\n",
            counted(TURNS, &turn)
        ),
        operations: (TURNS * GROUPS * BLOCKS) as f64,
        ..Source::default()
    }
}
