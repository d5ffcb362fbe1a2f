//! Strides by the address of the load (Intel's "IP-based stride prefetcher", optimisation manual
//! section "Data Prefetching"; AMD's "L1 Stride").
//!
//! A load whose addresses were the same distance apart twice asks for the line that it will need
//! `ahead` strides later. Distances below a line count until they leave it.

use mcad_isa::machine::hierarchy::StridePrefetch;

use super::Wanted;

#[derive(Clone, Copy, Default)]
struct Entry {
    load: u64,
    last: u64,
    stride: i64,
    /// Times in a row that the distance was `stride`, at most 3.
    seen: u8,
}

/// Loads that are watched.
#[derive(Clone)]
pub struct Stride {
    entries: Box<[Entry]>,
    most: u64,
    ahead: i64,
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
        }
    }

    /// The load at `load` accesses `address`.
    #[inline]
    pub fn access(&mut self, load: u64, address: u64) -> Wanted {
        let place = (load ^ load >> 8) as usize & (self.entries.len() - 1);
        let entry = &mut self.entries[place];
        if entry.load != load {
            *entry = Entry {
                load,
                last: address,
                stride: 0,
                seen: 0,
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
        Stride::new(&StridePrefetch {
            entries: 64,
            most_bytes: 2048,
            ahead: 2,
        })
    }

    #[test]
    fn the_third_access_of_a_stride_asks_for_two_further_on() {
        for step in [64i64, 256, -128, 2048] {
            let mut stride = stride();
            let at = |n: i64| 0x10_0000u64.wrapping_add_signed(n * step);
            assert_eq!(stride.access(7, at(0)), Wanted::NONE);
            assert_eq!(stride.access(7, at(1)), Wanted::NONE);
            let wanted = stride.access(7, at(2));
            assert_eq!(wanted.lines().collect::<Vec<_>>(), [at(4) >> 6], "{step}");
        }
    }

    #[test]
    fn long_strides_and_none_ask_for_nothing() {
        for step in [0, 4096] {
            let mut stride = stride();
            for n in 0..10 {
                assert_eq!(stride.access(7, n * step), Wanted::NONE);
            }
        }
    }

    #[test]
    fn one_odd_address_is_forgiven() {
        let mut stride = stride();
        for n in 0..5 {
            stride.access(7, n * 128);
        }
        assert_eq!(stride.access(7, 1 << 30), Wanted::NONE);
        stride.access(7, 5 * 128);
        assert_ne!(stride.access(7, 6 * 128), Wanted::NONE);
    }
}
