//! Loops that are replayed from the decode queue, as far as predictors are concerned: nobody asks them
//! meanwhile, so the end of such a loop is a wrong prediction, whatever they know of it.
//!
//! A turn lies between two executions of one conditional branch that goes back. Turns are alike where
//! all branches in between are, with where they go.

use super::history::{footprint, spread};
use super::{Executed, Kind, Steer};
use mcad_isa::machine::params::branch::StreamedLoops;

/// What one turn looked like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Turn {
    /// The branch that ended it.
    end: u64,
    /// Hash of the branches in it.
    hash: u64,
    /// Bytes of code.
    bytes: u64,
}

/// Follows the branches of a thread.
#[derive(Clone, Debug)]
pub struct Streamed {
    p: StreamedLoops,
    /// The turn so far.
    now: Turn,
    last: Turn,
    /// Turns in a row that were like the last one.
    alike: u32,
    /// Where the last taken branch went.
    from: u64,
}

impl Streamed {
    /// Before the first branch.
    #[must_use]
    pub fn new(p: StreamedLoops) -> Self {
        Self {
            p,
            now: Turn::default(),
            last: Turn::default(),
            alike: 0,
            from: 0,
        }
    }

    /// Takes in a branch and what was predicted of it; what is predicted where its loop is replayed.
    #[inline]
    pub fn branch(&mut self, b: &Executed, steer: Steer) -> Steer {
        let back = b.kind == Kind::Conditional && b.target <= b.pc;
        let replayed = self.alike >= self.p.turns;
        if b.taken {
            let bytes = b.next.wrapping_sub(self.from);
            self.now.bytes = self.now.bytes.saturating_add(bytes);
            self.from = b.target;
        }
        if back && b.taken {
            let turn = Turn {
                end: b.pc,
                ..std::mem::take(&mut self.now)
            };
            // A loop's first turn has what came before the loop in it.
            let second = self.alike == 1 && turn.end == self.last.end;
            let fits = turn.bytes <= self.p.bytes;
            self.alike = match (turn == self.last || second) && fits {
                true => self.alike.saturating_add(1),
                false => 1,
            };
            self.last = turn;
            return steer;
        }
        if b.pc == self.last.end {
            // The loop is left.
            (self.alike, self.now) = (0, Turn::default());
            return match steer {
                Steer::WrongTarget => steer,
                _ if replayed => Steer::WrongDirection,
                _ => steer,
            };
        }
        let key = footprint(b.pc, if b.taken { b.target } else { b.next });
        self.now.hash = spread(self.now.hash ^ key);
        steer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wrong predictions in a hundred loops of so many turns, each of so many bytes with a branch that is not taken in the
    /// middle, where each branch is foreseen.
    fn wrong(turns: u64, bytes: u64) -> u32 {
        let mut streamed = Streamed::new(StreamedLoops {
            turns: 32,
            bytes: 768,
        });
        let mut wrong = 0;
        for _ in 0..100 {
            for turn in 0..turns {
                for (at, taken) in [
                    (0x1000 + bytes / 2, false),
                    (0x1000 + bytes - 2, turn + 1 < turns),
                ] {
                    let b = Executed {
                        pc: at,
                        next: at + 2,
                        target: if at < 0x1000 + bytes - 2 {
                            at + 8
                        } else {
                            0x1000
                        },
                        taken,
                        kind: Kind::Conditional,
                    };
                    wrong += u32::from(streamed.branch(&b, Steer::Straight).is_wrong());
                }
            }
            let out = Executed {
                pc: 0x1000 + bytes,
                next: 0x1002 + bytes,
                target: 0x1000,
                taken: true,
                kind: Kind::Jump,
            };
            wrong += u32::from(streamed.branch(&out, Steer::Taken(0)).is_wrong());
        }
        wrong
    }

    #[test]
    fn the_end_of_a_loop_that_is_replayed_is_never_foreseen() {
        for (turns, bytes, expected) in [
            (2, 40, 0),
            (32, 40, 0),
            (33, 40, 100),
            (34, 40, 100),
            (1000, 40, 100),
            (40, 760, 100),
            (40, 800, 0),
        ] {
            assert_eq!(wrong(turns, bytes), expected, "{turns} {bytes}");
        }
    }
}
