//! Repeated string instructions: what they wait for and how long they take, by their bytes.

mod support;

use mcad_proto::event::Arch;
use mcad_proto::word::{BlockId, block_word};
use mcad_report::CpuReport;
use support::access;

const TIMES: u64 = 400;

/// Cycles of one turn of a loop: a chain of `late` dependent multiplications that the count needs,
/// and `rep stosq` of so many quadwords to the same place.
fn turn(cpu: &str, late: usize, quadwords: u64) -> f64 {
    run(cpu, late, quadwords).cycles as f64 / TIMES as f64
}

/// All turns of that loop.
fn run(cpu: &str, late: usize, quadwords: u64) -> CpuReport {
    // xor edx, edx with mov, so that the chain begins anew; imul rdx, rdx; add rcx, rdx
    let mut head = vec![0xba, 0, 0, 0, 0];
    for _ in 0..late {
        head.extend([0x48, 0x0f, 0xaf, 0xd2]);
    }
    // mov ecx, N; mov edi, ADDRESS
    head.extend([0xb9, quadwords as u8, 0, 0, 0]);
    head.extend([0xbf, 0, 0, 0, 0x70]);
    head.extend([0x48, 0x01, 0xd1]);
    let string = 0x1000 + head.len() as u64;
    let back = -(head.len() as i64) - 5;
    let blocks = [
        (0x1000, late as u16 + 4, head),
        (string, 1, vec![0xf3, 0x48, 0xab]),
        (string + 3, 1, vec![0xeb, back as u8]),
    ];
    let mut words = Vec::new();
    for _ in 0..TIMES {
        words.push(block_word(BlockId(0)));
        for n in 0..quadwords {
            words.push(block_word(BlockId(1)));
            words.push(access(0, true, 0x7000_0000 + 8 * n));
        }
        words.push(block_word(BlockId(2)));
    }
    support::run(cpu, Arch::X86_64, &blocks, &words)
        .cpus
        .remove(0)
}

/// Measured on Zen 5 (docs/MEMORY.md): 45 cycles a turn of 264 bytes, and 22 more behind a count that
/// is known 30 cycles later.
#[test]
fn zen5_goes_on_when_it_knows_how_far_a_string_goes() {
    let short = turn("zen5", 0, 33);
    assert!((38.0..52.0).contains(&short), "{short}");
    for late in [10, 20, 30] {
        let more = turn("zen5", late, 33) - short;
        let chain = 3.0 * late as f64;
        assert!(
            (chain - 12.0..chain + 4.0).contains(&more),
            "{late}: {more}"
        );
    }
    // Up to 127 bytes it is predicted.
    let predicted = turn("zen5", 10, 8) - turn("zen5", 0, 8);
    assert!(predicted < 12.0, "{predicted}");
}

/// What a string keeps from issuing waits for its microcode, which has a name among lost slots.
#[test]
fn slots_behind_a_string_are_the_cores() {
    for cpu in ["zen5", "skl"] {
        let slots = run(cpu, 0, 33).topdown;
        let (core, other) = (slots.backend_core as f64, slots.other as f64);
        assert!(core > 0.2 * slots.slots as f64, "{cpu}: {slots:?}");
        assert!(other < 0.02 * slots.slots as f64, "{cpu}: {slots:?}");
    }
}

/// CPUs whose files do not say that they wait do not.
#[test]
fn others_hide_what_computes_the_count() {
    for cpu in ["skl", "glc", "zen3"] {
        let more = turn(cpu, 5, 33) - turn(cpu, 0, 33);
        assert!(more < 8.0, "{cpu}: {more}");
    }
}
