//! Queues before schedulers: µops wait there in program order until the scheduler has room.
//!
//! A scheduler holds the µops that entered it and have not started. No µop that enters later starts
//! before the last one entered, so what starts until then is known, and the time at which there is
//! room only moves forward.

use crate::pipeline::state::{Fingerprint, Moment, Part};
use mcad_isa::machine::params::PortLayout;

struct Queue {
    ports: u32,
    /// µops that the scheduler holds.
    entries: u64,
    /// Cycle in which the last one entered, not before the current one.
    at: u64,
    /// µops that entered so far.
    entered: u64,
    /// µops that started before `at`.
    left: u64,
}

/// The queues of one core.
pub struct Queues {
    queues: Vec<Queue>,
    /// Ports of all of these.
    ports: u32,
}

impl Queues {
    /// Empty ones.
    pub fn new(layout: &PortLayout) -> Self {
        let schedulers = layout.schedulers.iter();
        let queues: Vec<Queue> = schedulers
            .filter(|scheduler| scheduler.queue > 0)
            .map(|scheduler| Queue {
                ports: scheduler.ports.0,
                entries: u64::from(scheduler.entries),
                at: 0,
                entered: 0,
                left: 0,
            })
            .collect();
        Self {
            ports: queues.iter().fold(0, |all, queue| all | queue.ports),
            queues,
        }
    }

    /// Whether µops on `port` go through one.
    #[inline]
    pub fn has(&self, port: u8) -> bool {
        self.ports & (1 << port) != 0
    }

    /// µops start on `starting` in `cycle`, which is over.
    #[inline]
    pub fn end_cycle(&mut self, cycle: u64, starting: u32) {
        if self.ports == 0 {
            return;
        }
        for queue in self.queues.iter_mut().filter(|queue| queue.at <= cycle) {
            queue.left += u64::from((starting & queue.ports).count_ones());
            queue.at = cycle + 1;
        }
    }

    /// One of those that start on `port` leaves at once.
    pub fn leave(&mut self, port: u8) {
        if let Some(queue) = self.of(port) {
            queue.left += 1;
        }
    }

    /// The first cycle in which a µop on `port` that enters now may start, before `horizon`;
    /// `starting` has the ports on which µops start in a cycle.
    pub fn enter(&mut self, port: u8, horizon: u64, starting: impl Fn(u64) -> u32) -> u64 {
        let Some(queue) = self.of(port) else {
            return 0;
        };
        while queue.entered - queue.left >= queue.entries && queue.at < horizon {
            queue.left += u64::from((starting(queue.at) & queue.ports).count_ones());
            queue.at += 1;
        }
        queue.entered += 1;
        queue.at + 1
    }

    fn of(&mut self, port: u8) -> Option<&mut Queue> {
        let mut queues = self.queues.iter_mut();
        queues.find(|queue| queue.ports & (1 << port) != 0)
    }
}

impl Part for Queues {
    fn reset(&mut self, _: &Moment) {
        let Self { queues, ports: _ } = self;
        for queue in queues {
            (queue.at, queue.entered, queue.left) = (0, 0, 0);
        }
    }

    fn fingerprint(&self, at: &Moment, h: &mut Fingerprint) {
        let Self { queues, ports: _ } = self;
        for queue in queues {
            h.add(queue.entered - queue.left);
            h.add_future(queue.at, at.issue);
        }
    }
}
