//! Caches, translation and memory in closed forms: capacity edges, associativity, latency sums,
//! overlap of misses, prefetch.

#![allow(clippy::unwrap_used)]

use mcad_core::memory::{Answer, Level, Memory, Request, Shared};
use mcad_isa::machine::hierarchy::{
    Caches, Dram, FirstLevel, Level as LevelParams, PageCache, Prefetch, RegionPrefetch,
    Replacement, StridePrefetch, TlbLevel, Tlbs,
};
use mcad_isa::machine::params::Core;

const L1: u64 = 5;
const L2: u64 = 14;
const L3: u64 = 50;
const DRAM: u64 = 300;
/// Bytes of the caches.
const SIZES: [u64; 3] = [32 << 10, 256 << 10, 4 << 20];

/// A core with round figures, no translation and no prefetchers.
fn core() -> Core {
    let mut core = mcad_isa::machine::cpu("skl").unwrap().core.clone();
    let level = |kib, latency| LevelParams {
        kib,
        ways: 8,
        replacement: Replacement::Lru,
        latency,
        own_clock_cycles: 0,
        bytes_per_cycle: 64.0,
        written_bytes_per_cycle: None,
        folded_bits: 0,
        victim: false,
    };
    let first = FirstLevel {
        kib: 32,
        ways: 8,
        replacement: Replacement::Lru,
    };
    core.execute.load_latency = L1;
    core.cache = Some(Caches {
        l1d: first,
        l1i: first,
        l2: level(256, L2),
        l3: Some(level(4096, L3)),
        fill_buffers: 10,
        on_its_way: None,
        fills_hold_up_stores: false,
        fills_hold_up_loads: false,
        first_store_alone: false,
        l2_fill_buffers: 16,
        store_buffer: 56,
        page_cache: PageCache::LastLevel,
        clock_mhz: None,
        perfect_l1d: false,
        perfect_l1i: false,
        perfect_l2: false,
    });
    core.dram = Some(Dram {
        latency: DRAM,
        bytes_per_cycle: 64.0,
    });
    core.tlb = None;
    core.prefetch = Prefetch::default();
    core.check().unwrap();
    core
}

fn memory(core: &Core) -> Box<Memory> {
    let mut memory = Memory::new(core).unwrap();
    memory.lend(&mut Shared::new(core));
    memory
}

fn request(address: u64, at: u64) -> Request {
    Request {
        instr: 0,
        pc: 0x40_0000,
        address,
        size: 8,
        at,
    }
}

/// Two levels of translation with round figures.
fn tlbs() -> Tlbs {
    let tlb = |entries, latency| TlbLevel {
        entries,
        ways: 4,
        replacement: Replacement::Lru,
        latency,
    };
    Tlbs {
        l1d: tlb(64, 0),
        l1i: tlb(64, 0),
        l2: tlb(1024, 7),
        l2i: None,
        walk: 20,
        walkers: 1,
        directories: 16,
        fault: 0,
        fault_code_lines: 0,
        fault_data_lines: 0,
        call_code_lines: 0,
        call_data_lines: 0,
    }
}

/// Loads one byte range line by line, far apart in time; what the last pass of `rounds` found.
fn pass(memory: &mut Memory, bytes: u64, step: u64, rounds: u64, now: &mut u64) -> Vec<Answer> {
    let mut answers = Vec::new();
    for round in 0..rounds {
        for address in (0..bytes).step_by(step as usize) {
            *now += 10_000;
            let answer = memory.load(request(address, *now));
            if round + 1 == rounds {
                answers.push(answer);
            }
        }
    }
    answers
}

#[test]
fn each_level_costs_its_latency_and_holds_its_size() {
    let later = [0, L2 - L1, L3 - L1, DRAM - L1];
    for (n, bytes) in SIZES.into_iter().enumerate() {
        let mut memory = memory(&core());
        let mut now = 0;
        // Behind the first level the sets are filled unevenly, since frames are as good as random.
        let fits = if n == 0 { bytes } else { bytes / 2 };
        let answers = pass(&mut memory, fits, 64, 3, &mut now);
        let mean = answers.iter().map(|a| a.late).sum::<u64>() as f64 / answers.len() as f64;
        let slack = if n == 0 {
            0.0
        } else {
            0.1 * (later[n + 1] - later[n]) as f64
        };
        assert!((mean - later[n] as f64).abs() <= slack, "{bytes}: {mean}");
        // Four times as much is in the next level, for the most part.
        let answers = pass(&mut memory, 4 * bytes, 64, 3, &mut now);
        let beyond = answers.iter().filter(|a| a.late == later[n + 1]).count();
        assert!(4 * beyond > 3 * answers.len(), "{bytes}: {beyond}");
    }
}

