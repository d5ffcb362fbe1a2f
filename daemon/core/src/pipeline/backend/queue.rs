//! The instruction decode queue between the front end and rename.

use crate::pipeline::state::{Fingerprint, Moment, Part};
use crate::pipeline::window::Window;

/// µops that have been delivered, each with the cycle in which it issues and leaves.
pub struct DecodeQueue {
    issues: Window<u64>,
}

impl DecodeQueue {
    /// An empty queue.
    #[must_use]
    pub fn new() -> Self {
        Self {
            issues: Window::new(128),
        }
    }

    /// A µop that was delivered issues in `cycle`.
    #[inline(always)]
    pub fn push(&mut self, cycle: u64) {
        self.issues.push(cycle);
    }

    /// µops in it after rename has done its work in `cycle`.
    #[inline]
    pub fn len_at(&mut self, cycle: u64) -> usize {
        while self.issues.front().is_some_and(|issue| *issue <= cycle) {
            self.issues.pop();
        }
        self.issues.len()
    }

    /// Cycle in which it has come down to `len` µops; `None` when it is no longer.
    #[inline]
    #[must_use]
    pub fn down_to(&self, len: usize) -> Option<u64> {
        let must_go = self.issues.len().checked_sub(len)?.checked_sub(1)?;
        self.issues
            .get(self.issues.head() + must_go as u64)
            .copied()
    }
}

impl Default for DecodeQueue {
    fn default() -> Self {
        Self::new()
    }
}

impl Part for DecodeQueue {
    fn reset(&mut self, _: &Moment) {
        let Self { issues } = self;
        issues.reset();
    }

    fn fingerprint(&self, at: &Moment, h: &mut Fingerprint) {
        let Self { issues } = self;
        // Issue cycles are not before the clock, which may be ahead of the last issue.
        let waiting = issues.iter().filter(|issue| **issue > at.clock);
        h.add_distances(waiting.map(|issue| issue - at.clock));
    }
}
