//! Regions: which lines around the one that a load brings in are used soon after (AMD's "L1 Region":
//! "uses memory access history to fetch additional lines when the data access for a given instruction
//! tends to be followed by a consistent pattern of other accesses within a localized region"; after
//! "spatial footprints", Kumar & Wilkerson, ISCA 1998).
//!
//! The first access that is not near a region that is watched begins one. What is asked for near it
//! is its footprint, relative to its first line; when another region takes its place, the footprint
//! is learnt for the load that began it. The next region of that load asks for those lines at once.
//!
//! How it is on Zen 5, by the probes `region`, `regions` and `region-loads`: footprints are of the load
//! and relative; an access inside a region begins none; of two footprints that take turns at
//! random two thirds are foreseen, so each line has a count of its own; loads share places without
//! telling each other apart, since with 512 loads 78 % are foreseen and with 1 024 60 %, which is
//! what chance leaves of 2 048 places.

use mcad_isa::machine::hierarchy::RegionPrefetch;

use crate::pipeline::fold::Folding;

/// Most lines of a footprint.
const LINES: usize = 32;
/// Most that a line's count goes to.
const MOST: u8 = 3;

/// A region that is watched.
#[derive(Clone, Copy, Default, PartialEq)]
struct Watched {
    /// Line that began it, plus 1.
    line: u64,
    /// Place of the load that did.
    load: u32,
    /// Lines that were asked for, from the lowest on.
    footprint: u32,
    /// When it was used last.
    used: u64,
}

/// Lines to fetch: of bit n, `first + n`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    first: u64,
    bits: u32,
}

impl Footprint {
    /// The lines.
    pub fn lines(self) -> impl Iterator<Item = u64> {
        (0..LINES as u64)
            .filter(move |n| self.bits >> n & 1 != 0)
            .map(move |n| self.first.wrapping_add(n))
    }
}

/// The prefetcher.
#[derive(Clone)]
pub struct Region {
    watched: Box<[Watched]>,
    /// By load: how often of late each line was used.
    patterns: Box<[[u8; LINES]]>,
    below: u64,
    lines: u64,
    near: u64,
    count: u64,
    /// Cycles until what it wants is asked for.
    pub delay: u64,
    /// Where that comes: into the second level, not the first.
    pub second_level: bool,
}

impl Region {
    /// None yet.
    #[must_use]
    pub fn new(p: &RegionPrefetch) -> Self {
        Self {
            watched: vec![Watched::default(); p.watched.max(1) as usize].into(),
            patterns: vec![[0; LINES]; p.loads.max(1).next_power_of_two() as usize].into(),
            below: u64::from(p.below),
            lines: u64::from(p.below + p.above + 1).min(LINES as u64),
            near: u64::from(p.near),
            count: 0,
            delay: p.delay,
            second_level: p.second_level,
        }
    }

    /// Shows its tables.
    pub fn fold(&mut self, folding: &mut Folding) {
        folding.table(&mut self.watched, Watched::default());
        folding.table(&mut self.patterns, [0; LINES]);
    }

    /// The load at `load` misses the first level, or is the first to use what a prefetcher brought
    /// there.
    pub fn access(&mut self, load: u64, line: u64) -> Footprint {
        self.count += 1;
        let near = |w: &&mut Watched| w.line != 0 && (w.line - 1).abs_diff(line) <= self.near;
        if let Some(watched) = self.watched.iter_mut().find(near) {
            watched.used = self.count;
            let bit = line.wrapping_sub(watched.line - 1).wrapping_add(self.below);
            if bit < self.lines {
                watched.footprint |= 1 << bit;
            }
            return Footprint::default();
        }
        // Spread like chance over the places, as measured: Fibonacci hashing (Knuth, TAOCP 3, 6.4).
        let place = load.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let place = place as usize & (self.patterns.len() - 1);
        let new = Watched {
            line: line + 1,
            load: place as u32,
            footprint: 0,
            used: self.count,
        };
        // The one that goes is learnt first.
        if let Some(oldest) = self.watched.iter_mut().min_by_key(|w| w.used) {
            let gone = std::mem::replace(oldest, new);
            if gone.line != 0 {
                self.learn(gone);
            }
        }
        let counts = self.patterns[place].iter().enumerate();
        Footprint {
            first: line.wrapping_sub(self.below),
            bits: counts.fold(0, |bits, (n, count)| bits | u32::from(*count > 0) << n),
        }
    }

