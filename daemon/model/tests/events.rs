//! Misses and mispredictions: counted as caches and predictors have them, and at their price.

#![allow(clippy::unwrap_used)]

use std::rc::Rc;

use mcad_model::chain::Chain;
use mcad_model::collect::{Collector, Order, Piece};
use mcad_model::distance::{self, Distances, LINE, SIZES};
use mcad_model::kind::Kind;
use mcad_model::literal;
use mcad_model::machine::Machine;
use mcad_model::paths::Paths;
use mcad_model::predictors::{Ending, Jump, Predictor, Predictors};
use mcad_model::profile::{Inst, Profile};
use mcad_model::rows::Rows;
use mcad_model::step::{StaticCode, Stepper};

fn random(state: &mut u32, below: u32) -> u32 {
    *state = state.wrapping_mul(1664525).wrapping_add(1013904223);
    (*state >> 8) % below
}

/// A fully associative cache, in the most simple way.
struct Lru {
    lines: Vec<u64>,
    size: usize,
}

impl Lru {
    fn misses(&mut self, line: u64) -> bool {
        let at = self.lines.iter().position(|l| *l == line);
        if let Some(at) = at {
            self.lines.remove(at);
        }
        self.lines.insert(0, line);
        self.lines.truncate(self.size);
        at.is_none()
    }
}

#[test]
fn one_pass_misses_as_a_cache_of_each_size_does() {
    let sizes = 5;
    let mut caches: Vec<Lru> = (0..sizes)
        .map(|n| Lru {
            lines: Vec::new(),
            size: (1024 / LINE as usize) << n,
        })
        .collect();
    let mut distances = Distances::default();
    let mut state = 7;
    for n in 0..60_000u64 {
        let line = match random(&mut state, 4) {
            0 => u64::from(random(&mut state, 12)),
            1 => u64::from(random(&mut state, 200)),
            2 => n % 500,
            _ => u64::from(random(&mut state, 2000)),
        };
        let misses = distances.access(line);
        for (size, cache) in caches.iter_mut().enumerate() {
            assert_eq!(cache.misses(line), usize::from(misses) > size, "{n} {size}");
        }
    }
}

#[test]
fn lines_that_no_size_holds_any_more_are_missing_everywhere() {
    let mut distances = Distances::default();
    let lines = (1024 / LINE) << (SIZES - 1);
    for line in 0..lines {
        assert_eq!(usize::from(distances.access(line)), SIZES);
    }
    // The first one is still in the largest cache, and one more line pushes the second out.
    assert_eq!(usize::from(distances.access(0)), SIZES - 1);
    distances.access(lines);
    assert_eq!(usize::from(distances.access(1)), SIZES);
    assert_eq!(distance::size(32), Ok(5));
    assert!(distance::size(48).is_err());
}

#[test]
fn predictors_learn_what_their_kind_can() {
    let ending = |backward| Ending {
        jump: Jump::Conditional,
        address: 0x40_1000,
        after: 0x40_1002,
        backward,
    };
    let wrong = |pattern: &[bool]| {
        let mut predictors = Predictors::default();
        let mut wrong = [0; 8];
        for n in 0..4000 {
            let next = if pattern[n % pattern.len()] {
                0
            } else {
                0x40_1002
            };
            let went = predictors.branch(&ending(true), next);
            for (bit, wrong) in wrong.iter_mut().enumerate().filter(|_| n >= 1000) {
                *wrong += u32::from(went.wrong >> bit & 1);
            }
        }
        Predictor::ALL.map(|p| p.fallible().map_or(0, |n| wrong[n]))
    };
    // A loop of many iterations: all are right but for its end.
    let mut long = [true; 50];
    long[49] = false;
    let [perfect, .., bimodal, _, fixed] = wrong(&long);
    assert_eq!([perfect, bimodal, fixed], [0, 60, 60]);
    // In turn: only history knows.
    let [_, g16, g4, g1, bimodal, _, fixed] = wrong(&[true, false]);
    assert_eq!([g16, g4, g1, fixed], [0, 0, 0, 1500]);
    assert!(bimodal >= 1500);
}

