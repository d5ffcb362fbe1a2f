//! What can be checked by hand: H's sum, the paper's examples, sums of stacks.

#![allow(clippy::unwrap_used)]

use std::rc::Rc;

use mcad_model::chain::Chain;
use mcad_model::collect::Collector;
use mcad_model::kind::Kind;
use mcad_model::literal;
use mcad_model::machine::{Forward, Machine};
use mcad_model::paths::Paths;
use mcad_model::profile::{Inst, Profile};
use mcad_model::rows::{Own, Row, Rows};
use mcad_model::step::{StaticCode, Stepper};

fn inst(kind: Kind, writes: u8, reads: &[u8]) -> Inst {
    Inst {
        kind,
        reads: reads.to_vec(),
        writes: vec![writes],
    }
}

fn machine(width: u8) -> Machine {
    Machine {
        width,
        ..Machine::default()
    }
}

fn by_paths(machine: &Machine, profile: &Profile) -> f64 {
    let chain = Rc::new(Chain::new(&Rows::of(profile)));
    Paths::new(Rc::new(profile.clone()), chain).predict(machine)
}

/// Blocks executed in a pseudo-random order, with all kinds of distances.
fn program(executions: u32) -> (Profile, Vec<u32>) {
    let kinds = Kind::ALL;
    let mut state = 12345u32;
    let mut random = move |below: u32| {
        state = state.wrapping_mul(1664525).wrapping_add(1013904223);
        (state >> 16) % below
    };
    let blocks: Vec<Vec<Inst>> = (0..20)
        .map(|_| {
            (0..3 + random(9))
                .map(|_| {
                    let kind = match random(10) {
                        0..=4 => Kind::Alu,
                        5 | 6 => Kind::Load,
                        7 => Kind::Store,
                        _ if random(8) > 0 => kinds[3 + 3 * random(2) as usize],
                        _ => kinds[random(9) as usize],
                    };
                    inst(
                        kind,
                        random(12) as u8,
                        &[random(12) as u8, random(12) as u8],
                    )
                })
                .collect()
        })
        .collect();
    let mut collector = Collector::default();
    let mut order = Vec::new();
    let mut at = 0;
    for _ in 0..executions {
        at = if random(4) == 0 {
            random(20)
        } else {
            (at + 1) % 20
        };
        let block = &blocks[at as usize];
        collector.execute(at, 0, block.len() as u32, || block.clone());
        order.push(at);
    }
    let mut numbers: Vec<u32> = Vec::new();
    for &block in &order {
        if !numbers.contains(&block) {
            numbers.push(block);
        }
    }
    let order = order
        .iter()
        .map(|b| numbers.iter().position(|n| n == b).unwrap() as u32);
    (collector.finish("test".into()), order.collect())
}

#[test]
fn h_has_every_instruction_once() {
    let (profile, _) = program(5000);
    assert_eq!(Rows::of(&profile).total(), profile.instructions);
}

#[test]
fn the_papers_pattern_costs_three_sixteenths() {
    use Kind::{Alu, Branch};
    let row = Row {
        pattern: [Branch, Alu, Branch, Alu],
        distance: 2,
        producer: Alu,
        slower: 0,
        slower_producer: Alu,
        own: Own::default(),
    };
    assert!((literal::dependence(&machine(4), &row) - 3.0 / 16.0).abs() < 1e-12);
}

/// Four instructions of long latency, two of them in one group: each waits for the unit where that is
/// not pipelined, and the two share a penalty where it is. These are the figures of the paper's Table I.
#[test]
fn four_long_instructions_pay_four_penalties_or_three() {
    use Kind::{Alu, Multiply};
    let patterns = [
        [Alu, Alu, Alu, Multiply],
        [Alu, Alu, Alu, Multiply],
        [Multiply, Alu, Alu, Multiply],
        [Multiply, Alu, Alu, Multiply],
    ];
    let penalties = |pipelined: bool| {
        let with = |latency: u8| {
            let mut machine = machine(4);
            (machine.multiply.latency, machine.multiply.pipelined) = (latency, pipelined);
            let penalty = |pattern| {
                let row = Row {
                    pattern,
                    distance: 0,
                    producer: Alu,
                    slower: 0,
                    slower_producer: Alu,
                    own: Own::default(),
                };
                literal::units(&machine, &row)
            };
            patterns.map(penalty).iter().sum::<f64>()
        };
        // What a group of slots costs has no part in it.
        (with(9) - with(1)) / 8.0
    };
    assert!((penalties(false) - 4.0).abs() < 1e-12);
    assert!((penalties(true) - 3.0).abs() < 1e-12);
}

