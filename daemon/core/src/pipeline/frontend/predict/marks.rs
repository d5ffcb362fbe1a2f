//! A bit for each branch, told apart by some bits of its address.

use super::history::place;

/// Binary logarithm of how many branches are told apart.
const LOG_TOLD: u32 = 12;
const WORDS: usize = 1 << (LOG_TOLD - u64::BITS.trailing_zeros());

/// Bits, none set at first.
#[derive(Clone)]
pub struct Marks([u64; WORDS]);

impl Default for Marks {
    fn default() -> Self {
        Self([0; WORDS])
    }
}

impl Marks {
    /// Whether that of the branch at `pc` is set.
    #[must_use]
    pub fn has(&self, pc: u64) -> bool {
        let (word, bit) = Self::place(pc);
        self.0.get(word).is_some_and(|bits| bits & bit != 0)
    }

    /// Sets or clears that of the branch at `pc`.
    pub fn mark(&mut self, pc: u64, set: bool) {
        let (word, bit) = Self::place(pc);
        if let Some(bits) = self.0.get_mut(word) {
            match set {
                true => *bits |= bit,
                false => *bits &= !bit,
            }
        }
    }

    fn place(pc: u64) -> (usize, u64) {
        let place = place(pc, LOG_TOLD);
        (
            place / u64::BITS as usize,
            1 << (place % u64::BITS as usize),
        )
    }
}