#[test]
fn calls_and_returns_pair_up_as_deep_as_the_stack_is() {
    let mut predictors = Predictors::default();
    let ending = |jump, after| Ending {
        jump,
        address: after - 5,
        after,
        backward: false,
    };
    let mut wrong = 0;
    let depth = 20;
    for n in 0..depth {
        predictors.branch(&ending(Jump::Call, 100 + 10 * n), 1000);
    }
    for n in (0..depth).rev() {
        let went = predictors.branch(&ending(Jump::Return, 1001), 100 + 10 * n);
        wrong += u32::from(went.wrong & 1);
    }
    assert_eq!(wrong, 4);
}

fn inst(kind: Kind, writes: &[u8], reads: &[u8]) -> Inst {
    Inst {
        kind,
        reads: reads.to_vec(),
        writes: writes.to_vec(),
    }
}

/// A loop over an array: each iteration loads the next line, and its end is mispredicted now and then.
fn loop_over_lines(iterations: u32, stride: u64) -> (Profile, Order) {
    let insts = vec![
        inst(Kind::Load, &[1], &[2]),
        inst(Kind::Alu, &[3], &[1, 3]),
        inst(Kind::Alu, &[2], &[2]),
        inst(Kind::Branch, &[], &[2]),
    ];
    let piece = Piece {
        insts,
        addresses: vec![0x1000, 0x1003, 0x1006, 0x1009],
        ending: Some(Ending {
            jump: Jump::Conditional,
            address: 0x1009,
            after: 0x100b,
            backward: true,
        }),
        ..Piece::default()
    };
    let mut collector = Collector::with_order();
    for n in 0..iterations {
        collector.execute(0, 0, 4, || piece.clone());
        collector.access(0, 0x10_0000 + u64::from(n) * stride, 8, true);
    }
    collector.finish_with_order("loop".into())
}

fn stepwise(machine: &Machine, profile: &Profile, order: &Order) -> f64 {
    let code = StaticCode::new(machine, &profile.blocks);
    let mut stepper = Stepper::new(machine);
    stepper.run(&code, order);
    stepper.finish(&code) as f64
}

#[test]
fn misses_cost_their_latency_and_branches_their_bubbles() {
    let iterations = 2000;
    let (profile, order) = loop_over_lines(iterations, LINE);
    let chain = Chain::new(&Rows::of(&profile));
    for (width, latency, bubble) in [(1u8, 20u8, 0u8), (1, 50, 2), (2, 20, 3), (4, 50, 1)] {
        let machine = Machine {
            width,
            l1d_kib: Some(4),
            l2_kib: Some(8192),
            l2_latency: 5,
            memory_latency: u16::from(latency),
            taken_bubble: Some(bubble),
            ..Machine::default()
        };
        // The load; when it has come what uses it, the step and, a cycle behind that, the branch; then
        // the bubble.
        let after_load = u32::from(machine.load.latency) + u32::from(latency);
        let rest = 3u32.div_ceil(u32::from(width)).max(2);
        let each = f64::from(after_load + rest + u32::from(bubble));
        let exact = stepwise(&machine, &profile, &order) / f64::from(iterations);
        assert!((exact / each - 1.0).abs() < 0.01, "{width}: {exact} {each}");
        let stack = chain.predict(&machine);
        let by_chain = stack.total() / f64::from(iterations);
        assert!(
            (by_chain / each - 1.0).abs() < 0.01,
            "{width}: {by_chain} {each}"
        );
        let of_misses = stack.data_cache / f64::from(iterations);
        assert!((of_misses - f64::from(latency)).abs() < 1.5, "{of_misses}");
    }
}

#[test]
fn what_fits_costs_nothing() {
    let (profile, order) = loop_over_lines(4000, 0);
    let rows = Rows::of(&profile);
    let ideal = Machine::default();
    let cached = Machine {
        l1i_kib: Some(1),
        l1d_kib: Some(1),
        predictor: Predictor::Bimodal4k,
        ..Machine::default()
    };
    // One cold miss of data and code each, one misprediction.
    let more = stepwise(&cached, &profile, &order) - stepwise(&ideal, &profile, &order);
    assert!((0.0..=230.0).contains(&more), "{more}");
    let literal =
        literal::predict(&cached, &rows).total() - literal::predict(&ideal, &rows).total();
    assert!((190.0..=230.0).contains(&literal), "{literal}");
    let stack = Chain::new(&rows).predict(&cached);
    assert!(stack.misprediction + stack.data_cache < 1000.0);
}

