//! Streams (Intel's "streamer", optimisation manual section "Data Prefetching"; AMD's "L1 Stream"
//! and "L2 Stream").
//!
//! Pages are watched: a second access to a line above or below the last one makes a stream in that
//! direction. From then on each access of the stream asks for the next lines, until `ahead` lines
//! lie in front of it, in the same page unless the core follows streams into the next.

use mcad_isa::machine::hierarchy::StreamPrefetch;

use super::Wanted;

/// Lines of a page.
const PAGE: u64 = 64;

#[derive(Clone, Copy, Default)]
struct Entry {
    /// Number of the page, plus 1.
    page: u64,
    /// Line asked for last.
    last: u64,
    /// Furthest line that was prefetched.
    front: u64,
    /// 0 until a direction is known, then 1 or -1.
    step: i8,
    /// When it was used last.
    used: u64,
}

/// Pages that are watched.
pub struct Stream {
    entries: Box<[Entry]>,
    ahead: u64,
    degree: u64,
    crosses: bool,
    count: u64,
}

impl Stream {
    /// None yet.
    #[must_use]
    pub fn new(p: &StreamPrefetch) -> Self {
        Self {
            entries: vec![Entry::default(); p.pages.max(1) as usize].into(),
            ahead: u64::from(p.ahead),
            degree: u64::from(p.degree),
            crosses: p.crosses_pages,
            count: 0,
        }
    }

    /// A line is asked for.
    pub fn access(&mut self, line: u64) -> Wanted {
        self.count += 1;
        let page = line / PAGE + 1;
        let Some(entry) = self.entries.iter_mut().find(|e| e.page == page) else {
            self.begin(line, page);
            return Wanted::NONE;
        };
        entry.used = self.count;
        let distance = line.wrapping_sub(entry.last) as i64;
        if distance == 0 {
            return Wanted::NONE;
        }
        let step = distance.signum() as i8;
        entry.last = line;
        if entry.step != step {
            entry.step = step;
            entry.front = line;
        }
        let step = i64::from(step);
        // What lies in front already.
        let mut front = entry.front;
        let behind = line.wrapping_sub(front) as i64 * step;
        if behind > 0 {
            front = line;
        }
        let lead = (front.wrapping_sub(line) as i64 * step) as u64;
        let mut count = self.degree.min(self.ahead.saturating_sub(lead));
        if !self.crosses {
            let room = if step > 0 {
                PAGE - 1 - front % PAGE
            } else {
                front % PAGE
            };
            count = count.min(room);
        }
        entry.front = front.wrapping_add_signed(step * count as i64);
        Wanted {
            first: front.wrapping_add_signed(step),
            step,
            count: count as u32,
        }
    }

    fn begin(&mut self, line: u64, page: u64) {
        // A stream that comes over from the neighbouring page goes on where that is known.
        let crossing = |e: &Entry| e.page != 0 && e.step != 0 && self.crosses;
        let from = self.entries.iter().find(|e| {
            crossing(e) && {
                let distance = line.wrapping_sub(e.last) as i64 * i64::from(e.step);
                (1..=PAGE as i64).contains(&distance)
            }
        });
        let new = match from {
            Some(e) => Entry {
                page,
                last: line,
                front: e.front,
                step: e.step,
                used: self.count,
            },
            None => Entry {
                page,
                last: line,
                front: line,
                step: 0,
                used: self.count,
            },
        };
        if let Some(oldest) = self.entries.iter_mut().min_by_key(|e| e.used) {
            *oldest = new;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(crosses_pages: bool) -> Stream {
        Stream::new(&StreamPrefetch {
            pages: 4,
            ahead: 8,
            degree: 2,
            crosses_pages,
        })
    }

    /// All lines that a walk over `lines` asks for.
    fn asked(stream: &mut Stream, lines: impl Iterator<Item = u64>) -> Vec<u64> {
        lines
            .flat_map(|l| stream.access(l).lines().collect::<Vec<_>>())
            .collect()
    }

    #[test]
    fn a_stream_is_asked_for_once_and_in_order() {
        let asked = asked(&mut stream(false), 640..704);
        // From the second access on, to the page's end.
        assert_eq!(asked, (642..704).collect::<Vec<_>>());
    }

    #[test]
    fn downwards_as_well() {
        let asked = asked(&mut stream(false), (640..704).rev());
        assert_eq!(asked, (640..702).rev().collect::<Vec<_>>());
    }

    #[test]
    fn no_further_ahead_than_allowed() {
        let mut stream = stream(false);
        for line in 640..690 {
            let furthest = asked(&mut stream, std::iter::once(line)).last().copied();
            assert!(
                furthest.is_none_or(|f| f <= line + 8),
                "{line} {furthest:?}"
            );
        }
    }

    #[test]
    fn across_pages_only_where_the_core_does() {
        let within = asked(&mut stream(false), 640..768);
        assert!(!within.contains(&704) && within.contains(&706));
        let across = asked(&mut stream(true), 640..768);
        assert!((642..768).all(|line| across.contains(&line)));
    }

    #[test]
    fn pages_beyond_those_watched_push_each_other_out() {
        let mut stream = stream(false);
        // Five interleaved streams, four entries: none is ever recognised.
        let lines = (0..64).flat_map(|n| (0..5).map(move |page| page * 64 + n));
        assert_eq!(asked(&mut stream, lines), Vec::<u64>::new());
    }
}
