//! RISC-V's vector instructions cost by the type that `vsetvli` has set, wherever that was.

#![allow(clippy::unwrap_used)] // Helpers of tests fail tests.

mod support;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use mcad_core::simulation::timeline::{Timed, TimelineSink, Window};
use mcad_core::simulation::{
    AnalysisKind, Intervals, NoSymbols, OnThread, Options, Parallel, Simulation,
};
use mcad_isa::machine;
use mcad_proto::event::{Arch, BlockDef, Event};
use mcad_proto::word::{BlockId, GuestAddr, block_word};
use mcad_report::{CpuReport, Report};

/// Instructions of the shared function, and calls of it at each length.
const ADDITIONS: u64 = 60;
const CALLS: u64 = 200;

/// A function of independent vector additions that is called with groups of 1, 2, 4 and 8
/// registers: `vsetvli x0, a1, e32, mN; j function`, as often as `calls` says for each, and from
/// blocks that do not set anything.
fn run(cpu: &str, calls: [u64; 4], set: bool) -> CpuReport {
    let mut blocks = Vec::new();
    for lmul in 0..4 {
        let address = 0x1000 + 16 * u64::from(lmul);
        // j 0x2000
        let offset = (0x2000 - (address + 4)) as u32;
        let fields = offset >> 12 & 0xff | (offset >> 11 & 1) << 8 | (offset >> 1 & 0x3ff) << 9;
        let set = if set {
            (0x10 | lmul) << 20 | 0x5_f057
        } else {
            0x13
        };
        blocks.push((address, 2, support::code(&[set, fields << 12 | 0x6f])));
    }
    // vadd.vv vd, v0, v0, to v8, v16 and v24 in turn; ret
    let mut function: Vec<u32> = (0..ADDITIONS as u32)
        .map(|n| 0x0200_0057 | (8 + n % 3 * 8) << 7)
        .collect();
    function.push(0x0000_8067);
    blocks.push((0x2000, function.len() as u16, support::code(&function)));
    let mut words = Vec::new();
    for (lmul, calls) in calls.iter().enumerate() {
        for _ in 0..*calls {
            words.extend([block_word(BlockId(lmul as u32)), block_word(BlockId(4))]);
        }
    }
    let report = support::run(cpu, Arch::RiscV64, &blocks, &words);
    report.cpus.into_iter().next().unwrap()
}

fn only(lmul: usize) -> [u64; 4] {
    std::array::from_fn(|n| if n == lmul { CALLS } else { 0 })
}

#[test]
fn a_shared_function_costs_by_the_length_that_its_caller_set() {
    let mut sum = 0;
    for lmul in 0..4 {
        let report = run("sifive-p670", only(lmul), true);
        // Two units, each taken for a cycle by a register: half a cycle for one register.
        let expected = (CALLS * ADDITIONS) as f64 * f64::from(1 << lmul) / 2.0;
        let error = report.cycles as f64 / expected - 1.0;
        assert!((-0.01..0.1).contains(&error), "m{}: {error}", 1 << lmul);
        assert_eq!(report.unknown_instructions.approximated, 0);
        sum += report.cycles;
    }
    let report = run("sifive-p670", [CALLS; 4], true);
    assert!(
        report.cycles.abs_diff(sum) < sum / 100,
        "{} {sum}",
        report.cycles
    );
    // Every cycle is somebody's.
    let all: u64 = report.blocks.iter().map(|block| block.cycles).sum();
    assert_eq!(all, report.cycles);
    assert_eq!(report.unknown_instructions.approximated, 0);
}

#[test]
fn in_order_cores_follow_the_length_too() {
    let one = run("spacemit-x60", only(0), true).cycles;
    let eight = run("spacemit-x60", only(3), true).cycles;
    assert!(eight > 4 * one, "{one} {eight}");
}

#[test]
fn what_is_not_known_is_counted_as_a_guess() {
    let report = run("sifive-p670", only(2), false);
    assert_eq!(report.unknown_instructions.approximated, CALLS * ADDITIONS);
}

/// Begins a session with a block of `vsetvli x0, a1, e32, mN; nop` for N = 1, 2, 4 and 8, and then with
/// these blocks of code, from 0x2000 on and each 0x1000 behind the one before.
fn begin(simulation: &mut Simulation, code: &[Vec<u32>]) {
    let set = |lmul: u32| vec![(0x10 | lmul) << 20 | 0x5_f057, 0x13];
    let setters = (0..4).map(|lmul| (0x1000 + 16 * u64::from(lmul), set(lmul)));
    let code = (2..).zip(code).map(|(n, code)| (n * 0x1000, code.clone()));
    let blocks: Vec<_> = setters
        .chain(code)
        .map(|(address, code)| (address, code.len() as u16, support::code(&code)))
        .collect();
    support::begin(simulation, Arch::RiscV64, &blocks);
}

/// Additions to v8, v16 and v24 in turn; then `div a0, a1, a2`.
fn additions(count: u32) -> Vec<u32> {
    let additions = (0..count).map(|n| 0x0200_0057 | (8 + n % 3 * 8) << 7);
    additions.chain([0x02c5_c533]).collect()
}

/// Calls of this many functions at lengths that come and go, so that who simulates intervals meets
/// lengths in an order of his own.
fn calls(random: &mut fastrand::Rng, functions: u32) -> Vec<u64> {
    let mut words = Vec::new();
    for _ in 0..100 {
        let (lmul, function) = (random.u32(0..4), 4 + random.u32(0..functions));
        for _ in 0..random.u32(1..20) {
            words.extend([lmul, function].map(|block| block_word(BlockId(block))));
        }
    }
    words
}

