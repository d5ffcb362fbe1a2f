//! Whole programs on in-order cores of AArch64 and RISC-V: closed forms of what their caches, predictors and
//! return stacks cost, with the parameters of each CPU's own file, and without each mechanism.

#![allow(clippy::unwrap_used)] // Helpers of tests fail tests.

mod support;

use std::sync::Arc;

use mcad_core::simulation::{AnalysisKind, Options, Simulation};
use mcad_isa::machine::hierarchy::{Caches, LINE_BYTES, Prefetch, Tlbs};
use mcad_isa::machine::inorder::{InOrder, Predictor};
use mcad_isa::machine::params::Core;
use mcad_isa::machine::{self, CpuModel};
use mcad_proto::event::Arch;
use mcad_proto::word::{BlockId, block_word};
use mcad_report::{CpuReport, SlotStack};

/// A block: address, instructions, bytes.
type Block = (u64, u16, Vec<u8>);

const CPUS: [&str; 7] = [
    "cortex-a8",
    "cortex-a53",
    "cortex-a55",
    "cortex-a510",
    "rocket",
    "sifive-u74",
    "spacemit-x60",
];

/// Bytes of data, from here on.
const DATA: u64 = 0x10_0000_0000;
const PAGE: u64 = 4096;

fn cpu(name: &str) -> Arc<CpuModel> {
    machine::cpu(name).unwrap()
}

/// `name` with what a file changes.
fn changed(name: &str, text: &str) -> Arc<CpuModel> {
    let text = format!("base = \"{name}\"\n{text}");
    let none = |file: &str| Err(format!("no {file}"));
    machine::model_from("changed.toml", &text, &none).unwrap()
}

/// `name` with other parameters of caches and prefetchers.
fn with(name: &str, change: impl Fn(&mut Core)) -> Arc<CpuModel> {
    let model = cpu(name);
    let mut core = model.core.clone();
    change(&mut core);
    Arc::new(CpuModel {
        name: model.name.clone(),
        full_name: model.full_name.clone(),
        core,
        instructions: model.instructions.clone(),
        qemu_cpu: None,
    })
}

/// Prefetchers would bring some lines sooner.
fn without_prefetchers(name: &str) -> Arc<CpuModel> {
    with(name, |core| core.prefetch = Prefetch::default())
}

fn core(model: &CpuModel) -> &InOrder {
    model.core.in_order.as_ref().unwrap()
}

fn caches(model: &CpuModel) -> &Caches {
    model.core.cache.as_ref().unwrap()
}

fn tlbs(model: &CpuModel) -> &Tlbs {
    model.core.tlb.as_ref().unwrap()
}

fn run(model: &Arc<CpuModel>, blocks: &[Block], words: &[u64]) -> CpuReport {
    let mut simulation = Simulation::new(Options {
        cpus: vec![Arc::clone(model)],
        analyses: vec![AnalysisKind::Pipeline],
        memory: true,
        one_core: false,
    });
    support::begin(&mut simulation, model.arch(), blocks);
    support::finish(simulation, words).cpus.remove(0)
}

/// The word that is meant for A64, or the one for RISC-V.
fn word(model: &CpuModel, a64: u32, riscv: u32) -> u32 {
    match model.arch() {
        Arch::AArch64 => a64,
        _ => riscv,
    }
}

/// A jump over so many bytes; with `link`, a call.
fn jump(model: &CpuModel, bytes: i64, link: bool) -> u32 {
    let field = |high: u32, low: u32| (bytes >> low) as u32 & ((1 << (high - low + 1)) - 1);
    match model.arch() {
        Arch::AArch64 => field(27, 2) | if link { 0x9400_0000 } else { 0x1400_0000 },
        _ => {
            let to = field(20, 20) << 31 | field(10, 1) << 21 | field(11, 11) << 20;
            to | field(19, 12) << 12 | u32::from(link) << 7 | 0x6f
        }
    }
}

