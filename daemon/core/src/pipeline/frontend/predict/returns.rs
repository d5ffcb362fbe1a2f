//! The return stack: a ring of return addresses. A call beyond its depth overwrites the oldest;
//! the return that would have needed that finds nothing.

use super::history::place;
use crate::pipeline::fold::Folding;

/// Return addresses of the calls under way.
#[derive(Clone)]
pub struct ReturnStack {
    ring: Vec<u64>,
    top: usize,
    /// Addresses that are still there.
    held: usize,
}

impl ReturnStack {
    /// An empty stack.
    #[must_use]
    pub fn new(depth: u32) -> Self {
        Self {
            ring: vec![0; depth.max(1) as usize],
            top: 0,
            held: 0,
        }
    }

    /// A call that will come back to `next`.
    #[inline]
    pub fn push(&mut self, next: u64) {
        self.top = if self.top + 1 < self.ring.len() {
            self.top + 1
        } else {
            0
        };
        self.held = (self.held + 1).min(self.ring.len());
        if let Some(slot) = self.ring.get_mut(self.top) {
            *slot = next;
        }
    }

    /// Where a return is predicted to go; `None` when the stack is empty.
    #[inline]
    pub fn pop(&mut self) -> Option<u64> {
        self.held = self.held.checked_sub(1)?;
        let address = self.ring.get(self.top).copied();
        self.top = self.top.checked_sub(1).unwrap_or(self.ring.len() - 1);
        address
    }
}

/// Returns whose last target is known.
const LAST: usize = 256;

/// Where returns went last, which is what the nearest branch target buffer has of them.
#[derive(Clone)]
pub struct LastReturns {
    /// Addresses of returns with their targets, as many as such a buffer has.
    held: Box<[(u64, u64)]>,
}

impl Default for LastReturns {
    fn default() -> Self {
        Self {
            held: vec![(0, 0); LAST].into(),
        }
    }
}

impl LastReturns {
    /// Shows its table.
    pub fn fold(&mut self, folding: &mut Folding) {
        folding.table(&mut self.held, (0, 0));
    }

    /// A return goes to `target`; whether it went elsewhere last, as far as that is known.
    #[inline]
    pub fn changes(&mut self, pc: u64, target: u64) -> bool {
        let Some(slot) = self.held.get_mut(place(pc, LAST.ilog2())) else {
            return false;
        };
        let (from, to) = std::mem::replace(slot, (pc, target));
        from == pc && to != target
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_return_that_goes_elsewhere_than_last_changes() {
        let mut last = LastReturns::default();
        for (pc, target, changes) in [
            (0x10, 1, false),
            (0x10, 1, false),
            (0x10, 2, true),
            (0x20, 1, false),
            (0x10, 2, false),
            (0x10, 1, true),
        ] {
            assert_eq!(last.changes(pc, target), changes, "{pc:x} {target}");
        }
    }

    #[test]
    fn a_chain_of_calls_returns_rightly_as_deep_as_the_stack_is() {
        for depth in [1u64, 16, 24] {
            for calls in 1..3 * depth {
                let mut stack = ReturnStack::new(depth as u32);
                (0..calls).for_each(|c| stack.push(c));
                let right = (0..calls).rev().filter(|c| stack.pop() == Some(*c)).count();
                assert_eq!(
                    right as u64,
                    calls.min(depth),
                    "{calls} calls, depth {depth}"
                );
                assert_eq!(stack.pop(), None);
            }
        }
    }
}
