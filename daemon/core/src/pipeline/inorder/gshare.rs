//! A branch predictor that is asked branch by branch, when it is known where each one went.
//!
//! Directions come from counters under the address and the directions of the last conditional
//! branches (McFarling, "Combining branch predictors", 1993), targets from a buffer of branches that were taken,
//! with where they went last, and those of returns from a stack that wraps around. All are brought up to
//! date at once: that a branch is executed some cycles after it is predicted is left out, and so is what is fetched
//! behind one that is mispredicted.

use mcad_isa::inorder::{Control, Static};
use mcad_isa::machine::inorder::Gshare as Params;

use crate::pipeline::frontend::predict::stream::Counts;

/// Bytes of code whose branches go to one set of the target buffer.
const SET_BYTES: u64 = 16;

/// A branch that was taken.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// Its address plus 1; 0: none.
    branch: u64,
    target: u64,
    /// When it was used last, by the buffer's own count.
    used: u64,
}

/// What was foreseen of a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreseen {
    /// Where it goes.
    Right,
    /// That it is taken, and decode finds where it goes.
    Decoded,
    /// Something else.
    Wrong,
}

/// The predictor.
#[derive(Debug)]
pub struct Gshare {
    counters: Box<[u8]>,
    /// The largest value of one.
    most: u8,
    history: u32,
    history_mask: u32,
    hash: Hash,
    /// Set by set.
    known: Box<[Known]>,
    ways: usize,
    only_indirect: bool,
    sets: u64,
    uses: u64,
    returns: Box<[u64]>,
    top: usize,
    /// Cycles without fetch behind a branch that was [`Foreseen::Decoded`].
    pub decode_bubble: u32,
    /// What became of branches.
    pub counts: Counts,
}

/// How history and address make the number of a counter.
#[derive(Clone, Copy, Debug)]
struct Hash {
    /// Bits of the number, rounded down.
    bits: u32,
    /// Bits of the address that do not matter.
    skipped: u32,
    /// History is multiplied by this …
    factor: u32,
    /// … of which so many upper bits …
    from: u32,
    /// … below this power of two count, …
    below: u32,
    /// … moved up by so many.
    up: u32,
}

impl Hash {
    fn new(p: &Params) -> Self {
        let history = p.history.clamp(1, 31);
        let bits = p.counters.max(2).ilog2();
        let (factor, taken) = match p.hashed_history {
            // Multiplicative hashing by half the root of three.
            Some(taken) => (
                (3f64.sqrt() / 2.0 * f64::from(1u32 << history)) as u32,
                taken.clamp(1, history),
            ),
            None => (1, history),
        };
        Self {
            bits,
            skipped: p.skipped_bits,
            factor,
            from: history - taken,
            below: history,
            up: bits.saturating_sub(taken),
        }
    }

    /// What history contributes to the number.
    #[inline]
    fn of(self, history: u32) -> u64 {
        // What is multiplied has the last branch uppermost.
        let history = match self.from {
            0 => history,
            _ => history.reverse_bits() >> (u32::BITS - self.below),
        };
        let all = u64::from(history) * u64::from(self.factor);
        (all & ((1 << self.below) - 1)) >> self.from << self.up
    }
}

impl Gshare {
    /// A predictor that has seen nothing.
    #[must_use]
    pub fn new(p: &Params) -> Self {
        let ways = p.target_ways.max(1);
        let bits = p.counter_bits.clamp(1, 7);
        Self {
            // As near to its upper half as one can be below it.
            counters: vec![(1 << (bits - 1)) - 1; p.counters.max(1) as usize].into(),
            most: ((1u32 << bits) - 1) as u8,
            history: 0,
            history_mask: (1 << p.history.min(31)) - 1,
            hash: Hash::new(p),
            known: vec![Known::default(); (p.targets.max(ways)) as usize].into(),
            ways: ways as usize,
            only_indirect: p.targets_of_indirect,
            sets: u64::from((p.targets / ways).max(1)),
            uses: 0,
            returns: vec![0; p.returns.max(1) as usize].into(),
            top: 0,
            decode_bubble: p.decode_bubble,
            counts: Counts::default(),
        }
    }

    /// A branch, instruction `number` of its program, goes from `address` to `next`.
    pub fn branch(&mut self, number: u32, instr: &Static, address: u64, next: u64) -> Foreseen {
        let after = address.wrapping_add(u64::from(instr.len));
        let conditional = instr.control == Control::Conditional;
        let taken = !conditional || next != after;
        self.counts.branches += 1;
        self.counts.taken += u64::from(taken);
        let direction = !conditional || self.direction(address, taken);
        let foreseen = match (taken, instr.control) {
            (false, _) => Foreseen::Right,
            (true, Control::Return) => self.back(next),
            (true, _) if self.only_indirect && !instr.indirect => Foreseen::Right,
            (true, _) => self.target(address, next, instr.indirect),
        };
        if instr.control == Control::Call {
            self.call(after);
        }
        let counts = &mut self.counts;
        if !direction {
            counts.wrong_direction += 1;
            let of = counts.by_instruction.entry(number);
            of.or_default().wrong_direction += 1;
            return Foreseen::Wrong;
        }
        match (foreseen, instr.control) {
            (Foreseen::Right, _) => {}
            (Foreseen::Decoded, _) => {
                counts.decoded += 1;
                let of = counts.by_instruction.entry(number);
                of.or_default().decoded += 1;
            }
            (Foreseen::Wrong, control) => {
                match control {
                    Control::Return => counts.wrong_return += 1,
                    _ => counts.wrong_indirect += 1,
                }
                let of = counts.by_instruction.entry(number);
                of.or_default().wrong_target += 1;
            }
        }
        foreseen
    }