/// ldr x0, [x0] or ld a0, (a0): each needs the one before.
const CHASE: (u32, u32) = (0xf940_0000, 0x0005_3503);
/// ldr x1, [x2] or ld a1, (a2): nobody needs it.
const LOAD: (u32, u32) = (0xf940_0041, 0x0006_3583);
/// str x1, [x2] or sd a1, (a2).
const STORE: (u32, u32) = (0xf900_0041, 0x00b6_3023);

/// A loop of an access and a jump back.
fn turns(model: &CpuModel, access: (u32, u32)) -> Block {
    let words = [word(model, access.0, access.1), jump(model, -4, false)];
    (0x1000, 2, support::code(&words))
}

/// The `n`th of 2^`bits` places, so that no step between two recurs soon.
fn scattered(n: u64, bits: u32) -> u64 {
    (n.reverse_bits() >> (64 - bits)) & ((1 << bits) - 1)
}

/// Cycles of a turn of a loop that goes round through so many lines, page by page and scattered in each, once
/// it has been everywhere; and the report. One of `every` lines is there.
fn each(model: &Arc<CpuModel>, access: (u32, u32), lines: u64, every: u64) -> (f64, CpuReport) {
    let in_page = PAGE / LINE_BYTES / every;
    let block = turns(model, access);
    let rounds = |count: u64| {
        let words: Vec<u64> = (0..count * lines)
            .flat_map(|n| {
                let n = n % lines;
                let line = scattered(n % in_page, in_page.ilog2()) * every;
                let address = DATA + n / in_page * PAGE + line * LINE_BYTES;
                let store = access == STORE;
                [block_word(BlockId(0)), support::access(0, store, address)]
            })
            .collect();
        run(model, std::slice::from_ref(&block), &words)
    };
    let (few, many) = (rounds(2), rounds(4));
    let turns = (2 * lines) as f64;
    ((many.cycles - few.cycles) as f64 / turns, many)
}

/// Lines of a first level, and so many that each set has one too many.
fn lines_of_first_level(model: &CpuModel) -> (u64, u64) {
    let l1d = caches(model).l1d;
    let lines = u64::from(l1d.kib) * 1024 / LINE_BYTES;
    (lines, lines + lines / u64::from(l1d.ways))
}

/// Lines of twice the last level, of which every other one is there.
fn lines_of_memory(model: &CpuModel) -> u64 {
    let caches = caches(model);
    let last = caches.l3.unwrap_or(caches.l2);
    4 * u64::from(last.kib) * 1024 / (2 * LINE_BYTES)
}

fn slots(report: &CpuReport) -> SlotStack {
    report.slots.unwrap()
}

#[track_caller]
fn near(what: &str, cycles: f64, expected: f64) {
    assert!(
        (cycles - expected).abs() < 0.02 * expected + 0.1,
        "{what}: {cycles}, not {expected}"
    );
}

#[test]
fn a_chase_takes_what_each_level_takes() {
    for name in CPUS {
        let model = without_prefetchers(name);
        let hit = model.core.execute.load_latency as f64;
        let (fits, not) = lines_of_first_level(&model);
        near(name, each(&model, CHASE, fits, 1).0, hit);
        let caches = caches(&model);
        let (cycles, report) = each(&model, CHASE, not, 1);
        near(name, cycles, caches.l2.latency as f64);
        assert!(slots(&report).l2 > 0 && slots(&report).load_use < slots(&report).l2);
        if let Some(l3) = caches.l3 {
            let (cycles, report) = each(&model, CHASE, u64::from(l3.kib) * 8, 1);
            let pages = tlbs(&model).l2.latency as f64 / 64.0;
            near(name, cycles, l3.latency as f64 + pages);
            let slots = slots(&report);
            assert!(
                slots.l3 > 10 * slots.l2 && slots.dram < slots.l3,
                "{slots:?}"
            );
        }
    }
}

