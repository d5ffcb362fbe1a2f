//! Directions by sums of weights, as measured on a Zen (docs/ZEN1.md, "Branches").

mod support;

use std::collections::HashMap;

use mcad_core::pipeline::frontend::predict::{Executed, Kind, Predictor};
use mcad_isa::machine::params::branch::Branch;
use support::predictors::{conditional, jump, predictors_of};

fn zen() -> Branch {
    predictors_of("zen1")
}

/// Where the jumps of one of two ways are; those of the other one differ in some bits.
const WAY: u64 = 0x10_0000;
/// The branch that goes as the way says.
const TOLD: u64 = 0x40_0100;

/// Share of wrong directions of a branch that goes as one of two ways was taken: of `jumps` jumps, of which those with a number here differ in
/// these bits of their addresses. The last one is `between` taken branches before.
fn told_wrongly(jumps: u64, differ: &[(u64, u64)], between: u64) -> f64 {
    let mut predictor = Predictor::new(&zen());
    let mut random = fastrand::Rng::with_seed(3);
    let (rounds, mut wrong) = (6000, 0);
    for round in 0..rounds {
        let way = random.bool();
        for n in 0..jumps {
            let bits = differ.iter().filter(|(jump, _)| way && *jump == n);
            let bits = bits.fold(0, |all, (_, bits)| all ^ bits);
            // Whole pages apart, which nothing sees.
            let page = u64::from(way) << 16;
            predictor.branch(&jump((WAY + page + 32 * n) ^ bits));
        }
        for n in 0..between {
            predictor.branch(&jump(0x30_0000 + 32 * n));
        }
        let steer = predictor.branch(&conditional(TOLD, way));
        wrong += u32::from(round >= rounds / 2 && steer.is_wrong());
        predictor.branch(&jump(TOLD + 0x20));
    }
    f64::from(wrong) / f64::from(rounds / 2)
}

fn bits(of: &[u32]) -> u64 {
    of.iter().fold(0, |all, bit| all | 1 << bit)
}

#[track_caller]
fn assert_told(wrong: f64, told: bool, what: &str) {
    match told {
        true => assert!(wrong < 0.03, "{what}: {wrong}"),
        false => assert!(wrong > 0.4, "{what}: {wrong}"),
    }
}

/// Whether a difference in these bits of the address of a jump's last byte was seen natively with so many jumps in between.
#[test]
fn addresses_of_taken_branches_tell_as_measured() {
    for (differ, between, told) in [
        (&[3][..], 30, true),
        (&[10], 30, true),
        (&[12], 0, false),
        (&[3, 5], 13, true),
        (&[3, 5], 14, false),
        (&[5, 7], 12, true),
        (&[5, 7], 13, false),
        (&[8, 10], 11, true),
        (&[8, 10], 12, false),
        (&[9, 11], 11, true),
        (&[9, 11], 12, false),
        (&[3, 4], 24, true),
        (&[6, 9], 24, true),
        (&[6, 8], 24, false),
        (&[6, 10], 24, false),
    ] {
        let wrong = told_wrongly(1, &[(0, bits(differ))], between);
        assert_told(wrong, told, &format!("bits {differ:?}, {between} between"));
    }
}

#[test]
fn a_branch_later_and_a_shift_of_bits_lower_is_the_same() {
    for between in [0, 4, 8, 29] {
        for bit in 3..9 {
            let wrong = told_wrongly(2, &[(0, 1 << bit), (1, 1 << (bit + 3))], between);
            assert_told(wrong, false, &format!("bit {bit}, {between} between"));
        }
    }
}

