//! The instruction cache: which lines are there, and what a miss costs.
//!
//! One miss at a time. The group that missed is handed on as soon as it has come; everything else
//! waits until the line is complete. While a line is written into the cache nothing can be
//! fetched; before that, fetch may go on elsewhere after a redirection.

use mcad_isa::machine::inorder::InstructionCache;

/// State of a cache.
#[derive(Debug)]
pub struct ICache {
    p: InstructionCache,
    /// Lines by set and way.
    lines: Vec<Option<u64>>,
    /// By set: the tree bits of pseudo-LRU; a bit is set when its left half was used last.
    order: Vec<u64>,
    sets: u64,
    /// The miss under way, or the last one.
    fill: Option<Fill>,
}

#[derive(Clone, Copy, Debug)]
struct Fill {
    /// Cycle in which the miss was known.
    start: u64,
    /// Cycle in which fetch can go on.
    end: u64,
}

/// How a fetch went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// Cycle from which the group counts as fetched.
    pub start: u64,
    /// Earliest start of the fetch after it.
    pub next: u64,
}

impl ICache {
    /// An empty cache.
    #[must_use]
    pub fn new(p: &InstructionCache) -> Self {
        let sets = (p.size / p.line / p.ways).max(1);
        Self {
            p: p.clone(),
            lines: vec![None; (sets * p.ways) as usize],
            order: vec![0; sets as usize],
            sets: u64::from(sets),
            fill: None,
        }
    }

    /// Earliest start of a fetch that was redirected in `cycle`.
    #[must_use]
    pub fn redirected(&self, cycle: u64) -> u64 {
        let Some(fill) = self.fill.filter(|f| f.start < cycle && cycle < f.end) else {
            return cycle;
        };
        // Fetch was waiting, so the request is there a cycle later.
        let writing = fill.end - u64::from(self.p.writing);
        if cycle + 1 < writing {
            cycle + 1
        } else {
            fill.end
        }
    }

    /// Fetches from `address`, starting in `cycle`.
    pub fn fetch(&mut self, address: u64, cycle: u64) -> Fetched {
        let line = address / u64::from(self.p.line);
        let set = (line % self.sets) as usize;
        let ways = self.p.ways as usize;
        let detect = u64::from(self.p.detect);
        let lines = self
            .lines
            .get_mut(set * ways..(set + 1) * ways)
            .unwrap_or(&mut []);
        if let Some(way) = lines.iter().position(|l| *l == Some(line)) {
            self.touch(set, way);
            return Fetched {
                start: cycle,
                next: cycle + 1,
            };
        }
        let way = match lines.iter().position(Option::is_none) {
            Some(way) => way,
            None => self.oldest(set),
        };
        if let Some(entry) = self.lines.get_mut(set * ways + way) {
            *entry = Some(line);
        }
        self.touch(set, way);
        let mut start = cycle + detect;
        if let Some(fill) = self.fill.filter(|f| start < f.end) {
            // A miss under a miss waits for its end and is fetched anew.
            start = fill.end + detect;
        }
        let end = start + u64::from(self.p.complete);
        self.fill = Some(Fill { start, end });
        Fetched {
            start: start - detect + u64::from(self.p.first),
            next: end - detect,
        }
    }

    fn touch(&mut self, set: usize, way: usize) {
        let Some(bits) = self.order.get_mut(set) else {
            return;
        };
        let (mut node, mut low, mut high) = (1u32, 0, self.p.ways as usize);
        while high - low > 1 {
            let middle = usize::midpoint(low, high);
            if way < middle {
                *bits |= 1 << node;
                high = middle;
                node *= 2;
            } else {
                *bits &= !(1 << node);
                low = middle;
                node = 2 * node + 1;
            }
        }
    }

    fn oldest(&self, set: usize) -> usize {
        let bits = self.order.get(set).copied().unwrap_or(0);
        let (mut node, mut low, mut high) = (1u32, 0, self.p.ways as usize);
        while high - low > 1 {
            let middle = usize::midpoint(low, high);
            if bits >> node & 1 == 0 {
                high = middle;
                node *= 2;
            } else {
                low = middle;
                node = 2 * node + 1;
            }
        }
        low
    }
}