#[test]
fn nine_lines_of_one_set_thrash_the_first_level_alone() {
    let mut memory = memory(&core());
    // 64 sets of 64 bytes.
    let answers = pass(&mut memory, 9 * 4096, 4096, 5, &mut 0);
    assert!(
        answers
            .iter()
            .all(|a| (a.late, a.from) == (L2 - L1, Level::L2))
    );
    let answers = pass(&mut memory, 8 * 4096, 4096, 5, &mut 10_000_000);
    assert!(answers.iter().all(|a| a.late == 0));
}

/// Touches pages so that no first touch is in the way, and pushes their lines out.
fn spread(memory: &mut Memory, pages: u64) {
    for address in (0..(pages * 4096).max(4 * SIZES[2])).step_by(64) {
        memory.load(Request {
            pc: 1,
            ..request(address, 0)
        });
    }
}

#[test]
fn misses_overlap_as_far_as_buffers_go() {
    let core = core();
    let mut memory = memory(&core);
    spread(&mut memory, 0);
    // 100 independent misses at once, 10 buffers.
    let at = 10_000_000;
    let done = (0..100).map(|n| memory.load(request(n * 64, at)).late);
    let last = done.max().unwrap();
    // A buffer is held from the request to the line's arrival.
    let each = DRAM - L1;
    assert!((10 * each..10 * each + 100).contains(&last), "{last}");
}

#[test]
fn a_hit_under_a_miss_costs_the_rest() {
    let mut memory = memory(&core());
    spread(&mut memory, 0);
    let at = 10_000_000;
    let first = memory.load(request(0, at));
    assert_eq!((first.late, first.from), (DRAM - L1, Level::Dram));
    let second = memory.load(request(8, at + 100));
    assert_eq!((second.late, second.from), (DRAM - L1 - 100, Level::Dram));
    let third = memory.load(request(16, at + 1000));
    assert_eq!((third.late, third.from), (0, Level::L1));
}

/// As measured on Zen 4 (docs/ZEN4.md, "Lines on their way").
#[test]
fn a_load_of_a_line_that_is_nearly_there_asks_the_second_level_itself() {
    let mut core = core();
    core.execute.load_latency = 4;
    let zen4 = mcad_isa::machine::cpu("zen4").unwrap();
    core.cache.as_mut().unwrap().on_its_way = zen4.core.cache.unwrap().on_its_way;
    let second = |after: u64, write: bool| {
        let mut memory = memory(&core);
        // Eight others of its set push it out of the first level.
        for (n, line) in (0..=8).map(|n| (n, 0x10_0000 + n * 4096)) {
            memory.load(request(line, 1000 * n));
        }
        let at = 100_000;
        assert_eq!(memory.load(request(0x10_0000, at)).late, L2 - 4);
        let request = request(0x10_0008, at + after);
        let answer = match write {
            true => memory.store(request),
            false => memory.load(request),
        };
        assert_eq!(answer.from == Level::L2, answer.late > 0);
        answer.late
    };
    for after in 0..30 {
        let expected = match after {
            0..=3 => 10 - after,
            4..=12 => 8,
            _ => 0,
        };
        assert_eq!(second(after, false), expected, "{after} cycles behind");
        assert_eq!(second(after, true), 10u64.saturating_sub(after));
    }
}

#[test]
fn an_access_over_two_lines_waits_for_both() {
    let mut memory = memory(&core());
    spread(&mut memory, 0);
    memory.load(request(0, 10_000_000));
    let both = memory.load(request(60, 20_000_000));
    assert_eq!((both.late, both.from), (DRAM - L1, Level::Dram));
}

#[test]
fn a_prefetch_in_time_hides_all_and_a_late_one_part() {
    for (early, left) in [(0, DRAM - L1), (100, DRAM - L1 - 100), (1000, 0)] {
        let mut memory = memory(&core());
        spread(&mut memory, 0);
        memory.prefetch(0, 10_000_000);
        assert_eq!(memory.load(request(0, 10_000_000 + early)).late, left);
    }
}

