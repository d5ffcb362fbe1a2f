//! The instruction decode queue between the front end and rename.

use crate::pipeline::fold::Folding;
use crate::pipeline::state::{Fingerprint, Moment, Part};
use crate::pipeline::window::Window;

/// µops that issue in one cycle and leave with it.
#[derive(Clone, Copy, Default)]
struct Leaving {
    cycle: u64,
    /// Number of the first one; the next entry's is behind the last one.
    from: u64,
}

/// µops that have been delivered, each with the cycle in which it issues and leaves, which never
/// falls.
pub struct DecodeQueue {
    leaving: Window<Leaving>,
    /// Cycle in which the last ones leave that wait, [`u64::MAX`] when none wait.
    last: u64,
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
            leaving: Window::new(128),
            last: u64::MAX,
            head: 0,
            end: 0,
        }
    }

    /// A µop that was delivered issues in `cycle`.
    #[inline(always)]
    pub fn push(&mut self, cycle: u64) {
        if cycle != self.last {
            self.begin(cycle);
        }
        self.end += 1;
    }

    #[inline(never)]
    fn begin(&mut self, cycle: u64) {
        self.last = cycle;
        self.leaving.push(Leaving {
            cycle,
            from: self.end,
        });
    }

    /// µops in it after rename has done its work in `cycle`.
    #[inline]
    pub fn len_at(&mut self, cycle: u64) -> usize {
        while let Some(leaving) = self.leaving.front()
            && leaving.cycle <= cycle
        {
            self.leaving.pop();
            match self.leaving.front() {
                Some(next) => self.head = next.from,
                None => (self.head, self.last) = (self.end, u64::MAX),
            }
        }
        (self.end - self.head) as usize
    }

    /// Cycle in which it has come down to `len` µops; `None` when it is no longer.
    #[inline]
    #[must_use]
    pub fn down_to(&self, len: usize) -> Option<u64> {
        let waiting = (self.end - self.head) as usize;
        let must_go = waiting.checked_sub(len)?.checked_sub(1)?;
        let number = self.head + must_go as u64;
        let leaves = self.leaving.iter().take_while(|l| l.from <= number);
        leaves.last().map(|leaving| leaving.cycle)
    }
}

impl Default for DecodeQueue {
    fn default() -> Self {
        Self::new()
    }
}

impl Part for DecodeQueue {
    fn fold(&mut self, folding: &mut Folding) {
        self.leaving.fold(folding);
    }

    fn reset(&mut self, _: &Moment) {
        let Self {
            leaving,
            last,
            head,
            end,
        } = self;
        leaving.reset();
        (*last, *head, *end) = (u64::MAX, 0, 0);
    }

    fn fingerprint(&self, at: &Moment, h: &mut Fingerprint) {
        let Self {
            leaving,
            last: _,
            head: _,
            end,
        } = self;
        // Issue cycles are not before the clock, which may be ahead of the last issue.
        let ends = leaving.iter().skip(1).map(|next| next.from);
        let waiting = leaving.iter().zip(ends.chain([*end]));
        let waiting = waiting.filter(|(leaving, _)| leaving.cycle > at.clock);
        // Each cycle has one entry.
        h.add_distances(
            waiting.flat_map(|(leaving, end)| [leaving.cycle - at.clock, end - leaving.from]),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_as_long_as_a_list_of_all_would_be() {
        let mut random = fastrand::Rng::with_seed(3);
        let mut queue = DecodeQueue::new();
        let (mut all, mut clock, mut issue) = (Vec::<u64>::new(), 0, 1);
        for _ in 0..5000 {
            issue = (issue + [0, 0, 0, 1, 1, 7][random.usize(..6)]).max(clock + 1);
            queue.push(issue);
            all.push(issue);
            if random.u8(..3) == 0 {
                clock += random.u64(..6);
                all.retain(|issue| *issue > clock);
                assert_eq!(queue.len_at(clock), all.len());
            }
            for len in [0, 1, 5, 30] {
                let down = all.len().checked_sub(len + 1).map(|n| all[n]);
                assert_eq!(queue.down_to(len), down);
            }
        }
        queue.reset(&Moment::default());
        assert_eq!(queue.len_at(0), 0);
        assert_eq!(queue.down_to(0), None);
    }
}
