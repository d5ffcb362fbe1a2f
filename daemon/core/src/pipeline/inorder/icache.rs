//! The instruction cache: which lines are there, and what a miss costs.
//!
//! One miss at a time. The group that missed is fetched once more as soon as it has come, past the
//! cache; everything else waits until the line is complete. A redirection ends that wait: fetch then
//! goes on elsewhere as long as the line is not being written, and a second miss waits for the end
//! of the first. A line that was asked for comes even if nobody wants it any more.
//!
//! Source: the RTL of VeeR EH1, `ifu_mem_ctl.sv` (`MISS_SM`, `ic_write_stall`, `replace_way_mb_any`) and
//! `ifu_ifc_ctl.sv` (`WFM`, `fetch_crit_word`).

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
    known: u64,
    /// Fetch was redirected since, and waits for the cache only.
    redirected: bool,
}

impl Fill {
    /// Cycle in which the group that missed is fetched once more.
    fn first(&self, p: &InstructionCache) -> u64 {
        self.known + u64::from(p.first)
    }

    /// First cycle in which the cache is not written any more.
    fn written(&self, p: &InstructionCache) -> u64 {
        self.end(p) - 1
    }

    /// Cycle in which fetch that waited for the line goes on.
    fn end(&self, p: &InstructionCache) -> u64 {
        self.known + u64::from(p.complete)
    }

    /// Earliest fetch of one that could start in `cycle`.
    fn beside_writing(&self, p: &InstructionCache, cycle: u64) -> u64 {
        let written = self.written(p);
        if cycle + u64::from(p.writing) < written {
            cycle
        } else {
            cycle.max(written)
        }
    }
}

/// How a fetch went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// Cycle from which the group counts as fetched.
    pub start: u64,
    /// Earliest start of the fetch after it.
    pub next: u64,
    /// Cycles of fetches of the group before that, which missed.
    pub missed: [Option<u64>; 2],
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
    pub fn redirected(&mut self, cycle: u64) -> u64 {
        let p = &self.p;
        let Some(fill) = &mut self.fill else {
            return cycle;
        };
        if cycle <= fill.known || cycle >= fill.end(p) {
            return cycle;
        }
        if fill.redirected {
            return fill.beside_writing(p, cycle);
        }
        if cycle == fill.first(p) {
            // The new group is fetched in the place of the one that had missed.
            return cycle;
        }
        // Fetch was waiting, so that the request is there a cycle later. A miss that was known just before is
        // not yet seen to be one that may be overtaken.
        let request = cycle + 1 + u64::from(cycle == fill.known + 1);
        if cycle >= fill.written(p) {
            return request;
        }
        fill.redirected = true;
        fill.beside_writing(p, request)
    }

    /// Fetches from `address`, starting in `cycle`. A second miss that waits is forgotten when fetch is
    /// called back in cycle `until`.
    pub fn fetch(&mut self, address: u64, cycle: u64, until: u64) -> Fetched {
        let line = address / u64::from(self.p.line);
        let set = (line % self.sets) as usize;
        let ways = self.p.ways as usize;
        let mut cycle = cycle;
        let mut missed = [None; 2];
        let under = self.fill.filter(|f| cycle < f.end(&self.p));
        if let Some(fill) = under {
            if fill.redirected {
                cycle = fill.beside_writing(&self.p, cycle);
            } else {
                // While the cache is written: it misses, and waits for the line as well.
                missed[0] = Some(cycle);
                cycle = fill.end(&self.p);
            }
        }
        let lines = self
            .lines
            .get_mut(set * ways..(set + 1) * ways)
            .unwrap_or(&mut []);
        if let Some(way) = lines.iter().position(|l| *l == Some(line)) {
            self.touch(set, way);
            return Fetched {
                start: cycle,
                next: cycle + 1,
                missed,
            };
        }
        let detect = u64::from(self.p.detect);
        if let Some(fill) = under
            && cycle + detect < fill.written(&self.p)
        {
            missed[0] = Some(cycle);
            cycle = fill.end(&self.p);
        }
        if cycle + detect >= until {
            return Fetched {
                start: cycle,
                next: cycle + 1,
                missed,
            };
        }
        missed[1] = Some(cycle);
        let way = match lines.iter().position(Option::is_none) {
            Some(way) => way,
            None => self.oldest(set),
        };
        if let Some(entry) = self.lines.get_mut(set * ways + way) {
            *entry = Some(line);
        }
        self.touch(set, way);
        let fill = Fill {
            known: cycle + detect,
            redirected: false,
        };
        self.fill = Some(fill);
        Fetched {
            start: fill.first(&self.p),
            next: fill.end(&self.p),
            missed,
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A miss that is known in cycle 11: the cache is written in cycles 14 to 21.
    fn missed() -> ICache {
        let mut cache = ICache::new(&InstructionCache {
            size: 4096,
            line: 64,
            ways: 4,
            detect: 1,
            first: 6,
            complete: 12,
            writing: 8,
        });
        let fetched = cache.fetch(0x100, 10, u64::MAX);
        assert_eq!((fetched.start, fetched.next), (17, 23));
        cache
    }

    #[test]
    fn a_redirected_fetch_goes_on_as_soon_as_the_cache_is_not_written_any_more() {
        for (redirected, goes_on) in [
            (11, 11), // the miss is called back before it is known
            (12, 22),
            (13, 22),
            (16, 22),
            (17, 17), // in the place of the group that had missed
            (18, 22),
            (21, 22),
            (22, 23),
            (23, 23),
        ] {
            assert_eq!(missed().redirected(redirected), goes_on, "in {redirected}");
        }
        // Redirected twice: the request waits already.
        let mut cache = missed();
        assert_eq!((cache.redirected(14), cache.redirected(22)), (22, 22));
    }

    #[test]
    fn a_line_comes_though_nobody_waits_for_it_and_a_second_miss_waits_for_its_end() {
        let mut cache = missed();
        assert_eq!(cache.fetch(0x110, 17, u64::MAX).start, 23);
        let mut cache = missed();
        cache.redirected(14);
        let there = cache.fetch(0x110, 22, u64::MAX);
        assert_eq!((there.start, there.next), (22, 23));
        // With memory further away fetch can go on before the line is written.
        let mut cache = missed();
        cache.p.complete = 40;
        assert_eq!(cache.redirected(20), 21);
        let second = cache.fetch(0x200, 21, 30);
        assert_eq!(second.start, 51);
        assert!(
            !cache.lines.contains(&Some(0x200 / 64)),
            "it was called back"
        );
        let second = cache.fetch(0x200, 21, u64::MAX);
        assert_eq!((second.start, second.next), (51 + 1 + 6, 51 + 1 + 40));
    }

    #[test]
    fn a_full_set_replaces_by_the_tree() {
        let mut cache = missed();
        let mut cycle = 100;
        let mut fetch = |line: u64| {
            cycle += 100;
            cache.fetch(line * 64 * 16, cycle, u64::MAX).start == cycle
        };
        // Lines 0 to 3 fill the set, 0 is used again: the right half is older, in it line 2.
        let hits: Vec<bool> = [0, 1, 2, 3, 0, 4, 0, 1, 3, 2].map(&mut fetch).into();
        assert_eq!(
            hits,
            [
                false, false, false, false, true, false, true, true, true, false
            ]
        );
    }
}
