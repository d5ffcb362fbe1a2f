//! The other hardware thread of the core that a command runs on.
//!
//! The host of a virtual machine may give it to another guest, of whose work this machine's kernel knows nothing: it takes issue
//! slots, half of what the core divides between its threads, and parts of the caches near it. Models predict what a command takes
//! without. Independent instructions tell within microseconds whether somebody is there ([`crate::clock::fullness`]), who comes and
//! goes within milliseconds. So whoever watches a command looks once a millisecond, and keeps the CPU until nobody is there.

use std::time::{Duration, Instant};

use crate::clock::fullness;

/// Looks from which it is learnt what the core is like alone, half a millisecond.
const LOOKS: usize = 400;
/// Of these, in order, the one that is taken for it: an interrupt spoils some.
const ALONE: usize = LOOKS / 20;
/// By how much longer independent instructions take when somebody is there, at least, relative.
const SOMEBODY: f64 = 0.06;
/// Looks in a row that find nobody, for nobody to be there.
const NOBODY: u32 = 6;
/// Looks of which the least full one counts: the first behind something else is slow by itself.
const FIRST: u32 = 3;
/// As long a command is kept waiting in a row at most, and in all as long as it has run besides.
const PATIENCE: Duration = Duration::from_millis(20);

/// What is known of a core.
#[derive(Clone, Copy, Debug)]
pub(super) struct Neighbour {
    /// How full it is while nobody else is there.
    alone: f64,
}

impl Neighbour {
    /// Learns what the core of this thread is like.
    pub(super) fn new() -> Self {
        let mut unknown = Self {
            alone: f64::INFINITY,
        };
        unknown.learn();
        unknown
    }

    /// Looks again: somebody may have been there all of the time before.
    pub(super) fn learn(&mut self) {
        let mut looks = [0.0; LOOKS];
        looks.fill_with(fullness);
        looks.sort_unstable_by(f64::total_cmp);
        self.alone = looks.get(ALONE).map_or(self.alone, |l| l.min(self.alone));
    }

    /// By how much longer independent instructions take at this moment, relative: by as much again at most.
    fn slows(self) -> f64 {
        (fullness() / self.alone - 1.0).clamp(0.0, 1.0)
    }
}

/// What it did to a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Shared {
    /// By how much longer independent instructions took, the mean of what was found before it was waited, relative.
    pub(super) slowed: f64,
    /// Seconds that the run was kept waiting.
    pub(super) waited: f64,
}

/// Keeps a command from running beside somebody, from when it is made on.
#[derive(Debug)]
pub(super) struct Gate {
    neighbour: Neighbour,
    began: Instant,
    looks: u32,
    slowed: f64,
    waited: Duration,
}

impl Gate {
    pub(super) fn new(neighbour: Neighbour) -> Self {
        Self {
            neighbour,
            began: Instant::now(),
            looks: 0,
            slowed: 0.0,
            waited: Duration::ZERO,
        }
    }

    /// Looks whether somebody is there.
    pub(super) fn look(&mut self) -> bool {
        let mut slows = f64::INFINITY;
        for _ in 0..FIRST {
            slows = self.neighbour.slows().min(slows);
            if slows < SOMEBODY {
                break;
            }
        }
        self.looks += 1;
        self.slowed += slows;
        slows >= SOMEBODY
    }

    /// Waits until nobody is there, or for as long as is sensible.
    pub(super) fn wait(&mut self) {
        let began = Instant::now();
        let ran = began.duration_since(self.began).saturating_sub(self.waited);
        let left = (PATIENCE + ran).saturating_sub(self.waited);
        let most = left.min(PATIENCE);
        let mut nobody = 0;
        while nobody < NOBODY && began.elapsed() < most {
            nobody = match self.neighbour.slows() < SOMEBODY {
                true => nobody + 1,
                false => 0,
            };
        }
        self.waited += began.elapsed();
    }

    pub(super) fn shared(&self) -> Shared {
        Shared {
            slowed: self.slowed / f64::from(self.looks.max(1)),
            waited: self.waited.as_secs_f64(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_is_at_least_as_full_as_alone() {
        let mut neighbour = Neighbour::new();
        let first = neighbour.alone;
        // Four a cycle on most cores, whose multiplications take three.
        assert!((0.3..3.0).contains(&first), "{first}");
        neighbour.learn();
        assert!(neighbour.alone <= first);
    }

    #[test]
    fn nobody_is_waited_for_where_the_core_is_never_fuller() {
        let mut gate = Gate::new(Neighbour { alone: 100.0 });
        assert!(!gate.look());
        gate.wait();
        let shared = gate.shared();
        assert_eq!(shared.slowed, 0.0);
        // Some looks, and whatever takes the CPU away from a test.
        assert!(shared.waited < 1.0, "{shared:?}");
    }

    #[test]
    fn a_command_goes_on_although_somebody_stays() {
        // The core is never that empty.
        let mut gate = Gate::new(Neighbour { alone: 1e-3 });
        assert!(gate.look() && gate.look());
        let began = Instant::now();
        for _ in 0..1000 {
            gate.wait();
        }
        let (took, shared) = (began.elapsed(), gate.shared());
        assert_eq!(shared.slowed, 1.0);
        // It has run for next to nothing: once is enough.
        assert!(shared.waited >= PATIENCE.as_secs_f64());
        assert!(took < 100 * PATIENCE, "{took:?}");
    }
}
