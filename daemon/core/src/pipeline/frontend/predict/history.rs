//! History of taken branches, hashed over several lengths at once.
//!
//! Each taken branch leaves a footprint of its address and target. The hash of the last `L` of
//! them is the polynomial `Σ f_k · M^k` (k = age, modulo 2^64). That of all branches so far is kept
//! for each of the last ones; what the older ones weigh in it is `M^L` times the hash that was there
//! before the last `L`, so the hash of a length is one multiplication when somebody asks for it, and
//! none for predictions that need no history. What published predictors do with folded shift
//! registers, one for each table's index and two for its tag, is here one number from which both
//! are taken. All bits of a footprint and its place weigh in.
//!
//! Where a core's history is of directions ([`History::Directions`]), footprints are directions, and targets of indirect
//! branches depend besides on the way that the code took to them ([`Way`]).

use std::ops::Range;

use super::register::PathRegister;
use super::{Executed, Kind};
use crate::pipeline::fold::Folding;
use mcad_isa::machine::params::branch::{History, MAX_HISTORY};

/// Odd, so that no weight vanishes; from the golden ratio (Knuth, TAOCP 3, section 6.4).
const BASE: u64 = 0x9e37_79b9_7f4a_7c15;
/// What the kernel's branches leave, which are the same ones every time.
const KERNEL: u64 = 0xff51_afd7_ed55_8ccd;
const RING: usize = MAX_HISTORY as usize;

/// Spreads the bits of a key: the high half of what comes out depends on all bits of it.
#[inline]
#[must_use]
pub fn spread(key: u64) -> u64 {
    let x = (key ^ key >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^ x >> 32
}

/// A key's place in a table of `2^log` entries: the top bits of a product, which depend on all
/// bits below them.
#[inline]
#[must_use]
pub fn place(key: u64, log: u32) -> usize {
    (mix(key) >> (64 - log)) as usize
}

/// A product whose upper half can be cut into a place and a tag.
#[inline]
#[must_use]
pub fn mix(key: u64) -> u64 {
    key.wrapping_mul(0xd6e8_feb8_6659_fd93)
}

/// What a taken branch leaves in the history.
#[inline]
#[must_use]
pub fn footprint(pc: u64, target: u64) -> u64 {
    pc.wrapping_mul(0xff51_afd7_ed55_8ccd) ^ target.rotate_left(17)
}

/// Lengths from `shortest` to `longest` in geometric steps, at least one apart as long as there
/// is room.
#[must_use]
pub fn geometric(shortest: u32, longest: u32, count: u32) -> Vec<u32> {
    let ratio = f64::from(longest) / f64::from(shortest.max(1));
    let mut lengths: Vec<u32> = Vec::new();
    for n in 0..count {
        let at = f64::from(n) / f64::from((count - 1).max(1));
        let length = (f64::from(shortest) * ratio.powf(at) + 0.5) as u32;
        let least = lengths.last().map_or(shortest, |l| l + 1);
        lengths.push(length.max(least).min(longest));
    }
    lengths
}

#[derive(Clone, Copy, Debug)]
struct Length {
    taken: u32,
    /// Weight of what lies before it in the hash of all.
    weight: u64,
}

/// Bits of a branch's address that a target in the line behind it sees where the history is of directions: the fifth to the
/// twentieth.
const SEEN: (u32, u64) = (4, (1 << 16) - 1);
/// What a branch that is not taken leaves in a history of directions.
const NOT_TAKEN: u64 = 0x2545_f491_4f6c_dd1d;
/// What one that is taken leaves.
const TAKEN: u64 = 0x5851_f42d_4c95_7f2d;
/// Binary logarithm of a line's bytes.
const LINE: u32 = 6;
/// The lowest of the two bits of the address of a taken branch's last byte that the way has.
const STEP: u32 = 2;
/// Bits of a step.
const STEP_BITS: u32 = 2;
/// Steps of a way.
const STEPS: u32 = 9;

/// Where the history is of directions: what targets of indirect branches depend on besides.
#[derive(Clone, Copy, Debug, Default)]
struct Way {
    /// Two bits of each of the last taken branches, the latest lowest.
    steps: u64,
    /// Address of the last taken branch.
    from: u64,
    /// Its target; nothing sees a return.
    to: u64,
}

impl Way {
    /// A branch is taken.
    #[inline]
    fn take(&mut self, b: &Executed) {
        let last_byte = b.next.wrapping_sub(1);
        let step = last_byte >> STEP & ((1 << STEP_BITS) - 1);
        *self = Self {
            steps: self.steps << STEP_BITS | step,
            from: b.pc,
            to: match b.kind {
                Kind::Return => u64::MAX,
                _ => b.target,
            },
        };
    }

    /// What the branch at `pc` sees of the last steps, `most` at most, and of the branch that led into its line, if one did.
    #[inline]
    fn seen(&self, pc: u64, most: u32) -> u64 {
        let steps = self.steps & ((1 << (STEP_BITS * most.min(STEPS))) - 1);
        let from = match pc >> LINE == self.to >> LINE && pc >= self.to {
            true => (self.from >> SEEN.0 & SEEN.1) + 1,
            false => 0,
        };
        (steps << 16 | from).wrapping_mul(BASE)
    }
}

/// What is seen of the history with one of its lengths.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// Its hash.
    pub hash: u64,
    /// What of a set's number is by the path history register, where that has this length.
    pub set: u32,
}

