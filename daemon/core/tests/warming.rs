//! What intervals begin with: copies of caches and predictors in the middle of a program go on as
//! the originals do.

#![allow(clippy::unwrap_used)] // Helpers of tests fail tests.

use fastrand::Rng;
use mcad_core::memory::{Answer, Memory, Request, Shared};
use mcad_core::pipeline::frontend::predict::{Executed, Kind, Predictor};
use mcad_isa::machine;

const CPUS: [&str; 5] = ["skl", "hsw", "icl", "glc", "zen5"];

/// One of a mixture: a stream, strides of several loads, and any line of 16 MiB.
fn address(random: &mut Rng, n: u64) -> (u64, u64) {
    match random.u32(..4) {
        0 => (0x1000, 0x1000_0000 + 8 * n),
        1 => {
            let load = random.u64(..8);
            (
                0x2000 + 4 * load,
                0x2000_0000 + (load << 24) + n * (64 + load * 40),
            )
        }
        2 => (0x3000, 0x3000_0000 + random.u64(..1 << 14)),
        _ => (0x4000, 0x4000_0000 + random.u64(..1 << 24)),
    }
}

fn ask(memory: &mut Memory, random: &mut Rng, n: u64, at: u64) -> Answer {
    let (pc, address) = address(random, n);
    let request = Request {
        instr: pc as u32,
        pc,
        address,
        size: 1 << random.u32(..5),
        at,
    };
    match random.u32(..8) {
        0 => memory.fetch(0x40_0000 + random.u64(..1 << 20), at),
        1 | 2 => memory.store(request),
        _ => memory.load(request),
    }
}

#[test]
fn a_copied_memory_goes_on_as_the_original() {
    for cpu in CPUS {
        let model = machine::cpu(cpu).unwrap();
        for seed in 0..6 {
            let mut random = Rng::with_seed(seed);
            let mut memory = Memory::new(&model.core).unwrap();
            memory.lend(&mut Shared::new(&model.core));
            let (before, after) = (random.u64(1..40_000), 20_000);
            let mut now = 0;
            for n in 0..before {
                now += random.u64(..60);
                ask(&mut memory, &mut random, n, now);
            }
            let mut copy = memory.snapshot(now);
            let found = memory.counts;
            let mut same = random.clone();
            let (mut at, mut late) = (0, 0);
            for n in before..before + after {
                at += random.u64(..60);
                assert_eq!(same.u64(..60), at - late);
                late = at;
                let answer = ask(&mut memory, &mut random, n, now + at);
                assert_eq!(
                    ask(&mut copy, &mut same, n, at),
                    answer,
                    "{cpu} {seed}: {n}"
                );
            }
            let mut counted = copy.counts;
            counted.add_between(&Default::default(), &found);
            assert_eq!(counted, memory.counts, "{cpu} {seed}");
        }
    }
}

#[test]
fn copied_predictors_go_on_as_the_originals() {
    for cpu in CPUS {
        let model = machine::cpu(cpu).unwrap();
        let mut random = Rng::with_seed(7);
        let mut predictor = Predictor::new(model.core.branch.as_ref().unwrap());
        let step = |random: &mut Rng, n: u64| {
            let branch = random.u64(..200);
            let pc = 0x40_0000 + 24 * branch;
            let kind = [
                Kind::Conditional,
                Kind::Conditional,
                Kind::Call,
                Kind::Return,
                Kind::IndirectJump,
            ][branch as usize % 5];
            let conditional = kind == Kind::Conditional;
            let taken = !conditional || !n.is_multiple_of(2 + branch % 9);
            Executed {
                pc,
                next: pc + 4,
                target: pc + 64 + u64::from(!conditional) * 128 * (n % 3),
                taken,
                kind,
            }
        };
        for n in 0..30_000 {
            predictor.branch(&step(&mut random, n));
        }
        let mut copy = predictor.clone();
        for n in 30_000..60_000 {
            let branch = step(&mut random, n);
            assert_eq!(copy.branch(&branch), predictor.branch(&branch), "{cpu} {n}");
        }
    }
}
