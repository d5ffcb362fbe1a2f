//! Simulation on several threads gives what one thread gives; cut into intervals, it gives nearly
//! that, and always the same.

#![allow(clippy::unwrap_used)] // Helpers of tests fail tests.

mod support;

use std::sync::Arc;

use mcad_core::simulation::{
    AnalysisKind, Intervals, NoSymbols, OnThread, Options, Parallel, Simulation,
};
use mcad_isa::machine::{self, CpuModel};
use mcad_proto::event::{Arch, BlockDef, EndReason, Event};
use mcad_proto::word::{Access, BlockId, GuestAddr, StreamId, access_word, block_word};
use mcad_report::Report;

/// Blocks: address, instructions, bytes.
type Blocks = &'static [(u64, u16, &'static [u8])];

/// Two loops that are entered again and again, and what leads from one to the other.
const PROGRAM: Blocks = &[
    // add rax,rbx; imul rcx,rax; jne to itself
    (
        0x1000,
        3,
        &[0x48, 0x01, 0xd8, 0x48, 0x0f, 0xaf, 0xc8, 0x75, 0xf7],
    ),
    // mov rax,[rsi]; add [rdi],rax; dec rdx; jne to itself
    (
        0x1009,
        4,
        &[
            0x48, 0x8b, 0x06, 0x48, 0x01, 0x07, 0x48, 0xff, 0xca, 0x75, 0xf5,
        ],
    ),
    // xor eax,eax; mov ebx,eax; jmp 0x1000
    (0x1014, 3, &[0x31, 0xc0, 0x89, 0xc3, 0xeb, 0xe6]),
];

/// The same for A64.
const A64: Blocks = &[
    // add x0,x0,x1; mul x2,x2,x0; b.ne to the first
    (
        0x1000,
        3,
        &[
            0x00, 0x00, 0x01, 0x8b, 0x42, 0x7c, 0x00, 0x9b, 0xc1, 0xff, 0xff, 0x54,
        ],
    ),
    // ldr x0,[x1]; ldadd x0,x2,[x3]; subs x4,x4,#1; b.ne to the first
    (
        0x100c,
        4,
        &[
            0x20, 0x00, 0x40, 0xf9, 0x62, 0x00, 0x20, 0xf8, 0x84, 0x04, 0x00, 0xf1, 0xa1, 0xff,
            0xff, 0x54,
        ],
    ),
    // mov x0,#0; mov x1,#0; b 0x1000
    (
        0x101c,
        3,
        &[
            0x00, 0x00, 0x80, 0xd2, 0x01, 0x00, 0x80, 0xd2, 0xf7, 0xff, 0xff, 0x17,
        ],
    ),
];

/// The same for RISC-V.
const RISCV: Blocks = &[
    // add a0,a0,a1; mul a2,a2,a0; bne to the first
    (
        0x1000,
        3,
        &[
            0x33, 0x05, 0xb5, 0x00, 0x33, 0x06, 0xa6, 0x02, 0xe3, 0x1c, 0xb5, 0xfe,
        ],
    ),
    // ld a0,(a1); amoadd.d a2,a0,(a3); addi a4,a4,-1; bnez to the first
    (
        0x100c,
        4,
        &[
            0x03, 0xb5, 0x05, 0x00, 0x2f, 0xb6, 0xa6, 0x00, 0x13, 0x07, 0xf7, 0xff, 0xe3, 0x1a,
            0x07, 0xfe,
        ],
    ),
    // li a0,0; li a1,0; j 0x1000
    (
        0x101c,
        3,
        &[
            0x13, 0x05, 0x00, 0x00, 0x93, 0x05, 0x00, 0x00, 0x6f, 0xf0, 0xdf, 0xfd,
        ],
    ),
];

/// In-order CPUs with caches and predictors, by what they execute.
const IN_ORDER: [(Arch, Blocks, &[&str]); 3] = [
    (Arch::X86_64, PROGRAM, &["atom"]),
    (
        Arch::AArch64,
        A64,
        &["cortex-a8", "cortex-a53", "cortex-a55", "cortex-a510"],
    ),
    (
        Arch::RiscV64,
        RISCV,
        &["rocket", "sifive-u74", "spacemit-x60"],
    ),
];

