//! Code that comes back into the µop cache after a page fault: the kernel's has pushed it out.
//!
//! It is remembered until the next fault, however long that takes, so copies of a core in the middle
//! of a program have it, too.

use crate::pipeline::fold::Folding;

/// Blocks of code that have come back since the last page fault.
#[derive(Clone, Debug, Default)]
pub struct Refills {
    /// Page faults of the back end when it was last asked.
    faults: u64,
    /// Times that blocks began to come back.
    epoch: u64,
    /// Blocks that are back, each with the epoch's low bits above: so many for each value of their
    /// number's low bits, the last one that was asked for first.
    back: Vec<u64>,
    /// Blocks that came back so far.
    count: u64,
}

/// Blocks that are remembered, twice as many as there are lines in a µop cache: what is forgotten would
/// come back again, as nothing does on the CPU that is not pushed out.
const SETS: usize = 256;
const WAYS: usize = 8;

impl Refills {
    /// Where a block is remembered, and as what, once the back end has had so many page faults.
    #[inline]
    fn place(&mut self, block: u64, faults: u64) -> (Option<&mut [u64]>, u64) {
        if self.faults != faults {
            self.faults = faults;
            self.epoch += 1;
            self.back.resize(SETS * WAYS, 0);
        }
        let known = block | self.epoch << 44;
        let first = block as usize % SETS * WAYS;
        (self.back.get_mut(first..first + WAYS), known)
    }

    /// Whether a block is to come back once the back end has had so many page faults.
    #[inline]
    #[must_use]
    pub fn lacks(&mut self, block: u64, faults: u64) -> bool {
        let (set, known) = self.place(block, faults);
        set.is_some_and(|set| !set.contains(&known))
    }

    /// The same, and it comes back now.
    #[inline]
    pub fn come(&mut self, block: u64, faults: u64) -> bool {
        let (Some(set), known) = self.place(block, faults) else {
            return false;
        };
        if set.first() == Some(&known) {
            return false;
        }
        let at = set.iter().position(|back| *back == known);
        let (to_front, lacks) = (at.unwrap_or(WAYS - 1), at.is_none());
        set.copy_within(..to_front, 1);
        if let Some(first) = set.first_mut() {
            *first = known;
        }
        self.count += u64::from(lacks);
        lacks
    }

    /// Shows which blocks are back.
    pub fn fold(&mut self, folding: &mut Folding) {
        folding.list(&mut self.back, 0);
    }

    /// Blocks that came back so far. While they do, no state recurs.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The same for a core whose back end has counted no fault.
    #[must_use]
    pub fn snapshot(&self) -> Self {
        let Self {
            faults: _,
            epoch,
            back,
            count,
        } = self;
        Self {
            faults: 0,
            epoch: *epoch,
            back: back.clone(),
            count: *count,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn come_back(refills: &mut Refills, faults: u64, blocks: u64) -> u64 {
        (0..blocks)
            .filter(|b| refills.come(0x10_0000 + b, faults))
            .count() as u64
    }

    #[test]
    fn each_block_comes_back_once_after_a_fault() {
        let mut refills = Refills::default();
        assert_eq!(come_back(&mut refills, 0, 500), 0);
        assert_eq!(come_back(&mut refills, 1, 500), 500);
        assert_eq!(come_back(&mut refills, 1, 500), 0);
        assert_eq!(come_back(&mut refills, 1, 600), 100);
        assert_eq!(come_back(&mut refills, 2, 300), 300);
        assert_eq!(refills.count(), 900);
    }

    #[test]
    fn blocks_far_apart_do_not_push_each_other_out() {
        let mut refills = Refills::default();
        let blocks = [0x10_0000, 0x10_0400, 0x20_0000, 0x7f_0000];
        let mut turn = |faults| {
            let come = blocks.iter().filter(|b| refills.come(**b, faults));
            come.count()
        };
        assert_eq!(
            [turn(1), turn(1), turn(1), turn(2), turn(2)],
            [4, 0, 0, 4, 0]
        );
    }

    #[test]
    fn a_copy_knows_what_is_back() {
        let mut refills = Refills::default();
        come_back(&mut refills, 3, 500);
        let mut copy = refills.snapshot();
        // Its back end counts from 0.
        assert_eq!(come_back(&mut copy, 0, 600), 100);
        assert_eq!(come_back(&mut copy, 1, 300), 300);
    }
}
