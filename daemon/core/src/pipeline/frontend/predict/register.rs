//! The path history register of Intel's cores from Sunny to Redwood Cove, from which sets of the tables of directions follow, and which is
//! the history of indirect branches.
//!
//! A taken branch shifts it by two bits and leaves sixteen: of the address of its last byte, and six of its target's ("Half&Half",
//! Yavarzadeh et al., IEEE S&P 2023; for each of these cores J. Chen, github.com/jiegec/cpu-micro-benchmarks). Every second bit from
//! the tenth on and every second one from the third on, in turns of eight, make the number of a set; how far they go, and where they
//! begin in the shortest history, is measured (docs/BRANCHES.md, "Sets of Intel's tables").

use super::history::spread;

/// Bits that a taken branch leaves, and of a turn, of which every second one is in a set's number.
const TURN: u32 = 16;
/// Bits by which a taken branch shifts.
const SHIFT: u32 = 2;
/// Words of the register: 194 taken branches.
const WORDS: usize = 7;

/// From which bits on every second one is in a set's number.
#[derive(Clone, Copy, Debug)]
struct Begins {
    even: u32,
    odd: u32,
}

/// In the shortest history, and in all others.
const SHORTEST: Begins = Begins { even: 6, odd: 1 };
const OTHERS: Begins = Begins { even: 10, odd: 3 };

/// A history's bits by turns of sixteen, by exclusive or.
#[derive(Clone, Copy, Debug)]
struct Folded {
    /// Bits of the history.
    length: u32,
    begins: Begins,
    turns: u16,
}

/// The register, and what sets need of it.
#[derive(Clone, Debug)]
pub struct PathRegister {
    /// The latest bits lowest.
    words: [u64; WORDS],
    folded: Box<[Folded]>,
}

/// What a taken branch leaves: its last byte's address, and where it goes.
#[inline]
fn footprint(from: u64, to: u64) -> u16 {
    let address = from >> 3 & 0xff | (from & 7) << 8 | from & 0xf800;
    let target = to & 3 | (to >> 2 & 0xf) << 8;
    (address ^ target) as u16
}

/// Every second bit, from the lowest on.
#[inline]
fn every_second(bits: u16) -> u32 {
    let x = bits & 0x5555;
    let x = (x | x >> 1) & 0x3333;
    let x = (x | x >> 2) & 0x0f0f;
    u32::from((x | x >> 4) & 0x00ff)
}

impl PathRegister {
    /// An empty register, for histories of so many taken branches, the shortest first.
    #[must_use]
    pub fn new(histories: &[u32]) -> Self {
        let folded = |(n, &taken): (usize, &u32)| Folded {
            length: taken * SHIFT,
            begins: if n == 0 { SHORTEST } else { OTHERS },
            turns: 0,
        };
        Self {
            words: [0; WORDS],
            folded: histories.iter().enumerate().map(folded).collect(),
        }
    }

    /// A branch is taken.
    #[inline]
    pub fn take(&mut self, last_byte: u64, target: u64) {
        let left = footprint(last_byte, target);
        for folded in &mut self.folded {
            let last = folded.length - SHIFT;
            let word = self.words.get(last as usize / 64).copied().unwrap_or(0);
            let gone = (word >> (last % 64)) as u16 & ((1 << SHIFT) - 1);
            let gone = gone.rotate_left(folded.length % TURN);
            folded.turns = folded.turns.rotate_left(SHIFT) ^ gone ^ left;
        }
        for n in (1..WORDS).rev() {
            self.words[n] = self.words[n] << SHIFT | self.words[n - 1] >> (64 - SHIFT);
        }
        self.words[0] = self.words[0] << SHIFT ^ u64::from(left);
    }

    /// A hash of what the last `taken` branches have left of themselves: of the older ones of them it is the lower bits, since those
    /// above have been shifted beyond.
    #[inline]
    #[must_use]
    pub fn hash(&self, taken: u32) -> u64 {
        let (whole, rest) = ((taken * SHIFT / 64) as usize, taken * SHIFT % 64);
        let (words, beyond) = self.words.split_at(whole.min(WORDS - 1));
        let last = beyond.first().map_or(0, |word| word & ((1 << rest) - 1));
        (words.iter().fold(0, |hash, &word| spread(hash ^ word))) ^ last
    }

    /// Eight bits of the number of a set in table `n`.
    #[inline]
    #[must_use]
    pub fn set(&self, n: usize) -> u32 {
        let Some(folded) = self.folded.get(n) else {
            return 0;
        };
        let from = |first: u32| {
            let before = self.words[0] as u16 & ((1 << first) - 1);
            every_second((folded.turns ^ before).rotate_right(first))
        };
        from(folded.begins.even) ^ from(folded.begins.odd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// Bit by bit, as published.
    #[derive(Default)]
    struct Literal(VecDeque<bool>);

    impl Literal {
        fn take(&mut self, from: u64, to: u64) {
            let b = |n: u32| from >> n & 1 == 1;
            let t = |n: u32| to >> n & 1 == 1;
            let left = [
                b(3) ^ t(0),
                b(4) ^ t(1),
                b(5),
                b(6),
                b(7),
                b(8),
                b(9),
                b(10),
                b(0) ^ t(2),
                b(1) ^ t(3),
                b(2) ^ t(4),
                b(11) ^ t(5),
                b(12),
                b(13),
                b(14),
                b(15),
            ];
            self.0.push_front(false);
            self.0.push_front(false);
            self.0.resize(388, false);
            for (bit, left) in self.0.iter_mut().zip(left) {
                *bit ^= left;
            }
        }

        fn set(&self, begins: [usize; 2], length: usize) -> u32 {
            let mut number = 0;
            for begin in begins {
                for (n, at) in (begin..length).step_by(2).enumerate() {
                    number ^= u32::from(self.0[at]) << (n % 8);
                }
            }
            number
        }
    }

    #[test]
    fn a_hash_is_of_the_bits_that_its_branches_have_not_shifted_beyond() {
        let mut random = fastrand::Rng::with_seed(2);
        for taken in [1u32, 8, 31, 32, 34, 66, 194] {
            let mut seen = std::collections::HashMap::new();
            let mut register = PathRegister::new(&[194]);
            let mut literal = Literal::default();
            for _ in 0..500 {
                // Few footprints, so that short histories recur.
                let (from, to) = (random.u64(..2) << 2, random.u64(..2));
                register.take(from, to);
                literal.take(from, to);
                let bits: Vec<bool> = literal.0.iter().take(2 * taken as usize).copied().collect();
                let hash = register.hash(taken);
                assert_eq!(*seen.entry(bits).or_insert(hash), hash, "{taken}");
            }
            let different: std::collections::HashSet<_> = seen.values().collect();
            assert_eq!(different.len(), seen.len(), "{taken}");
        }
    }

    #[test]
    fn sets_are_those_of_the_published_functions() {
        let histories = [18, 34, 66, 194];
        let mut random = fastrand::Rng::with_seed(1);
        let mut register = PathRegister::new(&histories);
        let mut literal = Literal::default();
        for _ in 0..2000 {
            let (from, to) = (random.u64(..), random.u64(..));
            register.take(from, to);
            literal.take(from, to);
            for (n, history) in histories.into_iter().enumerate() {
                let begins = if n == 0 { [6, 1] } else { [10, 3] };
                let expected = literal.set(begins, history as usize * 2);
                assert_eq!(register.set(n), expected, "history of {history}");
            }
        }
    }
}
