//! Whole programs on the in-order x86 core: closed forms of what its caches, its predictor and its store
//! buffer cost, with Bonnell's parameters.

#![allow(clippy::unwrap_used)] // Helpers of tests fail tests.

mod support;

use mcad_isa::machine;
use mcad_proto::event::Arch;
use mcad_proto::word::{BlockId, block_word};
use mcad_report::CpuReport;

/// A block: address, instructions, bytes.
type Block = (u64, u16, Vec<u8>);

/// Bytes of data, from here on.
const DATA: u64 = 0x10_0000_0000;

fn run(blocks: &[Block], words: &[u64]) -> CpuReport {
    let mut report = support::run("atom", Arch::X86_64, blocks, words);
    report.cpus.remove(0)
}

/// A loop at 0x1000 of `body`, whose first instruction accesses memory, so many `nop`s, and a jump back.
fn turns(body: &[u8], instructions: u16, nops: u16) -> Block {
    let mut bytes = body.to_vec();
    bytes.extend(std::iter::repeat_n(0x90, usize::from(nops)));
    let back = -(bytes.len() as i32 + 5);
    bytes.push(0xe9);
    bytes.extend(back.to_le_bytes());
    (0x1000, instructions + nops + 1, bytes)
}

/// Cycles of a turn of a loop that goes round through so many places `stride` apart, once it has been
/// everywhere; and the report.
fn each(block: &Block, store: bool, places: u64, stride: u64) -> (f64, CpuReport) {
    let rounds = |count: u64| {
        let words: Vec<u64> = (0..count * places)
            .flat_map(|n| {
                let address = DATA + n % places * stride;
                [block_word(BlockId(0)), support::access(0, store, address)]
            })
            .collect();
        run(std::slice::from_ref(block), &words)
    };
    let (few, many) = (rounds(2), rounds(6));
    let turns = (4 * places) as f64;
    ((many.cycles - few.cycles) as f64 / turns, many)
}

/// mov rax, [rax]
const CHASE: [u8; 3] = [0x48, 0x8b, 0x00];

/// mov [rbx], rax
const STORE: [u8; 3] = [0x48, 0x89, 0x03];

fn near(what: &str, cycles: f64, expected: f64) {
    assert!(
        (cycles - expected).abs() < 0.02 * expected + 0.05,
        "{what}: {cycles}, not {expected}"
    );
}

#[test]
fn loads_take_what_their_level_takes() {
    let chase = turns(&CHASE, 1, 0);
    // 24 KiB in 64 sets of six ways; with a seventh line in each all are gone before they come again.
    near("first level", each(&chase, false, 384, 64).0, 3.0);
    near("second level", each(&chase, false, 448, 64).0, 15.0);
    // Lines of 1 MiB, of each pair one; of 32 of them one is in a new page, which is in no buffer of
    // translations: seven cycles to know that, twelve for the table's line, four for the walk.
    let (cycles, report) = each(&chase, false, 8192, 128);
    near("memory", cycles, 199.0 + 23.0 / 32.0);
    let slots = report.slots.unwrap();
    assert!(slots.dram > 100 * slots.translation && slots.translation > 0);
    assert_eq!(slots.load_use, 0, "none comes from the first level");
    // The other line of a pair comes along.
    let (cycles, _) = each(&chase, false, 16384, 64);
    assert!((100.0..115.0).contains(&cycles), "{cycles}");
}

#[test]
fn a_translation_of_the_second_buffer_takes_seven_cycles() {
    let chase = turns(&CHASE, 1, 0);
    // One line of each page, next to each other in the sets of the cache.
    let stride = 4096 + 64;
    near("16 pages", each(&chase, false, 16, stride).0, 3.0);
    near("32 pages", each(&chase, false, 32, stride).0, 10.0);
}

#[test]
fn a_miss_is_felt_where_its_value_is_used() {
    for nops in [0, 8, 16, 24, 32, 48] {
        let block = turns(&CHASE, 1, nops);
        let hit = each(&block, false, 8, 64).0;
        let missed = each(&block, false, 448, 64).0;
        near(&format!("{nops} nops"), missed, hit.max(15.0));
    }
    // Nobody reads rcx: loads that miss go on issuing as fast as lines come from the second level.
    let alone = turns(&[0x48, 0x8b, 0x08], 1, 0);
    let (cycles, report) = each(&alone, false, 448, 64);
    let line = 64.0
        / machine::cpu("atom")
            .unwrap()
            .core
            .cache
            .unwrap()
            .l2
            .bytes_per_cycle;
    assert!(cycles < line + 0.5, "{cycles}");
    assert_eq!(report.slots.unwrap().dependencies, 0);
}

#[test]
fn stores_wait_for_the_store_buffer_alone() {
    let store = turns(&STORE, 1, 0);
    let (hits, _) = each(&store, true, 8, 64);
    let (nothing, _) = each(&turns(&CHASE, 1, 0), false, 8, 64);
    assert!(hits <= nothing + 0.05, "{hits} {nothing}");
    // Each line comes from memory, which has so many bytes a cycle.
    let (missing, report) = each(&store, true, 8192, 128);
    let dram = machine::cpu("atom").unwrap().core.dram.unwrap();
    let line = 64.0 / dram.bytes_per_cycle;
    assert!((line..4.0 * line).contains(&missing), "{missing}");
    let slots = report.slots.unwrap();
    assert!(
        slots.stores * 10 > 9 * (slots.sum() - slots.retiring),
        "{slots:?}"
    );
}

