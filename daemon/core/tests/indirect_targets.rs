//! What targets of indirect jumps are foreseen by on Zen 5, as loops on that CPU show it (docs/BRANCHES.md, "Targets on Zen 5").
#![allow(clippy::unwrap_used)]

use mcad_core::pipeline::frontend::predict::{Executed, Kind, Predictor};
use mcad_isa::machine::cpu;

/// Where all indirect jumps here are.
const JUMP: u64 = 0x10_0000;

fn zen5() -> Predictor {
    let cpu = cpu("zen5").unwrap();
    Predictor::new(cpu.core.branch.as_ref().unwrap())
}

/// A jump of two bytes whose last byte is at `last_byte`.
fn jump(last_byte: u64, target: u64) -> Executed {
    Executed {
        pc: last_byte - 1,
        next: last_byte + 1,
        target,
        taken: true,
        kind: Kind::Jump,
    }
}

/// Whether the indirect jump to `target` is predicted wrongly.
fn is_wrong(predictor: &mut Predictor, target: u64) -> bool {
    let steer = predictor.branch(&Executed {
        kind: Kind::IndirectJump,
        ..jump(JUMP + 1, target)
    });
    steer.is_wrong()
}

/// Share of wrong predictions of an indirect jump that goes by which of two jumps, at random, was taken so many taken branches before it; the
/// other ones of its 130 a turn are always the same.
fn wrong_behind(distance: u64) -> f64 {
    let mut predictor = zen5();
    let mut random = fastrand::Rng::with_seed(3);
    let (turns, mut wrong) = (4000, 0);
    for turn in 0..turns {
        let bit = random.bool();
        for n in (1..130).rev() {
            let last_byte = match (n == distance, bit) {
                (true, true) => 0x4_0010,
                (true, false) => 0x4_0000,
                _ => 0x2_0000 + 32 * n,
            };
            predictor.branch(&jump(last_byte, 0x3_0000 + 32 * n));
        }
        let is_wrong = is_wrong(&mut predictor, 0x5_0000 + u64::from(bit) * 0x1000);
        wrong += u32::from(turn >= turns / 2 && is_wrong);
    }
    f64::from(wrong) / f64::from(turns / 2)
}

/// A jump that goes to two places in turn is foreseen with 105 jumps between and not with 106; the last two branches before it are not seen.
#[test]
fn what_is_107_branches_back_is_seen_and_the_last_two_are_not() {
    for (distance, seen) in [
        (2, false),
        (3, true),
        (16, true),
        (60, true),
        (107, true),
        (108, false),
    ] {
        let wrong = wrong_behind(distance);
        assert_eq!(wrong < 0.05, seen, "{distance}: {wrong}");
        assert!(seen || wrong > 0.4, "{distance}: {wrong}");
    }
}

/// Share of wrong predictions of a jump that goes to one of two places in a random order of 32 that recurs, from which jumps lead back
/// whose last bytes are at these addresses.
fn wrong_of_order(places: [u64; 2]) -> f64 {
    let mut predictor = zen5();
    let (rounds, mut wrong) = (300, 0);
    for round in 0..rounds {
        let mut random = fastrand::Rng::with_seed(5);
        for _ in 0..32 {
            let place = places[usize::from(random.bool())];
            wrong += u32::from(is_wrong(&mut predictor, place - 5) && round >= rounds / 2);
            predictor.branch(&jump(place, JUMP - 0x40));
            predictor.branch(&jump(JUMP - 0x20, JUMP));
        }
    }
    f64::from(wrong) / f64::from(rounds / 2 * 32)
}

/// Of two targets alone nothing is seen, but for where in 512 bytes a branch there ends; a bit of the address in each turn.
#[test]
fn the_second_to_the_ninth_bit_of_the_last_byte_are_seen() {
    for bit in 1..20 {
        let wrong = wrong_of_order([0x80_1000, 0x80_1000 ^ 1 << bit]);
        let seen = (1..=8).contains(&bit);
        assert_eq!(wrong < 0.1, seen, "{bit}: {wrong}");
        assert!(seen || wrong > 0.2, "{bit}: {wrong}");
    }
}

/// Targets sixteen bytes apart in turn: their second to ninth bits recur after 32 of them, but each is told by the branch that leads to it.
/// 1 024 take the cycles of one; among 1 024 places that lead to each other, eight followers each are told apart and sixteen are not.
#[test]
fn where_to_go_on_is_known_by_the_branch_before() {
    let mut predictor = zen5();
    let (rounds, mut wrong) = (20, 0);
    for round in 0..rounds {
        for n in 0..1024 {
            let place = 0x80_0000 + 16 * n;
            wrong += u32::from(is_wrong(&mut predictor, place) && round == rounds - 1);
            predictor.branch(&jump(place + 4, JUMP));
        }
    }
    assert!(wrong < 20, "{wrong}");
    for (followers, seen) in [(8, true), (16, false)] {
        let mut order: Vec<u64> = (0..1024 * followers).map(|n| n % 1024).collect();
        fastrand::Rng::with_seed(11).shuffle(&mut order);
        let (mut predictor, mut wrong) = (zen5(), 0);
        for round in 0..4 {
            for pair in order.windows(2) {
                let (from, to) = (pair[0], pair[1]);
                let steer = predictor.branch(&Executed {
                    kind: Kind::IndirectJump,
                    ..jump(0x80_0000 + 64 * from + 7, 0x80_0000 + 64 * to)
                });
                wrong += u32::from(round == 3 && steer.is_wrong());
            }
        }
        let wrong = f64::from(wrong) / order.len() as f64;
        assert_eq!(wrong < 0.2, seen, "{followers}: {wrong}");
        assert!(seen || wrong > 0.8, "{followers}: {wrong}");
    }
}
