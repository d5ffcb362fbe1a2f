//! What befalls the instructions of a program beside their order: misses, mispredictions, taken
//! branches. Counted by instruction ([`Site`]) for all sizes and predictors together, and, for
//! whoever steps the program, one by one ([`Event`]).

use serde::{Deserialize, Serialize};

use crate::distance::{Counts, Misses};
use crate::machine::Machine;
use crate::predictors::FALLIBLE;
use crate::uses::{self, CLASSES, Uses};

/// Events of an instruction of a piece of code, over all its executions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site {
    /// The piece.
    pub block: u32,
    /// The instruction in it.
    pub instruction: u32,
    /// Its loads that missed, by in how many sizes; the first count is left at 0.
    pub data: Counts<u64>,
    /// Fetches of its line that missed, likewise.
    pub fetch: Counts<u64>,
    /// Its loads that missed somewhere, by group and by how far behind their value was read first.
    pub uses: Uses<u64>,
    /// How often it jumped.
    pub taken: u64,
    /// How often each predictor was wrong about it.
    pub wrong: [u64; FALLIBLE],
    /// How often each predictor was right about it and it jumped.
    pub taken_rightly: [u64; FALLIBLE],
}

/// What befell a [`Site`] since the counts were taken over: in one line of a cache, for large programs have
/// more sites than caches hold.
#[derive(Clone, Debug, Default)]
#[repr(align(64))]
pub struct Tally {
    data: Counts<u8>,
    fetch: Counts<u8>,
    taken: u8,
    wrong: Bytewise,
    taken_rightly: Bytewise,
}

/// A count for each predictor, a byte each.
#[derive(Clone, Copy, Debug, Default)]
struct Bytewise(u64);

/// By bits of predictors: a one in the byte of each.
const BYTES: [u64; 1 << FALLIBLE] = {
    let mut all = [0; 1 << FALLIBLE];
    let mut bits = 0;
    while bits < all.len() {
        let mut n = 0;
        while n < FALLIBLE {
            all[bits] |= (bits as u64 >> n & 1) << (8 * n);
            n += 1;
        }
        bits += 1;
    }
    all
};

impl Bytewise {
    /// Counts one for each of these predictors; whether a count has come half way to its end.
    #[inline]
    fn count(&mut self, which: u8) -> bool {
        let which = usize::from(which) % BYTES.len();
        self.0 = self.0.wrapping_add(BYTES[which]);
        self.0 & 0x8080_8080_8080_8080 != 0
    }

    fn counts(self) -> [u8; 8] {
        self.0.to_le_bytes()
    }
}

impl Tally {
    /// Counts an event; whether the counts are to be taken over before the next one.
    #[inline]
    #[must_use]
    pub fn book(&mut self, event: &Event) -> bool {
        let count = |counts: &mut Counts<u8>, misses: Misses| {
            let count = counts.get_mut(usize::from(misses));
            count.filter(|_| misses > 0).is_some_and(|count| {
                *count = count.wrapping_add(1);
                *count == u8::MAX
            })
        };
        let mut full = count(&mut self.data, event.data);
        full |= count(&mut self.fetch, event.fetch);
        if event.taken || event.wrong != 0 {
            self.taken = self.taken.wrapping_add(event.taken.into());
            full |= self.taken == u8::MAX;
            full |= self.wrong.count(event.wrong);
            if event.taken {
                full |= self.taken_rightly.count(!event.wrong);
            }
        }
        full
    }
}

impl Site {
    /// Takes counts over.
    pub fn take(&mut self, tally: &mut Tally) {
        let add = |sums: &mut [u64], counts: &[u8]| {
            for (sum, count) in sums.iter_mut().zip(counts) {
                *sum += u64::from(*count);
            }
        };
        add(&mut self.data, &tally.data);
        add(&mut self.fetch, &tally.fetch);
        self.taken += u64::from(tally.taken);
        add(&mut self.wrong, &tally.wrong.counts());
        add(&mut self.taken_rightly, &tally.taken_rightly.counts());
        *tally = Tally::default();
    }

    /// Counts jumps that all predictors foresaw.
    pub fn book_jumps(&mut self, count: u64) {
        self.taken += count;
        for rightly in &mut self.taken_rightly {
            *rightly += count;
        }
    }
}

