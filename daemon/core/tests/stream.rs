//! Whole sessions: the result depends on the trace alone, not on how it was cut, and keeps the
//! bounds that any core has.

#![allow(clippy::unwrap_used)] // Helpers of tests fail tests.

mod support;

use std::sync::Arc;

use mcad_core::simulation::{AnalysisKind, NoSymbols, Options, Simulation};
use mcad_isa::machine::{self, CpuModel};
use mcad_proto::event::{Arch, BlockDef, EndReason, Event, ModuleDef, RegionDef};
use mcad_proto::word::{BlockId, GuestAddr, StreamId, block_word};
use mcad_report::Report;
use proptest::prelude::*;
use support::access;

/// Blocks of a small program: address, instructions, bytes.
const BLOCKS: &[(u64, u16, &[u8])] = &[
    // add rax,rbx; imul rcx,rax; jne to itself
    (
        0x1000,
        3,
        &[0x48, 0x01, 0xd8, 0x48, 0x0f, 0xaf, 0xc8, 0x75, 0xf7],
    ),
    // mov rax,[rsi]; add [rdi],rax; dec rdx; jne
    (
        0x1009,
        4,
        &[
            0x48, 0x8b, 0x06, 0x48, 0x01, 0x07, 0x48, 0xff, 0xca, 0x75, 0x10,
        ],
    ),
    // vfmadd231ps ymm0,ymm1,ymm2; push rbp; pop rbp; call
    (
        0x1040,
        4,
        &[0xc4, 0xe2, 0x75, 0xb8, 0xc2, 0x55, 0x5d, 0xe8, 0, 1, 0, 0],
    ),
    // xor eax,eax; mov ebx,eax; ret
    (0x1150, 3, &[0x31, 0xc0, 0x89, 0xc3, 0xc3]),
    // rep movsb
    (0x1200, 1, &[0xf3, 0xa4]),
    // mov ah,bl; mov ecx,eax; jmp
    (0x1300, 3, &[0x88, 0xdc, 0x89, 0xc1, 0xeb, 0x20]),
    // div rcx; jmp
    (0x1400, 2, &[0x48, 0xf7, 0xf1, 0xeb, 0x00]),
];

fn definitions() -> impl Iterator<Item = Event<'static>> {
    BLOCKS
        .iter()
        .enumerate()
        .map(|(n, (address, instructions, bytes))| {
            Event::Block(BlockDef {
                id: BlockId(n as u32),
                address: GuestAddr(*address),
                instructions: *instructions,
                bytes,
            })
        })
}

fn words_of(path: &[(usize, u64)]) -> Vec<u64> {
    let mut words = Vec::new();
    for &(block, address) in path {
        words.push(block_word(BlockId(block as u32)));
        match block {
            1 => {
                words.push(access(0, false, address));
                words.push(access(1, false, address + 8));
                words.push(access(1, true, address + 8));
            }
            2 => {
                words.push(access(1, true, address));
                words.push(access(2, false, address));
                words.push(access(3, true, address));
            }
            3 => words.push(access(2, false, address)),
            4 => {
                words.push(access(0, false, address));
                words.push(access(0, true, address ^ 0x800));
            }
            _ => {}
        }
    }
    words
}

fn started(cpus: &[Arc<CpuModel>]) -> Simulation {
    let mut simulation = Simulation::new(Options {
        cpus: cpus.to_vec(),
        analyses: vec![AnalysisKind::Pipeline],
        memory: true,
        one_core: false,
    });
    simulation.event(&support::session(Arch::X86_64)).unwrap();
    for definition in definitions() {
        simulation.event(&definition).unwrap();
    }
    simulation
}

fn run(cpus: &[Arc<CpuModel>], pieces: &[&[u64]]) -> Report {
    let mut simulation = started(cpus);
    let stream = StreamId(0);
    let callee = RegionDef {
        name: "callee".into(),
        start: GuestAddr(0x1150),
        end: GuestAddr(0x1155),
    };
    simulation.event(&Event::Region(callee)).unwrap();
    simulation.event(&Event::StreamStart(stream)).unwrap();
    for words in pieces {
        simulation.event(&Event::Records { stream, words }).unwrap();
    }
    simulation.event(&Event::StreamEnd(stream)).unwrap();
    simulation.event(&Event::End(EndReason::Exited(0))).unwrap();
    simulation.finish(&NoSymbols)
}

