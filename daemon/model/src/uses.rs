//! How far behind a load its value is read first: what a miss of the load holds up, and when.
//!
//! The rows of H say who waits for results that come soon: they keep the closest producer, no more than
//! eight instructions back, and one that is slower than that. A miss is felt by whoever reads the value
//! first, beside whatever other producers and however far behind: nothing waits before, and the cycles
//! until then hide a part of the miss.

use crate::distance::Misses;
use crate::profile::Inst;

/// Distances that are told apart: up to each of these.
const UPPER: [u16; 17] = [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192];

/// Number of classes of distances: the ones above, and further or never.
pub const CLASSES: usize = UPPER.len() + 1;

/// Registers as bits.
type Registers = [u64; 4];

/// Groups of misses, by in how many sizes of caches they are misses: those of far jumps are used otherwise
/// than those of a walk through memory.
const GROUPS: [Misses; 5] = [4, 5, 6, 8, Misses::MAX];

/// Misses in fewer sizes than this, which are the most by far, are not followed: theirs are taken to be used
/// as others at the same place.
pub const FOLLOWED: Misses = 3;

/// By group and class: how many.
pub type Uses<N> = [[N; CLASSES]; GROUPS.len()];

/// The group of a miss in so many sizes.
#[must_use]
pub fn group(misses: Misses) -> usize {
    GROUPS
        .iter()
        .position(|&upper| misses <= upper)
        .unwrap_or(0)
}

/// The class of a distance.
#[must_use]
pub fn class(distance: Option<u64>) -> usize {
    let place = distance.and_then(|d| UPPER.iter().position(|&upper| d <= u64::from(upper)));
    place.unwrap_or(CLASSES - 1)
}

/// A distance that stands for a class; none where nobody reads the value.
#[must_use]
pub fn middle(class: usize) -> Option<usize> {
    let upper = usize::from(*UPPER.get(class)?);
    let below = class.checked_sub(1).and_then(|n| UPPER.get(n));
    Some((usize::from(below.copied().unwrap_or(0)) + 1 + upper) / 2)
}

fn bit(register: u8) -> (usize, u64) {
    (usize::from(register / 64), 1 << (register % 64))
}

fn set(registers: &mut Registers, register: u8) {
    let (word, bit) = bit(register);
    if let Some(word) = registers.get_mut(word) {
        *word |= bit;
    }
}

fn meet(a: &Registers, b: &Registers) -> bool {
    a.iter().zip(b).fold(0, |met, (a, b)| met | a & b) != 0
}

/// Registers of an instruction.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
pub struct Accessed {
    reads: Registers,
    writes: Registers,
}

impl From<&Inst> for Accessed {
    fn from(inst: &Inst) -> Self {
        let all = |numbers: &[u8]| {
            let mut registers = Registers::default();
            for &register in numbers {
                set(&mut registers, register);
            }
            registers
        };
        Self {
            reads: all(&inst.reads),
            writes: all(&inst.writes),
        }
    }
}

/// Registers that a piece of code reads or writes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Touched(Registers);

impl Touched {
    /// Those of some code.
    #[must_use]
    pub fn by(code: &[Accessed]) -> Self {
        let mut touched = Registers::default();
        for Accessed { reads, writes } in code {
            for ((all, reads), writes) in touched.iter_mut().zip(reads).zip(writes) {
                *all |= reads | writes;
            }
        }
        Self(touched)
    }
}

/// A value that nobody has read yet.
#[derive(Clone, Copy, Debug)]
struct Value {
    site: u32,
    misses: Misses,
    registers: Registers,
    /// Instructions executed before the one that makes it.
    position: u64,
}

/// What became of a value.
enum Fate {
    Read(u64),
    Overwritten,
    Waits,
}

impl Value {
    /// Follows the value through code whose first instruction is number `position`.
    fn follow(&mut self, code: &[Accessed], position: u64) -> Fate {
        for (Accessed { reads, writes }, position) in code.iter().zip(position..) {
            if meet(&self.registers, reads) {
                return Fate::Read(position - self.position);
            }
            for (register, written) in self.registers.iter_mut().zip(writes) {
                *register &= !written;
            }
            if self.registers == Registers::default() {
                return Fate::Overwritten;
            }
        }
        Fate::Waits
    }
}

