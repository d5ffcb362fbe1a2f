//! Where issue slots went: each is either used or lost for one cause.

pub use mcad_report::Cause;

/// Issue slots by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slots {
    /// Used by an instruction.
    pub used: u64,
    /// Lost, by [`Cause`] in the order of [`Cause::ALL`].
    pub lost: [u64; Cause::ALL.len()],
}

impl Slots {
    /// Books lost slots.
    #[inline]
    pub fn lose(&mut self, cause: Cause, slots: u64) {
        self.lost[cause as usize] += slots;
    }

    /// Slots lost for a cause.
    #[must_use]
    pub fn of(&self, cause: Cause) -> u64 {
        self.lost[cause as usize]
    }

    /// All slots.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.used + self.lost.iter().sum::<u64>()
    }
}
