//! Targets that the path chooses, as measured on a Zen (docs/ZEN1.md, "Targets").

mod support;

use std::collections::HashMap;

use mcad_core::pipeline::frontend::predict::{Executed, Kind, Predictor};
use mcad_isa::machine::params::branch::{AddressPath, Branch, TargetArray};
use support::predictors::{jump, predictors_of};

/// Where the indirect jump of a loop is, and the places that it goes to, each of which jumps back.
const DISPATCH: u64 = 0x40_0020;
fn place(n: u64) -> u64 {
    0x40_2000 + 64 * n
}

fn indirect(pc: u64, target: u64) -> Executed {
    Executed {
        pc,
        next: pc + 2,
        target,
        taken: true,
        kind: Kind::IndirectJump,
    }
}

fn array_of(p: &Branch) -> TargetArray {
    p.indirect.array.expect("it has an array")
}

fn path_of(p: &Branch) -> AddressPath {
    p.address_path.expect("its paths are of addresses")
}

/// Share of wrong predictions of an indirect jump that goes to these places in turn, with so many jumps between.
fn wrong_in_turn(order: &[u64], between: u64) -> f64 {
    let mut predictor = Predictor::new(&predictors_of("zen1"));
    let rounds = (4000 / order.len()).max(8);
    let mut wrong = 0;
    for round in 0..rounds {
        for &n in order {
            let steer = predictor.branch(&indirect(DISPATCH, place(n)));
            wrong += u32::from(round >= rounds / 2 && steer.is_wrong());
            predictor.branch(&jump(place(n)));
            for n in 0..between {
                predictor.branch(&jump(0x40_8000 + 64 * n));
            }
        }
    }
    f64::from(wrong) / ((rounds - rounds / 2) * order.len()) as f64
}

/// Cycles of the CPU for orders of two places, 4.5 where all is foreseen and 20.5 more for each that is not.
#[test]
fn orders_of_two_targets_are_foreseen_as_natively() {
    for (order, cycles) in [
        (&[0, 1, 0, 1][..], 4.5),
        (&[1, 0, 0, 0], 9.5),
        (&[0, 1, 1, 0, 0, 0, 0, 0], 17.1),
        (&[1, 1, 0, 0, 0, 0, 0, 1], 12.5),
        (&[0, 1, 0, 0, 1, 1, 1, 0], 10.0),
        (&[1, 1, 1, 0, 1, 0, 1, 1, 1, 1, 0, 0], 7.7),
        (&[1, 0, 0, 1, 0, 0, 1, 1, 1, 0, 0, 1], 11.6),
        (&[0, 1, 1, 0, 1, 0, 1, 1, 1, 0, 1, 1], 13.6),
        (&[1, 1, 1, 0, 0, 1, 1, 0, 1, 1, 1, 0, 1, 0, 0, 1], 15.4),
        (&[1, 1, 0, 1, 0, 0, 1, 1, 0, 1, 0, 0, 1, 0, 1, 0], 20.0),
    ] {
        let (wrong, measured) = (wrong_in_turn(order, 0), (cycles - 4.5) / 20.5);
        assert!(
            (wrong - measured).abs() < 0.04,
            "{order:?}: {wrong}, measured {measured}"
        );
    }
}

/// Six of one place and six of the other, and with more of each: five or six wrong for each change, however many there are
/// (113 to 119 cycles).
#[test]
fn what_a_change_costs_does_not_depend_on_how_long_there_was_none() {
    for length in [6, 12, 24, 64] {
        let order: Vec<u64> = (0..2 * length).map(|n| n / length).collect();
        let wrong = wrong_in_turn(&order, 0) * length as f64;
        assert!((4.5..6.5).contains(&wrong), "{length}: {wrong}");
    }
}

/// The same by its definition: bits of the register one by one, and entries in a map.
struct Literal {
    p: TargetArray,
    path: AddressPath,
    /// The latest bit first.
    register: Vec<bool>,
    entries: HashMap<(u64, u64), u64>,
    last: HashMap<u64, (u64, bool)>,
    written: Option<((u64, u64), u64, u32)>,
}