/// Loops of lengths that take long to be learned, over as many lines as the second level of some cores holds.
fn words(stream: u32, turns: u64) -> Vec<u64> {
    let mut words = Vec::new();
    for turn in 0..turns {
        for _ in 0..3 + turn % 17 {
            words.push(block_word(BlockId(0)));
        }
        for n in 0..2 + turn % 11 {
            words.push(block_word(BlockId(1)));
            for (index, store) in [(0, false), (1, false), (1, true)] {
                words.push(access_word(Access {
                    index,
                    store,
                    size: 8,
                    address: GuestAddr(
                        0x9000
                            + 8 * (n + turn % 5)
                            + turn * turn % 1021 * 1024
                            + (u64::from(stream) << 32),
                    ),
                }));
            }
        }
        words.push(block_word(BlockId(2)));
    }
    words
}

fn options(cpus: &[&str]) -> Options {
    let model = |name: &&str| -> Arc<CpuModel> { machine::cpu(name).unwrap() };
    Options {
        cpus: cpus.iter().map(model).collect(),
        analyses: vec![AnalysisKind::Pipeline],
        memory: true,
        one_core: false,
    }
}

/// Three guest threads whose records come in turns. Each has memory of its own: an interval does not
/// see what other threads do while it lasts.
fn run(simulation: Simulation, turns: u64) -> Report {
    run_on(Arch::X86_64, PROGRAM, simulation, turns)
}

/// The same of any instruction set.
fn run_on(arch: Arch, blocks: Blocks, mut simulation: Simulation, turns: u64) -> Report {
    support::begin(&mut simulation, arch, blocks);
    let words = [0, 1, 2].map(|stream| words(stream, turns));
    for from in (0..words[0].len()).step_by(1000) {
        for (stream, words) in (0..).zip(&words) {
            let stream = StreamId(stream);
            let part = &words[from..words.len().min(from + 1000)];
            let words = &part[..part.len() - stream.0 as usize * (part.len() / 4)];
            simulation.event(&Event::Records { stream, words }).unwrap();
        }
    }
    simulation.event(&Event::End(EndReason::Exited(0))).unwrap();
    simulation.finish(&NoSymbols)
}

fn parallel(cpus: &[&str], parallel: Parallel) -> Simulation {
    let on_thread: OnThread = Arc::new(|| Box::new(()));
    Simulation::parallel(options(cpus), parallel, on_thread)
}

#[test]
fn models_on_threads_of_their_own_give_the_same_report() {
    let cpus = ["skl", "glc", "snb", "zen5", "atom"];
    let one = run(Simulation::new(options(&cpus)), 3000);
    for ahead in [false, true] {
        let parallel = parallel(
            &cpus,
            Parallel {
                ahead,
                ..Parallel::default()
            },
        );
        assert_eq!(one, run(parallel, 3000), "{ahead}");
    }
}

#[test]
fn in_order_models_on_threads_of_their_own_give_the_same_report() {
    for (arch, blocks, cpus) in IN_ORDER {
        let one = run_on(arch, blocks, Simulation::new(options(cpus)), 2000);
        for cpu in &one.cpus {
            let branches = cpu.branches.as_ref().unwrap();
            assert!(branches.wrong() > 100, "{}", cpu.cpu);
            assert!(cpu.slots.unwrap().l2 > 0, "{}", cpu.cpu);
        }
        let threads = parallel(cpus, Parallel::default());
        assert_eq!(one, run_on(arch, blocks, threads, 2000), "{arch:?}");
    }
}

#[test]
fn intervals_of_in_order_cores_do_not_depend_on_threads() {
    for (arch, blocks, cpus) in IN_ORDER {
        let cut = |jobs| {
            let on_thread: OnThread = Arc::new(|| Box::new(()));
            let parallel = Parallel {
                jobs,
                intervals: Some(Intervals {
                    length: 20_000,
                    warm_up: 5_000,
                }),
                ahead: false,
            };
            let simulation = Simulation::parallel(options(cpus), parallel, on_thread);
            run_on(arch, blocks, simulation, 2000)
        };
        let one = cut(1);
        assert!(one.cpus.iter().all(|cpu| cpu.intervals.unwrap().count > 10));
        assert_eq!(one, cut(3), "{arch:?}");
        assert_eq!(one, cut(8), "{arch:?}");
    }
}

