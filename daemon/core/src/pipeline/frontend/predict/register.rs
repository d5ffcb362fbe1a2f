//! The path history register of Intel's cores from Sunny to Redwood Cove, from which sets of the tables of directions follow, and which is
//! the history of indirect branches.
//!
//! A taken branch shifts it by two bits and leaves sixteen: of the address of its last byte, and six of its target's ("Half&Half",
//! Yavarzadeh et al., IEEE S&P 2023; for each of these cores J. Chen, github.com/jiegec/cpu-micro-benchmarks). A history's bits in turns
//! of nine, by exclusive or, make the number of a set, as measured on Redwood Cove (docs/BRANCHES.md, "Sets of Intel's tables").

use super::history::{Seen, spread};

/// Bits that a taken branch leaves.
const FOOTPRINT: u32 = 16;
/// Bits by which a taken branch shifts.
const SHIFT: u32 = 2;
/// Words of the register: 194 taken branches.
const WORDS: usize = 7;

/// A history's bits in turns of so many, by exclusive or: bit `n` of the history is in bit `n` modulo `BITS`.
#[derive(Clone, Copy, Debug)]
struct Folded<const BITS: u32> {
    bits: u64,
    /// In which bit the one behind the history's last is.
    end: u32,
}

impl<const BITS: u32> Folded<BITS> {
    const MASK: u64 = (1 << BITS) - 1;

    #[inline]
    fn rotated(bits: u64, by: u32) -> u64 {
        (bits << by | bits >> (BITS - by)) & Self::MASK
    }

    /// Of an empty history of `length` bits.
    fn new(length: u32) -> Self {
        Self {
            bits: 0,
            end: length % BITS,
        }
    }

    /// A taken branch leaves its footprint in the history, of which the oldest bits are `gone`.
    #[inline]
    fn take(&mut self, left: u16, gone: u64) {
        let left = u64::from(left);
        let folded = left & Self::MASK ^ left >> BITS;
        self.bits = Self::rotated(self.bits, SHIFT) ^ Self::rotated(gone, self.end) ^ folded;
    }
}

/// One of the histories.
#[derive(Clone, Copy, Debug)]
struct History {
    /// Where the bits are that the oldest branch left.
    oldest: u32,
    /// Those of a footprint that are within it.
    within: u16,
    /// From which the number of a set follows.
    set: Folded<SET_BITS>,
    /// From which a tag follows: bits of the history that meet in one of these do not in one of the others.
    tag: Folded<TAG_BITS>,
}

/// Bits of the number of a set.
pub const SET_BITS: u32 = 9;
/// A prime, so that no two bits of the longest history share both.
const TAG_BITS: u32 = 61;

/// The register, and what sets and tags need of it.
#[derive(Clone, Debug)]
pub struct PathRegister {
    /// The latest bits lowest.
    words: [u64; WORDS],
    /// Of each length once.
    histories: Box<[History]>,
    /// Which of them each table has.
    tables: Box<[u8]>,
}

/// What a taken branch leaves: its last byte's address, and where it goes.
#[inline]
fn footprint(from: u64, to: u64) -> u16 {
    let address = from >> 3 & 0xff | (from & 7) << 8 | from & 0xf800;
    let target = to & 3 | (to >> 2 & 0xf) << 8;
    (address ^ target) as u16
}

impl PathRegister {
    /// An empty register, for tables with histories of so many taken branches.
    #[must_use]
    pub fn new(taken: &[u32]) -> Self {
        let mut lengths: Vec<u32> = Vec::new();
        let place = |&taken: &u32| {
            let length = taken * SHIFT;
            let found = lengths.iter().position(|&other| other == length);
            found.unwrap_or_else(|| {
                lengths.push(length);
                lengths.len() - 1
            }) as u8
        };
        let tables = taken.iter().map(place).collect();
        let history = |&length: &u32| History {
            oldest: length - SHIFT,
            within: u16::MAX >> FOOTPRINT.saturating_sub(length),
            set: Folded::new(length),
            tag: Folded::new(length),
        };
        Self {
            words: [0; WORDS],
            histories: lengths.iter().map(history).collect(),
            tables,
        }
    }

    /// A branch is taken.
    #[inline]
    pub fn take(&mut self, last_byte: u64, target: u64) {
        let left = footprint(last_byte, target);
        for history in &mut self.histories {
            let oldest = history.oldest;
            let word = self.words.get(oldest as usize / 64).copied().unwrap_or(0);
            let gone = word >> (oldest % 64) & ((1 << SHIFT) - 1);
            let left = left & history.within;
            history.set.take(left, gone);
            history.tag.take(left, gone);
        }
        for n in (1..WORDS).rev() {
            self.words[n] = self.words[n] << SHIFT | self.words[n - 1] >> (64 - SHIFT);
        }
        self.words[0] = self.words[0] << SHIFT ^ u64::from(left);
    }

    #[inline]
    fn of(&self, table: usize) -> Option<&History> {
        self.histories.get(*self.tables.get(table)? as usize)
    }

    /// Of table `n`'s history the number of a set, as far as it is the history's, and what a tag is made of.
    #[inline]
    #[must_use]
    pub fn seen(&self, n: usize) -> Seen {
        let history = self.of(n);
        history.map_or_else(Seen::default, |history| Seen {
            hash: spread(history.tag.bits),
            set: history.set.bits as u32,
        })
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

        /// Bits of a history of this length, by turns of so many.
        fn folded(&self, length: usize, turn: usize) -> u64 {
            let bits = self.0.iter().take(length).enumerate();
            bits.fold(0, |folded, (n, &bit)| folded ^ u64::from(bit) << (n % turn))
        }
    }

    #[test]
    fn sets_and_tags_are_the_bits_of_each_history_in_turns() {
        let histories = [1, 8, 9, 18, 34, 66, 194, 8, 34, 194];
        let mut random = fastrand::Rng::with_seed(1);
        let mut register = PathRegister::new(&histories);
        let mut literal = Literal::default();
        for _ in 0..2000 {
            let (from, to) = (random.u64(..), random.u64(..));
            register.take(from, to);
            literal.take(from, to);
            for (n, history) in histories.into_iter().enumerate() {
                let length = history as usize * 2;
                let set = literal.folded(length, SET_BITS as usize);
                assert_eq!(u64::from(register.seen(n).set), set, "history of {history}");
                let tag = literal.folded(length, TAG_BITS as usize);
                assert_eq!(register.seen(n).hash, spread(tag), "history of {history}");
            }
        }
    }

    #[test]
    fn no_two_bits_of_the_longest_history_share_set_and_tag() {
        let places = |n: u32| (n % SET_BITS, n % TAG_BITS);
        let different: std::collections::HashSet<_> = (0..2 * 194).map(places).collect();
        assert_eq!(different.len(), 2 * 194);
    }
}
