//! Copies of a memory in the middle of a program.

use super::Memory;
use super::counts::{Counts, MissesByInstruction};

impl Memory {
    /// The same memory, with what lines it holds and what is on its way in cycle `now`, for a core
    /// whose clock begins there with 0 and that has counted nothing.
    #[must_use]
    pub fn snapshot(&mut self, now: u64) -> Box<Self> {
        // Not to be copied.
        let misses = std::mem::take(&mut self.by_instruction);
        let mut copy = Box::new(self.clone());
        self.by_instruction = misses;
        copy.epoch += now;
        // None of its stores and loads was held up yet.
        copy.filled = 0;
        if let Some(arrivals) = &mut copy.arrivals {
            arrivals.clear();
        }
        copy.counts = Counts::default();
        copy.by_instruction = MissesByInstruction::default();
        copy
    }
}
