//! Loads that an older store cannot serve, in whole programs: they wait until it is written.

mod support;

use mcad_proto::event::Arch;
use mcad_proto::word::{Access, BlockId, GuestAddr, access_word, block_word};

const TIMES: u64 = 400;
const PLACE: u64 = 0x7000_0040;

/// Bytes that are stored, and where from [`PLACE`] on.
type Stored = (u8, u64);

/// Cycles of one turn of a loop: `late` dependent multiplications, a store, and a load of four bytes,
/// which these multiplications need in the next turn if it is in their `chain`.
fn turn(cpu: &str, late: usize, stored: Stored, chain: bool) -> f64 {
    // Without what the first ones take, whose pages and code are new.
    let cycles = |times| turns(times, cpu, late, stored, chain);
    (cycles(2 * TIMES) - cycles(TIMES)) as f64 / TIMES as f64
}

/// Cycles of so many.
fn turns(times: u64, cpu: &str, late: usize, (size, offset): Stored, chain: bool) -> u64 {
    let mut code = Vec::new();
    for _ in 0..late {
        code.extend([0x48, 0x0f, 0xaf, 0xd2]); // imul rdx, rdx
    }
    match size {
        1 => code.extend([0x88, 0x46, offset as u8]), // mov [rsi + offset], al
        _ => code.extend([0x89, 0x46, offset as u8]), // mov [rsi + offset], eax
    }
    code.extend([0x8b, 0x4e, 0]); // mov ecx, [rsi]
    if chain {
        code.extend([0x09, 0xca]); // or edx, ecx
    }
    let back = -(code.len() as i64) - 2;
    code.extend([0xeb, back as u8]); // jmp
    let instructions = late + 3 + usize::from(chain);
    let at = |index: usize, store: bool, size: u8, address: u64| {
        access_word(Access {
            index: index as u16,
            store,
            size,
            address: GuestAddr(address),
        })
    };
    let mut words = Vec::new();
    for _ in 0..times {
        words.push(block_word(BlockId(0)));
        words.push(at(late, true, size, PLACE + offset));
        words.push(at(late + 1, false, 4, PLACE));
    }
    let blocks = [(0x1000, instructions as u16, code)];
    let report = support::run(cpu, Arch::X86_64, &blocks, &words);
    report.cpus[0].cycles
}

/// On Zen 5: 14.0 cycles a turn whichever byte was stored, though no turn needs anything of another,
/// and 1.0 where the store has all bytes.
#[test]
fn zen5_waits_for_the_store_to_be_written() {
    for offset in [0, 1, 3] {
        let cycles = turn("zen5", 0, (1, offset), false);
        assert!((13.9..14.1).contains(&cycles), "{offset}: {cycles}");
    }
    let served = turn("zen5", 0, (4, 0), false);
    assert!(served < 6.0, "{served}");
}

/// A store is written after all that is before it has retired: 14 cycles behind the chain before it, and
/// one more to hand the value on.
#[test]
fn a_store_is_written_when_it_has_retired() {
    for late in [10, 20] {
        let cycles = turn("zen5", late, (1, 0), true);
        let chain = 3.0 * late as f64;
        let more = cycles - chain;
        assert!((14.9..15.1).contains(&more), "{late}: {more}");
    }
}

/// On Redwood Cove: 16.0 cycles a turn where the store begins elsewhere than the load, 1.0 where it begins there, though it has but
/// a part; in a chain 19 to 20 cycles a link (probes `forward-partly`, `forward-8-in-4`), and on Golden Cove 18.9 (docs/GOLDEN-COVE.md).
#[test]
fn golden_coves_wait_sixteen_cycles_unless_both_begin_at_one_place() {
    for cpu in ["glc", "rwc"] {
        for offset in [1, 3] {
            let cycles = turn(cpu, 0, (1, offset), false);
            assert!((15.9..16.1).contains(&cycles), "{cpu}, {offset}: {cycles}");
        }
        let begins = turn(cpu, 0, (1, 0), false);
        assert!(begins < 2.1, "{cpu}: {begins}");
    }
}

/// CPUs whose files do not say so overlap such loads.
#[test]
fn others_overlap_loads_of_different_turns() {
    let cycles = turn("glc", 0, (1, 0), false);
    assert!(cycles < 12.0, "{cycles}");
}
