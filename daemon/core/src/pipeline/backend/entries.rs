//! What µops take when they issue and give back when they retire, besides places in the re-order buffer: physical
//! registers, and entries of the load queue.
//!
//! A µop gives back the register that its own replaced, so that as many are taken as µops in flight write. What they
//! hold up is issue, as a full re-order buffer does (Wong, "Measuring Reorder Buffer Capacity", 2013). Single blocks
//! have no such limits.

use crate::pipeline::fold::Folding;
use crate::pipeline::state::{Fingerprint, Moment, Part};
use mcad_isa::machine::params::Rename;
use mcad_isa::program::Takes;

/// Bits for each kind in a number that counts all: integer registers, vector registers, loads. Differences of such numbers are right
/// though the numbers overflow.
const LANE: u32 = 21;
/// The highest bit of each.
const HIGHEST: u64 = 1 << (LANE - 1) | 1 << (2 * LANE - 1) | 1 << (3 * LANE - 1);

/// A µop that takes something.
#[derive(Clone, Copy, Default, PartialEq)]
struct Entry {
    /// The cycle in which it gives that back, which never falls.
    until: u64,
    /// What was taken up to this one.
    taken: u64,
}

/// All that is in flight.
#[derive(Default)]
pub struct Entries {
    /// A power of two of µops, more than can be in flight; empty where there is no limit.
    ring: Box<[Entry]>,
    /// What counts of what a µop takes, by the bits of [`Takes`].
    counted: Box<[u64]>,
    /// Added to what is in flight it has a lane's highest bit where there is no room for a group's.
    missing: u64,
    /// What was taken, and by how many µops; and what of that is known to be given back.
    taken: u64,
    count: u64,
    back: u64,
    given_back: u64,
}

impl Entries {
    /// Those of a core that is simulated with a whole program.
    #[must_use]
    pub fn of_program(p: &Rename) -> Self {
        let most = [p.integer_registers, p.vector_registers, p.load_queue];
        if most == [0; 3] {
            return Self::default();
        }
        let lanes = |of: [u64; 3]| (0..).zip(of).map(|(n, of)| of << (n * LANE)).sum();
        let counted = |takes: u8| {
            let takes = Takes::from_bits(takes);
            let flags = if p.flags_take_registers {
                takes.flags()
            } else {
                0
            };
            let of = [takes.integer() + flags, takes.vector(), takes.loads()];
            let of = std::array::from_fn(|n| if most[n] > 0 { u64::from(of[n]) } else { 0 });
            lanes(of)
        };
        // A group has room if each of its µops finds one of each.
        let missing = most.map(|most| match most {
            0 => 0,
            most => (1 << (LANE - 1)) - 1 - u64::from(most.saturating_sub(p.issue_width)),
        });
        let in_flight = most.iter().sum::<u32>() + 4 * p.issue_width;
        Self {
            ring: vec![Entry::default(); in_flight.next_power_of_two() as usize].into(),
            counted: (0..=u8::MAX).map(counted).collect(),
            missing: lanes(missing),
            ..Self::default()
        }
    }

    #[inline(always)]
    fn place(&self, number: u64) -> usize {
        number as usize & self.ring.len().wrapping_sub(1)
    }

    /// A laminated µop takes this and retires in `cycle`, which never falls.
    #[inline(always)]
    pub fn take(&mut self, takes: Takes, cycle: u64) {
        let counted = self.counted.get(usize::from(takes.bits()));
        let counted = counted.copied().unwrap_or(0);
        if counted == 0 {
            return;
        }
        self.taken = self.taken.wrapping_add(counted);
        let place = self.place(self.count);
        if let Some(entry) = self.ring.get_mut(place) {
            *entry = Entry {
                until: cycle,
                taken: self.taken,
            };
        }
        self.count += 1;
        debug_assert!(self.count - self.back <= self.ring.len() as u64);
    }

    #[inline(always)]
    fn is_full(&self) -> bool {
        (self.taken.wrapping_sub(self.given_back)).wrapping_add(self.missing) & HIGHEST != 0
    }

    /// First cycle behind `now` at whose start as many of each are left as a group takes if each of its µops takes one.
    #[inline(always)]
    #[must_use]
    pub fn room(&mut self, now: u64) -> u64 {
        match self.is_full() {
            false => 0,
            true => self.room_late(now),
        }
    }

    #[inline(never)]
    fn room_late(&mut self, now: u64) -> u64 {
        let mut room = 0;
        while self.back < self.count {
            let entry = (self.ring.get(self.place(self.back))).copied();
            let Entry { until, taken } = entry.unwrap_or_default();
            // Those that are back by now are passed for the next time.
            if until > now {
                if !self.is_full() {
                    break;
                }
                room = until + 1;
            }
            (self.given_back, self.back) = (taken, self.back + 1);
        }
        room
    }
}

impl Part for Entries {
    fn fold(&mut self, folding: &mut Folding) {
        folding.table(&mut self.ring, Entry::default());
    }

    fn reset(&mut self, _: &Moment) {
        (self.taken, self.count) = (0, 0);
        (self.given_back, self.back) = (0, 0);
    }

    fn fingerprint(&self, at: &Moment, h: &mut Fingerprint) {
        let known = (self.back..self.count).filter_map(|number| self.ring.get(self.place(number)));
        let waiting = known.filter(|entry| entry.until > at.issue);
        h.add_distances(
            waiting
                .flat_map(|entry| [entry.until - at.issue, self.taken.wrapping_sub(entry.taken)]),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcad_isa::machine;

    /// The first cycle behind `now` in which so many of each are left, by looking at all that were taken.
    fn room(taken: &[(u8, u64)], p: &Rename, now: u64) -> u64 {
        let most = [p.integer_registers, p.vector_registers, p.load_queue];
        let is_room = |at: u64| {
            let mut in_flight = [0; 3];
            for (takes, _) in taken.iter().filter(|(_, until)| *until >= at) {
                let takes = Takes::from_bits(*takes);
                in_flight[0] += u32::from(takes.integer() + takes.flags());
                in_flight[1] += u32::from(takes.vector());
                in_flight[2] += u32::from(takes.loads());
            }
            let mut kinds = most.iter().zip(in_flight);
            kinds.all(|(most, in_flight)| *most == 0 || in_flight + p.issue_width <= *most)
        };
        (now + 1..).find(|at| is_room(*at)).unwrap_or(u64::MAX)
    }

    #[test]
    fn there_is_room_when_enough_has_been_given_back() {
        for limits in [[30, 24, 18], [30, 0, 0], [0, 0, 18], [24, 40, 0]] {
            let mut p = machine::cpu("glc").unwrap().core.rename.clone();
            [p.integer_registers, p.vector_registers, p.load_queue] = limits;
            p.flags_take_registers = true;
            let mut entries = Entries::of_program(&p);
            let (mut taken, mut now, mut until, mut random) = (Vec::new(), 0u64, 0, 1u64);
            for _ in 0..20_000 {
                let first = (now + 1).max(entries.room(now));
                assert_eq!(first, room(&taken, &p, now), "{limits:?}");
                now = first;
                for _ in 0..p.issue_width {
                    random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                    // At most one of each, now and then for long.
                    let takes = (random >> 40) as u8 & 0b0101_0101;
                    let long = if random >> 58 == 0 { 60 } else { 2 };
                    until = until.max(now + 3 + (random >> 33 & long));
                    entries.take(Takes::from_bits(takes), until);
                    taken.push((takes, until));
                }
                let waiting = taken.iter().position(|(_, until)| *until >= now);
                taken.drain(..waiting.unwrap_or(taken.len()));
            }
        }
    }
}