#[test]
fn stacks_add_up_and_profiles_come_back_as_written() {
    let (profile, _) = program(2000);
    let rows = Rows::of(&profile);
    for width in 1..=4 {
        for stack in [
            literal::predict(&machine(width), &rows),
            Chain::new(&rows).predict(&machine(width)),
        ] {
            let parts: f64 = stack.parts().map(|p| p.1).sum();
            assert!((parts - stack.total()).abs() <= 1e-9 * stack.total());
            assert!(stack.total() >= profile.instructions as f64 / f64::from(width));
        }
    }
    let mut file = Vec::new();
    profile.write(&mut file).unwrap();
    assert_eq!(Profile::read(&file[..]).unwrap(), profile);
    assert!(Profile::read(&b"mcadprof"[..]).is_err());
    assert!(Profile::read(&file[..file.len() / 2]).is_err());
    file[8] = 9;
    let error = Profile::read(&file[..]).unwrap_err().to_string();
    assert!(error.contains("version 9"), "{error}");
}

#[test]
fn models_come_near_the_stepwise_core() {
    let (profile, order) = program(20_000);
    let rows = Rows::of(&profile);
    let chain = Chain::new(&rows);
    for width in 1..=4 {
        let machine = machine(width);
        let code = StaticCode::new(&machine, &profile.blocks);
        let mut stepper = Stepper::new(&machine);
        for &block in &order {
            stepper.execute(&code, block);
        }
        let exact = stepper.finish(&code) as f64;
        let paths = by_paths(&machine, &profile);
        assert!(
            (paths / exact - 1.0).abs() < 0.01,
            "{width}: {paths} {exact}"
        );
        let by_chain = chain.predict(&machine).total();
        assert!(
            (by_chain / exact - 1.0).abs() < 0.15,
            "{width}: {by_chain} {exact}"
        );
    }
}

#[test]
fn a_chain_of_additions_takes_a_cycle_each_in_every_model() {
    let mut collector = Collector::default();
    for _ in 0..1000 {
        collector.execute(0, 0, 10, || vec![inst(Kind::Alu, 1, &[1]); 10]);
    }
    let profile = collector.finish("chain".into());
    let rows = Rows::of(&profile);
    for width in 1..=4 {
        let machine = machine(width);
        let chain = Chain::new(&rows).predict(&machine).total();
        assert!((chain / 10_000.0 - 1.0).abs() < 0.001, "{width}: {chain}");
        let paths = by_paths(&machine, &profile);
        assert!((paths / 10_000.0 - 1.0).abs() < 0.001, "{width}: {paths}");
    }
}

/// The loop of a multiplicative hash: an operation and a multiplication wait for each other, and
/// the multiplication's flags are overwritten before the branch reads flags.
#[test]
fn what_was_overwritten_is_not_waited_for() {
    use Kind::{Alu, Branch, Multiply};
    const FLAGS: u8 = 73;
    let with = |kind, reads: &[u8], writes: &[u8]| Inst {
        kind,
        reads: reads.to_vec(),
        writes: writes.to_vec(),
    };
    let body = vec![
        with(Alu, &[2], &[0]),
        with(Alu, &[2], &[2, FLAGS]),
        with(Alu, &[0, 6], &[6, FLAGS]),
        with(Multiply, &[1, 6], &[6, FLAGS]),
        with(Alu, &[2], &[FLAGS]),
        with(Branch, &[FLAGS], &[]),
    ];
    let mut collector = Collector::default();
    for _ in 0..10_000 {
        collector.execute(0, 0, 6, || body.clone());
    }
    let profile = collector.finish("hash".into());
    let chain = Chain::new(&Rows::of(&profile));
    for width in 1..=4 {
        for latency in [3, 6, 30] {
            let mut machine = machine(width);
            machine.multiply.latency = latency;
            let cycles = chain.predict(&machine).total() / 10_000.0;
            let exact = f64::from(latency + 1).max(6.0 / f64::from(width));
            assert!((cycles / exact - 1.0).abs() < 1e-3, "{width}: {cycles}");
        }
    }
}

