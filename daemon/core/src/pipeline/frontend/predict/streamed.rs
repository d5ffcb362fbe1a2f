//! Loops that are replayed from the decode queue, as far as predictors are concerned: nobody asks them
//! meanwhile, so whatever goes otherwise in such a loop is a wrong prediction, its end or a branch in it,
//! whatever they know of it.
//!
//! A loop is what recurs: the last so many taken branches, with where they go, are those of the turn before,
//! calls, returns and inner loops among them.

use super::{Executed, Kind, Steer};
use mcad_isa::machine::params::branch::StreamedLoops;

/// Taken branches that are remembered: a turn has no more. A power of two.
const REMEMBERED: usize = 16;

/// A taken branch.
#[derive(Clone, Copy, Debug, Default)]
struct Jump {
    pc: u64,
    target: u64,
    /// Bytes of code since the one before.
    bytes: u64,
}

impl Jump {
    fn is(self, b: &Executed) -> bool {
        (self.pc, self.target) == (b.pc, b.target)
    }
}

/// Follows the branches of a thread.
#[derive(Clone, Debug)]
pub struct Streamed {
    p: StreamedLoops,
    /// The last taken branches, the next one to be written at `next`.
    jumps: [Jump; REMEMBERED],
    next: usize,
    /// Taken branches of a turn; 0: nothing recurs.
    turn: usize,
    /// Taken branches in a row that were those of the turn before.
    alike: u32,
}

impl Streamed {
    /// Before the first branch.
    #[must_use]
    pub fn new(p: StreamedLoops) -> Self {
        Self {
            p,
            jumps: [Jump::default(); REMEMBERED],
            next: 0,
            turn: 0,
            alike: 0,
        }
    }

    /// Takes in a branch and what was predicted of it; what is predicted where its loop is replayed.
    #[inline]
    pub fn branch(&mut self, b: &Executed, steer: Steer) -> Steer {
        let expected = self.ago(self.turn);
        let replayed = self.alike >= self.p.taken_branches;
        if b.taken {
            let alike = self.turn > 0 && expected.is(b);
            self.jumped(b, alike);
            return if replayed && !alike {
                wrong(b, steer)
            } else {
                steer
            };
        }
        if replayed && b.pc == expected.pc {
            self.alike = 0;
            return wrong(b, steer);
        }
        steer
    }

    fn jumped(&mut self, b: &Executed, alike: bool) {
        if alike {
            self.alike = self.alike.saturating_add(1);
        } else {
            self.turn = self.last_like(b);
            self.alike = u32::from(self.turn > 0);
        }
        let bytes = b.next.wrapping_sub(self.ago(1).target);
        if let Some(at) = self.jumps.get_mut(self.next) {
            *at = Jump {
                pc: b.pc,
                target: b.target,
                bytes,
            };
        }
        self.next = (self.next + 1) % REMEMBERED;
        if self.alike == self.p.taken_branches && self.bytes() > self.p.bytes {
            self.alike = 0;
        }
    }

    /// The taken branch of so many before.
    fn ago(&self, branches: usize) -> Jump {
        let at = self.next.wrapping_sub(branches) % REMEMBERED;
        self.jumps.get(at).copied().unwrap_or_default()
    }

    /// Taken branches since this one was last taken; 0: it is not among those that are remembered.
    fn last_like(&self, b: &Executed) -> usize {
        let mut ago = 1..=REMEMBERED;
        ago.find(|ago| self.ago(*ago).is(b)).unwrap_or(0)
    }

    /// Bytes of code of a turn.
    fn bytes(&self) -> u64 {
        let turn = (1..=self.turn).map(|ago| self.ago(ago).bytes);
        turn.fold(0, u64::saturating_add)
    }
}

