//! What lies beyond the first level: the second and third levels, DRAM, the first touch of a page,
//! and lines that prefetchers ask for or that leave one level for the next.

use super::pages::Touch;
use super::prefetch::Wanted;
use super::sets::{Evicted, Key, State};
use super::{Level, MOST_ARRIVALS, Memory, PAGE_LINES};

/// Where a line was found, and when a request to the level before could be served.
pub(super) struct Found {
    pub at: u64,
    pub level: Level,
    pub touched: Touch,
}

/// Why lines are asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    Demand,
    Prefetch,
    Code,
}

impl Memory {
    /// A request that misses the first level, in cycle `at`.
    pub(super) fn below(&mut self, line: u64, at: u64, why: Why) -> Found {
        let found = self.second(line, at, why);
        let seen = why != Why::Code || !self.stream_data_only;
        if let Some(stream) = self.stream.as_mut().filter(|_| seen) {
            let wanted = stream.access(line);
            for line in wanted.lines() {
                self.prefetch_l2(line, at);
            }
        }
        found
    }

    fn second(&mut self, line: u64, at: u64, why: Why) -> Found {
        if let Some(place) = self.l2.find(Key(line)) {
            let state = self.l2.state(place);
            let seen = *state;
            *state = state.prefetched(false);
            if seen.is_prefetched() && why != Why::Prefetch {
                self.counts.useful_prefetches += 1;
            }
            let start = self.l2_rate.take(at);
            return Found {
                at: start.max(seen.at()) + self.l2_more,
                level: if seen.at() > at {
                    seen.level()
                } else {
                    Level::L2
                },
                touched: Touch::Known,
            };
        }
        if self.perfect_l2 {
            return Found {
                at: self.l2_rate.take(at) + self.l2_more,
                level: Level::L2,
                touched: Touch::Known,
            };
        }
        let (buffer, start) = self.l2_fill.take(at);
        let found = self.third(line, start);
        self.l2_fill.hold(buffer, found.at);
        if found.touched != Touch::Zeroed {
            self.place_l2(line, State::new(found.at, found.level));
        }
        if self.adjacent {
            self.prefetch_l2(line ^ 1, at);
        }
        Found {
            at: found.at + self.l2_more,
            ..found
        }
    }

    /// A request that misses the second level.
    fn third(&mut self, line: u64, at: u64) -> Found {
        let touched = self.first_touch(line / PAGE_LINES, at);
        if touched == Touch::Zeroed {
            return Found {
                at,
                level: Level::L2,
                touched,
            };
        }
        if let Some(l3) = &mut self.shared.l3
            && l3.find(Key(line)).is_some()
        {
            let start = self.l3_rate.take(at);
            return Found {
                at: start + self.l3_more,
                level: Level::L3,
                touched,
            };
        }
        let start = self.dram_rate.take(at);
        if !self.l3_victim {
            self.place_l3(line, State::new(start, Level::Dram));
        }
        Found {
            at: start + self.l3_more + self.dram_more,
            level: Level::Dram,
            touched,
        }
    }

    /// A page is touched, for the first time unless it is known: whether that is so is asked where
    /// its tables are walked, and, since an entry of a TLB may hold several pages, where its lines
    /// are in no cache.
    pub(super) fn first_touch(&mut self, page: u64, at: u64) -> Touch {
        let touched = self.shared.pages.touch(page);
        match touched {
            Touch::Zeroed => {
                self.counts.faults += 1;
                for line in page * PAGE_LINES..(page + 1) * PAGE_LINES {
                    self.place_l2(line, State::new(at, Level::L2).dirty(true));
                }
            }
            Touch::Mapped(first, end) => {
                self.counts.faults += 1;
                if self.files_in_l3 {
                    for line in first * PAGE_LINES..end * PAGE_LINES {
                        self.place_l3(line, State::new(at, Level::L3));
                    }
                }
            }
            Touch::Known => {}
        }
        touched
    }

    pub(super) fn prefetch_l1(&mut self, wanted: Wanted, at: u64) {
        for line in wanted.lines() {
            if self.l1d.has(Key(line)) {
                continue;
            }
            if !self.fill.is_free(at) {
                self.counts.dropped_prefetches += 1;
                continue;
            }
            if !self.l2.has(Key(line)) && !self.shared.pages.is_touched(line / PAGE_LINES) {
                continue;
            }
            let (buffer, start) = self.fill.take(at);
            let found = self.below(line, start, Why::Prefetch);
            self.fill.hold(buffer, found.at);
            self.counts.prefetches += 1;
            self.fill_l1(line, State::new(found.at, found.level).prefetched(true));
        }
    }

    pub(super) fn prefetch_l2(&mut self, line: u64, at: u64) {
        if self.l2.has(Key(line)) || !self.shared.pages.is_touched(line / PAGE_LINES) {
            return;
        }
        if !self.l2_fill.is_free(at) {
            self.counts.dropped_prefetches += 1;
            return;
        }
        let (buffer, start) = self.l2_fill.take(at);
        let found = self.third(line, start);
        self.l2_fill.hold(buffer, found.at);
        self.counts.prefetches += 1;
        self.place_l2(line, State::new(found.at, found.level).prefetched(true));
    }

    /// A line comes into the first level; one that leaves it takes of the second's time.
    pub(super) fn fill_l1(&mut self, line: u64, state: State) {
        self.filled += 1;
        if let Some(arrivals) = &mut self.arrivals
            && arrivals.len() < MOST_ARRIVALS
        {
            arrivals.push(state.at());
        }
        if self.place_l1(line, state)
            && let Some(share) = self.l2_written
        {
            self.l2_rate.take_of(share, state.at());
        }
    }

    /// A line is in the first level; whether one goes back to the second for it.
    pub(super) fn place_l1(&mut self, line: u64, state: State) -> bool {
        if let Some(Evicted { key, state }) = self.l1d.insert(Key(line), state)
            && state.is_dirty()
        {
            self.place_l2(key.0, State::new(0, Level::L2).dirty(true));
            return true;
        }
        false
    }

    pub(super) fn place_l2(&mut self, line: u64, state: State) {
        if let Some(place) = self.l2.find(Key(line)) {
            let known = self.l2.state(place);
            *known = known.dirty(state.is_dirty());
            return;
        }
        if let Some(Evicted { key, state }) = self.l2.insert(Key(line), state)
            && (state.is_dirty() || self.l3_victim)
        {
            self.place_l3(key.0, state);
        }
    }

    fn place_l3(&mut self, line: u64, state: State) {
        let gone = match &mut self.shared.l3 {
            Some(l3) => match l3.find(Key(line)) {
                Some(place) => {
                    let known = l3.state(place);
                    *known = known.dirty(state.is_dirty());
                    None
                }
                None => l3.insert(Key(line), state),
            },
            None => Some(Evicted {
                key: Key(line),
                state,
            }),
        };
        if let Some(gone) = gone
            && gone.state.is_dirty()
        {
            self.dram_rate.take(state.at());
        }
    }
}