#[test]
fn a_stride_is_prefetched_from_its_third_load_on() {
    let mut core = core();
    core.prefetch.stride = Some(StridePrefetch {
        entries: 64,
        most_bytes: 2048,
        ahead: 2,
        misses_only: false,
    });
    let mut memory = memory(&core);
    spread(&mut memory, 0);
    let late: Vec<u64> = (0..12u64)
        .map(|n| memory.load(request(n * 256, 10_000_000 + n * 1000)).late)
        .collect();
    assert!(late[..4].iter().all(|l| *l == DRAM - L1), "{late:?}");
    assert!(late[4..].iter().all(|l| *l == 0), "{late:?}");
}

/// Regions of a page each, entered by one load and followed by the third line after: foreseen when the first of those that are
/// watched have been given up, into the level that the core's file says.
#[test]
fn a_regions_lines_come_into_the_level_that_they_should() {
    for (second_level, left) in [(false, 0), (true, L2 - L1)] {
        let mut core = core();
        core.prefetch.region = Some(RegionPrefetch {
            loads: 64,
            watched: 4,
            below: 7,
            above: 7,
            near: 8,
            delay: 5,
            second_level,
        });
        let mut memory = memory(&core);
        spread(&mut memory, 20);
        let late: Vec<u64> = (0..20u64)
            .map(|n| {
                let at = 10_000_000 + n * 10_000;
                memory.load(request(n * 4096, at));
                memory.load(request(n * 4096 + 3 * 64, at + 1000)).late
            })
            .collect();
        let (learning, learnt) = late.split_at(4);
        assert!(learning.iter().all(|l| *l == DRAM - L1), "{late:?}");
        assert!(learnt.iter().all(|l| *l == left), "{late:?}");
    }
}

#[test]
fn the_first_touch_finds_what_the_kernel_left() {
    let core = core();
    let mut memory = memory(&core);
    let mut shared = Shared::new(&core);
    shared.pages.map_file(0x10_0000..0x20_0000);
    memory.lend(&mut shared);
    let anonymous = memory.load(request(0x5000, 1000));
    assert_eq!(
        (anonymous.late, anonymous.from, anonymous.fault),
        (L2 - L1, Level::L2, true)
    );
    let again = memory.load(request(0x5100, 2000));
    assert_eq!((again.from, again.fault), (Level::L2, false));
    let file = memory.load(request(0x10_0000, 3000));
    assert_eq!(
        (file.late, file.from, file.fault),
        (L3 - L1, Level::L3, true)
    );
    // Mapped with it.
    let neighbour = memory.load(request(0x10_1000, 4000));
    assert_eq!((neighbour.from, neighbour.fault), (Level::L3, false));
    assert_eq!(memory.counts.faults, 2);
}

#[test]
fn files_come_from_memory_where_the_page_cache_is_there() {
    let mut core = core();
    if let Some(caches) = &mut core.cache {
        caches.page_cache = PageCache::Memory;
    }
    let mut memory = memory(&core);
    let mut shared = Shared::new(&core);
    shared.pages.map_file(0x10_0000..0x20_0000);
    memory.lend(&mut shared);
    for (address, fault) in [(0x10_0000, true), (0x10_1000, false)] {
        let file = memory.load(request(address, 10 * address));
        assert_eq!(
            (file.late, file.from, file.fault),
            (DRAM - L1, Level::Dram, fault)
        );
    }
    let anonymous = memory.load(request(0x5000, 1 << 40));
    assert_eq!(anonymous.from, Level::L2);
}

#[test]
fn written_lines_go_back_and_are_found_again() {
    let mut memory = memory(&core());
    let mut now = 0;
    for address in (0..2 * SIZES[0]).step_by(64) {
        now += 10_000;
        memory.store(request(address, now));
    }
    let first = memory.load(request(0, now + 10_000));
    assert_eq!(first.from, Level::L2);
    assert_eq!(memory.counts.stores.iter().sum::<u64>(), 2 * SIZES[0] / 64);
}

/// Cycles a line when all of 64 KiB are loaded or stored at once, which the second level has.
fn cycles_of_second_level(core: &Core, write: bool) -> f64 {
    let mut memory = memory(core);
    let bytes = 2 * SIZES[0];
    let mut end = 0;
    for round in 1..=3u64 {
        let now = round * 1_000_000;
        for address in (0..bytes).step_by(64) {
            let answer = match write {
                true => memory.store(request(address, now)),
                false => memory.load(request(address, now)),
            };
            end = now + answer.late;
        }
        end -= now;
    }
    end as f64 / (bytes / 64) as f64
}