/// Functions of which each is defined when those before it were called at several lengths.
fn cut(cpu: &str, jobs: usize) -> Report {
    let options = Options {
        cpus: vec![machine::cpu(cpu).unwrap()],
        analyses: vec![AnalysisKind::Pipeline],
        memory: true,
        one_core: false,
    };
    let parallel = Parallel {
        jobs,
        intervals: Some(Intervals {
            length: 2_000,
            warm_up: 500,
        }),
        ahead: false,
    };
    let on_thread: OnThread = Arc::new(|| Box::new(()));
    let mut simulation = Simulation::parallel(options, parallel, on_thread);
    begin(&mut simulation, &[]);
    let mut random = fastrand::Rng::with_seed(1);
    let stream = support::THREAD;
    for n in 0..8 {
        let code = additions(10 + 5 * n);
        let function = BlockDef {
            id: BlockId(4 + n),
            address: GuestAddr(0x2000 + 0x1000 * u64::from(n)),
            instructions: code.len() as u16,
            bytes: &support::code(&code),
        };
        simulation.event(&Event::Block(function)).unwrap();
        let words = &calls(&mut random, 1 + n);
        simulation.event(&Event::Records { stream, words }).unwrap();
    }
    simulation.finish(&NoSymbols)
}

#[test]
fn intervals_of_vector_code_do_not_depend_on_threads() {
    for cpu in ["sifive-p670", "spacemit-x60"] {
        let one = cut(cpu, 1);
        let report = &one.cpus[0];
        assert!(report.intervals.unwrap().count > 50, "{cpu}");
        let all: u64 = report.blocks.iter().map(|block| block.cycles).sum();
        assert_eq!(all, report.cycles, "{cpu}");
        for jobs in [3, 8] {
            assert!(one == cut(cpu, jobs), "{cpu}: {jobs} jobs");
        }
    }
}

#[test]
fn misses_and_wrong_branches_of_vector_code_are_listed() {
    // vle32.v v8, (a0); jr a1
    let code = vec![0x0205_6407, 0x0005_8067];
    let mut simulation = support::simulation("spacemit-x60");
    begin(&mut simulation, &[code.clone(), code]);
    let mut random = fastrand::Rng::with_seed(1);
    let mut words = Vec::new();
    for n in 0..2_000 {
        words.push(block_word(BlockId(random.u32(0..4))));
        words.push(block_word(BlockId(4 + random.u32(0..2))));
        words.push(support::access(0, false, 0x10_0000 + 4096 * n));
    }
    let report = support::finish(simulation, &words);
    let cpu = &report.cpus[0];
    let memory = cpu.memory.as_ref().unwrap();
    let listed: u64 = memory.functions.iter().map(|function| function.l1).sum();
    assert!(listed >= 2_000, "{listed} of {:?}", memory.loads);
    let branches = cpu.branches.as_ref().unwrap();
    let listed: u64 = branches
        .functions
        .iter()
        .map(|function| function.wrong)
        .sum();
    assert!(listed > 100, "{branches:?}");
    assert_eq!(listed, branches.wrong());
}

/// Addresses of codes, and codes of executed instructions.
#[derive(Default)]
struct Told {
    codes: Vec<u64>,
    executed: Vec<u32>,
}

struct Sink(Rc<RefCell<Told>>);

impl TimelineSink for Sink {
    fn code(&mut self, code: u32, _: BlockId, address: u64, _: &str) {
        let codes = &mut self.0.borrow_mut().codes;
        assert_eq!(code as usize, codes.len());
        codes.push(address);
    }

    fn instruction(&mut self, timed: &Timed<'_>) {
        self.0.borrow_mut().executed.push(timed.code);
    }

    fn end(&mut self, _: u64, _: u64) {}
}

#[test]
fn timelines_have_the_code_of_blocks_whatever_the_length() {
    for cpu in ["sifive-p670", "spacemit-x60"] {
        let told = Rc::new(RefCell::new(Told::default()));
        let sink = Sink(Rc::clone(&told));
        let mut simulation = support::simulation(cpu);
        let all = Window::Instructions(0..u64::MAX);
        simulation.record(all, u64::MAX, |_| Box::new(sink));
        begin(&mut simulation, &[additions(3)]);
        let one: Vec<u64> = [0, 4, 2, 4].map(|n| block_word(BlockId(n))).to_vec();
        let stream = support::THREAD;
        let words = &one;
        simulation.event(&Event::Records { stream, words }).unwrap();
        // Behind what was made for some length.
        let late = BlockDef {
            id: BlockId(5),
            address: GuestAddr(0x3000),
            instructions: 2,
            bytes: &support::code(&additions(1)),
        };
        simulation.event(&Event::Block(late)).unwrap();
        let two: Vec<u64> = [5, 3, 5, 4].map(|n| block_word(BlockId(n))).to_vec();
        let words = &two;
        simulation.event(&Event::Records { stream, words }).unwrap();
        let report = simulation.finish(&NoSymbols);
        let told = Rc::into_inner(told).unwrap().into_inner();
        let addresses: Vec<u64> = told
            .executed
            .iter()
            .map(|code| told.codes[*code as usize])
            .collect();
        let starts = [
            (0x1000, 2),
            (0x2000, 4),
            (0x1020, 2),
            (0x2000, 4),
            (0x3000, 2),
            (0x1030, 2),
            (0x3000, 2),
            (0x2000, 4),
        ];
        let expected: Vec<u64> = starts
            .iter()
            .flat_map(|(start, count)| (0..*count).map(move |n| start + 4 * n))
            .collect();
        assert_eq!(addresses, expected, "{cpu}");
        assert_eq!(report.cpus[0].instructions, expected.len() as u64);
    }
}