#[test]
fn intervals_add_up_and_do_not_depend_on_threads() {
    let cpus = ["skl", "hsw", "glc", "zen5"];
    let whole = run(Simulation::new(options(&cpus)), 3000);
    let cut = |jobs, length, warm_up| {
        let intervals = Some(Intervals { length, warm_up });
        let on_thread: OnThread = Arc::new(|| Box::new(()));
        let parallel = Parallel {
            jobs,
            intervals,
            ahead: false,
        };
        run(
            Simulation::parallel(options(&cpus), parallel, on_thread),
            3000,
        )
    };
    let one = cut(1, 20_000, 5_000);
    assert_eq!(one, cut(3, 20_000, 5_000));
    assert_eq!(one, cut(8, 20_000, 5_000));
    for (whole, cut) in whole.cpus.iter().zip(&one.cpus) {
        let intervals = cut.intervals.unwrap();
        assert!(intervals.count > 20, "{intervals:?}");
        assert_eq!(cut.instructions, whole.instructions);
        // Neighbours stop within one cycle of delivery of each other: what they fetched before is
        // not the same to the cycle.
        assert!(
            cut.uops.abs_diff(whole.uops) <= intervals.count,
            "{}",
            cut.uops
        );
        let instructions = |report: &mcad_report::CpuReport| -> Vec<u64> {
            report.threads.iter().map(|t| t.instructions).collect()
        };
        assert_eq!(instructions(cut), instructions(whole));
        // What three threads find as they begin side by side is not as in turns.
        let error = cut.cycles.abs_diff(whole.cycles) as f64 / whole.cycles as f64;
        assert!(error < 5e-3, "{}: {error}", cut.cpu);
        // Predictors do not depend on time: what they know where an interval begins is exact.
        assert_eq!(cut.branches, whole.branches, "{}", cut.cpu);
        assert_eq!(
            cut.functions.iter().map(|f| f.cycles).sum::<u64>(),
            cut.cycles
        );
        let t = cut.topdown;
        assert_eq!(
            t.retiring
                + t.bad_speculation
                + t.frontend
                + t.backend_memory
                + t.backend_core
                + t.other,
            t.slots
        );
    }
    // Intervals longer than the threads, which still share no cache; and warm-ups shorter than a
    // block.
    let uncut = cut(2, u64::MAX, 1);
    assert_eq!(uncut.cpus[0].intervals.unwrap().count, 3);
    assert!(uncut.cpus[0].cycles.abs_diff(whole.cpus[0].cycles) < whole.cpus[0].cycles / 500);
    let short = cut(2, 50, 1);
    assert_eq!(short.cpus[0].instructions, whole.cpus[0].instructions);
}

/// A loop of which an iteration may jump back early, so that what the loop stream detector holds of
/// an iteration that leaves the loop is itself a loop, which it takes over. Its twelve instructions
/// are four iterations of three.
#[test]
fn a_loop_in_what_the_detector_holds_is_simulated() {
    const LOOP: Blocks = &[
        // 2 × mov eax,ecx; jne to itself: four bytes and a jump back over them
        (0x2000, 3, &[0x89, 0xc8, 0x89, 0xc8, 0x75, 0xfa]),
        // 8 × mov eax,ecx; jmp to the first
        (
            0x2006,
            9,
            &[
                0x89, 0xc8, 0x89, 0xc8, 0x89, 0xc8, 0x89, 0xc8, 0x89, 0xc8, 0x89, 0xc8, 0x89, 0xc8,
                0x89, 0xc8, 0xeb, 0xe8,
            ],
        ),
    ];
    for info in machine::cpus_of(mcad_proto::event::Arch::X86_64) {
        // Cores without a front end of that kind tell their cycles at the end.
        if machine::cpu(info.name).unwrap().core.in_order.is_some() {
            continue;
        }
        let mut simulation = Simulation::new(options(&[info.name]));
        support::begin(&mut simulation, Arch::X86_64, LOOP);
        let stream = StreamId(0);
        let mut words: Vec<u64> = (0..40).map(|n| block_word(BlockId(n % 2))).collect();
        words.extend((0..20_000).map(|_| block_word(BlockId(0))));
        let words = &words;
        simulation.event(&Event::Records { stream, words }).unwrap();
        // At least half a cycle an iteration, unless the front end has stopped.
        let cycles = simulation.progress().cycles;
        assert!(cycles > 9_000, "{}: {cycles} cycles so far", info.name);
    }
}

