//! Units that take the next µop only when they have done with the one before.
//!
//! They are reserved in program order: a younger µop that is ready earlier takes a gap only if it
//! fits.

use crate::pipeline::state::{Fingerprint, Moment, Part};
use mcad_isa::machine::params::PortLayout;

struct Divider {
    /// Port on which its µops start.
    port: u8,
    free: u64,
    /// Cycles in which it is taken, from and to.
    taken: Vec<(u64, u64)>,
}

/// The dividers of one core.
pub struct Dividers(Vec<Divider>);

impl Dividers {
    /// Idle ones.
    pub fn new(layout: &PortLayout) -> Self {
        let ports = layout.divider.iter();
        let idle = |port| Divider {
            port,
            free: 0,
            taken: Vec::new(),
        };
        Self(ports.map(idle).collect())
    }

    /// The divider of a µop that was assigned to `port`, which is the first one unless there is one
    /// on that port, and the port on which it starts.
    pub fn of(&self, port: u8) -> (usize, u8) {
        let place = self.0.iter().position(|divider| divider.port == port);
        let place = place.unwrap_or(0);
        (
            place,
            self.0.get(place).map_or(port, |divider| divider.port),
        )
    }

    /// Port of the first divider, where µops start that were assigned to another.
    pub fn first_port(&self) -> u8 {
        self.0.first().map_or(0, |divider| divider.port)
    }

    /// When a divider is taken for some of `cycles` from `at` on: the next cycle to try.
    pub fn conflict(&self, place: usize, at: u64, cycles: u64) -> Option<u64> {
        let divider = self.0.get(place)?;
        if at >= divider.free {
            return None;
        }
        let taken = divider.taken.iter();
        taken
            .filter(|(from, to)| at < *to && at + cycles > *from)
            .map(|(_, to)| *to)
            .max()
    }

    /// Takes a divider for `cycles` from `at` on; `now` is the current cycle.
    pub fn book(&mut self, place: usize, at: u64, cycles: u64, now: u64) {
        if let Some(divider) = self.0.get_mut(place) {
            divider.taken.retain(|(_, to)| *to > now);
            divider.taken.push((at, at + cycles));
            divider.free = divider.free.max(at + cycles);
        }
    }
}

impl Part for Dividers {
    fn reset(&mut self, _: &Moment) {
        for Divider {
            port: _,
            free,
            taken,
        } in &mut self.0
        {
            *free = 0;
            taken.clear();
        }
    }

    fn fingerprint(&self, at: &Moment, h: &mut Fingerprint) {
        for Divider {
            port: _,
            free,
            taken,
        } in &self.0
        {
            h.add_future(*free, at.issue);
            for &(from, to) in taken.iter().filter(|(_, to)| *to > at.issue) {
                h.add_future(from, at.issue);
                h.add(to - at.issue);
            }
        }
    }
}
