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

/// One kind of them, as a ring of the cycles in which they are given back.
#[derive(Default)]
struct Kind {
    /// A power of two of them; empty where there is no limit.
    given_back: Box<[u64]>,
    most: u64,
    taken: u64,
}

impl Kind {
    fn new(most: u32, at_once: u32) -> Self {
        match most {
            0 => Self::default(),
            most => Self {
                given_back: vec![0; (most + at_once).next_power_of_two() as usize].into(),
                most: most.into(),
                taken: 0,
            },
        }
    }

    #[inline(always)]
    fn place(&self, number: u64) -> usize {
        number as usize & self.given_back.len().wrapping_sub(1)
    }

    /// So many are taken, until `cycle`.
    #[inline(always)]
    fn take(&mut self, number: u8, cycle: u64) {
        for _ in 0..number {
            let place = self.place(self.taken);
            if let Some(entry) = self.given_back.get_mut(place) {
                *entry = cycle;
            }
            self.taken += 1;
        }
    }

    /// First cycle in which so many more can be had.
    #[inline(always)]
    fn room_for(&self, more: u64) -> u64 {
        let must_be_back = (self.taken + more).checked_sub(self.most);
        let last = must_be_back.and_then(|number| number.checked_sub(1));
        let entry = last.and_then(|number| self.given_back.get(self.place(number)));
        entry.map_or(0, |cycle| cycle + 1)
    }
}

/// All kinds.
#[derive(Default)]
pub struct Entries {
    integer: Kind,
    vector: Kind,
    loads: Kind,
    /// Whether flags take integer registers.
    flags: bool,
    /// Whether there is any limit.
    limited: bool,
}

impl Entries {
    /// Those of a core that is simulated with a whole program.
    #[must_use]
    pub fn of_program(p: &Rename) -> Self {
        let kind = |most| Kind::new(most, p.issue_width);
        Self {
            integer: kind(p.integer_registers),
            vector: kind(p.vector_registers),
            loads: kind(p.load_queue),
            flags: p.flags_take_registers,
            limited: p.integer_registers + p.vector_registers + p.load_queue > 0,
        }
    }

    /// A laminated µop takes this and retires in `cycle`, which never falls.
    #[inline(always)]
    pub fn take(&mut self, takes: Takes, cycle: u64) {
        if self.limited && takes != Takes::NONE {
            let flags = if self.flags { takes.flags() } else { 0 };
            self.integer.take(takes.integer() + flags, cycle);
            self.vector.take(takes.vector(), cycle);
            self.loads.take(takes.loads(), cycle);
        }
    }

    /// First cycle at whose start as many of each are left as a group of `width` takes if each takes one.
    #[inline(always)]
    #[must_use]
    pub fn room_for(&self, width: u64) -> u64 {
        if !self.limited {
            return 0;
        }
        let kinds = [&self.integer, &self.vector, &self.loads];
        kinds
            .map(|kind| kind.room_for(width))
            .into_iter()
            .fold(0, u64::max)
    }
}

impl Part for Entries {
    fn fold(&mut self, folding: &mut Folding) {
        for kind in [&mut self.integer, &mut self.vector, &mut self.loads] {
            folding.table(&mut kind.given_back, 0);
        }
    }

    fn reset(&mut self, _: &Moment) {
        for kind in [&mut self.integer, &mut self.vector, &mut self.loads] {
            kind.taken = 0;
        }
    }

    fn fingerprint(&self, at: &Moment, h: &mut Fingerprint) {
        for kind in [&self.integer, &self.vector, &self.loads] {
            let known = kind.taken.min(kind.most);
            let cycles = (kind.taken - known..kind.taken)
                .filter_map(|number| kind.given_back.get(kind.place(number)))
                .filter(|cycle| **cycle > at.issue);
            h.add_distances(cycles.map(|cycle| cycle - at.issue));
        }
    }
}