    fn learn(&mut self, gone: Watched) {
        for (n, count) in self.patterns[gone.load as usize].iter_mut().enumerate() {
            *count = match gone.footprint >> n & 1 {
                0 => count.saturating_sub(1),
                _ => (*count + 1).min(MOST),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(loads: u32, watched: u32) -> Region {
        Region::new(&RegionPrefetch {
            loads,
            watched,
            below: 4,
            above: 6,
            near: 8,
            delay: 0,
            second_level: false,
        })
    }

    /// Regions far apart, each entered by `load` and followed by lines at these distances; what is
    /// asked for in the last one, as distances.
    fn after(region: &mut Region, times: u64, load: u64, footprint: &[i64]) -> Vec<i64> {
        let mut asked = Vec::new();
        for n in 0..times {
            let line = 1000 + (region.count + n) * 1000;
            asked = (region.access(load, line).lines())
                .map(|l| l.wrapping_sub(line) as i64)
                .collect();
            for distance in footprint {
                let other = region.access(load + 4, line.wrapping_add_signed(*distance));
                assert_eq!(other, Footprint::default());
            }
        }
        asked
    }

    #[test]
    fn a_footprint_is_asked_for_once_it_was_seen() {
        for footprint in [&[3_i64][..], &[-4, 1, 6], &[-1], &[1, 2, 3, 4, 5, 6]] {
            let mut region = region(64, 1);
            assert_eq!(after(&mut region, 1, 7, footprint), [0; 0]);
            assert_eq!(after(&mut region, 1, 7, footprint), footprint);
        }
    }

    #[test]
    fn what_is_too_far_off_is_not_learnt_and_begins_no_region() {
        assert_eq!(after(&mut region(64, 1), 9, 7, &[-5, 7, 8]), [0; 0]);
    }

    #[test]
    fn it_is_learnt_when_the_region_is_given_up() {
        // The 33rd takes the first one's place, whose footprint is known then.
        let mut region = region(64, 32);
        assert_eq!(after(&mut region, 32, 7, &[2]), [0; 0]);
        assert_eq!(after(&mut region, 1, 7, &[2]), [2]);
    }

    #[test]
    fn loads_have_footprints_of_their_own() {
        let mut region = region(1 << 12, 1);
        for _ in 0..4 {
            after(&mut region, 1, 0x40_1000, &[2]);
            after(&mut region, 1, 0x40_1010, &[5]);
        }
        assert_eq!(after(&mut region, 1, 0x40_1000, &[]), [2]);
        assert_eq!(after(&mut region, 1, 0x40_1010, &[]), [5]);
    }

    #[test]
    fn what_stays_away_is_forgotten_after_as_many_times_as_were_counted() {
        let mut region = region(64, 1);
        after(&mut region, 10, 7, &[2]);
        for _ in 0..MOST {
            assert_eq!(after(&mut region, 1, 7, &[]), [2]);
        }
        // The region before is learnt when the next begins: one more.
        after(&mut region, 1, 7, &[]);
        assert_eq!(after(&mut region, 1, 7, &[]), [0; 0]);
    }

    #[test]
    fn as_many_loads_as_places_leave_what_chance_does() {
        let mut region = region(2048, 1);
        // Each has a footprint that no other has in its place, more often than not.
        let footprint = |load: u64| [1 + (load / 5 % 6) as i64];
        let loads = || (0..1024).map(|n| 0x40_0000 + n * 5);
        for _ in 0..4 {
            for load in loads() {
                after(&mut region, 1, load, &footprint(load));
            }
        }
        let mut foreseen = 0;
        for load in loads() {
            let asked = after(&mut region, 1, load, &footprint(load));
            foreseen += u32::from(asked == footprint(load));
        }
        // e^(-1024/2048) is 0.61; counts and equal footprints move it.
        assert!((450..800).contains(&foreseen), "{foreseen}");
    }
}