/// Independent multiplications whose products are summed: with one multiplier that is not pipelined
/// the second waits for it and the sum for nothing; with two the sum waits for its product. So a second
/// multiplier moves cycles from units to dependences, as in the paper's susan_s.
#[test]
fn a_second_multiplier_moves_cycles_from_units_to_dependences() {
    use Kind::{Alu, Multiply};
    let body = vec![
        inst(Multiply, 1, &[10]),
        inst(Multiply, 2, &[11]),
        inst(Alu, 3, &[1, 3]),
        inst(Alu, 4, &[4]),
    ];
    let executions = 10_000;
    let mut collector = Collector::default();
    for _ in 0..executions {
        collector.execute(0, 0, 4, || body.clone());
    }
    let profile = collector.finish("convolution".into());
    let chain = Chain::new(&Rows::of(&profile));
    let mut stacks = Vec::new();
    for count in 1..=2 {
        let mut machine = machine(4);
        machine.multiply.latency = 5;
        machine.multiply.pipelined = false;
        machine.multiply.count = count;
        let code = StaticCode::new(&machine, &profile.blocks);
        let mut stepper = Stepper::new(&machine);
        (0..executions).for_each(|_| stepper.execute(&code, 0));
        let exact = stepper.finish(&code) as f64;
        let stack = chain.predict(&machine);
        assert!((stack.total() / exact - 1.0).abs() < 0.01, "{count}");
        stacks.push(stack);
    }
    let of = |n: usize| {
        let stack: &mcad_model::stack::Stack = &stacks[n];
        (
            stack.units[Multiply as usize],
            stack.dependences[Multiply as usize],
        )
    };
    let ((unit_1, value_1), (unit_2, value_2)) = (of(0), of(1));
    assert!(unit_2 < unit_1 / 10.0, "{unit_1} {unit_2}");
    assert!(value_2 > 10.0 * value_1, "{value_1} {value_2}");
}

/// Cycles of a loop's turn by the chain, by paths and by the stepwise core.
fn turns(machine: &Machine, body: &[Inst]) -> [f64; 3] {
    const TURNS: u32 = 10_000;
    let mut collector = Collector::default();
    for _ in 0..TURNS {
        collector.execute(0, 0, body.len() as u32, || body.to_vec());
    }
    let profile = collector.finish("loop".into());
    let code = StaticCode::new(machine, &profile.blocks);
    let mut stepper = Stepper::new(machine);
    for _ in 0..TURNS {
        stepper.execute(&code, 0);
    }
    [
        Chain::new(&Rows::of(&profile)).predict(machine).total(),
        by_paths(machine, &profile),
        stepper.finish(&code) as f64,
    ]
    .map(|cycles| cycles / f64::from(TURNS))
}

/// A load that writes four cycles after issue and an addition that writes after one and needs nothing
/// of it: written in order, the addition issues three cycles later, with the next load.
#[test]
fn results_written_in_order_hold_up_what_is_quicker() {
    let body = [inst(Kind::Load, 1, &[0]), inst(Kind::Alu, 2, &[0])];
    for (load, alu, expected) in [(4, 1, 3.0), (4, 4, 1.0), (2, 1, 1.0), (0, 0, 1.0)] {
        let mut machine = machine(2);
        machine.load.write_back = load;
        machine.alu.write_back = alu;
        for cycles in turns(&machine, &body) {
            assert!((cycles - expected).abs() < 0.01, "{load} {alu}: {cycles}");
        }
        let chain = Chain::new(&Rows::of(&profile_of(&body))).predict(&machine);
        assert!((chain.write_back > 0.0) == (expected > 1.0));
    }
}

fn profile_of(body: &[Inst]) -> Profile {
    let mut collector = Collector::default();
    for _ in 0..100 {
        collector.execute(0, 0, body.len() as u32, || body.to_vec());
    }
    collector.finish("loop".into())
}

/// An addition and a load from its sum, which the next addition needs: a ring of both latencies.
#[test]
fn kinds_use_results_when_the_machine_says() {
    let body = [inst(Kind::Alu, 1, &[1]), inst(Kind::Load, 1, &[1])];
    for (to_load, to_alu) in [(1, 2), (3, 2), (3, 4), (1, 1)] {
        let mut machine = machine(2);
        let forward = |from, to, latency| Forward { from, to, latency };
        machine.forward = vec![
            forward(Kind::Alu, Kind::Load, to_load),
            forward(Kind::Load, Kind::Alu, to_alu),
        ];
        machine.check().unwrap();
        for cycles in turns(&machine, &body) {
            let expected = f64::from(to_load + to_alu);
            assert!((cycles - expected).abs() < 0.01, "{cycles} {expected}");
        }
    }
    let mut never = machine(2);
    never.forward = vec![Forward {
        from: Kind::Alu,
        to: Kind::Alu,
        latency: 0,
    }];
    assert!(never.check().unwrap_err().contains("forward from alu"));
}