/// The history, with the hash of each length.
#[derive(Clone)]
pub struct Path {
    /// What it is of.
    history: History,
    way: Way,
    /// Where sets of the tables of directions and targets are of one.
    register: Option<Box<PathRegister>>,
    /// Which of the lengths it has.
    registered: Range<usize>,
    /// Hashes of all before each of the last footprints.
    before: Box<[u64]>,
    /// The same of all.
    all: u64,
    /// Footprints so far.
    count: usize,
    lengths: Box<[Length]>,
}

impl Path {
    /// An empty history of `history` with these lengths, each from 1 to [`MAX_HISTORY`], and a register for those numbered
    /// `registered`.
    #[must_use]
    pub fn new(history: History, lengths: &[u32], registered: Range<usize>) -> Self {
        let register = lengths
            .get(registered.clone())
            .filter(|some| !some.is_empty());
        let length = |&taken: &u32| Length {
            taken,
            weight: BASE.wrapping_pow(taken),
        };
        Self {
            history,
            way: Way::default(),
            registered,
            register: register.map(|some| Box::new(PathRegister::new(some))),
            before: vec![0; RING].into(),
            all: 0,
            count: 0,
            lengths: lengths.iter().map(length).collect(),
        }
    }

    /// Shows its hashes.
    pub fn fold(&mut self, folding: &mut Folding) {
        folding.table(&mut self.before, 0);
    }

    /// Takes in a branch; `settled`: it is conditional and has gone one way only.
    #[inline]
    pub fn take(&mut self, b: &Executed, settled: bool) {
        match self.history {
            History::Taken if b.taken => {
                if let Some(register) = &mut self.register {
                    register.take(b.next.wrapping_sub(1), b.target);
                }
                self.push(footprint(b.pc, b.target));
            }
            History::Taken => {}
            History::Directions => self.turn(b, settled),
        }
    }

    /// The kernel ran: its branches are more than anybody sees.
    pub fn forget(&mut self) {
        self.way = Way::default();
        for _ in 0..RING {
            if let Some(register) = &mut self.register {
                register.take(KERNEL, KERNEL);
            }
            self.push(KERNEL);
        }
    }

    /// Takes in these bits of a taken branch, and nothing else of it.
    #[inline]
    pub fn take_bits(&mut self, bits: u64) {
        self.push(spread(bits + 1));
    }

    /// Takes in a branch where the history is of directions.
    fn turn(&mut self, b: &Executed, settled: bool) {
        if b.kind == Kind::Conditional {
            match (b.taken, settled) {
                (true, _) => self.push(TAKEN),
                (false, false) => self.push(NOT_TAKEN),
                (false, true) => {}
            }
        }
        if b.taken {
            self.way.take(b);
        }
    }

    /// Takes in a footprint.
    #[inline]
    fn push(&mut self, footprint: u64) {
        self.before[self.count % RING] = self.all;
        self.all = self.all.wrapping_mul(BASE).wrapping_add(footprint);
        self.count = self.count.wrapping_add(1);
    }

    /// The hash of length number `n`, shortest first; 0 where there is none.
    #[inline]
    #[must_use]
    pub fn hash(&self, n: usize) -> u64 {
        self.seen(n).hash
    }

    /// What is seen with length number `n`, shortest first; nothing where there is none.
    #[inline]
    #[must_use]
    pub fn seen(&self, n: usize) -> Seen {
        let length = self.lengths.get(n);
        length.map_or_else(Seen::default, |length| self.seen_with(n, length))
    }

    /// By the register, where it has that length.
    #[inline(always)]
    fn seen_with(&self, n: usize, length: &Length) -> Seen {
        match &self.register {
            Some(register) if self.registered.contains(&n) => {
                register.seen(n - self.registered.start)
            }
            _ => Seen {
                hash: self.of(length),
                set: 0,
            },
        }
    }