fn models(names: &[&str]) -> Vec<Arc<CpuModel>> {
    names.iter().map(|n| machine::cpu(n).unwrap()).collect()
}

fn paths(most: usize) -> impl Strategy<Value = Vec<(usize, u64)>> {
    let step = (0..BLOCKS.len(), 0u64..64).prop_map(|(block, a)| (block, 0x7000 + a * 4));
    prop::collection::vec(step, 1..most)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn cutting_the_stream_changes_nothing(
        path in paths(2500),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
    ) {
        let words = words_of(&path);
        let cpus = models(&["skl", "hsw", "glc"]);
        let whole = run(&cpus, &[&words]);
        let mut at: Vec<usize> = cuts.iter().map(|c| c.index(words.len() + 1)).collect();
        at.extend([0, words.len()]);
        at.sort_unstable();
        let pieces: Vec<&[u64]> = at.windows(2).map(|w| &words[w[0]..w[1]]).collect();
        let cut = run(&cpus, &pieces);
        prop_assert_eq!(
            serde_json::to_string(&whole).unwrap(),
            serde_json::to_string(&cut).unwrap()
        );
    }

    #[test]
    fn bounds_hold(path in paths(2000)) {
        let words = words_of(&path);
        let cpus = models(&["snb", "skl", "icl", "glc"]);
        let report = run(&cpus, &[&words]);
        for (cpu, model) in report.cpus.iter().zip(&cpus) {
            let width = u64::from(model.core.rename.issue_width);
            prop_assert!(cpu.uops <= cpu.cycles * width, "{}: wider than its issue", cpu.cpu);
            let t = cpu.topdown;
            prop_assert_eq!(
                t.slots,
                t.retiring + t.bad_speculation + t.frontend + t.backend_memory + t.backend_core + t.other
            );
            prop_assert_eq!(t.retiring, cpu.uops);
            for port in &cpu.ports {
                prop_assert!(port.uops <= cpu.cycles);
            }
            // Every cycle until the last block's retirement belongs to one block.
            let of_functions: u64 = cpu.functions.iter().map(|f| f.cycles).sum();
            prop_assert_eq!(of_functions, cpu.cycles);
            let instructions: u64 = cpu.functions.iter().map(|f| f.instructions).sum();
            prop_assert_eq!(instructions, report.trace.instructions);
        }
    }
}

/// A file is announced some time before its code runs; how long before depends on when the
/// emulator's messages were read.
#[test]
fn when_a_file_is_announced_changes_nothing() {
    let (before, rest): (Vec<_>, Vec<_>) = (
        (0..2000).map(|n| (1, 0x7000 + n % 40 * 64)).collect(),
        [(6, 0), (1, 0x5000), (3, 0x9000)].to_vec(),
    );
    let stream = StreamId(0);
    let file = Event::Module(ModuleDef {
        path: "library".into(),
        start: GuestAddr(0x1400),
        end: GuestAddr(0xa000),
        file_offset: 0,
    });
    let cpus = models(&["skl", "zen5"]);
    let run = |early: bool| {
        let mut simulation = started(&cpus);
        simulation.event(&Event::StreamStart(stream)).unwrap();
        if early {
            simulation.event(&file).unwrap();
        }
        let words = words_of(&before);
        let words = &words;
        simulation.event(&Event::Records { stream, words }).unwrap();
        if !early {
            simulation.event(&file).unwrap();
        }
        let words = words_of(&rest);
        let words = &words;
        simulation.event(&Event::Records { stream, words }).unwrap();
        simulation.event(&Event::StreamEnd(stream)).unwrap();
        simulation.event(&Event::End(EndReason::Exited(0))).unwrap();
        serde_json::to_string(&simulation.finish(&NoSymbols)).unwrap()
    };
    assert_eq!(run(true), run(false));
}

#[test]
fn a_repeated_string_instruction_counts_once() {
    let path: Vec<(usize, u64)> = (0..100).map(|n| (4, 0x8000 + n)).collect();
    let report = run(&models(&["skl"]), &[&words_of(&path)]);
    assert_eq!(report.trace.instructions, 1);
    assert_eq!(report.trace.blocks_executed, 100);
    // 100 copied words of 8 bytes, 32 bytes a cycle, and the start-up.
    assert!(report.cpus[0].cycles >= 25, "{}", report.cpus[0].cycles);
}

