//! The load queue of cores in which a load takes an entry when it starts and not before: it keeps those that went ahead of
//! older loads, until these have their data, too. What finds no entry waits in its scheduler.
//!
//! AMD's load queues are such (docs/ZEN4.md, "Registers and loads in flight"): the oldest load without data always gets an entry, so
//! that loads which have not started hold nobody up.

use crate::pipeline::fold::Folding;
use crate::pipeline::state::{Fingerprint, Moment, Part};
use mcad_isa::machine::params::Core;

/// A load that has started.
#[derive(Clone, Copy, Default, PartialEq)]
struct Load {
    started: u64,
    /// When it and all older ones have their data, which never falls from load to load.
    leaves: u64,
}

/// The loads that may be in it, in program order.
#[derive(Default)]
pub struct StartedLoads {
    /// A power of two of them, no less than loads that can be in flight; empty where there is no limit.
    loads: Box<[Load]>,
    entries: u64,
    count: u64,
}

impl StartedLoads {
    /// The queue of a core that is simulated with a whole program.
    #[must_use]
    pub fn of_program(core: &Core) -> Self {
        match core.execute.started_loads {
            0 => Self::default(),
            entries => {
                let in_flight = core.retire.reorder_buffer.max(entries) + core.rename.issue_width;
                Self {
                    loads: vec![Load::default(); in_flight.next_power_of_two() as usize].into(),
                    entries: entries.into(),
                    count: 0,
                }
            }
        }
    }

    /// The load so many before the next one.
    #[inline(always)]
    fn back(&self, by: u64) -> Load {
        let place = self.count.wrapping_sub(by) as usize & self.loads.len().wrapping_sub(1);
        self.loads.get(place).copied().unwrap_or_default()
    }

    /// First cycle from `ready` on in which the next load finds an entry.
    #[inline(always)]
    #[must_use]
    pub fn room(&self, ready: u64) -> u64 {
        if self.count < self.entries || self.back(self.entries).leaves <= ready {
            return ready;
        }
        self.room_late(ready)
    }

    #[inline(never)]
    fn room_late(&self, ready: u64) -> u64 {
        let known = self.count.min(self.loads.len() as u64);
        let mut at = ready;
        loop {
            let (mut taken, mut next) = (0, u64::MAX);
            for by in 1..=known {
                let load = self.back(by);
                if load.leaves <= at {
                    break;
                }
                taken += u64::from(load.started <= at);
                next = load.leaves;
            }
            if taken < self.entries {
                return at;
            }
            at = next;
        }
    }

    /// The next load starts in a cycle, and has its data in another.
    #[inline(always)]
    pub fn start(&mut self, started: u64, there: u64) {
        if self.entries == 0 {
            return;
        }
        let leaves = match self.count {
            0 => there,
            _ => self.back(1).leaves.max(there),
        };
        let place = self.count as usize & self.loads.len().wrapping_sub(1);
        if let Some(load) = self.loads.get_mut(place) {
            *load = Load { started, leaves };
        }
        self.count += 1;
    }
}

impl Part for StartedLoads {
    fn fold(&mut self, folding: &mut Folding) {
        folding.table(&mut self.loads, Load::default());
    }

    fn reset(&mut self, _: &Moment) {
        self.count = 0;
    }

    fn fingerprint(&self, at: &Moment, h: &mut Fingerprint) {
        let known = self.count.min(self.loads.len() as u64);
        let loads = (1..=known).map(|by| self.back(by));
        let waiting = loads.take_while(|load| load.leaves > at.issue);
        h.add_distances(waiting.flat_map(|load| {
            [
                load.started.saturating_sub(at.issue),
                load.leaves - at.issue,
            ]
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A queue of eight entries.
    fn queue() -> StartedLoads {
        StartedLoads {
            loads: vec![Load::default(); 64].into(),
            entries: 8,
            count: 0,
        }
    }

    #[test]
    fn loads_ahead_of_one_that_waits_keep_their_entries() {
        for waiting in [0, 1, 5] {
            let mut queue = queue();
            // These start in cycle 100.
            for n in 0..waiting {
                queue.start(100 + 4 * n, 104 + 4 * n);
            }
            for n in 0..8 {
                assert_eq!(queue.room(10 + n), 10 + n);
                queue.start(10 + n, 14 + n);
            }
            let all = match waiting {
                // Each had left when the last started.
                0 => 20,
                waiting => 100 + 4 * waiting,
            };
            assert_eq!(queue.room(20), all, "{waiting} that wait");
            // Those that wait hold nobody up by themselves.
            assert_eq!(queue.room(9), 9);
        }
    }

    #[test]
    fn without_a_limit_there_is_room() {
        let mut queue = StartedLoads::default();
        for n in 0..100 {
            assert_eq!(queue.room(n), n);
            queue.start(n, 1000);
        }
    }
}