#[test]
fn a_chase_in_memory_walks_tables_once_a_page() {
    for name in CPUS {
        let model = without_prefetchers(name);
        let (cycles, report) = each(&model, CHASE, lines_of_memory(&model), 2);
        // Of 32 lines one is in a new page, whose table's line comes from the second level at best, and from
        // memory, as it does for one page of eight.
        let tlb = tlbs(&model);
        let (caches, dram) = (caches(&model), model.core.dram.unwrap());
        let least = (tlb.l2.latency + tlb.walk) as f64 / 32.0;
        let most = least + dram.latency as f64 / 32.0;
        let over = cycles - dram.latency as f64;
        assert!(over <= most + 0.5, "{name}: {cycles}");
        // What a larger buffer of translations has needs no walk.
        let pages = lines_of_memory(&model) / 32;
        if pages > u64::from(tlb.l2.entries) {
            assert!(over >= least - 0.5, "{name}: {cycles}");
        }
        let slots = slots(&report);
        assert!(slots.dram > 20 * slots.translation, "{name}: {slots:?}");
        assert_eq!(slots.sum() + report.topdown.other, report.topdown.slots);
        assert!(caches.l2.latency < dram.latency);
    }
}

#[test]
fn perfect_caches_take_what_the_first_level_takes() {
    for name in CPUS {
        let perfect = "[in_order.memory.cache]\nperfect_l1d = true";
        let model = changed(name, perfect);
        let (_, lines) = lines_of_first_level(&model);
        let hit = model.core.execute.load_latency as f64;
        near(name, each(&model, CHASE, lines, 1).0, hit);
    }
}

#[test]
fn as_many_lines_are_on_their_way_as_there_are_buffers() {
    for name in CPUS {
        let model = without_prefetchers(name);
        let lines = lines_of_memory(&model);
        let dram = model.core.dram.unwrap();
        let way = (dram.latency - model.core.execute.load_latency) as f64;
        let rate = LINE_BYTES as f64 / dram.bytes_per_cycle;
        let (cycles, report) = each(&model, LOAD, lines, 2);
        // What waits for a buffer does not issue.
        let top = &report.topdown;
        assert!(slots(&report).dram > top.slots / 2, "{name}: {top:?}");
        assert!(top.other < top.slots / 20, "{name}: {top:?}");
        let expected = (way / f64::from(caches(&model).fill_buffers)).max(rate);
        // Walks and the turns themselves come on top.
        let over = cycles - expected;
        assert!(
            (-1.0..0.15 * expected + 4.0).contains(&over),
            "{name}: {cycles}, {expected}"
        );
        let one = with(name, |core| {
            core.prefetch = Prefetch::default();
            core.cache.as_mut().unwrap().fill_buffers = 1;
        });
        let (cycles, _) = each(&one, LOAD, lines, 2);
        assert!(cycles > way - 1.0, "{name}: {cycles}");
    }
}

#[test]
fn an_address_that_is_written_back_does_not_wait_for_what_is_loaded() {
    for name in ["cortex-a53", "cortex-a55", "cortex-a510"] {
        // Nor for buffers.
        let model = with(name, |core| {
            core.prefetch = Prefetch::default();
            core.cache.as_mut().unwrap().fill_buffers = 256;
        });
        let (fits, lines) = lines_of_first_level(&model);
        // ldr x1, [x0], #64: the next one needs x0, and nobody x1.
        let walk = (0xf844_0401, 0);
        let hits = each(&model, walk, fits, 1).0;
        let rate = LINE_BYTES as f64 / caches(&model).l2.bytes_per_cycle;
        near(name, each(&model, walk, lines, 1).0, hits.max(rate));
    }
}