/// Events of one execution of an instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The piece's place in the order of execution.
    pub execution: u32,
    /// The instruction in the piece.
    pub instruction: u32,
    /// In how many sizes its loads missed.
    pub data: Misses,
    /// In how many the fetch of its line did.
    pub fetch: Misses,
    /// It jumped.
    pub taken: bool,
    /// Which predictors were wrong about it, a bit each.
    pub wrong: u8,
}

/// What events cost on a machine, in cycles.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    l1i: Option<usize>,
    l1d: Option<usize>,
    l2: Option<usize>,
    l2_latency: u32,
    memory_latency: u32,
    predictor: Option<usize>,
    depth: u32,
    taken: Option<u32>,
}

/// What of a machine decides which events it has, and which of them make values late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sort {
    l1i: Option<usize>,
    l1d: Option<usize>,
    l2: Option<usize>,
    predictor: Option<usize>,
    taken: bool,
    /// A load that the second level serves takes longer than one that the first one does.
    pub second_late: bool,
    /// One that memory serves does.
    pub memory_late: bool,
}

/// What an event costs: cycles by which a load's result comes later, and cycles without issue
/// before and behind the instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// A load's result comes so much later.
    pub load: u32,
    /// Nothing issues for so long before it.
    pub before: u32,
    /// Nothing issues for so long behind it; absent: what follows may issue in the same cycle.
    pub behind: Option<u32>,
    /// Which of both `behind` is.
    pub mispredicted: bool,
}

impl Costs {
    /// Of a machine whose sizes were checked.
    #[must_use]
    pub fn new(machine: &Machine) -> Self {
        let size = |kib: Option<u32>| kib.and_then(|kib| crate::distance::size(kib).ok());
        Self {
            l1i: size(machine.l1i_kib),
            l1d: size(machine.l1d_kib),
            l2: size(machine.l2_kib),
            l2_latency: u32::from(machine.l2_latency),
            memory_latency: u32::from(machine.memory_latency),
            predictor: machine.predictor.fallible(),
            depth: u32::from(machine.depth),
            taken: machine.taken_bubble.map(u32::from),
        }
    }

    /// What decides which events there are.
    #[must_use]
    pub fn sort(&self) -> Sort {
        Sort {
            l1i: self.l1i,
            l1d: self.l1d,
            l2: self.l2,
            predictor: self.predictor,
            taken: self.taken.is_some(),
            second_late: self.l2_latency > 0,
            memory_late: self.memory_latency > 0,
        }
    }

    /// Cycles of a miss beyond those of a hit.
    fn miss(&self, first: Option<usize>, misses: Misses) -> u32 {
        let missed = |size: Option<usize>| size.is_some_and(|n| usize::from(misses) > n);
        match (missed(first), self.l2) {
            (false, _) => 0,
            (true, Some(n)) if usize::from(misses) <= n => self.l2_latency,
            (true, _) => self.memory_latency,
        }
    }

    /// What an event costs.
    #[must_use]
    pub fn of(&self, event: &Event) -> Cost {
        let mispredicted = self.predictor.is_some_and(|n| event.wrong >> n & 1 != 0);
        Cost {
            load: self.miss(self.l1d, event.data),
            before: self.miss(self.l1i, event.fetch),
            behind: match mispredicted {
                true => Some(self.depth),
                false if event.taken => self.taken,
                false => None,
            },
            mispredicted,
        }
    }

    /// How many of the counted accesses miss in a first level and hit in the second, and how many
    /// miss in both.
    fn split(&self, first: Option<usize>, counts: &Counts<f64>) -> (f64, f64) {
        let (mut second, mut memory) = (0.0, 0.0);
        let Some(first) = first else {
            return (0.0, 0.0);
        };
        for (misses, count) in counts.iter().enumerate().skip(first + 1) {
            if self.l2.is_some_and(|n| misses <= n) {
                second += count;
            } else {
                memory += count;
            }
        }
        (second, memory)
    }

