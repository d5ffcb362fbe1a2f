//! Streams (Intel's "streamer", optimisation manual section "Data Prefetching"; AMD's "L1 Stream"
//! and "L2 Stream").
//!
//! Pages are watched: two equal steps in a row, or two short ones in the same direction, make a
//! stream. From then on each access of the stream asks for the next lines, until `ahead` steps lie
//! in front of it, in the same page unless the core follows streams into the next.

use mcad_isa::machine::hierarchy::StreamPrefetch;

use super::Wanted;
use crate::pipeline::fold::Folding;

/// Lines of a page.
const PAGE: u64 = 64;
/// Longest step of a stream, in lines.
const STEP: u64 = 16;
/// Longest steps that need not be equal: beyond, accesses in random order would look like streams.
const SHORT: u64 = 2;

#[derive(Clone, Copy, Default, PartialEq)]
struct Entry {
    /// Number of the page, plus 1.
    page: u64,
    /// Line asked for last.
    last: u64,
    /// Furthest line that was prefetched.
    front: u64,
    /// Lines from one access to the next, 0 until that is supposed.
    step: i64,
    /// It went on like that.
    confirmed: bool,
    /// When it was used last.
    used: u64,
}

/// Pages that are watched.
#[derive(Clone)]
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

    /// Shows its table.
    pub fn fold(&mut self, folding: &mut Folding) {
        folding.table(&mut self.entries, Entry::default());
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
        entry.last = line;
        let short = |step: i64| step.unsigned_abs() <= SHORT;
        // Short steps in one direction are steps of one line.
        let step = if short(distance) && short(entry.step) && entry.step != 0 {
            distance.signum()
        } else {
            distance
        };
        let alike = short(step) && short(entry.step) && entry.step.signum() == step.signum();
        let goes_on = entry.step == step || alike;
        if distance.unsigned_abs() > STEP || !goes_on {
            // One odd access does not end a stream that is known: others use the page, too.
            if !entry.confirmed || distance.unsigned_abs() <= STEP {
                entry.step = if distance.unsigned_abs() <= STEP {
                    distance
                } else {
                    0
                };
                entry.front = line;
                entry.confirmed = false;
            }
            return Wanted::NONE;
        }
        if !entry.confirmed {
            entry.step = step;
            entry.front = line;
            entry.confirmed = true;
        }
        let step = entry.step;
        // What lies in front already.
        let mut front = entry.front;
        let lead = front.wrapping_sub(line) as i64 * step.signum();
        if lead < 0 {
            front = line;
        }
        let lead = lead.max(0) as u64 / step.unsigned_abs();
        let mut count = self.degree.min(self.ahead.saturating_sub(lead));
        if !self.crosses {
            let room = if step > 0 {
                PAGE - 1 - front % PAGE
            } else {
                front % PAGE
            };
            // What is in front may be in another page already.
            let here = front / PAGE == line / PAGE;
            count = count.min(if here { room / step.unsigned_abs() } else { 0 });
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
                let distance = line.wrapping_sub(e.last) as i64 * e.step.signum();
                (1..=PAGE as i64).contains(&distance)
            }
        });
        let new = match from {
            Some(e) => Entry {
                page,
                last: line,
                front: e.front,
                step: e.step,
                confirmed: e.confirmed,
                used: self.count,
            },
            None => Entry {
                page,
                last: line,
                front: line,
                step: 0,
                confirmed: false,
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
            data_only: false,
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
        // From the third access on, to the page's end.
        assert_eq!(asked, (643..704).collect::<Vec<_>>());
    }

    #[test]
    fn downwards_as_well() {
        let asked = asked(&mut stream(false), (640..704).rev());
        assert_eq!(asked, (640..701).rev().collect::<Vec<_>>());
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
        assert!(!within.contains(&704) && within.contains(&707));
        let across = asked(&mut stream(true), 640..768);
        assert!((643..768).all(|line| across.contains(&line)));
    }

    #[test]
    fn equal_steps_over_lines_are_a_stream_of_those() {
        let asked = asked(&mut stream(true), (640..1000).step_by(8));
        assert!(asked.iter().all(|line| line % 8 == 0));
        assert!((664..1000).step_by(8).all(|line| asked.contains(&line)));
    }

    #[test]
    fn random_order_is_no_stream() {
        // The squares modulo a prime.
        let lines = (1..60).map(|n| 640 + n * n % 61);
        assert_eq!(asked(&mut stream(false), lines), Vec::<u64>::new());
    }

    #[test]
    fn pages_beyond_those_watched_push_each_other_out() {
        let mut stream = stream(false);
        // Five interleaved streams, four entries: none is ever recognised.
        let lines = (0..64).flat_map(|n| (0..5).map(move |page| page * 64 + n));
        assert_eq!(asked(&mut stream, lines), Vec::<u64>::new());
    }
}
