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

/// Losses of one instruction that are listed: of each cause one, and some more of those that are listed
/// without looking.
const MOST: usize = Cause::ALL.len() + 4;

/// Books slots, and lists what was lost for the instruction that issued last.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ledger {
    /// All slots so far.
    pub slots: Slots,
    list: [(Cause, u64); MOST],
    listed: usize,
}

impl Ledger {
    /// Another instruction is to issue.
    #[inline(always)]
    pub fn begin(&mut self) {
        self.listed = 0;
    }

    /// Books lost slots.
    #[inline]
    pub fn lose(&mut self, cause: Cause, slots: u64) {
        self.slots.lose(cause, slots);
        let listed = self.list.get_mut(..self.listed).unwrap_or(&mut []);
        if let Some((_, sum)) = listed.iter_mut().find(|(known, _)| *known == cause) {
            *sum += slots;
        } else if let Some(place) = self.list.get_mut(self.listed) {
            *place = (cause, slots);
            self.listed += 1;
        }
    }

    /// The same of slots that may be none, without a branch on it. They are listed if `LISTS`, and there must
    /// not be more than a few of an instruction.
    #[inline(always)]
    pub(super) fn lose_if_any<const LISTS: bool>(&mut self, cause: Cause, slots: u64) {
        self.slots.lose(cause, slots);
        if LISTS && let Some(place) = self.list.get_mut(self.listed) {
            *place = (cause, slots);
            self.listed += usize::from(slots > 0);
        }
    }

    /// What was lost for the instruction that issued last.
    #[inline]
    #[must_use]
    pub fn last(&self) -> &[(Cause, u64)] {
        self.list.get(..self.listed).unwrap_or(&[])
    }
}