    /// Whether the direction of a conditional branch is predicted rightly.
    fn direction(&mut self, address: u64, taken: bool) -> bool {
        let history = self.hash.of(self.history & self.history_mask);
        let address = address >> self.hash.skipped;
        let place = (address ^ address >> self.hash.bits ^ history) as usize % self.counters.len();
        self.history = self.history << 1 | u32::from(taken);
        let Some(counter) = self.counters.get_mut(place) else {
            return true;
        };
        let right = (*counter > self.most / 2) == taken;
        *counter = match taken {
            true => (*counter + 1).min(self.most),
            false => counter.saturating_sub(1),
        };
        right
    }

    /// Looks a taken branch up in the target buffer, which has where it goes from then on.
    fn target(&mut self, address: u64, next: u64, indirect: bool) -> Foreseen {
        self.uses += 1;
        let set = (address / SET_BYTES % self.sets) as usize * self.ways;
        let ways = self.known.get_mut(set..set + self.ways).unwrap_or(&mut []);
        let branch = address.wrapping_add(1);
        let unknown = match indirect {
            true => Foreseen::Wrong,
            false => Foreseen::Decoded,
        };
        let hit = ways.iter().position(|known| known.branch == branch);
        let oldest = || (0..ways.len()).min_by_key(|way| ways[*way].used);
        let Some(known) = hit.or_else(oldest).and_then(|way| ways.get_mut(way)) else {
            return unknown;
        };
        let foreseen = match hit.is_some() && known.target == next {
            true => Foreseen::Right,
            false => unknown,
        };
        *known = Known {
            branch,
            target: next,
            used: self.uses,
        };
        self.counts.btb[0] += u64::from(foreseen == Foreseen::Right);
        foreseen
    }

    fn call(&mut self, after: u64) {
        self.top = (self.top + 1) % self.returns.len();
        self.returns[self.top] = after;
    }

    fn back(&mut self, next: u64) -> Foreseen {
        let expected = self.returns[self.top];
        self.top = (self.top + self.returns.len() - 1) % self.returns.len();
        match expected == next {
            true => Foreseen::Right,
            false => Foreseen::Wrong,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn predictor() -> Gshare {
        Gshare::new(&Params {
            counters: 4096,
            counter_bits: 2,
            history: 12,
            hashed_history: None,
            skipped_bits: 0,
            targets: 128,
            target_ways: 4,
            targets_of_indirect: false,
            returns: 8,
            decode_bubble: 7,
        })
    }

    fn instr(control: Control, indirect: bool) -> Static {
        let mut instr = Static::new(0, 2, control);
        instr.indirect = indirect;
        instr
    }

    #[test]
    fn a_pattern_no_longer_than_the_history_is_learnt_and_chance_is_not() {
        let mut predictor = predictor();
        let branch = instr(Control::Conditional, false);
        let mut go = |taken: bool| {
            let next = if taken { 0x2000 } else { 0x1002 };
            predictor.branch(0, &branch, 0x1000, next) == Foreseen::Wrong
        };
        let learning = (0..200).filter(|n| go(n % 7 == 0)).count();
        let learnt = (200..2000).filter(|n| go(n % 7 == 0)).count();
        assert!(learning > 0 && learnt == 0, "{learning} {learnt}");
        let mut state = 1u32;
        let chance = (0..4000).filter(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            go(state >> 31 != 0)
        });
        assert!((1600..2400).contains(&chance.count()));
    }

    #[test]
    fn the_target_buffer_holds_what_it_has_room_for() {
        for (branches, decoded) in [(128, 0), (160, 160)] {
            let mut predictor = predictor();
            let jump = instr(Control::Jump, false);
            for turn in 0..4 {
                let mut count = 0;
                for n in 0..branches {
                    let address = 0x1000 + n * SET_BYTES;
                    let foreseen = predictor.branch(0, &jump, address, address + 0x9000);
                    count += u64::from(foreseen == Foreseen::Decoded);
                }
                // At first none is known; in turns one too many in a set pushes out the next.
                assert_eq!(count, if turn == 0 { branches } else { decoded }, "{turn}");
            }
        }
    }

    #[test]
    fn indirect_jumps_go_where_they_went_and_returns_where_they_were_called_from() {
        let mut predictor = predictor();
        let jump = instr(Control::Jump, true);
        let went: Vec<Foreseen> = [0x10, 0x10, 0x20, 0x20, 0x10]
            .map(|to| predictor.branch(0, &jump, 0x5000, to))
            .into();
        use Foreseen::{Right, Wrong};
        assert_eq!(went, [Wrong, Right, Wrong, Right, Wrong]);
        let (call, ret) = (instr(Control::Call, false), instr(Control::Return, false));
        for (depth, wrong) in [(8u64, 0), (10, 2)] {
            for n in 0..depth {
                predictor.branch(0, &call, 0x100 * n, 0x100 * (n + 1));
            }
            let back = (0..depth).rev().map(|n| {
                let at = 0x100 * (n + 1) + 0x50;
                predictor.branch(0, &ret, at, 0x100 * n + 2)
            });
            assert_eq!(back.filter(|f| *f == Wrong).count(), wrong, "{depth}");
        }
    }
}