/// Code that the µop cache holds, executed again and again, and a page that is touched first before
/// every third time: what has come back since is known for longer than a warm-up lasts. `code` blocks.
fn run_with_faults(mut simulation: Simulation, code: u32) -> Report {
    simulation.event(&support::session(Arch::X86_64)).unwrap();
    // 8 × mov rax,1; two nops; jne to the next: two lines of the µop cache. At the end mov [rdi],rax;
    // jmp to the first.
    let moves = [0x48, 0xc7, 0xc0, 1, 0, 0, 0].repeat(8);
    let straight = [&moves, &[0x0f, 0x1f, 0x40, 0, 0x66, 0x90, 0x75, 0x00][..]].concat();
    let back = (64 * i32::try_from(code).unwrap() + 8).wrapping_neg();
    let store = [&[0x48, 0x89, 0x07, 0xe9][..], &back.to_le_bytes()].concat();
    for n in 0..=code {
        let (instructions, bytes) = match n {
            _ if n == code => (2, &store),
            _ => (11, &straight),
        };
        let block = BlockDef {
            id: BlockId(n),
            address: GuestAddr(0x10_0000 + 64 * u64::from(n)),
            instructions,
            bytes,
        };
        simulation.event(&Event::Block(block)).unwrap();
    }
    for turn in 0..60 {
        let mut words: Vec<u64> = (0..=code).map(|n| block_word(BlockId(n))).collect();
        words.push(access_word(Access {
            index: 0,
            store: true,
            size: 8,
            address: GuestAddr(0x100_0000 + turn / 3 * 4096),
        }));
        let (stream, words) = (StreamId(0), &words);
        simulation.event(&Event::Records { stream, words }).unwrap();
    }
    simulation.event(&Event::End(EndReason::Exited(0))).unwrap();
    simulation.finish(&NoSymbols)
}

#[test]
fn intervals_know_what_page_faults_took_before_they_begin() {
    for info in machine::cpus_of(Arch::X86_64) {
        let model = machine::cpu(info.name).unwrap();
        if model.core.tlb.is_none() || model.core.in_order.is_some() {
            continue;
        }
        // More than the op cache of Zen 4 has room for.
        let code = 400;
        let whole = run_with_faults(Simulation::new(options(&[info.name])), code);
        let intervals = Intervals {
            length: 8_000,
            warm_up: 1_500,
        };
        let jobs = 2;
        let intervals = Some(intervals);
        let by = Parallel {
            jobs,
            intervals,
            ahead: true,
        };
        let cut = run_with_faults(parallel(&[info.name], by), code);
        let (whole, cut) = (&whole.cpus[0], &cut.cpus[0]);
        let faults = |report: &mcad_report::CpuReport| report.memory.as_ref().unwrap().page_faults;
        assert_eq!(faults(cut), faults(whole), "{}", info.name);
        assert!(faults(whole) >= 20, "{}", info.name);
        let fetches = |report: &mcad_report::CpuReport| {
            let fetches = report.memory.as_ref().unwrap().fetches;
            fetches.l1 + fetches.l2 + fetches.l3 + fetches.dram
        };
        let count = cut.intervals.unwrap().count;
        let (with, without) = (fetches(cut), fetches(whole));
        eprintln!(
            "{} with {with} without {without} count {count}; cycles {} {}",
            info.name, cut.cycles, whole.cycles
        );
        assert!(
            with.abs_diff(without) <= 2 * count,
            "{}: {with} {without} {count}",
            info.name
        );
        let error = cut.cycles as f64 / whole.cycles as f64 - 1.0;
        assert!(error.abs() < 1e-2, "{}: {error}", info.name);
    }
}

/// Blocks whose ends go anywhere, one that may be left early, and a repeated string.
const ANYWHERE: Blocks = &[
    // mov rax,[rsi]; add rax,rbx; jne over the next
    (0x3000, 3, &[0x48, 0x8b, 0x06, 0x48, 0x01, 0xd8, 0x75, 0x09]),
    // xor ecx,ecx; mov [rdi],rcx; mov rdx,[rdi]; nop
    (
        0x3008,
        4,
        &[0x31, 0xc9, 0x48, 0x89, 0x0f, 0x48, 0x8b, 0x17, 0x90],
    ),
    // rep movsb; call to 0x3020
    (0x3011, 2, &[0xf3, 0xa4, 0xe8, 0x08, 0x00, 0x00, 0x00]),
    // inc rax; ret
    (0x3020, 2, &[0x48, 0xff, 0xc0, 0xc3]),
    // jmp *rdx
    (0x3030, 1, &[0xff, 0xe2]),
    // add rax,rax; jmp back to 0x3000
    (0x3040, 2, &[0x48, 0x01, 0xc0, 0xeb, 0xbb]),
];