impl Literal {
    fn take(&mut self, b: &Executed) {
        let [low, high] = self.path.address_bits;
        for _ in 0..self.path.shift {
            self.register.insert(0, false);
        }
        for bit in low..=high {
            let place = (bit - low) as usize;
            self.register[place] ^= (b.next - 1) >> bit & 1 == 1;
        }
        self.register.truncate(self.p.history_bits as usize);
        if let Some((_, _, since)) = &mut self.written {
            *since += 1;
        }
    }

    fn write(&mut self) {
        if let Some((key, target, _)) = self.written.take() {
            // A direct-mapped array has one line of each number.
            self.entries.retain(|(number, _), _| *number != key.0);
            self.entries.insert(key, target);
        }
    }

    fn foresees(&mut self, b: &Executed) -> bool {
        if self
            .written
            .is_some_and(|(_, _, since)| since > self.p.late)
        {
            self.write();
        }
        let bits = u64::from(self.p.entries.ilog2());
        let page = (0..52).map(|bit| b.pc >> (12 + bit) & 1 == 1);
        let all = (self.register.iter().copied().enumerate()).chain(page.enumerate());
        let number = all.fold(0, |n, (at, bit)| n ^ u64::from(bit) << (at as u64 % bits));
        let key = (number, b.pc >> 6 & 63);
        let (last, changed) = self.last.get(&b.pc).copied().unwrap_or_default();
        let guess = match self.entries.get(&key) {
            Some(&target) if changed => target,
            _ => last,
        };
        self.write();
        let changed = changed || (last != 0 && last != b.target);
        let kept = if guess == b.target { last } else { b.target };
        self.last.insert(b.pc, (kept, changed));
        if changed {
            self.written = Some((key, b.target, 0));
        }
        guess == b.target
    }
}

#[test]
fn the_array_does_what_its_definition_says() {
    let p = predictors_of("zen1");
    let array = array_of(&p);
    let mut literal = Literal {
        p: array,
        path: path_of(&p),
        register: vec![false; array.history_bits as usize],
        entries: HashMap::new(),
        last: HashMap::new(),
        written: None,
    };
    let mut predictor = Predictor::new(&p);
    let mut random = fastrand::Rng::with_seed(5);
    let (mut foreseen, mut count, mut before) = (0, 0, 0);
    for _ in 0..30_000 {
        let b = match random.u32(0..3) {
            0 => jump(0x41_0000 + 24 * random.u64(0..20)),
            _ => {
                // Half of them go as the one before.
                before = match random.bool() {
                    true => before,
                    false => random.u64(0..4),
                };
                indirect(DISPATCH + 0x1034 * random.u64(0..6), place(before))
            }
        };
        // Buffers of branches have all by then.
        let steer = predictor.branch(&b);
        if b.kind == Kind::IndirectJump {
            let expected = literal.foresees(&b);
            count += 1;
            foreseen += u32::from(expected);
            assert!(
                !expected || !steer.is_wrong() || count < 100,
                "{count}: {b:?} is foreseen"
            );
            assert!(expected || steer.is_wrong(), "{count}: {b:?} is not");
        }
        literal.take(&b);
    }
    assert!((0.2..0.9).contains(&(f64::from(foreseen) / f64::from(count))));
}

#[test]
fn nine_taken_branches_back_are_seen_and_none_before() {
    let p = predictors_of("zen1");
    let array = array_of(&p);
    let seen = u64::from(array.history_bits / path_of(&p).shift);
    for (between, told) in [
        (0, true),
        (seen - 1, true),
        (seen, false),
        (seen + 3, false),
    ] {
        let mut predictor = Predictor::new(&p);
        let mut random = fastrand::Rng::with_seed(7);
        let (rounds, mut wrong) = (4000, 0);
        for round in 0..rounds {
            let bit = random.u64(0..2);
            // Two ways to one place that differ in the lowest bit that is seen, in pages of their own.
            let way = 0x50_0000 + bit * (0x2000 + (1 << path_of(&p).address_bits[0]));
            predictor.branch(&jump(way));
            for n in 0..between {
                predictor.branch(&jump(0x51_0000 + 32 * n));
            }
            let steer = predictor.branch(&indirect(DISPATCH, place(bit)));
            wrong += u32::from(round >= rounds / 2 && steer.is_wrong());
            for n in 0..20 {
                predictor.branch(&jump(0x52_0000 + 32 * n));
            }
        }
        let share = f64::from(wrong) / f64::from(rounds / 2);
        assert_eq!(share < 0.05, told, "{between} between: {share}");
    }
}