/// What is predicted of a branch that leaves what is replayed.
fn wrong(b: &Executed, steer: Steer) -> Steer {
    match b.kind {
        Kind::Conditional => Steer::WrongDirection,
        Kind::IndirectJump | Kind::IndirectCall | Kind::Return => Steer::WrongTarget,
        Kind::Jump | Kind::Call => steer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn branch(kind: Kind, pc: u64, target: u64, taken: bool) -> Executed {
        Executed {
            pc,
            next: pc + 2,
            target,
            taken,
            kind,
        }
    }

    fn new() -> Streamed {
        Streamed::new(StreamedLoops {
            taken_branches: 31,
            bytes: 768,
        })
    }

    /// Wrong predictions of these branches, each of which is foreseen otherwise.
    fn wrong(streamed: &mut Streamed, branches: &[Executed]) -> usize {
        let wrong = |b: &&Executed| streamed.branch(b, Steer::Straight).is_wrong();
        branches.iter().filter(wrong).count()
    }

    /// Wrong predictions in each of ten loops of so many turns, each of so many bytes with a branch that is not taken in the middle.
    fn in_a_loop(turns: u64, bytes: u64) -> f64 {
        let start = 0x1000;
        let last = start + bytes - 2;
        let mut branches = Vec::new();
        for turn in 0..turns {
            let middle = start + bytes / 2;
            branches.push(branch(Kind::Conditional, middle, middle + 8, false));
            branches.push(branch(Kind::Conditional, last, start, turn + 1 < turns));
        }
        branches.push(branch(Kind::Jump, last + 2, start, true));
        wrong(&mut new(), &branches.repeat(10)) as f64 / 10.0
    }

    #[test]
    fn the_end_of_a_loop_that_is_replayed_is_never_foreseen() {
        for (turns, bytes, expected) in [
            (2, 40, 0.0),
            (32, 40, 0.0),
            (33, 40, 1.0),
            (34, 40, 1.0),
            (1000, 40, 1.0),
            (40, 760, 1.0),
            (40, 800, 0.0),
        ] {
            assert_eq!(in_a_loop(turns, bytes), expected, "{turns} {bytes}");
        }
    }

    /// A turn of a loop with so many jumps in it and a call, whose inner branch goes this way.
    fn turn(jumps: u64, taken: bool) -> Vec<Executed> {
        let mut turn = vec![branch(Kind::Conditional, 0x1000, 0x1008, taken)];
        for n in 0..jumps {
            let at = 0x1010 + 8 * n;
            turn.push(branch(Kind::Jump, at, at + 8, true));
        }
        turn.push(branch(Kind::Call, 0x1100, 0x2000, true));
        turn.push(branch(Kind::Return, 0x2010, 0x1102, true));
        turn.push(branch(Kind::Conditional, 0x1110, 0x1000, true));
        turn
    }

    #[test]
    fn whatever_goes_otherwise_in_it_is_not_either() {
        // Four and three taken branches a turn; from the second turn on they are like those of the turn before.
        for (turns, usual, expected) in [
            (8, true, 0),
            (10, true, 1),
            (40, true, 1),
            (12, false, 0),
            (13, false, 1),
        ] {
            let mut streamed = new();
            let mut branches = Vec::new();
            for n in 0..turns {
                branches.extend(turn(0, usual ^ (n + 1 == turns)));
            }
            assert_eq!(wrong(&mut streamed, &branches), expected, "{turns} {usual}");
        }
    }

    #[test]
    fn a_turn_of_more_than_sixteen_taken_branches_is_not_replayed() {
        for (jumps, expected) in [(12, 1), (13, 0)] {
            let mut branches = turn(jumps, true).repeat(50);
            branches.extend(turn(jumps, false));
            assert_eq!(wrong(&mut new(), &branches), expected, "{jumps}");
        }
    }

    #[test]
    fn loops_in_a_loop_are_replayed_with_it() {
        // Three turns of an inner loop in each of an outer one.
        let inner = |taken| branch(Kind::Conditional, 0x1010, 0x1008, taken);
        let outer = branch(Kind::Conditional, 0x1020, 0x1000, true);
        let mut branches = [inner(true), inner(true), inner(false), outer].repeat(20);
        branches.extend([inner(true), inner(false)]);
        let mut streamed = new();
        assert_eq!(wrong(&mut streamed, &branches), 1);
        // It begins anew.
        assert_eq!(wrong(&mut streamed, &[inner(true), inner(false)]), 0);
    }

    #[test]
    fn a_return_that_goes_elsewhere_is_a_wrong_target() {
        let mut streamed = new();
        for b in turn(0, true).repeat(20) {
            assert!(!streamed.branch(&b, Steer::Taken(0)).is_wrong());
        }
        let call = branch(Kind::Call, 0x1100, 0x2000, true);
        streamed.branch(&turn(0, true)[0], Steer::Taken(0));
        streamed.branch(&call, Steer::Taken(0));
        let elsewhere = branch(Kind::Return, 0x2010, 0x3000, true);
        assert_eq!(
            streamed.branch(&elsewhere, Steer::Taken(0)),
            Steer::WrongTarget
        );
    }
}
