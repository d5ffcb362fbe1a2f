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
    /// Blocks that are back, by their number's low bits, each with the epoch's low bits above.
    back: Vec<u64>,
    /// Blocks that came back so far.
    count: u64,
}

/// Blocks that are remembered, a power of two; as many as lines in a µop cache.
const BLOCKS: usize = 1024;

impl Refills {
    /// Whether a block is to come back once the back end has had so many page faults.
    #[inline]
    #[must_use]
    pub fn lacks(&mut self, block: u64, faults: u64) -> bool {
        if self.faults != faults {
            self.faults = faults;
            self.epoch += 1;
            self.back.resize(BLOCKS, 0);
        }
        let back = self.back.get(block as usize % BLOCKS);
        back.is_some_and(|&back| back != block | self.epoch << 44)
    }

    /// The same, and it comes back now.
    #[inline]
    pub fn come(&mut self, block: u64, faults: u64) -> bool {
        let lacks = self.lacks(block, faults);
        if lacks && let Some(back) = self.back.get_mut(block as usize % BLOCKS) {
            *back = block | self.epoch << 44;
            self.count += 1;
        }
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
    fn a_copy_knows_what_is_back() {
        let mut refills = Refills::default();
        come_back(&mut refills, 3, 500);
        let mut copy = refills.snapshot();
        // Its back end counts from 0.
        assert_eq!(come_back(&mut copy, 0, 600), 100);
        assert_eq!(come_back(&mut copy, 1, 300), 300);
    }
}