/// What two jumps leave is taken for nothing where it is thirteen bits apart.
#[test]
fn parts_of_the_path_are_in_turns_of_thirteen_bits() {
    // Of one bit a branch: jumps so many taken branches before.
    for (older, newer, told) in [
        (31, 18, false),
        (28, 15, false),
        (26, 13, false),
        (30, 18, true),
        (28, 16, true),
        (24, 11, true),
    ] {
        let apart = older - newer;
        let wrong = told_wrongly(apart + 1, &[(0, 16), (apart, 16)], newer);
        assert_told(wrong, told, &format!("{older} and {newer} before"));
    }
    // Of three bits, by pairs of bits that the other one does not see, where the first table does not see the newer ones.
    for (older, apart, told) in [(8, 5, false), (11, 5, false), (10, 4, true), (7, 5, true)] {
        let differ = [(0, bits(&[3, 5])), (apart, bits(&[5, 7]))];
        let wrong = told_wrongly(apart + 1, &differ, older - apart);
        assert_told(wrong, told, &format!("{apart} apart, {older} before"));
    }
}

/// Two branches at the end of one path that go opposite ways are told apart by their addresses, less bit 12, in turns of thirteen bits.
#[test]
fn branches_are_told_apart_by_their_addresses() {
    for (differ, told) in [
        (&[5][..], true),
        (&[12], false),
        (&[18], true),
        (&[5, 12], true),
        (&[5, 17], true),
        (&[5, 18], false),
        (&[8, 21], false),
    ] {
        let mut predictor = Predictor::new(&zen());
        let mut random = fastrand::Rng::with_seed(5);
        let (rounds, mut wrong) = (8000, 0);
        for round in 0..rounds {
            let (way, other) = (random.bool(), random.bool());
            predictor.branch(&jump(WAY + 8 * u64::from(way)));
            let pc = TOLD ^ if other { bits(differ) } else { 0 };
            let steer = predictor.branch(&conditional(pc, way ^ other));
            wrong += u32::from(round >= rounds / 2 && steer.is_wrong());
            predictor.branch(&jump(TOLD + 0x20));
        }
        let wrong = f64::from(wrong) / f64::from(rounds / 2);
        assert_told(wrong, told, &format!("bits {differ:?}"));
    }
}

/// Share of wrong directions of a random order of that length that recurs, of so many branches in turn, 64 bytes apart.
fn recurring_wrongly(branches: usize, length: usize) -> f64 {
    let mut predictor = Predictor::new(&zen());
    let mut random = fastrand::Rng::with_seed(length as u64);
    let order: Vec<bool> = (0..length).map(|_| random.bool()).collect();
    let rounds = if length > 1024 { 24 } else { 60 };
    let mut wrong = 0;
    for round in 0..rounds {
        for turn in order.chunks(branches) {
            for (n, &taken) in turn.iter().enumerate() {
                let pc = 0x1_001d + 64 * n as u64 + u64::from(n > 0);
                let steer = predictor.branch(&conditional(pc, taken));
                wrong += u32::from(round >= rounds / 2 && steer.is_wrong());
            }
            predictor.branch(&jump(0x1_0028 + 64 * (branches as u64 - 1)));
        }
    }
    f64::from(wrong) / (length * (rounds - rounds / 2)) as f64
}

/// Measured by what loads before a branch add where it is predicted wrongly (docs/ZEN1.md), per cent.
#[test]
fn long_orders_are_forgotten_by_degrees() {
    for (branches, measured) in [
        (1, [1.4, 4.2, 6.5, 11.1, 20.4, 29.7]),
        (2, [0.4, 0.2, 1.4, 4.8, 11.5, 21.8]),
        (4, [0.2, 0.2, 0.8, 2.6, 8.8, 17.0]),
        (8, [0.0, 0.2, 0.2, 0.5, 4.5, 16.3]),
    ] {
        for (n, measured) in measured.into_iter().enumerate() {
            let length = 512 << n;
            let wrong = 100.0 * recurring_wrongly(branches, length);
            assert!(
                (wrong - measured).abs() < 3.0,
                "{branches} branches, {length}: {wrong:.1} %, measured {measured} %"
            );
        }
    }
}

