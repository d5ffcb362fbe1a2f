//! What branches leave in the history that targets of indirect branches depend on, as measured on a Zen 4 (docs/BRANCHES.md, "Zen 4's
//! history"): an interpreter of two handlers whose programs repeat, at every second operation, what was chosen so many before.

use mcad_core::pipeline::frontend::predict::{Executed, Kind, Predictor};
use mcad_isa::machine::params::branch::Branch;

/// A branch that lies between a handler and the jump to the next one.
#[derive(Clone, Copy)]
enum Between {
    /// An unconditional jump with these bits 2 and 3 in the address of its last byte.
    Jump(u64),
    /// A conditional one that is always taken, likewise.
    Always(u64),
    /// An indirect jump that always goes to the same place, likewise.
    Indirect(u64),
    /// A call and its return.
    Call,
    /// A conditional branch whose direction is random and does not recur.
    Random,
}
use Between::{Always, Call, Indirect, Jump, Random};

/// Where the handlers' ways end.
#[derive(Clone, Copy)]
enum Dispatch {
    /// In one jump that both have.
    Common,
    /// In a jump each, with these bits.
    Own([u64; 2]),
}
use Dispatch::{Common, Own};

fn zen4() -> Branch {
    let model = mcad_isa::machine::cpu("zen4").expect("a model");
    model.core.branch.clone().expect("its predictors")
}

struct Interpreter<'a> {
    ways: [&'a [Between]; 2],
    common: &'a [Between],
    dispatch: Dispatch,
    predictor: Predictor,
    random: u64,
}