/// A branch that goes one way or the other, as `taken` says, and comes back.
fn branches(count: u64, taken: impl Fn(u64) -> bool) -> CpuReport {
    // jne to 0x2000; jmp back; at 0x2000 jmp back
    let there = [0x0f, 0x85, 0xfa, 0x0f, 0, 0];
    let blocks: [Block; 3] = [
        (0x1000, 1, there.to_vec()),
        (0x1006, 1, vec![0xeb, 0xf8]),
        (0x2000, 1, vec![0xe9, 0xfb, 0xef, 0xff, 0xff]),
    ];
    let words: Vec<u64> = (0..count)
        .flat_map(|n| [0, if taken(n) { 2 } else { 1 }])
        .map(|id| block_word(BlockId(id)))
        .collect();
    run(&blocks, &words)
}

#[test]
fn a_misprediction_costs_thirteen_cycles() {
    let random = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 17 & 1 != 0;
    let scattered = |n: u64| random(random(n) as u64 + n * n);
    let report = branches(20_000, scattered);
    let wrong = report.branches.as_ref().unwrap().wrong();
    assert!(wrong > 4_000, "{wrong}");
    let slots = report.slots.unwrap().bad_speculation;
    let each = slots as f64 / 2.0 / wrong as f64;
    assert!((12.4..=13.6).contains(&each), "{each}");
    // What has a pattern is predicted.
    let report = branches(20_000, |n| n % 3 == 0);
    let wrong = report.branches.as_ref().unwrap().wrong();
    assert!(wrong < 100, "{wrong}");
}

#[test]
fn code_that_does_not_fit_is_missing() {
    // Straight lines of code, each with a jump to the next; the last one goes back.
    let round = |lines: u64| {
        let blocks: Vec<Block> = (0..lines)
            .map(|n| {
                let next = if n + 1 < lines { 64 } else { -(n as i32) * 64 };
                let mut bytes = vec![0xe9];
                bytes.extend((next - 5).to_le_bytes());
                (0x10_0000 + 64 * n, 1, bytes)
            })
            .collect();
        let words: Vec<u64> = (0..8 * lines)
            .map(|n| block_word(BlockId((n % lines) as u32)))
            .collect();
        run(&blocks, &words)
    };
    let missing = |report: &CpuReport| {
        let slots = report.slots.unwrap();
        slots.icache as f64 / slots.sum() as f64
    };
    // 32 KiB in 64 sets of eight ways: after the first of eight rounds all is there, or nothing.
    let (fits, not) = (round(512), round(576));
    assert!(missing(&fits) < 0.35, "{}", missing(&fits));
    let per_line = |report: &CpuReport, lines: f64| report.cycles as f64 / lines / 8.0;
    assert!(per_line(&not, 576.0) > per_line(&fits, 512.0) + 5.0);
    // More branches than targets are known: decode finds each, behind which nothing is fetched for seven
    // cycles.
    let branches = fits.branches.as_ref().unwrap();
    assert_eq!(branches.decoded, branches.taken);
}

#[test]
fn every_slot_of_a_program_has_one_cause() {
    let random = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    // add rax, [rbx]; mov [rcx], rax; jne; back from either place
    let blocks: [Block; 3] = [
        (
            0x1000,
            3,
            vec![0x48, 0x03, 0x03, 0x48, 0x89, 0x01, 0x75, 0x78],
        ),
        (0x1008, 1, vec![0xeb, 0xf6]),
        (0x1080, 1, vec![0xe9, 0x7b, 0xff, 0xff, 0xff]),
    ];
    let words: Vec<u64> = (0..30_000)
        .flat_map(|n| {
            let other = if random(n) & 1 != 0 { 2 } else { 1 };
            // Mostly in 48 KiB.
            let words = if n % 8 == 0 { 0x4_0000 } else { 0x1800 };
            [
                block_word(BlockId(0)),
                support::access(0, false, DATA + random(n) % words * 8),
                support::access(1, true, DATA + random(n + 7) % 0x400 * 8),
                block_word(BlockId(other)),
            ]
        })
        .collect();
    let report = run(&blocks, &words);
    let (slots, all) = (report.slots.unwrap(), &report.topdown);
    assert_eq!(slots.sum() + all.other, all.slots);
    assert_eq!(slots.bad_speculation, all.bad_speculation);
    assert_eq!(slots.frontend + slots.icache, all.frontend);
    let memory = slots.load_use + slots.l2 + slots.dram + slots.translation + slots.stores;
    assert_eq!(memory, all.backend_memory);
    for part in [
        slots.l2,
        slots.dram,
        slots.translation,
        slots.bad_speculation,
    ] {
        assert!(part > 0, "{slots:?}");
    }
    let blocks = report.blocks.iter().map(|b| b.slots.unwrap());
    let mut sum = mcad_report::SlotStack::default();
    blocks.for_each(|block| sum.add(&block));
    assert_eq!(sum, slots);
}
