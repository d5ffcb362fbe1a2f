//! Strides by the address of the load (Intel's "IP-based stride prefetcher", optimisation manual
//! section "Data Prefetching"; AMD's "L1 Stride").
//!
//! Which loads are watched: each, in a place that its address says, or those that miss the first level,
//! so that the many that hit push none out (Zen 5, probe `stride-beside`).
//!
//! A load whose addresses were the same distance apart twice asks for the line that it will need
//! `ahead` strides later. Distances below a line count until they leave it.

use mcad_isa::machine::hierarchy::StridePrefetch;

use super::Wanted;
use crate::pipeline::fold::Folding;

#[derive(Clone, Copy, Default, PartialEq)]
struct Entry {
    load: u64,
    last: u64,
    stride: i64,
    /// Times in a row that the distance was `stride`, at most 3.
    seen: u8,
    /// When it was used last.
    used: u64,
}

/// Where the loads that are watched are, by some bits of their address: a guess, since two may have
/// the same bits; who is not found by it is not watched any more.
const PLACES: usize = 4096;

fn bits(load: u64) -> usize {
    // Fibonacci hashing (Knuth, TAOCP 3, 6.4).
    (load.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize % PLACES
}

/// Loads that are watched.
#[derive(Clone)]
pub struct Stride {
    entries: Box<[Entry]>,
    most: u64,
    ahead: i64,
    /// Places of loads, where only those that miss are watched; else nothing.
    places: Box<[u16]>,
    count: u64,
}

impl Stride {
    /// None yet.
    #[must_use]
    pub fn new(p: &StridePrefetch) -> Self {
        let entries = p.entries.max(1).next_power_of_two() as usize;
        Self {
            entries: vec![Entry::default(); entries].into(),
            most: u64::from(p.most_bytes),
            ahead: i64::from(p.ahead.max(1)),
            places: vec![0; if p.misses_only { PLACES } else { 0 }].into(),
            count: 0,
        }
    }

    /// Shows its tables.
    pub fn fold(&mut self, folding: &mut Folding) {
        folding.table(&mut self.entries, Entry::default());
        folding.table(&mut self.places, 0);
    }

    /// The place of a load, or where one that is not watched yet comes.
    #[inline]
    fn place(&mut self, load: u64, missed: bool) -> Option<usize> {
        if self.places.is_empty() {
            return Some((load ^ load >> 8) as usize & (self.entries.len() - 1));
        }
        self.count += 1;
        let guess = &mut self.places[bits(load)];
        let place = usize::from(*guess);
        if self.entries[place].load == load {
            self.entries[place].used = self.count;
            return Some(place);
        }
        if !missed {
            return None;
        }
        let all = self.entries.iter().enumerate();
        let (oldest, _) = all.min_by_key(|(_, e)| e.used)?;
        *guess = oldest as u16;
        self.entries[oldest].used = self.count;
        Some(oldest)
    }

    /// The load at `load` accesses `address`, which the first level has or not.
    #[inline]
    pub fn access(&mut self, load: u64, address: u64, missed: bool) -> Wanted {
        let Some(place) = self.place(load, missed) else {
            return Wanted::NONE;
        };
        let entry = &mut self.entries[place];
        if entry.load != load {
            *entry = Entry {
                load,
                last: address,
                stride: 0,
                seen: 0,
                used: self.count,
            };
            return Wanted::NONE;
        }
        let stride = address.wrapping_sub(entry.last) as i64;
        entry.last = address;
        if stride == 0 {
            return Wanted::NONE;
        }
        if stride != entry.stride {
            entry.seen = entry.seen.saturating_sub(1);
            if entry.seen == 0 {
                entry.stride = stride;
                entry.seen = 1;
            }
            return Wanted::NONE;
        }
        if entry.seen < 3 {
            entry.seen += 1;
        }
        if entry.seen < 2 || stride.unsigned_abs() > self.most {
            return Wanted::NONE;
        }
        let target = address.wrapping_add_signed(stride * self.ahead);
        if target >> 6 == address >> 6 {
            return Wanted::NONE;
        }
        Wanted {
            first: target >> 6,
            step: 1,
            count: 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stride() -> Stride {
        of(false, 64)
    }

    fn of(misses_only: bool, entries: u32) -> Stride {
        Stride::new(&StridePrefetch {
            misses_only,
            entries,
            most_bytes: 2048,
            ahead: 2,
        })
    }

    #[test]
    fn the_third_access_of_a_stride_asks_for_two_further_on() {
        for step in [64i64, 256, -128, 2048] {
            let mut stride = stride();
            let at = |n: i64| 0x10_0000u64.wrapping_add_signed(n * step);
            assert_eq!(stride.access(7, at(0), true), Wanted::NONE);
            assert_eq!(stride.access(7, at(1), true), Wanted::NONE);
            let wanted = stride.access(7, at(2), true);
            assert_eq!(wanted.lines().collect::<Vec<_>>(), [at(4) >> 6], "{step}");
        }
    }

    #[test]
    fn long_strides_and_none_ask_for_nothing() {
        for step in [0, 4096] {
            let mut stride = stride();
            for n in 0..10 {
                assert_eq!(stride.access(7, n * step, true), Wanted::NONE);
            }
        }
    }

    #[test]
    fn one_odd_address_is_forgiven() {
        let mut stride = stride();
        for n in 0..5 {
            stride.access(7, n * 128, true);
        }
        assert_eq!(stride.access(7, 1 << 30, true), Wanted::NONE);
        stride.access(7, 5 * 128, true);
        assert_ne!(stride.access(7, 6 * 128, true), Wanted::NONE);
    }

    /// Lines asked for by `loads` loads that go on in turn by 320 bytes, each in a part of its own.
    fn asked(stride: &mut Stride, loads: u64, beside: u64) -> usize {
        let mut asked = 0;
        for turn in 0..8 {
            for load in 0..loads {
                let address = (load << 20) + turn * 320;
                asked += stride
                    .access(0x40_0000 + load * 7, address, true)
                    .lines()
                    .count();
                for other in 0..beside {
                    let known = stride.access(0x50_0000 + other * 5, other * 8, false);
                    assert_eq!(known, Wanted::NONE);
                }
            }
        }
        asked
    }

    #[test]
    fn loads_that_hit_push_out_none_that_miss() {
        assert_eq!(asked(&mut of(true, 16), 4, 200), 4 * 6);
        // Where each load is watched they do.
        assert_eq!(asked(&mut of(false, 16), 4, 200), 0);
    }

    #[test]
    fn of_those_that_miss_as_many_are_watched_as_there_are_places() {
        assert_eq!(asked(&mut of(true, 16), 16, 0), 16 * 6);
        assert_eq!(asked(&mut of(true, 16), 17, 0), 0);
    }
}
