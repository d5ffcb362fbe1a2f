//! Conditional branches close together whose directions are all foreseen at once: how many of them the predictor finds and fetch
//! takes in a cycle.

use std::fmt::Write;

use super::{Axis, Point, Probe, Source, random};

const TURNS: u64 = 20_000;
/// Programs of random branches.
const PROGRAMS: usize = 24;

pub(super) const PROBES: &[Probe] = &[Probe {
    name: "branch-mix",
    what: "random loops of three to ten short jumps that are taken always, never, or as a bit of the turn's number says: \
           branches that are all foreseen, and how many are found and fetched in a cycle",
    axis: Axis {
        name: "program",
        unit: "",
        logarithmic: false,
    },
    unit: "cycles per turn",
    points: mixes,
}];

fn mixes() -> Vec<Point> {
    let mut numbers = random::numbers(u64::MAX, 1 << 16);
    let mut below = move |n: u64| numbers.next().unwrap_or_default() % n;
    (0..PROGRAMS)
        .map(|n| Point::new(n as f64, mix(&mut below)))
        .collect()
}

fn mix(below: &mut impl FnMut(u64) -> u64) -> Source {
    let mut row = String::new();
    for _ in 0..3 + below(8) {
        // Never, always, and as three bits of the turn's number say.
        let mask = [0x100_0000u32, 0, 1, 2, 4][below(5) as usize];
        let jump = ["jz", "jnz"][below(2) as usize];
        nops(&mut row, below(4), below);
        let _ = writeln!(row, "    test ebx, {mask}\n    {jump} 2f");
        nops(&mut row, 1 + below(3), below);
        row.push_str("2:\n");
    }
    let skip = 16 * below(4);
    Source {
        run: format!(
            "    xor ebx, ebx
    mov r15d, {TURNS}
    jmp 8f
    .p2align 6
    .skip {skip}
8:
{row}    inc ebx
    dec r15
    jnz 8b
"
        ),
        operations: TURNS as f64,
        ..Source::default()
    }
}

/// So many instructions that do nothing, of one or four bytes each.
fn nops(text: &mut String, count: u64, below: &mut impl FnMut(u64) -> u64) {
    for _ in 0..count {
        text.push_str(["    nop\n", "    nop dword ptr [rax + 1]\n"][below(2) as usize]);
    }
}