#[test]
fn string_instructions_reach_all_their_lines() {
    // rep movsb, a line an iteration, a page far from everything.
    let lines = 512u64;
    let mut words = Vec::new();
    for n in 0..lines {
        words.push(block_word(BlockId(4)));
        words.push(access(0, false, 0x10_0000 + 64 * n));
        words.push(access(0, true, 0x80_0000 + 64 * n));
    }
    let report = run(&models(&["skl"]), &[&words]);
    assert_eq!(report.trace.instructions, 1);
    let memory = report.cpus[0].memory.as_ref().unwrap();
    assert!(memory.loads.all() >= lines, "{memory:?}");
    assert!(memory.stores.all() >= lines, "{memory:?}");
    // Eight pages each, and that of the code.
    assert_eq!(memory.page_faults, 17);
}

#[test]
fn a_loop_takes_its_known_cycles() {
    // imul rcx,rax depends on itself through rcx: 3 cycles; add rax,rbx takes 1 beside it.
    for n in [100u64, 1000, 5000] {
        let path: Vec<(usize, u64)> = (0..n).map(|_| (0, 0)).collect();
        for name in ["snb", "hsw", "skl", "icl", "rkl", "glc"] {
            let report = run(&models(&[name]), &[&words_of(&path)]);
            let cycles = report.cpus[0].cycles;
            assert!(
                // Its page faults first, and its code comes from memory.
                (3 * n..3 * n + 1500).contains(&cycles),
                "{name}: {n} iterations took {cycles} cycles"
            );
        }
    }
}

#[test]
fn a_block_left_by_a_fault_counts_up_to_it() {
    // Block 1 loads, then adds to memory; the add faults and a handler at block 5 runs.
    let words = [
        block_word(BlockId(1)),
        access(0, false, 0x9000),
        block_word(BlockId(5)),
    ];
    let report = run(&models(&["skl"]), &[&words]);
    assert_eq!(report.trace.partial_blocks, 1);
    assert_eq!(report.trace.instructions, 2 + 3);
}

#[test]
fn regions_count_their_stays() {
    // The callee runs 50 times, entered by the call of block 2 and left by its return.
    let path: Vec<(usize, u64)> = (0..50)
        .flat_map(|_| [(2, 0x9000), (3, 0x9000), (0, 0)])
        .collect();
    let report = run(&models(&["skl", "glc"]), &[&words_of(&path)]);
    for cpu in &report.cpus {
        let region = &cpu.regions[0];
        assert_eq!((region.count, region.instructions), (50, 150));
        assert!(region.min <= region.median && region.median <= region.max);
    }
}

#[test]
fn broken_streams_say_where() {
    let cpus = models(&["skl"]);
    let cases: [(u64, &str); 3] = [
        (block_word(BlockId(99)), "never defined"),
        (0xdead, "not a trace record"),
        (access(0, false, 1), "before the first block"),
    ];
    for (word, expected) in cases {
        let mut simulation = started(&cpus);
        let stream = StreamId(0);
        let error = simulation
            .event(&Event::Records {
                stream,
                words: &[word],
            })
            .unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        // What came before can still be reported.
        let report = simulation.finish(&NoSymbols);
        assert!(!report.program.complete);
    }
}

#[test]
fn loops_in_programs_run_as_blocks_do() {
    // add rax,rbx; imul rcx,rax; jne; and a loop of independent moves that the front end bounds.
    let blocks: [(u16, &[u8]); 2] = [
        (3, &[0x48, 0x01, 0xd8, 0x48, 0x0f, 0xaf, 0xc8, 0x75, 0xf7]),
        // mov eax,1; mov ebx,1; mov ecx,1; mov edx,1; mov esi,1; dec rdi; jne
        (
            7,
            &[
                0xb8, 1, 0, 0, 0, 0xbb, 1, 0, 0, 0, 0xb9, 1, 0, 0, 0, 0xba, 1, 0, 0, 0, 0xbe, 1, 0,
                0, 0, 0x48, 0xff, 0xcf, 0x75, 0xe2,
            ],
        ),
    ];
    for (instructions, bytes) in blocks {
        for name in [
            "snb", "ivb", "hsw", "bdw", "skl", "clx", "icl", "tgl", "rkl", "glc",
        ] {
            let model = machine::cpu(name).unwrap();
            let block = mcad_core::block::Block::new(&model, bytes).unwrap();
            let options = mcad_core::block::Options {
                mode: mcad_core::block::Mode::Loop,
                ..Default::default()
            };
            let expected = block.predict(options).cycles;
            let mut simulation = Simulation::new(Options {
                cpus: vec![model],
                analyses: vec![AnalysisKind::Pipeline],
                memory: true,
                one_core: false,
            });
            simulation.event(&support::session(Arch::X86_64)).unwrap();
            let def = BlockDef {
                id: BlockId(0),
                address: GuestAddr(0x40_0000),
                instructions,
                bytes,
            };
            simulation.event(&Event::Block(def)).unwrap();
            // Enough that the start does not show.
            let n = 40_000;
            let words = vec![block_word(BlockId(0)); n];
            let stream = StreamId(0);
            simulation
                .event(&Event::Records {
                    stream,
                    words: &words,
                })
                .unwrap();
            let report = simulation.finish(&NoSymbols);
            let cycles = report.cpus[0].cycles as f64 / n as f64;
            assert!(
                (cycles - expected).abs() < 0.02 * expected + 0.02,
                "{name}: {cycles} in a program, {expected} as a block"
            );
        }
    }
}