    /// Events that cost something on this machine, out of those counted.
    #[must_use]
    pub fn events(&self, counted: &Counted) -> Costly {
        let (data_second, data_memory) = self.split(self.l1d, &counted.data);
        let (fetch_second, fetch_memory) = self.split(self.l1i, &counted.fetch);
        let part = |all: &[f64; FALLIBLE], else_: f64| match self.predictor {
            Some(n) => all.get(n).copied().unwrap_or(0.0),
            None => else_,
        };
        Costly {
            data_second,
            data_memory,
            fetch_second,
            fetch_memory,
            mispredicted: part(&counted.wrong, 0.0),
            taken: match self.taken {
                Some(_) => part(&counted.taken_rightly, counted.taken),
                None => 0.0,
            },
        }
    }

    /// By class of distance: which part of the misses that cost something is felt there or before.
    #[must_use]
    pub fn felt(&self, counted: &Counted) -> [f64; CLASSES] {
        let smallest = self.l1d.map_or(0, |n| n as Misses + 1);
        let groups = counted.uses.get(uses::group(smallest)..).unwrap_or(&[]);
        let of = |class: usize| groups.iter().filter_map(move |g| g.get(class)).sum::<f64>();
        let all: f64 = (0..CLASSES).map(of).sum();
        let mut felt = [1.0; CLASSES];
        let mut sum = 0.0;
        for (class, felt) in felt.iter_mut().enumerate() {
            sum += of(class);
            if all > 0.0 {
                *felt = sum / all;
            }
        }
        felt
    }

    /// Cycles of misses that the second level serves, and of those that memory does.
    #[must_use]
    pub fn latencies(&self) -> (u32, u32) {
        (self.l2_latency, self.memory_latency)
    }

    /// Cycles without issue behind a mispredicted branch, and behind one that was foreseen and taken.
    #[must_use]
    pub fn bubbles(&self) -> (u32, u32) {
        (self.depth, self.taken.unwrap_or(0))
    }
}

/// Sums of [`Site`]s, in parts of events.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counted {
    data: Counts<f64>,
    fetch: Counts<f64>,
    uses: Uses<f64>,
    taken: f64,
    wrong: [f64; FALLIBLE],
    taken_rightly: [f64; FALLIBLE],
}

impl Counted {
    /// Adds a share of a site's events.
    pub fn add(&mut self, site: &Site, share: f64) {
        let add = |to: &mut [f64], from: &[u64]| {
            for (to, from) in to.iter_mut().zip(from) {
                *to += *from as f64 * share;
            }
        };
        add(&mut self.data, &site.data);
        add(&mut self.fetch, &site.fetch);
        for (to, from) in self.uses.iter_mut().zip(&site.uses) {
            add(to, from);
        }
        add(&mut self.wrong, &site.wrong);
        add(&mut self.taken_rightly, &site.taken_rightly);
        self.taken += site.taken as f64 * share;
    }
}

/// Events that cost something on one machine.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Costly {
    /// Loads that miss in the first level and hit in the second.
    pub data_second: f64,
    /// Loads that memory serves.
    pub data_memory: f64,
    /// Fetches that the second level serves.
    pub fetch_second: f64,
    /// Fetches that memory serves.
    pub fetch_memory: f64,
    /// Mispredicted branches.
    pub mispredicted: f64,
    /// Taken branches that were foreseen, where they cost something.
    pub taken: f64,
}

impl Costly {
    /// There are none.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Each count by its counterpart.
    fn each(&self, other: &Self, of: impl Fn(f64, f64) -> f64) -> Self {
        Self {
            data_second: of(self.data_second, other.data_second),
            data_memory: of(self.data_memory, other.data_memory),
            fetch_second: of(self.fetch_second, other.fetch_second),
            fetch_memory: of(self.fetch_memory, other.fetch_memory),
            mispredicted: of(self.mispredicted, other.mispredicted),
            taken: of(self.taken, other.taken),
        }
    }

    /// Adds others.
    pub fn add(&mut self, other: &Self) {
        *self = self.each(other, |a, b| a + b);
    }

    /// How many times as many as others there are; as many where there are no others.
    #[must_use]
    pub fn over(&self, other: &Self) -> Self {
        self.each(other, |a, b| if b > 0.0 { a / b } else { 1.0 })
    }

    /// So many times as many.
    #[must_use]
    pub fn times(&self, factors: &Self) -> Self {
        self.each(factors, |a, b| a * b)
    }

    /// For each of so many executions.
    #[must_use]
    pub fn per(&self, executions: f64) -> Self {
        self.each(self, |n, _| n / executions.max(1.0))
    }
}
