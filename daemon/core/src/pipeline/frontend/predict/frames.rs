//! Which returns the kernel has taken from the return stack.
//!
//! A kernel whose own returns are protected against speculation (Linux' "Safe RET": each goes through
//! a call that no return answers) leaves the return stack full of its own addresses. So whatever the
//! stack held of the program's when the kernel came is lost, and the return of each call from before is
//! predicted wrongly, while calls made since are answered as ever: it is enough to count those. How many addresses the stack has, the
//! kernel's among them, is what calls wait for where it is nearly full.

use super::Kind;
use mcad_isa::machine::params::branch::{Branch, CrowdedReturns};

/// What a branch, or a system call, does to the frames of the program's calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Frame {
    /// Nothing.
    #[default]
    Stays,
    /// It calls.
    Opens,
    /// It returns.
    Closes,
    /// It calls the kernel.
    Empties,
}

impl Frame {
    /// That of a kind of branch.
    #[inline]
    #[must_use]
    pub fn of(kind: Kind) -> Self {
        match kind {
            Kind::Call | Kind::IndirectCall => Self::Opens,
            Kind::Return => Self::Closes,
            Kind::Conditional | Kind::Jump | Kind::IndirectJump => Self::Stays,
        }
    }
}

/// Calls that the return stack answers for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frames {
    /// Whether the kernel takes anything.
    emptied: bool,
    /// How often the kernel has run.
    visits: u64,
    /// Calls since then that have not returned; `None`: it never ran, and nothing is lost.
    open: Option<u64>,
    /// Addresses in the return stack, and how many it can have.
    held: u64,
    entries: u64,
    /// What calls wait for.
    crowded: Option<CrowdedReturns>,
    /// Returns lost so far that nobody has counted.
    pub lost: u64,
}

impl Frames {
    /// No calls yet.
    #[must_use]
    pub fn new(p: &Branch) -> Self {
        Self {
            emptied: p.kernel_empties_returns && !p.ideal,
            entries: p.return_stack.into(),
            crowded: p.crowded_returns.filter(|_| !p.ideal),
            ..Self::default()
        }
    }

    /// Whether a branch is a return that is lost, now that the kernel has run so often.
    #[inline]
    #[must_use]
    pub fn loses(&self, frame: Frame, visits: u64) -> bool {
        self.emptied && frame == Frame::Closes && (visits != self.visits || self.open == Some(0))
    }

    /// The same, of the next branch in the order of the program, which is done with then.
    #[inline]
    pub fn pass(&mut self, frame: Frame, visits: u64) -> bool {
        if frame == Frame::Stays {
            return false;
        }
        self.held = match frame {
            Frame::Opens => (self.held + 1).min(self.entries),
            Frame::Closes => self.held.saturating_sub(1),
            Frame::Empties => self.entries,
            Frame::Stays => self.held,
        };
        if !self.emptied {
            return false;
        }
        if visits != self.visits || frame == Frame::Empties {
            (self.visits, self.open) = (visits, Some(0));
        }
        match (frame, &mut self.open) {
            (Frame::Opens, Some(open)) => *open += 1,
            (Frame::Closes, Some(0)) => {
                self.lost += 1;
                return true;
            }
            (Frame::Closes, Some(open)) => *open -= 1,
            _ => {}
        }
        false
    }

    /// Cycles that a branch which has just passed takes longer since the return stack is nearly full.
    #[inline]
    #[must_use]
    pub fn waits(&self, frame: Frame) -> u64 {
        match self.crowded {
            Some(crowded) if frame == Frame::Opens && self.held > crowded.entries.into() => {
                crowded.bubbles
            }
            _ => 0,
        }
    }

    /// The same for a core of which nobody has counted how often the kernel ran.
    #[must_use]
    pub fn snapshot(&self) -> Self {
        Self {
            visits: 0,
            lost: 0,
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(frames: &mut Frames, calls: u64, returns: u64, visits: u64) -> u64 {
        for _ in 0..calls {
            assert!(!frames.pass(Frame::Opens, visits));
        }
        (0..returns)
            .filter(|_| {
                let loses = frames.loses(Frame::Closes, visits);
                assert_eq!(frames.pass(Frame::Closes, visits), loses);
                loses
            })
            .count() as u64
    }

    /// Calls among so many in a row, each of which returns at once, that wait.
    fn waiting(frames: &mut Frames, calls: usize) -> usize {
        (0..calls)
            .filter(|_| {
                frames.pass(Frame::Opens, 0);
                let waits = frames.waits(Frame::Opens) > 0;
                frames.pass(Frame::Closes, 0);
                waits
            })
            .count()
    }

    #[test]
    fn calls_wait_where_the_return_stack_is_nearly_full() {
        let p = super::super::branches_of("zen5");
        let crowded = p.crowded_returns.expect("what calls wait for");
        assert_eq!((p.return_stack, crowded.entries), (31, 24));
        for depth in 0..40u32 {
            // The program's own calls, and those of the kernel, which are fewer by as many as have returned since.
            let mut frames = Frames::new(&p);
            (0..depth).for_each(|_| _ = frames.pass(Frame::Opens, 0));
            let deep = depth >= crowded.entries;
            assert_eq!(waiting(&mut frames, 9), if deep { 9 } else { 0 }, "{depth}");
            let mut frames = Frames::new(&p);
            frames.pass(Frame::Empties, 0);
            (0..depth).for_each(|_| _ = frames.pass(Frame::Opens, 0));
            (0..depth).for_each(|_| _ = frames.pass(Frame::Closes, 0));
            let full = depth < 1 + p.return_stack - crowded.entries;
            assert_eq!(waiting(&mut frames, 9), if full { 9 } else { 0 }, "{depth}");
        }
        let other = super::super::branches_of("zen4");
        let mut frames = Frames::new(&other);
        (0..40).for_each(|_| _ = frames.pass(Frame::Opens, 0));
        assert_eq!(waiting(&mut frames, 9), 0);
    }

    #[test]
    fn returns_of_calls_before_the_kernel_ran_are_lost() {
        let mut frames = Frames {
            emptied: true,
            ..Frames::default()
        };
        assert_eq!(lost(&mut frames, 9, 4, 0), 0);
        assert_eq!(lost(&mut frames, 0, 2, 1), 2);
        assert_eq!(lost(&mut frames, 3, 3, 1), 0);
        let mut copy = frames.snapshot();
        for (frames, visits) in [(&mut frames, 1), (&mut copy, 0)] {
            assert_eq!(lost(frames, 1, 3, visits), 2);
            assert_eq!(lost(frames, 5, 2, visits), 0);
            assert_eq!(lost(frames, 2, 3, visits + 1), 1);
        }
        assert_eq!(frames.lost, 5);
        let mut kept = Frames::default();
        assert_eq!(lost(&mut kept, 9, 9, 7), 0);
    }
}