/// Runs blocks of code, given with their numbers of instructions, in the order of `path`, whose
/// words follow each block's.
fn run_blocks(name: &str, blocks: &[(u16, &[u8])], path: &[u64]) -> Report {
    let mut simulation = Simulation::new(Options {
        cpus: models(&[name]),
        analyses: vec![AnalysisKind::Pipeline],
        memory: true,
        one_core: false,
    });
    simulation.event(&support::session(Arch::X86_64)).unwrap();
    for (n, (instructions, bytes)) in blocks.iter().enumerate() {
        let def = BlockDef {
            id: BlockId(n as u32),
            address: GuestAddr(0x40_0000 + 0x100 * n as u64),
            instructions: *instructions,
            bytes,
        };
        simulation.event(&Event::Block(def)).unwrap();
    }
    let (stream, words) = (StreamId(0), path);
    simulation.event(&Event::Records { stream, words }).unwrap();
    simulation.finish(&NoSymbols)
}

#[test]
fn a_limit_on_a_form_holds_from_block_to_block() {
    // pause; jmp, and the same behind a nop: pause starts every 140 cycles wherever it is. rdtsc is
    // another form, though it is the first of its block, too.
    let pause: (u16, &[u8]) = (2, &[0xf3, 0x90, 0xeb, 0x00]);
    let nop_pause: (u16, &[u8]) = (3, &[0x90, 0xf3, 0x90, 0xeb, 0x00]);
    let rdtsc: (u16, &[u8]) = (2, &[0x0f, 0x31, 0xeb, 0x00]);
    let path: Vec<u64> = (0..200).map(|n| block_word(BlockId(n % 2))).collect();
    let cycles = |blocks: &[(u16, &[u8])]| run_blocks("skl", blocks, &path).cpus[0].cycles;
    for blocks in [[pause, pause], [nop_pause, pause]] {
        let cycles = cycles(&blocks);
        assert!((199 * 140..201 * 140).contains(&cycles), "{cycles}");
    }
    let mixed = cycles(&[rdtsc, pause]);
    assert!((99 * 140..101 * 140).contains(&mixed), "{mixed}");
}

#[test]
fn a_full_scheduler_is_booked_to_what_its_oldest_waits_for() {
    // A chain of loads (mov rax,[rax]), or of multiplications (imul rax,rax), and more additions to
    // their results (lea ecx,[rax+1]) than the schedulers hold before the re-order buffer is full.
    let leas = [0x8d, 0x48, 0x01].repeat(3);
    let code = |first: &[u8]| [first, &leas, &[0xeb, 0x00]].concat();
    let (load, multiply) = (code(&[0x48, 0x8b, 0x00]), code(&[0x48, 0x0f, 0xaf, 0xc0]));
    let path: Vec<u64> = (0..2000)
        .flat_map(|n| {
            [
                block_word(BlockId(0)),
                access(0, false, 0x7000 + 64 * (n % 8)),
            ]
        })
        .collect();
    for name in ["skl", "glc"] {
        let report = run_blocks(name, &[(5, &load)], &path);
        let t = report.cpus[0].topdown;
        assert!(t.backend_memory * 10 > t.slots * 4, "{name}: {t:?}");
        assert!(t.backend_core * 10 < t.slots, "{name}: {t:?}");
        let path: Vec<u64> = vec![block_word(BlockId(0)); 2000];
        let report = run_blocks(name, &[(5, &multiply)], &path);
        let t = report.cpus[0].topdown;
        assert_eq!(t.backend_memory, 0, "{name}: {t:?}");
    }
}