#[test]
fn lines_that_go_back_take_of_the_second_levels_time() {
    let mut core = core();
    let caches = core.cache.as_mut().unwrap();
    // More on their way than any latency asks for.
    (caches.fill_buffers, caches.l2.bytes_per_cycle) = (64, 32.0);
    let free = cycles_of_second_level(&core, true);
    core.cache.as_mut().unwrap().l2.written_bytes_per_cycle = Some(16.0);
    let (read, written) = (
        cycles_of_second_level(&core, false),
        cycles_of_second_level(&core, true),
    );
    for (cycles, expected) in [(free, 2.0), (read, 2.0), (written, 2.0 + 4.0)] {
        // The calendar is of 256 cycles.
        assert!((cycles - expected).abs() < 0.3, "{cycles} for {expected}");
    }
}

#[test]
fn lines_that_come_in_hold_up_stores_once_each() {
    let mut core = core();
    core.cache.as_mut().unwrap().fills_hold_up_stores = true;
    let mut memory = memory(&core);
    memory.load(request(0, 100));
    memory.store(request(64, 200));
    memory.store(request(64, 300));
    // Those before a core begins are not its own.
    assert_eq!(memory.snapshot(400).held_up_stores(), 0);
    assert_eq!((memory.held_up_stores(), memory.held_up_stores()), (2, 0));
}

#[test]
fn a_fault_leaves_the_kernels_lines_in_the_first_level() {
    // 8 ways: six lines of a set stay while the kernel's, fewer than two a set on average, come in;
    // of eight, all are lost where one of the kernel's is.
    for (ways, lines, lost) in [(6, 0, false), (8, 0, false), (6, 40, false), (8, 40, true)] {
        let mut core = core();
        core.tlb = Some(Tlbs {
            fault_data_lines: lines,
            ..tlbs()
        });
        let mut memory = memory(&core);
        let mut now = 0;
        pass(&mut memory, ways * 4096, 64, 3, &mut now);
        memory.load(request(1 << 30, now + 1000));
        let answers = pass(&mut memory, ways * 4096, 64, 1, &mut now);
        let misses = answers.iter().filter(|a| a.from != Level::L1).count();
        // The page that faulted takes one place itself.
        assert_eq!(misses > 16, lost, "{ways} {lines}: {misses}");
    }
}

#[test]
fn translation_comes_before_the_cache() {
    let mut core = core();
    core.tlb = Some(tlbs());
    let mut memory = memory(&core);
    // One line of each page, each in another set of the first level.
    let address = |page: u64| page * 4096 + page % 64 * 64;
    let mut late = Vec::new();
    for round in 1..=3 {
        late = (0..256u64)
            .map(|page| memory.load(request(address(page), round * 100_000_000 + page * 10_000)))
            .collect();
    }
    assert!(
        late.iter().all(|a| (a.late, a.translation) == (7, 7)),
        "{late:?}"
    );
    assert_eq!(memory.counts.walks, 256);
    assert_eq!(memory.counts.tlb_misses, 3 * 256);
}

#[test]
fn perfect_parts_never_hold_anything_up() {
    let mut core = core();
    core.cache.as_mut().unwrap().perfect_l2 = true;
    let mut memory = memory(&core);
    spread(&mut memory, 0);
    assert_eq!(memory.load(request(0, 10_000_000)).late, L2 - L1);
    core.cache.as_mut().unwrap().perfect_l1d = true;
    core.cache.as_mut().unwrap().perfect_l1i = true;
    let mut memory = self::memory(&core);
    spread(&mut memory, 0);
    assert_eq!(memory.load(request(0, 10_000_000)).late, 0);
    assert_eq!(memory.fetch(0, 10_000_000).late, 0);
}

#[test]
fn threads_find_each_others_lines_in_the_third_level() {
    let core = core();
    let (mut one, mut other) = (memory(&core), memory(&core));
    let mut shared = Shared::new(&core);
    one.lend(&mut shared);
    spread(&mut one, 0);
    let late = one.load(request(0, 10_000_000));
    assert_eq!(late.from, Level::Dram);
    one.lend(&mut shared);
    other.lend(&mut shared);
    assert_eq!(other.load(request(0, 500)).from, Level::L3);
}