#[test]
fn stores_that_miss_wait_for_the_store_buffer() {
    for name in CPUS {
        let model = without_prefetchers(name);
        let hits = each(&model, STORE, 8, 1).0;
        let (missing, report) = each(&model, STORE, lines_of_memory(&model), 2);
        let rate = LINE_BYTES as f64 / model.core.dram.unwrap().bytes_per_cycle;
        assert!(hits < 4.0 && missing >= rate, "{name}: {hits} {missing}");
        let slots = slots(&report);
        let lost = slots.sum() - slots.retiring;
        assert!(slots.stores * 10 > 9 * lost, "{name}: {slots:?}");
    }
}

/// A branch that goes one way or the other, as `taken` says, and comes back.
fn branches(model: &Arc<CpuModel>, count: u64, taken: impl Fn(u64) -> bool) -> CpuReport {
    // b.ne or bne a0, a1 over 64 bytes
    let there = word(model, 0x5400_0201, 0x04b5_1063);
    let back = |from: i64| support::code(&[jump(model, 0x1000 - from, false)]);
    let blocks: [Block; 3] = [
        (0x1000, 1, support::code(&[there])),
        (0x1004, 1, back(0x1004)),
        (0x1040, 1, back(0x1040)),
    ];
    let words: Vec<u64> = (0..count)
        .flat_map(|n| [0, if taken(n) { 2 } else { 1 }])
        .map(|id| block_word(BlockId(id)))
        .collect();
    run(model, &blocks, &words)
}

fn chance(n: u64) -> bool {
    let random = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 17 & 1 != 0;
    random(u64::from(random(n)) + n * n)
}

#[test]
fn a_misprediction_costs_what_the_file_says() {
    for name in CPUS {
        let model = cpu(name);
        let report = branches(&model, 20_000, chance);
        let wrong = report.branches.as_ref().unwrap().wrong();
        assert!(wrong > 4_000, "{name}: {wrong}");
        let lost = slots(&report).bad_speculation;
        let each = lost as f64 / f64::from(core(&model).width) / wrong as f64;
        let expected = f64::from(core(&model).mispredicted());
        assert!(
            (each - expected).abs() < 1.0,
            "{name}: {each}, not {expected}"
        );
        // Each cycle more of it is one more, and a perfect predictor makes none.
        let slower = core(&model).branch.redirect + 5;
        let slower = changed(name, &format!("[in_order.branch]\nredirect = {slower}"));
        let more = branches(&slower, 20_000, chance).cycles - report.cycles;
        near(name, more as f64 / wrong as f64, 5.0);
        let perfect = changed(name, "[in_order.predictor]\nkind = \"perfect\"");
        let report = branches(&perfect, 20_000, chance);
        assert!(report.branches.is_none() && slots(&report).bad_speculation == 0);
    }
}

#[test]
fn what_has_a_pattern_is_predicted() {
    for name in CPUS {
        // A counter alone gets half of it wrong at least.
        let wrong = branches(&cpu(name), 20_000, |n| n % 2 == 0);
        let wrong = wrong.branches.as_ref().unwrap().wrong();
        assert!(wrong < 200, "{name}: {wrong}");
    }
}

/// Calls in calls, so many deep, and back.
fn returns(model: &Arc<CpuModel>, depth: u64, rounds: u64) -> CpuReport {
    let place = |n: u64| 0x1_0000 + 0x100 * n;
    let ret = word(model, 0xd65f_03c0, 0x0000_8067);
    let call = support::code(&[jump(model, 0x100, true)]);
    // Of each a call of the next one, and behind it a return; the first goes round.
    let mut blocks: Vec<Block> = Vec::new();
    for n in 0..depth {
        let behind = match n {
            0 => jump(model, -4, false),
            _ => ret,
        };
        blocks.push((place(n), 1, call.clone()));
        blocks.push((place(n) + 4, 1, support::code(&[behind])));
    }
    blocks.push((place(depth), 1, support::code(&[ret])));
    let ids = || {
        let down = (0..depth).map(|n| 2 * n as u32);
        let up = (0..depth).rev().map(|n| 2 * n as u32 + 1);
        down.chain([2 * depth as u32]).chain(up)
    };
    let words: Vec<u64> = (0..rounds)
        .flat_map(|_| ids().map(|id| block_word(BlockId(id))))
        .collect();
    run(model, &blocks, &words)
}

