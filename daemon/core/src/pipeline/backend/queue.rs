//! The instruction decode queue between the front end and rename.

use crate::pipeline::state::{Fingerprint, Moment, Part};

/// µops that have been delivered, each with the cycle in which it issues and leaves.
pub struct DecodeQueue {
    /// A ring: its length is a power of two.
    issues: Vec<u64>,
    /// Number of the first one that waits.
    head: u64,
    /// Number behind the last.
    end: u64,
}

impl DecodeQueue {
    /// An empty queue.
    #[must_use]
    pub fn new() -> Self {
        Self {
            issues: vec![0; 256],
            head: 0,
            end: 0,
        }
    }

    #[inline(always)]
    fn place(&self, number: u64) -> usize {
        number as usize & self.issues.len().wrapping_sub(1)
    }

    /// A µop that was delivered issues in `cycle`.
    #[inline(always)]
    pub fn push(&mut self, cycle: u64) {
        if self.end - self.head == self.issues.len() as u64 {
            self.grow();
        }
        let place = self.place(self.end);
        if let Some(issue) = self.issues.get_mut(place) {
            *issue = cycle;
        }
        self.end += 1;
    }

    #[cold]
    fn grow(&mut self) {
        let mut larger = vec![0; self.issues.len() * 2];
        let mask = larger.len() - 1;
        for number in self.head..self.end {
            larger[number as usize & mask] = self.issues[self.place(number)];
        }
        self.issues = larger;
    }

    /// µops in it after rename has done its work in `cycle`.
    #[inline]
    pub fn len_at(&mut self, cycle: u64) -> usize {
        while self.head < self.end && self.issues[self.place(self.head)] <= cycle {
            self.head += 1;
        }
        (self.end - self.head) as usize
    }

    /// Cycle in which it has come down to `len` µops; `None` when it is no longer.
    #[inline]
    #[must_use]
    pub fn down_to(&self, len: usize) -> Option<u64> {
        let waiting = (self.end - self.head) as usize;
        let must_go = waiting.checked_sub(len)?.checked_sub(1)?;
        Some(self.issues[self.place(self.head + must_go as u64)])
    }
}

impl Default for DecodeQueue {
    fn default() -> Self {
        Self::new()
    }
}

impl Part for DecodeQueue {
    fn reset(&mut self, _: &Moment) {
        let Self {
            issues: _,
            head,
            end,
        } = self;
        (*head, *end) = (0, 0);
    }

    fn fingerprint(&self, at: &Moment, h: &mut Fingerprint) {
        let Self { issues, head, end } = self;
        let place = |number: u64| number as usize & (issues.len() - 1);
        // Issue cycles are not before the clock, which may be ahead of the last issue.
        let issues = (*head..*end).map(|number| issues[place(number)]);
        let waiting = issues.filter(|issue| *issue > at.clock);
        h.add_distances(waiting.map(|issue| issue - at.clock));
    }
}
