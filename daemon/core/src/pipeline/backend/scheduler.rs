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

/// A scheduler that some ports have for themselves.
struct Own {
    ports: u32,
    /// Cycles that a µop keeps its entry after it has started.
    hold: u64,
    /// µops that started in each of the last cycles, where they are kept.
    started: Box<[u8]>,
}

/// Occupancy of the schedulers: the common one, and those that some ports have for themselves.
///
/// µops enter at issue and leave when they start, or some cycles later where the core keeps them
/// until their result is certain. What waits in the queue before a scheduler counts as in it.
pub struct Schedulers {
    /// Number of the scheduler of each port; 0 is the common one.
    of: [u8; MAX_PORTS],
    /// µops that each has room for.
    sizes: [u32; MAX_SCHEDULERS],
    taken: [u32; MAX_SCHEDULERS],
    own: Vec<Own>,
}

impl Schedulers {
    /// Empty ones.
    #[must_use]
    pub fn new(core: &Core) -> Self {
        let own = || core.ports.schedulers.iter().take(MAX_SCHEDULERS - 1);
        let mut of = [0; MAX_PORTS];
        let mut sizes = [u32::MAX; MAX_SCHEDULERS];
        sizes[0] = core.execute.scheduler;
        for (n, scheduler) in own().enumerate() {
            sizes[n + 1] = scheduler.entries + scheduler.queue;
            for port in scheduler.ports.iter() {
                of[usize::from(port) % MAX_PORTS] = n as u8 + 1;
            }
        }
        Self {
            of,
            sizes,
            taken: [0; MAX_SCHEDULERS],
            own: own()
                .map(|scheduler| Own {
                    ports: scheduler.ports.0,
                    hold: u64::from(scheduler.hold.min(MAX_HOLD)),
                    started: match scheduler.hold {
                        0 => Box::default(),
                        _ => [0; RING].into(),
                    },
                })
                .collect(),
        }
    }

    /// µops that have one, in all.
    #[inline]
    #[must_use]
    pub fn taken(&self) -> u32 {
        self.taken.iter().sum()
    }

    /// Whether none may issue, since `width` µops could find no room.
    #[inline]
    #[must_use]
    pub fn full(&self, width: u32) -> bool {
        let own = self.taken.iter().zip(&self.sizes).take(self.own.len() + 1);
        own.fold(false, |full, (taken, size)| full | (taken + width > *size))
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

    #[inline]
    fn taken_of(&mut self, port: u8) -> &mut u32 {
        let scheduler = self.of[usize::from(port) % MAX_PORTS];
        &mut self.taken[usize::from(scheduler) % MAX_SCHEDULERS]
    }

    /// Those that start in `cycle` leave, or begin to be kept: `started` µops on `ports`.
    #[inline]
    pub fn step(&mut self, cycle: u64, ports: u32, started: u16) {
        let [common, others @ ..] = &mut self.taken;
        let mut started = u32::from(started);
        for (own, taken) in self.own.iter_mut().zip(others) {
            let mut leaving = (ports & own.ports).count_ones();
            started -= leaving;
            if let Some(kept) = own.started.get_mut(place(cycle)) {
                *kept = leaving as u8;
                leaving = own.kept_since(cycle.wrapping_sub(own.hold));
            }
            *taken -= leaving;
        }
        *common -= started;
    }
}

impl Own {
    /// µops that started in `cycle` and are kept.
    fn kept_since(&self, cycle: u64) -> u32 {
        self.started.get(place(cycle)).copied().unwrap_or(0).into()
    }
}

impl Part for Schedulers {
    fn reset(&mut self, _: &Moment) {
        let Self {
            of: _,
            sizes: _,
            taken,
            own,
        } = self;
        *taken = [0; MAX_SCHEDULERS];
        for own in own {
            own.started.fill(0);
        }
    }

    fn fingerprint(&self, at: &Moment, h: &mut Fingerprint) {
        let Self {
            of: _,
            sizes: _,
            taken,
            own,
        } = self;
        h.add_distances(taken.iter().take(own.len() + 1).map(|n| u64::from(*n)));
        for own in own {
            for n in 1..=own.hold {
                h.add(u64::from(own.kept_since(at.issue.wrapping_sub(n))));
            }
        }
    }
}

#[inline]
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

    #[test]
    fn loads_keep_their_entries_after_they_have_started() -> Result<(), &'static str> {
        let for_loads = Scheduler {
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
        schedulers.step(10, 0b101, 2);
        assert_eq!(schedulers.taken(), 11);
        for cycle in 11..15 {
            schedulers.step(cycle, 0, 0);
            assert!(schedulers.full(6));
        }
        schedulers.step(15, 0, 0);
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
        schedulers.step(0, 0b1101, 3);
        assert_eq!(schedulers.taken(), 1);
        assert!(!schedulers.full(13));
        Ok(())
    }
}