#[test]
fn returns_are_predicted_as_deep_as_the_stack_is() {
    for name in CPUS {
        let model = cpu(name);
        let Some(Predictor::Gshare(predictor)) = &core(&model).predictor else {
            panic!("{name} predicts no branches");
        };
        let entries = u64::from(predictor.returns);
        for (depth, wrong) in [(entries, 0), (entries + 3, 3), (2 * entries, entries)] {
            let report = returns(&model, depth, 100);
            let found = report.branches.as_ref().unwrap().wrong_returns;
            assert_eq!(found, 100 * wrong, "{name}: {depth}");
        }
        let deeper = format!("[in_order.predictor]\nreturns = {}", 2 * entries);
        let report = returns(&changed(name, &deeper), 2 * entries, 100);
        assert_eq!(report.branches.as_ref().unwrap().wrong_returns, 0, "{name}");
    }
}

#[test]
fn indirect_calls_return_where_they_came_from() {
    for name in CPUS {
        let model = cpu(name);
        // blr x8 or jalr a0; behind it a jump back. There a return.
        let call = word(&model, 0xd63f_0100, 0x0005_00e7);
        let ret = word(&model, 0xd65f_03c0, 0x0000_8067);
        let blocks: [Block; 4] = [
            (0x1000, 1, support::code(&[call])),
            (0x1004, 1, support::code(&[jump(&model, -4, false)])),
            (0x2000, 1, support::code(&[ret])),
            (0x3000, 1, support::code(&[ret])),
        ];
        let calls = |there: fn(u32) -> u32| {
            let ids = (0..1000).flat_map(|n| [0, there(n), 1]);
            let words: Vec<u64> = ids.map(|id| block_word(BlockId(id))).collect();
            run(&model, &blocks, &words).branches.unwrap()
        };
        let (same, turns) = (calls(|_| 2), calls(|n| 2 + n % 2));
        assert_eq!((same.wrong_returns, turns.wrong_returns), (0, 0), "{name}");
        assert!(same.wrong_targets <= 1, "{name}: {}", same.wrong_targets);
        assert!(turns.wrong_targets > 900, "{name}: {}", turns.wrong_targets);
    }
}

#[test]
fn code_that_does_not_fit_is_missing() {
    for name in CPUS {
        let model = changed(name, "[in_order.predictor]\nkind = \"perfect\"");
        let l1i = caches(&model).l1i;
        let fits = u64::from(l1i.kib) * 1024 / LINE_BYTES;
        let round = |lines: u64| {
            let blocks: Vec<Block> = (0..lines)
                .map(|n| {
                    let next = if n + 1 < lines { 64 } else { -64 * n as i64 };
                    let code = support::code(&[jump(&model, next, false)]);
                    (0x10_0000 + LINE_BYTES * n, 1, code)
                })
                .collect();
            let words: Vec<u64> = (0..8 * lines)
                .map(|n| block_word(BlockId((n % lines) as u32)))
                .collect();
            let report = run(&model, &blocks, &words);
            (report.cycles as f64 / words.len() as f64, slots(&report))
        };
        let (few, many) = (round(fits), round(fits + fits / u64::from(l1i.ways)));
        assert!(many.0 > few.0 + 3.0, "{name}: {} {}", few.0, many.0);
        assert!(many.1.icache > 2 * few.1.icache, "{name}");
    }
}

#[test]
fn nothing_is_taken_for_granted_of_caches_and_branches() {
    for name in CPUS {
        let report = branches(&cpu(name), 10, |_| true);
        let granted = report.assumes.join("; ");
        for word in ["first-level", "predicted", "delivers"] {
            assert!(!granted.contains(word), "{name}: {granted}");
        }
        assert!(granted.contains("kernel"));
    }
}
