//! The schedulers: how many µops wait in them, and when a µop is ready.

use crate::pipeline::state::{Fingerprint, Moment, Part};
use mcad_isa::machine::params::{Core, MAX_LOAD_HOLD, PortSet};

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

const RING: usize = MAX_LOAD_HOLD as usize + 1;

/// One of several schedulers, with the queue before it.
struct Own {
    ports: u32,
    size: u32,
    taken: u32,
}

/// Occupancy of the schedulers: one for all ports, perhaps one for loads, and those that some
/// ports have for themselves.
///
/// µops enter at issue and leave when they start, loads some cycles later where the core keeps
/// them until their result is certain.
pub struct Schedulers {
    size: u32,
    load_size: u32,
    /// Ports whose µops have a scheduler of their own.
    load_ports: PortSet,
    hold: u64,
    own: Vec<Own>,
    /// Ports of all of these.
    own_ports: u32,
    taken: u32,
    loads: u32,
    /// Loads that started in each of the last cycles.
    started: [u8; RING],
}

impl Schedulers {
    /// Empty ones.
    #[must_use]
    pub fn new(core: &Core) -> Self {
        let p = &core.execute;
        Self {
            size: p.scheduler,
            load_size: p.load_scheduler,
            load_ports: if p.load_scheduler > 0 {
                core.ports.load
            } else {
                PortSet::NONE
            },
            hold: u64::from(p.load_scheduler_hold.min(MAX_LOAD_HOLD)),
            own: (core.ports.schedulers.iter())
                .map(|scheduler| Own {
                    ports: scheduler.ports.0,
                    size: scheduler.entries + scheduler.queue,
                    taken: 0,
                })
                .collect(),
            own_ports: (core.ports.schedulers.iter()).fold(0, |all, s| all | s.ports.0),
            taken: 0,
            loads: 0,
            started: [0; RING],
        }
    }

    /// µops that have one, in all.
    #[inline]
    #[must_use]
    pub fn taken(&self) -> u32 {
        let own: u32 = self.own.iter().map(|own| own.taken).sum();
        self.taken + self.loads + own
    }

    /// Whether none may issue, since `width` µops could find no room.
    #[inline]
    #[must_use]
    pub fn full(&self, width: u32) -> bool {
        self.taken + width > self.size
            || !self.load_ports.is_empty() && self.loads + width > self.load_size
            || self.own.iter().any(|own| own.taken + width > own.size)
    }

    /// A µop of `port` issues.
    #[inline]
    pub fn enter(&mut self, port: u8) {
        if let Some(own) = self.own_of(port) {
            own.taken += 1;
            return;
        }
        match self.load_ports.0 & (1 << port) {
            0 => self.taken += 1,
            _ => self.loads += 1,
        }
    }

    /// One of those that start on `port` leaves at once.
    pub fn leave(&mut self, port: u8) {
        if let Some(own) = self.own_of(port) {
            own.taken -= 1;
            return;
        }
        match self.load_ports.0 & (1 << port) {
            0 => self.taken -= 1,
            _ => self.loads -= 1,
        }
    }

    #[inline]
    fn own_of(&mut self, port: u8) -> Option<&mut Own> {
        let port = 1 << port;
        if self.own_ports & port == 0 {
            return None;
        }
        self.own.iter_mut().find(|own| own.ports & port != 0)
    }

    /// Those that start in `cycle` leave, or begin to be kept: `started` µops on `ports`.
    #[inline]
    pub fn step(&mut self, cycle: u64, ports: u32, started: u16) {
        let mut started = started;
        let mut ports = ports;
        if self.own_ports != 0 {
            for own in &mut self.own {
                let leaving = (ports & own.ports).count_ones();
                own.taken -= leaving;
                started -= leaving as u16;
            }
            ports &= !self.own_ports;
        }
        if self.load_ports.is_empty() {
            self.taken -= u32::from(started);
            return;
        }
        let loads = (ports & self.load_ports.0).count_ones();
        self.taken -= u32::from(started) - loads;
        self.started[place(cycle)] = loads as u8;
        self.loads -= u32::from(self.started[place(cycle.wrapping_sub(self.hold))]);
    }
}

impl Part for Schedulers {
    fn reset(&mut self, _: &Moment) {
        let Self {
            size: _,
            load_size: _,
            load_ports: _,
            hold: _,
            own,
            own_ports: _,
            taken,
            loads,
            started,
        } = self;
        (*taken, *loads, *started) = (0, 0, [0; RING]);
        for own in own {
            own.taken = 0;
        }
    }

    fn fingerprint(&self, at: &Moment, h: &mut Fingerprint) {
        let Self {
            size: _,
            load_size: _,
            load_ports,
            hold,
            own,
            own_ports: _,
            taken,
            loads,
            started,
        } = self;
        h.add_distances(own.iter().map(|own| u64::from(own.taken)));
        h.add(u64::from(*taken) | u64::from(*loads) << 32);
        if !load_ports.is_empty() {
            for n in 1..=*hold {
                h.add(u64::from(started[place(at.issue.wrapping_sub(n))]));
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

    fn schedulers(load_scheduler: u32, hold: u32) -> Option<Schedulers> {
        let mut core = mcad_isa::machine::cpu("glc").ok()?.core.clone();
        let p = &mut core.execute;
        (p.scheduler, p.load_scheduler, p.load_scheduler_hold) = (16, load_scheduler, hold);
        Some(Schedulers::new(&core))
    }

    #[test]
    fn loads_keep_their_entries_after_they_have_started() -> Result<(), &'static str> {
        let mut schedulers = schedulers(16, 5).ok_or("no such CPU")?;
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
        let mut schedulers = schedulers(0, 5).ok_or("no such CPU")?;
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