    /// What of a set's number is by the path history register, for length number `n`.
    #[inline]
    #[must_use]
    pub fn set(&self, n: usize) -> u32 {
        (self.register.as_ref()).map_or(0, |register| {
            register.seen(n.wrapping_sub(self.registered.start)).set
        })
    }

    /// What the target of the branch at `pc` depends on with length number `n`, besides its address, if it does not see the last `late`
    /// footprints, which are [`MAX_HISTORY`] at most with those of the length; 0 where there is none.
    #[inline]
    #[must_use]
    pub fn towards(&self, pc: u64, n: usize, late: usize) -> u64 {
        let Some(length) = self.lengths.get(n) else {
            return 0;
        };
        match self.history {
            History::Directions => self.earlier(length, late) ^ self.way.seen(pc, length.taken),
            History::Taken if late > 0 => self.earlier(length, late),
            History::Taken => self.seen_with(n, length).hash,
        }
    }

    /// What is seen with `count` lengths from this one on, longest first, each with its number among them.
    #[inline(always)]
    pub fn each_seen(&self, first: usize, count: usize) -> impl Iterator<Item = (usize, Seen)> {
        let lengths = self.lengths.get(first..first + count).unwrap_or(&[]);
        let each = lengths.iter().enumerate().rev();
        each.map(move |(n, length)| (n, self.seen_with(first + n, length)))
    }

    /// The hashes alone of as many, of a history without a register.
    #[inline(always)]
    pub fn each_hash(&self, first: usize, count: usize) -> impl Iterator<Item = (usize, u64)> {
        let lengths = self.lengths.get(first..first + count).unwrap_or(&[]);
        let (all, end) = (self.all, self.count);
        let before: Option<&[u64; RING]> = self.before.as_ref().try_into().ok();
        let each = lengths.iter().enumerate().rev();
        each.map(move |(n, length)| {
            let older = before.map_or(0, |before| {
                before[end.wrapping_sub(length.taken as usize) % RING]
            });
            (n, all.wrapping_sub(older.wrapping_mul(length.weight)))
        })
    }

    #[inline(always)]
    fn of(&self, length: &Length) -> u64 {
        let older = self.all_before(length.taken as usize);
        self.all.wrapping_sub(older.wrapping_mul(length.weight))
    }

    /// The hash of a length as it was before the last `late` footprints.
    #[inline]
    fn earlier(&self, length: &Length, late: usize) -> u64 {
        match late {
            0 => self.of(length),
            _ => {
                let older = self.all_before(late + length.taken as usize);
                let weight = older.wrapping_mul(length.weight);
                self.all_before(late).wrapping_sub(weight)
            }
        }
    }

    /// The hash of all before the last `count` of them, at least one.
    #[inline(always)]
    fn all_before(&self, count: usize) -> u64 {
        // Before the first branch it is 0, as in places that were never written.
        let first = self.count.wrapping_sub(count) % RING;
        self.before.get(first).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition, word by word.
    fn literal(all: &[u64], length: usize) -> u64 {
        let mut hash = 0u64;
        for (age, footprint) in all.iter().rev().take(length).enumerate() {
            hash = hash.wrapping_add(footprint.wrapping_mul(BASE.wrapping_pow(age as u32)));
        }
        hash
    }

    #[test]
    fn a_rolling_hash_is_the_hash_of_the_last_branches() {
        let lengths = [1, 2, 7, 194, MAX_HISTORY];
        let mut path = Path::new(History::Taken, &lengths, 0..0);
        let mut all = Vec::new();
        for n in 0..5000u64 {
            let f = footprint(n * n % 977, n % 13);
            path.push(f);
            all.push(f);
            if n % 97 == 0 {
                for (place, length) in lengths.into_iter().enumerate() {
                    let expected = literal(&all, length as usize);
                    assert_eq!(path.hash(place), expected, "{length} at {n}");
                    let alone = path.each_hash(place, 1).next();
                    assert_eq!(alone, Some((0, expected)), "{length} at {n}, alone");
                    if length < MAX_HISTORY {
                        let earlier = &all[..all.len().saturating_sub(3)];
                        let expected = literal(earlier, length as usize);
                        assert_eq!(path.towards(0, place, 3), expected, "{length} at {n}, late");
                    }
                }
            }
        }
    }

    #[test]
    fn lengths_grow_geometrically_and_never_stand_still() {
        assert_eq!(geometric(4, 64, 5), [4, 8, 16, 32, 64]);
        let lengths = geometric(1, 194, 12);
        assert!(lengths.windows(2).all(|w| w[0] < w[1]), "{lengths:?}");
        assert_eq!((lengths[0], lengths[11]), (1, 194));
        assert_eq!(geometric(5, 5, 1), [5]);
    }
}
