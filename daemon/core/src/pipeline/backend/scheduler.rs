//! The schedulers: how many µops wait in them, and when a µop is ready.

use crate::pipeline::state::{Fingerprint, Moment, Part};
use mcad_isa::machine::params::{Core, MAX_HOLD, MAX_PORTS, MAX_SCHEDULERS};

/// A µop is ready this long after its issue, or one cycle late if its last input comes in the two
/// cycles in which it enters the scheduler.
#[inline]
#[must_use]
pub fn ready_cycle(issued: u64, delay: u64, inputs: u64) -> u64 {
    let entered = issued + delay;
    if inputs < entered {
        entered
    } else if inputs <= entered + 1 {
        inputs + 1
    } else {
        inputs
    }
}

const RING: usize = MAX_HOLD as usize + 1;

/// A scheduler whose µops keep their entries for some time after they have started.
struct Keeping {
    /// Its number.
    scheduler: u8,
    /// For so many cycles.
    hold: u64,
    /// µops that started in each of the last cycles.
    started: Box<[u16; RING]>,
}

/// µops that start in a cycle, by scheduler.
pub type Started = [u16; MAX_SCHEDULERS];

/// Occupancy of the schedulers: the common one, and those that some ports have for themselves.
///
/// µops enter at issue and leave when they start, or some cycles later where the core keeps them
/// until their result is certain. What waits in the queue before a scheduler counts as in it.
pub struct Schedulers {
    /// Number of the scheduler of each port; 0 is the common one.
    of: [u8; MAX_PORTS],
    /// How many there are.
    count: usize,
    /// µops that each has room for, or would have if as many as can issue in a cycle could not all be its; no end of it where
    /// there is none.
    sizes: [u16; MAX_SCHEDULERS],
    taken: [u16; MAX_SCHEDULERS],
    keeping: Vec<Keeping>,
}

impl Schedulers {
    /// Empty ones.
    #[must_use]
    pub fn new(core: &Core) -> Self {
        let own = || core.ports.schedulers.iter().take(MAX_SCHEDULERS - 1);
        let size = |entries: u32| u16::try_from(entries).unwrap_or(u16::MAX);
        let mut of = [0; MAX_PORTS];
        let mut sizes = [u16::MAX; MAX_SCHEDULERS];
        sizes[0] = size(core.execute.scheduler);
        let mut keeping = Vec::new();
        for (n, scheduler) in (1u8..).zip(own()) {
            let more = match scheduler.room {
                0 => 0,
                room => core.rename.issue_width.saturating_sub(room),
            };
            sizes[usize::from(n)] = size(scheduler.entries + scheduler.queue + more);
            for port in scheduler.ports.iter() {
                of[usize::from(port) % MAX_PORTS] = n;
            }
            if scheduler.hold > 0 {
                keeping.push(Keeping {
                    scheduler: n,
                    hold: u64::from(scheduler.hold.min(MAX_HOLD)),
                    started: Box::new([0; RING]),
                });
            }
        }
        Self {
            of,
            count: 1 + own().count(),
            sizes,
            taken: [0; MAX_SCHEDULERS],
            keeping,
        }
    }

    /// µops that have one, in all.
    #[inline]
    #[must_use]
    pub fn taken(&self) -> u32 {
        self.taken.iter().map(|taken| u32::from(*taken)).sum()
    }

    /// Whether none may issue, since `width` µops could find no room.
    #[inline]
    #[must_use]
    pub fn full(&self, width: u32) -> bool {
        let width = width as u16;
        let all = self.taken.iter().zip(&self.sizes);
        all.fold(false, |full, (taken, size)| full | (taken + width > *size))
    }

    /// Number of the scheduler of `port`.
    #[inline(always)]
    #[must_use]
    pub fn of(&self, port: u8) -> usize {
        usize::from(self.of[usize::from(port) % MAX_PORTS]) % MAX_SCHEDULERS
    }

    /// A µop of `port` issues.
    #[inline]
    pub fn enter(&mut self, port: u8) {
        *self.taken_of(port) += 1;
    }

    /// One of those that start on `port` leaves at once.
    pub fn leave(&mut self, port: u8) {
        *self.taken_of(port) -= 1;
    }

