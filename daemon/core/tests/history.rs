//! What branches leave in a history of directions, as measured on a Zen 4 (docs/BRANCHES.md, "Zen 4's history"): one indirect jump
//! to two targets in a random order of 64 that recurs, with different ways back to it.

use mcad_core::pipeline::frontend::predict::{Executed, Kind, Predictor};
use mcad_isa::machine::params::branch::Branch;

const JUMP: u64 = 0x11_0000;
const COMMON: u64 = 0x12_0000;
const PERIOD: u64 = 64;

/// A branch that lies between a target and the jump.
#[derive(Clone, Copy)]
enum Between {
    /// An unconditional jump, at a place of its own for each target.
    OwnJump,
    /// A return, likewise.
    OwnReturn,
    /// A conditional one that is always taken, likewise.
    OwnConditional,
    /// An unconditional jump that both ways have.
    CommonJump,
    /// A conditional one that is always taken, likewise.
    CommonConditional,
    /// One that both have, and that is taken on one of them.
    CommonDirection,
}
use Between::{CommonConditional, CommonDirection, CommonJump, OwnConditional, OwnJump, OwnReturn};

fn zen4() -> Branch {
    let model = mcad_isa::machine::cpu("zen4").expect("a model");
    model.core.branch.clone().expect("its predictors")
}

/// Which target comes in turn `n` of a random order.
fn order(n: u64) -> bool {
    (n % PERIOD + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 37 & 1 == 1
}

/// Part of the jumps whose target is predicted wrongly once all is learnt, if `choose` says which target each turn
/// has; and of the directions of [`CommonDirection`].
fn wrong(between: &[Between], choose: impl Fn(u64) -> bool) -> (f64, f64) {
    let mut predictor = Predictor::new(&zen4());
    let (turns, learnt) = (20_000, 10_000);
    let (mut targets, mut directions) = (0, 0);
    for turn in 0..turns {
        let second = choose(turn);
        // Sixteen kilobytes apart.
        let mut at = 0x20_0040 + u64::from(second) * 0x4000;
        let mut branch = |pc, target, taken, kind| {
            let executed = Executed {
                pc,
                next: pc + 2,
                target,
                taken,
                kind,
            };
            u64::from(predictor.branch(&executed).is_wrong() && turn >= learnt)
        };
        targets += branch(JUMP + 16, at, true, Kind::IndirectJump);
        for (n, way) in (0u64..).zip(between) {
            let last = n + 1 == between.len() as u64;
            let own = 0x30_0080 + n * 0x1_0000 + u64::from(second) * 0x4000;
            let common = COMMON + n * 0x100;
            let is_common = |way: &Between| !matches!(way, OwnJump | OwnReturn | OwnConditional);
            let to = match between.get(n as usize + 1) {
                _ if last => JUMP,
                Some(next) if is_common(next) => common + 0x100,
                _ => own,
            };
            match way {
                OwnJump | CommonJump => {
                    branch(at, to, true, Kind::Jump);
                }
                OwnReturn => {
                    branch(at, to, true, Kind::Return);
                }
                OwnConditional | CommonConditional => {
                    branch(at, to, true, Kind::Conditional);
                }
                CommonDirection => {
                    directions += branch(at, at + 3, second, Kind::Conditional);
                    branch(at + 3, to, true, Kind::Jump);
                }
            }
            at = to;
        }
    }
    let part = |wrong: u64| wrong as f64 / (turns - learnt) as f64;
    (part(targets), part(directions))
}

#[test]
fn targets_are_foreseen_behind_the_ways_back_behind_which_they_are_on_the_cpu() {
    for (between, native, foreseen) in [
        (&[OwnJump][..], 13.7, false),
        (&[OwnConditional], 5.0, true),
        (&[OwnConditional, CommonJump], 14.3, false),
        (&[OwnConditional, CommonConditional], 14.3, false),
        (&[OwnJump, CommonConditional], 16.6, false),
        (&[OwnConditional, OwnJump], 7.5, true),
        (&[OwnJump, CommonDirection], 9.2, true),
    ] {
        let (wrong, _) = wrong(between, order);
        let as_measured = if foreseen { wrong < 0.05 } else { wrong > 0.15 };
        assert!(
            as_measured,
            "{native} cycles on the CPU, here wrong {wrong}"
        );
    }
}

#[test]
fn the_branch_that_led_into_a_line_is_seen_and_none_before() {
    let in_turn = |turn| turn % 2 == 1;
    // 4.0 cycles, and 23 where a common jump lies between.
    assert!(wrong(&[OwnJump], in_turn).0 < 0.01);
    assert!(wrong(&[OwnJump, CommonJump], in_turn).0 > 0.4);
    // Calls that come back by returns 14.5 to 27.
    assert!(wrong(&[OwnReturn], in_turn).0 > 0.4);
    // A direction in a random order that does not recur: 15.2 cycles with the targets' 14, and 26 behind common jumps.
    let random = |turn: u64| {
        turn.wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29)
            .count_ones()
            % 2
            == 1
    };
    assert!(wrong(&[OwnJump, CommonDirection], random).1 < 0.05);
    let (_, spoiled) = wrong(&[OwnJump, CommonJump, CommonJump, CommonDirection], random);
    assert!(spoiled > 0.3, "{spoiled}");
}