/// Values of loads that missed and that nobody has read yet.
#[derive(Debug, Default)]
pub struct Unread(Vec<Value>);

impl Unread {
    /// A load at a site that missed in so many sizes, instruction `at` of a piece of code, the first of which is number `position`.
    /// Gives the class of the distance if it is known already.
    pub fn load(
        &mut self,
        (site, misses): (u32, Misses),
        code: &[Accessed],
        at: usize,
        position: u64,
    ) -> Option<usize> {
        let registers = code.get(at).map_or_else(Registers::default, |i| i.writes);
        let here = position + at as u64;
        let mut value = Value {
            site,
            misses,
            registers,
            position: here,
        };
        match value.follow(code.get(at + 1..).unwrap_or(&[]), here + 1) {
            Fate::Read(distance) => Some(class(Some(distance))),
            Fate::Overwritten => Some(class(None)),
            Fate::Waits => {
                self.0.push(value);
                None
            }
        }
    }

    /// Whether there are none.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A piece of code is executed, the first instruction of which is number `position`. Tells of each
    /// value that is settled the load, as it was given, and the class of the distance.
    #[inline]
    pub fn execute(
        &mut self,
        code: &[Accessed],
        touched: &Touched,
        position: u64,
        mut settled: impl FnMut((u32, Misses), usize),
    ) {
        let furthest = UPPER.last().copied().map_or(0, u64::from);
        self.0.retain_mut(|value| {
            if position > value.position + furthest {
                settled((value.site, value.misses), class(None));
                return false;
            }
            if !meet(&value.registers, &touched.0) {
                return true;
            }
            match value.follow(code, position) {
                Fate::Read(distance) => settled((value.site, value.misses), class(Some(distance))),
                Fate::Overwritten => settled((value.site, value.misses), class(None)),
                Fate::Waits => return true,
            }
            false
        });
    }

    /// Another thread goes on.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::Kind;

    fn inst(writes: &[u8], reads: &[u8]) -> Accessed {
        Accessed::from(&Inst {
            kind: Kind::Alu,
            reads: reads.to_vec(),
            writes: writes.to_vec(),
        })
    }

    #[test]
    fn a_class_stands_for_what_is_in_it() {
        for distance in 1..=192 {
            let middle = middle(class(Some(distance))).unwrap();
            let near = middle.abs_diff(distance as usize) * 4;
            assert!(near <= distance as usize + 4, "{distance}: {middle}");
        }
        assert_eq!(class(Some(193)), class(None));
        assert_eq!(middle(class(None)), None);
        assert_eq!((group(1), group(5), group(14)), (0, 1, GROUPS.len() - 1));
    }

    #[test]
    fn values_are_followed_to_their_first_reader_through_pieces_of_code() {
        let mut unread = Unread::default();
        let mut settled = Vec::new();
        let mut run = |unread: &mut Unread, code: &[Accessed], position: u64| {
            let touched = Touched::by(code);
            unread.execute(code, &touched, position, |load, class| {
                settled.push((load.0, class));
            });
            settled.clone()
        };
        // In the same piece; overwritten there.
        let code = [inst(&[1], &[]), inst(&[2], &[]), inst(&[], &[1])];
        assert_eq!(unread.load((0, 1), &code, 0, 100), Some(class(Some(2))));
        let code = [inst(&[1], &[]), inst(&[1], &[])];
        assert_eq!(unread.load((0, 1), &code, 0, 100), Some(class(None)));
        // Two pieces further; register 70 is in another word than register 1.
        let code = [inst(&[70], &[])];
        assert_eq!(unread.load((5, 1), &code, 0, 100), None);
        assert_eq!(unread.load((6, 1), &[inst(&[1], &[])], 0, 100), None);
        assert_eq!(run(&mut unread, &[inst(&[2], &[3])], 101), []);
        let found = run(&mut unread, &[inst(&[1], &[2]), inst(&[], &[70, 1])], 102);
        assert_eq!(found, [(5, class(Some(3))), (6, class(None))]);
        // Nobody, for a long time.
        assert_eq!(unread.load((7, 1), &[inst(&[1], &[])], 0, 200), None);
        let found = run(&mut unread, &[inst(&[], &[9])], 1000);
        assert_eq!(found.last(), Some(&(7, class(None))));
    }
}
