//! Targets of indirect jumps that what was executed before tells: how far back a predictor sees it, on the way that the
//! code took and in the directions of conditional branches.

use std::fmt::Write;

use super::{Axis, Point, Probe, Source, random};

/// Times that something is chosen at random in an order.
const CHOICES: u64 = 16_384;
/// Times that an order is executed before it is measured.
const LEARNT: u64 = 12;

pub(super) const PROBES: &[Probe] = &[
    Probe {
        name: "ways",
        what: "an interpreter of two operations, whose jumps to the indirect jump that they have in common differ in the third bit of \
               their last byte's address; every second operation is the one that was chosen at random so many random ones before",
        axis: Axis {
            name: "random ones before",
            unit: "",
            logarithmic: false,
        },
        unit: "cycles per two operations",
        points: || copies(5, false),
    },
    Probe {
        name: "own-ways",
        what: "the same with an indirect jump of each operation's own",
        axis: Axis {
            name: "random ones before",
            unit: "",
            logarithmic: false,
        },
        unit: "cycles per two operations",
        points: || copies(7, true),
    },
    Probe {
        name: "told-targets",
        what: "a loop of a conditional branch that is random and an indirect jump that goes as that branch did so many turns before",
        axis: Axis {
            name: "turns before",
            unit: "",
            logarithmic: false,
        },
        unit: "cycles per turn",
        points: told,
    },
];

/// A source that calls `interpret` with the order's address in rsi and that of the places to go to in rbx.
fn source(order: &[u64], places: &str, code: &str) -> Source {
    let mut bytes = String::new();
    for byte in order {
        let _ = writeln!(bytes, "    .byte {byte}");
    }
    let call = "    lea rsi, [rip + order]\n    lea rbx, [rip + places]\n    call interpret\n";
    Source {
        setup: call.repeat(LEARNT as usize),
        run: format!(
            "{call}    .pushsection .data\n    .p2align 6\nplaces:\n    .quad {places}\norder:\n{bytes}    .popsection
    .pushsection .text.interpret, \"ax\"\n{code}    .popsection\n"
        ),
        operations: CHOICES as f64,
        ..Source::default()
    }
}

/// Orders in which every second operation is the one that was chosen 0 to `points` - 1 random ones before.
fn copies(points: usize, own: bool) -> Vec<Point> {
    let random: Vec<u64> = random::numbers(CHOICES, 2).collect();
    let next = "    movzx eax, byte ptr [rsi]\n    inc rsi\n    jmp [rbx + rax * 8]\n";
    let mut code = format!("    .p2align 12\ninterpret:\n{next}    .p2align 12\ncommon:\n{next}");
    for operation in 0..2 {
        // The last byte of the jump is the seventeenth of the operation, or the twenty-first.
        let end = 17 + 4 * operation;
        let _ = write!(code, "    .p2align 12\noperation_{operation}:\n");
        let _ = match own {
            true => write!(code, "    .skip {end} - 9, 0x90\n{next}"),
            false => write!(
                code,
                "    .skip {end} - 5, 0x90\n    .byte 0xe9\n    .long common - . - 4\n"
            ),
        };
    }
    code.push_str("    .p2align 12\nout: ret\n");
    (0..points)
        .map(|ago| {
            let told = |n: usize| random[(n + random.len() - ago) % random.len()];
            let each = (0..random.len()).flat_map(|n| [random[n], told(n)]);
            let order: Vec<u64> = each.chain([2]).collect();
            let places = "operation_0, operation_1, out";
            Point::new(ago as f64, source(&order, places, &code))
        })
        .collect()
}

fn told() -> Vec<Point> {
    let random: Vec<u64> = random::numbers(CHOICES, 2).collect();
    let mut code = format!(
        "    .p2align 12\ninterpret:\n    mov ecx, {CHOICES}\n    .p2align 6\n3:  test byte ptr [rsi], 1\n    jnz 4f\n    .p2align 6
4:  movzx eax, byte ptr [rsi + 1]\n    add rsi, 2\n    jmp [rbx + rax * 8]\n"
    );
    for place in 0..2 {
        let _ = write!(
            code,
            "    .p2align 12\nplace_{place}:\n    dec ecx\n    jnz 3b\n    ret\n"
        );
    }
    [0usize, 2, 4, 6, 7, 8, 9, 10, 12]
        .into_iter()
        .map(|ago| {
            let told = |n: usize| random[(n + random.len() - ago) % random.len()];
            let order: Vec<u64> = (0..random.len())
                .flat_map(|n| [random[n], told(n)])
                .collect();
            Point::new(ago as f64, source(&order, "place_0, place_1", &code))
        })
        .collect()
}
