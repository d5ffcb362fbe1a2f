//! Regions of interest: how long each stay in a range of addresses took, calls out of it included.
//!
//! A stay begins when a block in the range executes and ends when one outside executes that is
//! not deeper in calls than the stay's beginning.

use hdrhistogram::Histogram;
use mcad_proto::event::RegionDef;

use super::dictionary::{Ending, TranslatedBlock};
use mcad_report::RegionReport;

/// Aggregated stays in one region.
#[derive(Clone, Debug)]
pub struct Stays {
    count: u64,
    cycles: u64,
    instructions: u64,
    /// There from the first stay on: threads have one for each region, and few have stays.
    histogram: Option<Histogram<u64>>,
    min: u64,
    max: u64,
}

impl Default for Stays {
    fn default() -> Self {
        Self {
            count: 0,
            cycles: 0,
            instructions: 0,
            histogram: None,
            min: u64::MAX,
            max: 0,
        }
    }
}

impl Stays {
    fn add(&mut self, cycles: u64, instructions: u64) {
        self.count += 1;
        self.cycles += cycles;
        self.instructions += instructions;
        self.min = self.min.min(cycles);
        self.max = self.max.max(cycles);
        if self.histogram.is_none() {
            // Three digits: the median is within 0.1 %.
            self.histogram = Histogram::new(3).ok();
        }
        if let Some(histogram) = &mut self.histogram {
            histogram.saturating_record(cycles);
        }
    }

    /// Takes another thread's stays in.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.cycles += other.cycles;
        self.instructions += other.instructions;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        match (&mut self.histogram, &other.histogram) {
            // Both grow by themselves.
            (Some(mine), Some(theirs)) => drop(mine.add(theirs)),
            (mine @ None, Some(theirs)) => *mine = Some(theirs.clone()),
            (_, None) => {}
        }
    }

    /// The report of the region called `name`.
    #[must_use]
    pub fn report(&self, name: &str) -> RegionReport {
        let some = self.count > 0;
        let median = self
            .histogram
            .as_ref()
            .map_or(0, |h| h.value_at_quantile(0.5));
        RegionReport {
            name: name.to_owned(),
            count: self.count,
            cycles: self.cycles,
            instructions: self.instructions,
            min: if some { self.min } else { 0 },
            median: if some {
                median.clamp(self.min, self.max)
            } else {
                0
            },
            max: self.max,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Stay {
    depth: i64,
    cycles: u64,
    instructions: u64,
}

/// Follows one thread through the regions.
#[derive(Clone, Debug, Default)]
pub struct Tracker {
    depth: i64,
    open: Vec<Option<Stay>>,
    /// Stays by region.
    pub stays: Vec<Stays>,
}

impl Tracker {
    /// A block retired after `cycles` of its own.
    pub fn block(
        &mut self,
        regions: &[RegionDef],
        block: &TranslatedBlock,
        cycles: u64,
        instructions: u64,
    ) {
        if self.stays.len() < regions.len() {
            self.stays.resize_with(regions.len(), Stays::default);
            self.open.resize(regions.len(), None);
        }
        for ((region, open), stays) in regions.iter().zip(&mut self.open).zip(&mut self.stays) {
            let inside = region.start <= block.address && block.address < region.end;
            match open {
                Some(stay) if !inside && self.depth <= stay.depth => {
                    stays.add(stay.cycles, stay.instructions);
                    *open = None;
                }
                Some(stay) => {
                    stay.cycles += cycles;
                    stay.instructions += instructions;
                }
                None if inside => {
                    *open = Some(Stay {
                        depth: self.depth,
                        cycles,
                        instructions,
                    });
                }
                None => {}
            }
        }
        match block.ending {
            Ending::Call => self.depth += 1,
            Ending::Return => self.depth -= 1,
            Ending::Plain => {}
        }
    }

    /// Number of the stay in the first region that is going on, from 0.
    #[must_use]
    pub fn stay(&self) -> Option<u64> {
        match (self.open.first(), self.stays.first()) {
            (Some(Some(_)), Some(stays)) => Some(stays.count),
            _ => None,
        }
    }

    /// The thread ended: stays that are open end with it.
    pub fn end(&mut self) {
        for (open, stays) in self.open.iter_mut().zip(&mut self.stays) {
            if let Some(stay) = open.take() {
                stays.add(stay.cycles, stay.instructions);
            }
        }
    }
}