    /// A µop that was counted for port `from` waits for port `to`.
    #[inline]
    pub fn hand_over(&mut self, from: u8, to: u8) {
        if from != to {
            self.leave(from);
            self.enter(to);
        }
    }

    #[inline(always)]
    fn taken_of(&mut self, port: u8) -> &mut u16 {
        let scheduler = self.of(port);
        &mut self.taken[scheduler]
    }

    /// Those that start in `cycle` leave, or begin to be kept.
    #[inline(always)]
    pub fn step(&mut self, cycle: u64, mut started: Started) {
        for keeping in &mut self.keeping {
            let started = &mut started[usize::from(keeping.scheduler) % MAX_SCHEDULERS];
            keeping.started[place(cycle)] = *started;
            *started = keeping.since(cycle.wrapping_sub(keeping.hold));
        }
        for (taken, leaving) in self.taken.iter_mut().zip(started) {
            *taken -= leaving;
        }
    }
}

impl Keeping {
    /// µops that started in `cycle` and are kept.
    #[inline]
    fn since(&self, cycle: u64) -> u16 {
        self.started[place(cycle)]
    }
}

impl Part for Schedulers {
    fn reset(&mut self, _: &Moment) {
        let Self {
            of: _,
            count: _,
            sizes: _,
            taken,
            keeping,
        } = self;
        *taken = [0; MAX_SCHEDULERS];
        for keeping in keeping {
            keeping.started.fill(0);
        }
    }

    fn fingerprint(&self, at: &Moment, h: &mut Fingerprint) {
        let Self {
            of: _,
            count,
            sizes: _,
            taken,
            keeping,
        } = self;
        h.add_distances(taken.iter().take(*count).map(|n| u64::from(*n)));
        for keeping in keeping {
            for n in 1..=keeping.hold {
                h.add(u64::from(keeping.since(at.issue.wrapping_sub(n))));
            }
        }
    }
}

#[inline(always)]
fn place(cycle: u64) -> usize {
    cycle as usize % RING
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcad_isa::machine::params::{PortSet, Scheduler};

    /// One of 16 entries, and one for loads.
    fn schedulers(for_loads: Option<Scheduler>) -> Option<Schedulers> {
        let mut core = mcad_isa::machine::cpu("glc").ok()?.core.clone();
        core.execute.scheduler = 16;
        core.ports.schedulers = for_loads.into_iter().collect();
        Some(Schedulers::new(&core))
    }

    /// So many µops that start, by scheduler.
    fn started(by_scheduler: &[u16]) -> Started {
        std::array::from_fn(|n| by_scheduler.get(n).copied().unwrap_or(0))
    }

    #[test]
    fn loads_keep_their_entries_after_they_have_started() -> Result<(), &'static str> {
        let for_loads = Scheduler {
            room: 0,
            ports: PortSet(0b1100),
            entries: 16,
            queue: 0,
            hold: 5,
        };
        let mut schedulers = schedulers(Some(for_loads)).ok_or("no such CPU")?;
        for _ in 0..11 {
            schedulers.enter(2);
        }
        assert!(schedulers.full(6));
        assert!(!schedulers.full(5));
        schedulers.enter(0);
        // One load and the other start in cycle 10.
        schedulers.step(10, started(&[1, 1]));
        assert_eq!(schedulers.taken(), 11);
        for cycle in 11..15 {
            schedulers.step(cycle, started(&[]));
            assert!(schedulers.full(6));
        }
        schedulers.step(15, started(&[]));
        assert!(!schedulers.full(6));
        assert_eq!(schedulers.taken(), 10);
        Ok(())
    }

    #[test]
    fn without_a_scheduler_of_their_own_loads_wait_with_the_others() -> Result<(), &'static str> {
        let mut schedulers = schedulers(None).ok_or("no such CPU")?;
        for port in [2, 2, 3, 0] {
            schedulers.enter(port);
        }
        assert!(schedulers.full(13));
        schedulers.step(0, started(&[3]));
        assert_eq!(schedulers.taken(), 1);
        assert!(!schedulers.full(13));
        Ok(())
    }
}