/// Too many threads at once: those that came first are simulated as if the others were not there.
#[test]
fn a_crowd_of_threads_is_cut_and_counted() {
    let report = |threads: u32| {
        let mut simulation = started(&models(&["skl"]));
        let words = words_of(&[(0, 0), (3, 0)]);
        let streams = || (0..threads).map(StreamId);
        let mut take = |event: Event<'_>| simulation.event(&event).unwrap();
        take(Event::StreamEnd(StreamId(0)));
        streams().for_each(|stream| take(Event::StreamStart(stream)));
        for stream in streams() {
            let words = &words;
            take(Event::Records { stream, words });
        }
        // Whose places are free then.
        streams().for_each(|stream| take(Event::StreamEnd(stream)));
        take(Event::StreamStart(StreamId(1 << 20)));
        take(Event::End(EndReason::Exited(0)));
        (simulation.finish(&NoSymbols), words.len() as u64)
    };
    let (most, _) = report(4096);
    assert!(most.program.complete);
    let (more, words) = report(4100);
    assert_eq!(more.cpus[0].cycles, most.cpus[0].cycles);
    assert_eq!(more.trace.instructions, most.trace.instructions);
    assert_eq!(more.trace.lost_records, 4 * words);
    assert!(!more.program.complete);
    let reason = &more.trace.lost_reasons[0];
    assert!(reason.contains("4 threads were not simulated"), "{reason}");
}

#[test]
fn counts_of_what_was_lost_do_not_wrap() {
    let mut simulation = started(&models(&["skl"]));
    for _ in 0..2 {
        let reason = "damage".to_owned();
        let count = 1 << 63;
        simulation.event(&Event::Lost { count, reason }).unwrap();
    }
    simulation.event(&Event::End(EndReason::Complete)).unwrap();
    let report = simulation.finish(&NoSymbols);
    assert_eq!(report.trace.lost_records, u64::MAX);
    assert!(!report.program.complete);
}

/// Every process that is made maps its libraries again.
#[test]
fn a_file_is_listed_once_for_each_place_and_most_of_them_are_counted() {
    let report = |places: u64| {
        let mut simulation = started(&models(&["skl"]));
        for n in (0..places).chain(0..10) {
            for path in ["/lib/b.so", "/lib/a.so"] {
                let file = ModuleDef {
                    path: path.into(),
                    start: GuestAddr(n << 12),
                    end: GuestAddr((n + 1) << 12),
                    file_offset: 0,
                };
                simulation.event(&Event::Module(file)).unwrap();
            }
        }
        simulation.event(&Event::End(EndReason::Exited(0))).unwrap();
        simulation.finish(&NoSymbols)
    };
    let few = report(20);
    let found: Vec<_> = (few.program.modules.iter())
        .map(|file| (file.path.as_str(), file.start.clone()))
        .collect();
    let expected: Vec<_> = (0..20)
        .flat_map(|n| ["/lib/b.so", "/lib/a.so"].map(|path| (path, format!("{:#x}", n << 12))))
        .collect();
    assert_eq!(found, expected);
    assert!(few.notes.is_empty(), "{:?}", few.notes);
    let many = report(2050);
    assert_eq!(many.program.modules.len(), 4096);
    assert_eq!(many.program.modules[..40], few.program.modules);
    assert!(many.notes[0].contains("4 mappings"), "{:?}", many.notes);
}

/// Threads that are over count in what has been simulated so far as those that run.
#[test]
fn cycles_so_far_are_those_of_all_threads() {
    let mut simulation = started(&models(&["skl"]));
    let words = &words_of(&[(0, 0), (3, 0)]);
    for stream in (0..3).map(StreamId) {
        simulation.event(&Event::Records { stream, words }).unwrap();
        let running = simulation.progress().cycles;
        simulation.event(&Event::StreamEnd(stream)).unwrap();
        assert!(simulation.progress().cycles >= running);
    }
    let ended = simulation.progress().cycles;
    let report = simulation.finish(&NoSymbols);
    assert!(ended > 0);
    assert_eq!(report.cpus[0].cycles, ended);
}