impl<'a> Interpreter<'a> {
    fn new(ways: [&'a [Between]; 2], common: &'a [Between], dispatch: Dispatch) -> Self {
        Self {
            ways,
            common,
            dispatch,
            predictor: Predictor::new(&zen4()),
            random: 1,
        }
    }

    fn chance(&mut self) -> bool {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random >> 33 & 1 == 1
    }

    fn branch(&mut self, pc: u64, target: u64, taken: bool, kind: Kind) -> bool {
        let executed = Executed {
            pc,
            next: pc + 2,
            target,
            taken,
            kind,
        };
        self.predictor.branch(&executed).is_wrong()
    }

    /// Goes along a way whose parts lie at `place` and, every 4 096 bytes, behind it, and which ends at `end`.
    fn go(&mut self, way: &[Between], place: u64, end: u64) {
        for (n, between) in (0u64..).zip(way) {
            // The last byte of a branch of two.
            let at = |bits: u64| place + n * 0x1000 + 0x41 + (bits << 2) - 1;
            let last = n + 1 == way.len() as u64;
            let to = if last { end } else { place + (n + 1) * 0x1000 };
            match *between {
                Jump(bits) => _ = self.branch(at(bits), to, true, Kind::Jump),
                Always(bits) => _ = self.branch(at(bits), to, true, Kind::Conditional),
                Indirect(bits) => _ = self.branch(at(bits), to, true, Kind::IndirectJump),
                Call => {
                    let call = at(0);
                    self.branch(call, place + 0x800, true, Kind::Call);
                    self.branch(place + 0x840, call + 2, true, Kind::Return);
                }
                Random => {
                    let taken = self.chance();
                    self.branch(at(0), at(0) + 2, taken, Kind::Conditional);
                }
            }
        }
    }

    /// Executes an operation and jumps to `next`; whether that was foreseen wrongly.
    fn operation(&mut self, handler: bool, next: bool) -> bool {
        let handlers = [0x20_0000, 0x24_0000];
        let place = handlers[usize::from(handler)];
        let way = self.ways[usize::from(handler)];
        let (common, line) = (0x30_0000, 0x38_0000);
        let dispatch = match self.dispatch {
            Common => {
                self.go(
                    way,
                    place,
                    if self.common.is_empty() { line } else { common },
                );
                self.go(self.common, common, line);
                line + 0x10
            }
            Own(bits) => {
                let own = place + if way.is_empty() { 0 } else { 0x8000 };
                self.go(way, place, own);
                own + 0x10 + (bits[usize::from(handler)] << 2)
            }
        };
        let next = handlers[usize::from(next)];
        self.branch(dispatch - 1, next, true, Kind::IndirectJump)
    }

    /// Part of the operations that are foreseen wrongly in the long run where handlers are chosen so, in turn.
    fn in_turn(&mut self, order: &[bool]) -> f64 {
        let (turns, learnt) = (8_000, 4_000);
        let mut wrong = 0;
        for turn in 0..turns {
            let of = |n: usize| order[n % order.len()];
            wrong += u32::from(self.operation(of(turn), of(turn + 1)) && turn >= learnt);
        }
        f64::from(wrong) / (turns - learnt) as f64
    }

    /// Part of the operations that were chosen as the random one `ago` random ones before was which are foreseen wrongly.
    fn copies(&mut self, ago: usize) -> f64 {
        let (units, learnt) = (60_000, 30_000);
        let mut chosen = vec![false; ago + 1];
        let (mut last, mut wrong) = (false, 0);
        for unit in 0..units {
            let random = self.chance();
            self.operation(last, random);
            chosen.rotate_right(1);
            chosen[0] = random;
            last = chosen[ago];
            wrong += u32::from(self.operation(random, last) && unit >= learnt);
        }
        f64::from(wrong) / (units - learnt) as f64
    }
}

/// Ways of two handlers, what both have, how they go on, and up to which copy the CPU foresees more than half, from which on nothing.
type Row = (
    [&'static [Between]; 2],
    &'static [Between],
    Dispatch,
    usize,
    usize,
);

#[test]
fn two_bits_of_each_of_the_last_nine_taken_branches_foretell_targets() {
    let rows: &[Row] = &[
        // Cycles of two operations on the CPU, all random and from copies 0 on: 31.9; 20.6 21.4 26.1 30.7.
        ([&[Jump(0)], &[Jump(1)]], &[], Common, 1, 3),
        // 31.9; 20.6 21.5 26.2 30.6, and with indirect jumps 32.1; 22.3 21.4 26.4 30.8.
        ([&[Always(0)], &[Always(1)]], &[], Common, 1, 3),
        ([&[Indirect(0)], &[Indirect(1)]], &[], Common, 1, 3),
        // 26.9; 15.7 17.8 18.0 19.9 23.1 26.4.
        ([&[], &[]], &[], Own([0, 1]), 3, 5),
        // 30.8; 19.5 20.5 25.2 29.7.
        ([&[Jump(0)], &[Jump(0)]], &[], Own([0, 1]), 1, 3),
        // 35.6; 26.6 26.4 33.4.
        ([&[Call], &[Call]], &[], Own([0, 1]), 1, 2),
        // 33.9; 25.1 24.7 33.2.
        ([&[Jump(0)], &[Jump(1)]], &[Jump(0)], Common, 1, 2),
        // 35.4; 23.8 34.7.
        (
            [&[Always(0), Random], &[Always(1), Random]],
            &[],
            Own([0, 0]),
            0,
            2,
        ),
    ];
    for (row, &(ways, common, dispatch, most, none)) in rows.iter().enumerate() {
        let copies = |ago| Interpreter::new(ways, common, dispatch).copies(ago);
        for ago in 0..=most {
            let wrong = copies(ago);
            assert!(wrong < 0.25, "row {row}: {wrong} of copies {ago} ago");
        }
        let wrong = copies(none);
        assert!(wrong > 0.4, "row {row}: {wrong} of copies {none} ago");
    }
}

#[test]
fn the_branch_that_led_into_the_line_tells_targets() {
    let (turns, three) = ([true, false], [false, true, false]);
    let alone: [&[Between]; 2] = [&[], &[]];
    let jumps: [&[Between]; 2] = [&[Jump(0)], &[Jump(0)]];
    // Two that take turns, 2.4 cycles an operation; 13 where both come to the indirect jump from the same jump.
    assert!(Interpreter::new(jumps, &[], Common).in_turn(&turns) < 0.01);
    assert!(Interpreter::new(jumps, &[Jump(0)], Common).in_turn(&turns) > 0.4);
    // An order of three, 1.3 where each handler has an indirect jump of its own, in whose line it begins; 11.2 with a common one.
    assert!(Interpreter::new(alone, &[], Own([0, 0])).in_turn(&three) < 0.01);
    assert!(Interpreter::new(jumps, &[], Common).in_turn(&three) > 0.2);
}

/// One conditional branch, random and not recurring, and behind `jumps` an indirect one that goes as the conditional one `ago` turns
/// before did, in a loop: part of the indirect ones that are foreseen wrongly.
fn as_a_direction(ago: usize, jumps: u64, always: u64) -> f64 {
    let mut run = Interpreter::new([&[], &[]], &[], Common);
    let (turns, learnt) = (120_000, 60_000);
    let mut directions = vec![false; ago + 1];
    let mut wrong = 0;
    for turn in 0..turns {
        let direction = run.chance();
        directions.rotate_right(1);
        directions[0] = direction;
        run.branch(0x1000, 0x1040, direction, Kind::Conditional);
        for n in 0..jumps + always {
            let kind = if n < jumps {
                Kind::Jump
            } else {
                Kind::Conditional
            };
            run.branch(0x2000 + n * 64, 0x2040 + n * 64, true, kind);
        }
        let target = if directions[ago] { 0x5000 } else { 0x4000 };
        let missed = run.branch(0x3002, target, true, Kind::IndirectJump);
        wrong += u32::from(missed && turn >= learnt);
        run.branch(target + 8, 0x1000, turn % 4096 != 0, Kind::Conditional);
    }
    f64::from(wrong) / f64::from(turns - learnt)
}

#[test]
fn directions_foretell_targets_whatever_jumps_lie_between() {
    // 19.2 cycles a turn where nothing is foreseen; 6.3 from the branch itself, 7.4 three turns later, 18.9 nine turns later, behind which
    // 512 orders of directions may lie. With eight jumps in each turn 26.4, 14.4, 14.2, 26.0.
    for jumps in [0, 8] {
        for ago in [0, 3] {
            let wrong = as_a_direction(ago, jumps, 0);
            assert!(wrong < 0.1, "{wrong} with {jumps} jumps, {ago} ago");
        }
        let wrong = as_a_direction(9, jumps, 0);
        assert!(wrong > 0.4, "{wrong} with {jumps} jumps");
    }
    // Conditional branches that are always taken are in it: with eight a turn 36.1; 23.8 and, six turns later, 36.0.
    assert!(as_a_direction(0, 0, 8) < 0.1);
    assert!(as_a_direction(6, 0, 8) > 0.4);
}