/// A loop that loads the next line and reads the value `behind` instructions later, beside a value that has
/// just been made.
fn loop_with_late_use(iterations: u32, behind: usize) -> (Profile, Order) {
    let mut insts = vec![inst(Kind::Load, &[1], &[2])];
    insts.extend((1..behind).map(|n| inst(Kind::Alu, &[10 + n as u8], &[])));
    let just_made = 9 + behind as u8;
    insts.push(inst(Kind::Alu, &[3], &[just_made, 1]));
    let mut collector = Collector::with_order();
    let len = insts.len() as u32;
    for n in 0..iterations {
        collector.execute(0, 0, len, || insts.clone());
        collector.access(0, 0x10_0000 + u64::from(n) * LINE, 8, true);
    }
    collector.finish_with_order("loop".into())
}

/// Nothing waits for a miss until its value is read, however far behind that is and whatever else is read
/// there: rows see eight instructions and the closest producer.
#[test]
fn a_miss_is_felt_where_its_value_is_read() {
    let iterations = 2000;
    for behind in [2, 5, 8, 12, 24, 48, 90] {
        let (profile, order) = loop_with_late_use(iterations, behind);
        let machine = Machine {
            width: 1,
            l1d_kib: Some(4),
            memory_latency: 150,
            ..Machine::default()
        };
        let exact = stepwise(&machine, &profile, &order) / f64::from(iterations);
        // The load, its latency and the miss; what reads the value issues then.
        let each = f64::from(u32::from(machine.load.latency) + 150 + 1);
        assert!((exact - each).abs() < 1.0, "{behind}: {exact}");
        let chain = Chain::new(&Rows::of(&profile));
        let by_chain = chain.predict(&machine).total() / f64::from(iterations);
        // Distances are kept in classes, whose middle stands for them.
        assert!(
            (by_chain / exact - 1.0).abs() < 0.05,
            "{behind}: {by_chain}"
        );
        let of_misses = chain.predict(&machine).data_cache / f64::from(iterations);
        assert!(of_misses < 152.0, "{behind}: {of_misses}");
        let hidden = 150.0 - of_misses;
        assert!((hidden - behind as f64).abs() < 10.0, "{behind}: {hidden}");
    }
}

/// Two loads that miss in the same iterations, each value read behind both: the second miss is hidden.
/// How often either misses does not say so.
fn loop_with_pairs_of_misses(iterations: u32) -> (Profile, Order) {
    let insts = vec![
        inst(Kind::Load, &[1], &[9]),
        inst(Kind::Load, &[2], &[9]),
        inst(Kind::Alu, &[3], &[1, 2]),
        inst(Kind::Alu, &[4], &[]),
    ];
    let mut collector = Collector::with_order();
    let mut state = 3;
    let mut line = 0;
    for _ in 0..iterations {
        collector.execute(0, 0, 4, || insts.clone());
        line += u64::from(random(&mut state, 8) == 0);
        collector.access(0, 0x10_0000 + line * LINE, 8, true);
        collector.access(1, 0x1000_0000 + line * LINE, 8, true);
    }
    collector.finish_with_order("loop".into())
}

#[test]
fn paths_know_which_misses_come_together() {
    let (profile, order) = loop_with_pairs_of_misses(100_000);
    for (width, latency) in [(1, 40), (2, 150), (4, 40)] {
        let machine = Machine {
            width,
            l1d_kib: Some(4),
            memory_latency: latency,
            ..Machine::default()
        };
        let exact = stepwise(&machine, &profile, &order);
        let chain = Rc::new(Chain::new(&Rows::of(&profile)));
        let by_paths = Paths::new(Rc::new(profile.clone()), chain).predict(&machine);
        assert!(
            (by_paths / exact - 1.0).abs() < 0.01,
            "{width}: {by_paths} {exact}"
        );
    }
}