/// The same predictor by its definition: bits as lists, the latest first.
#[derive(Default)]
struct Literal {
    near: Vec<bool>,
    long: Vec<bool>,
    weights: HashMap<(usize, Vec<bool>), i32>,
    ways: HashMap<u64, (bool, bool)>,
}

/// Bits in turns of so many, by exclusive or.
fn in_turns(bits: impl Iterator<Item = bool>, of: usize) -> Vec<bool> {
    let mut all = vec![false; of];
    for (n, bit) in bits.enumerate() {
        all[n % of] ^= bit;
    }
    all
}

impl Literal {
    fn branch(&mut self, p: &Branch, b: &Executed) -> bool {
        let foreseen = b.kind != Kind::Conditional || self.conditional(p, b) == b.taken;
        if b.taken {
            self.take(p, b.next - 1);
        }
        foreseen
    }

    fn take(&mut self, p: &Branch, last_byte: u64) {
        let path = p.address_path.expect("its paths are of addresses");
        let shift = path.shift as usize;
        self.near.splice(0..0, vec![false; shift]);
        self.long.insert(0, false);
        self.near.resize(64, false);
        self.long.resize(64, false);
        let [low, high] = path.address_bits;
        for bit in low..=high {
            let (n, set) = ((bit - low) as usize, last_byte >> bit & 1 == 1);
            self.near[n] ^= set;
            self.long[n % shift + n / shift] ^= set;
        }
    }

    fn conditional(&mut self, p: &Branch, b: &Executed) -> bool {
        let weights = p.direction.weights.expect("it has weights");
        let of = p.direction.table_entries.trailing_zeros() as usize;
        let pc = (0..64).map(|bit| b.pc >> bit & 1 == 1 && bit != of - 1);
        let pc = in_turns(pc, of);
        let near = self.near.iter().take(weights.near_bits as usize);
        let long = self.long.iter().take(p.direction.longest_history as usize);
        let keys = [
            Vec::new(),
            near.clone().take(of).copied().collect(),
            near.skip(of).copied().collect(),
            long.copied().collect(),
        ];
        let keys = keys.into_iter().enumerate().map(|(n, part)| {
            let part = in_turns(part.into_iter(), of).into_iter();
            (n, part.zip(&pc).map(|(a, b)| a ^ b).collect::<Vec<_>>())
        });
        let keys: Vec<_> = keys.collect();
        let known = self.ways.get(&b.pc).copied();
        let ways = self.ways.entry(b.pc).or_default();
        match b.taken {
            true => ways.0 = true,
            false => ways.1 = true,
        }
        match known {
            None | Some((false, true)) => return false,
            Some((true, false)) => return true,
            Some(_) => {}
        }
        let sum: i32 = keys.iter().filter_map(|key| self.weights.get(key)).sum();
        if (sum >= 0) != b.taken || sum.abs() <= i32::from(weights.threshold) {
            let most = (1 << (weights.bits - 1)) - 1;
            for key in keys {
                let weight = self.weights.entry(key).or_default();
                *weight = (*weight + if b.taken { 1 } else { -1 }).clamp(-most - 1, most);
            }
        }
        sum >= 0
    }
}

/// A few branches, each of whose directions is as some of those before it went, and one in five random.
#[test]
fn sums_of_weights_are_as_defined() {
    let p = zen();
    let mut random = fastrand::Rng::with_seed(17);
    let (mut predictor, mut literal) = (Predictor::new(&p), Literal::default());
    let mut before = [false; 8];
    for n in 0..20_000_u64 {
        let pc = 0x4000 + 0x1_0230 * (n % 6);
        let taken = match random.u32(0..5) {
            0 => random.bool(),
            _ => before[(n % 6) as usize] ^ before[2],
        };
        before.rotate_right(1);
        before[0] = taken;
        let b = conditional(pc, taken);
        let foreseen = literal.branch(&p, &b);
        assert_eq!(foreseen, !predictor.branch(&b).is_wrong(), "branch {n}");
    }
}