/// More threads than a core keeps awake, in turns and in pieces that chance says; some end, and others
/// begin under their numbers. Half of the blocks are defined on the way.
fn run_anywhere(mut simulation: Simulation, seed: u64) -> Report {
    const THREADS: u32 = 24;
    let mut random = fastrand::Rng::with_seed(seed);
    simulation.event(&support::session(Arch::X86_64)).unwrap();
    let mut defined = 0;
    for turn in 0..400 {
        let wanted = ANYWHERE.len().min(3 + turn / 40);
        while defined < wanted {
            let (address, instructions, bytes) = ANYWHERE[defined];
            let id = BlockId(u32::try_from(defined).unwrap());
            let block = BlockDef {
                id,
                address: GuestAddr(address),
                instructions,
                bytes,
            };
            simulation.event(&Event::Block(block)).unwrap();
            defined += 1;
        }
        let stream = StreamId(random.u32(0..THREADS));
        let mut words = Vec::new();
        for _ in 0..random.usize(1..300) {
            let block = random.usize(0..defined);
            words.push(block_word(BlockId(u32::try_from(block).unwrap())));
            let mut access = |index, store| {
                words.push(access_word(Access {
                    index,
                    store,
                    size: 8,
                    address: GuestAddr(0x10_0000 + u64::from(random.u16(..)) * 8),
                }));
            };
            match block {
                0 => access(0, false),
                // Without the load it was left before.
                1 => access(1, true),
                2 => [false, true]
                    .map(|store| access(0, store))
                    .into_iter()
                    .collect(),
                _ => {}
            }
        }
        let words = &words;
        simulation.event(&Event::Records { stream, words }).unwrap();
        if random.u32(0..20) == 0 {
            simulation.event(&Event::StreamEnd(stream)).unwrap();
        }
    }
    simulation.event(&Event::End(EndReason::Exited(0))).unwrap();
    simulation.finish(&NoSymbols)
}

#[test]
fn branches_told_from_ahead_are_those_that_a_core_predicts() {
    for seed in 0..3 {
        for cpu in ["skl", "glc", "zen5", "ivb"] {
            let own = run_anywhere(Simulation::new(options(&[cpu])), seed);
            let told = Parallel {
                ahead: true,
                ..Parallel::default()
            };
            let told = run_anywhere(parallel(&[cpu], told), seed);
            assert!(own.cpus[0].branches.is_some() && own.trace.partial_blocks > 100);
            assert_eq!(own, told, "{cpu}, {seed}");
        }
    }
}

/// Moves whose values nobody overwrites, and a loop of moves that has their slots less.
const MOVES: Blocks = &[
    // mov r8,rax; mov r9,rbx; mov r10,rcx; xor eax,eax; xor ebx,ebx; xor ecx,ecx
    (
        0x1000,
        6,
        &[
            0x49, 0x89, 0xc0, 0x49, 0x89, 0xd9, 0x49, 0x89, 0xca, 0x31, 0xc0, 0x31, 0xdb, 0x31,
            0xc9,
        ],
    ),
    // mov rdx,rsi; lea rsi,[rdx+1]; dec rbp; jne to itself
    (
        0x100f,
        4,
        &[
            0x48, 0x89, 0xf2, 0x48, 0x8d, 0x72, 0x01, 0x48, 0xff, 0xcd, 0x75, 0xf4,
        ],
    ),
];

/// The loop, behind the first block or without it.
fn run_moves(mut simulation: Simulation, is_shared: bool) -> u64 {
    support::begin(&mut simulation, Arch::X86_64, MOVES);
    let first = is_shared.then(|| block_word(BlockId(0)));
    let words: Vec<u64> = (first.into_iter())
        .chain(std::iter::repeat_n(block_word(BlockId(1)), 60_000))
        .collect();
    let stream = StreamId(0);
    let words = &words;
    simulation.event(&Event::Records { stream, words }).unwrap();
    simulation.event(&Event::End(EndReason::Exited(0))).unwrap();
    simulation.finish(&NoSymbols).cpus[0].cycles
}

#[test]
fn intervals_know_who_shares_registers_since_long_ago() {
    for cpu in ["skl", "hsw"] {
        let [shared, apart] =
            [true, false].map(|is_shared| run_moves(Simulation::new(options(&[cpu])), is_shared));
        assert!(shared > apart + apart / 10, "{cpu}: {shared}, {apart}");
        let intervals = Intervals {
            length: 40_000,
            warm_up: 2_000,
        };
        let cut = Parallel {
            jobs: 2,
            intervals: Some(intervals),
            ..Parallel::default()
        };
        let cut = run_moves(parallel(&[cpu], cut), true);
        assert!(
            cut.abs_diff(shared) <= shared / 2000,
            "{cpu}: {cut}, {shared}"
        );
    }
}
