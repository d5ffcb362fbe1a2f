//! What limits how much may be on its way: buffers that are held, and bandwidth.
//!
//! Accesses come in program order but start in any, so neither may be a queue with one end: a
//! buffer is the one that is free first, and bandwidth is booked in a calendar.

use crate::pipeline::fold::Folding;

/// So many things at once.
#[derive(Clone)]
pub struct Buffers {
    /// From which cycle on each is free.
    free: Box<[u64]>,
}

/// A buffer that was taken.
#[derive(Clone, Copy, Debug)]
pub struct Taken(usize);

impl Buffers {
    /// All free.
    #[must_use]
    pub fn new(count: u32) -> Self {
        Self {
            free: vec![0; count.max(1) as usize].into(),
        }
    }

    /// The one that is free first, and the first cycle from `at` on in which it is.
    #[inline]
    #[must_use]
    pub fn take(&self, at: u64) -> (Taken, u64) {
        let mut first = (0, u64::MAX);
        for (n, free) in self.free.iter().enumerate() {
            if *free <= at {
                return (Taken(n), at);
            }
            if *free < first.1 {
                first = (n, *free);
            }
        }
        (Taken(first.0), first.1)
    }

    /// Whether one is free in cycle `at` that needs no waiting.
    #[inline]
    #[must_use]
    pub fn is_free(&self, at: u64) -> bool {
        self.free.iter().any(|free| *free <= at)
    }

    /// It is held until `until`.
    #[inline]
    pub fn hold(&mut self, taken: Taken, until: u64) {
        self.free[taken.0] = until;
    }
}

/// Cycles of a page of the calendar.
const PAGE: u64 = 256;
/// Pages of the calendar, a power of two.
const PAGES: u64 = 512;
/// Parts of a cycle that are counted.
const PARTS: u64 = 256;

/// What something takes of a bandwidth, in parts of a cycle.
#[derive(Clone, Copy, Debug)]
pub struct Share(u64);

impl Share {
    /// A line of 64 bytes at so many bytes a cycle.
    #[must_use]
    pub fn of_a_line(bytes_per_cycle: f64) -> Self {
        let parts = 64.0 / bytes_per_cycle * PARTS as f64;
        Self((parts.round() as u64).clamp(1, PAGE * PARTS))
    }
}

/// Lines a cycle, at most.
#[derive(Clone)]
pub struct Bandwidth {
    /// What a line takes.
    line: Share,
    /// Number of a page, plus 1, and parts of it that are taken.
    pages: Box<[(u64, u64)]>,
}

impl Bandwidth {
    /// Lines of 64 bytes at so many bytes a cycle.
    #[must_use]
    pub fn new(bytes_per_cycle: f64) -> Self {
        Self {
            line: Share::of_a_line(bytes_per_cycle),
            pages: vec![(0, 0); PAGES as usize].into(),
        }
    }

    /// Shows its calendar.
    pub fn fold(&mut self, folding: &mut Folding) {
        folding.table(&mut self.pages, (0, 0));
    }

    /// First cycle from `at` on in which a line can go; it does.
    pub fn take(&mut self, at: u64) -> u64 {
        self.take_of(self.line, at)
    }

    /// The same of what takes another share.
    pub fn take_of(&mut self, Share(share): Share, at: u64) -> u64 {
        let mut number = at / PAGE;
        loop {
            let page = &mut self.pages[(number % PAGES) as usize];
            if page.0 > number + 1 {
                // So long ago that nobody knows any more.
                return at;
            }
            if page.0 != number + 1 {
                *page = (number + 1, 0);
            }
            if page.1 + share <= PAGE * PARTS {
                let start = number * PAGE + page.1 / PARTS;
                page.1 += share;
                return start.max(at);
            }
            number += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_as_there_are_buffers_overlap() {
        // Misses of 100 cycles, all asked for at once, in 10 buffers: ten each 100 cycles.
        let mut buffers = Buffers::new(10);
        let mut last = 0;
        for _ in 0..1000 {
            let (buffer, start) = buffers.take(0);
            buffers.hold(buffer, start + 100);
            last = start + 100;
        }
        assert_eq!(last, 100 * 100);
        assert!(!buffers.is_free(last - 1));
        assert!(buffers.is_free(last));
    }

    #[test]
    fn a_late_miss_holds_up_no_early_one() {
        let mut buffers = Buffers::new(2);
        let (buffer, start) = buffers.take(1_000_000);
        buffers.hold(buffer, start + 100);
        assert_eq!(buffers.take(5).1, 5);
    }

    #[test]
    fn bandwidth_is_what_it_says() {
        for bytes in [0.5, 4.0, 10.0, 64.0] {
            let mut bandwidth = Bandwidth::new(bytes);
            let lines = 10_000;
            let last = (0..lines).map(|_| bandwidth.take(0)).max().unwrap();
            let wanted = f64::from(lines) * 64.0 / bytes;
            let wrong = (last as f64 - wanted).abs() / wanted;
            // No further than the calendar reaches.
            if wanted < (PAGE * PAGES) as f64 {
                assert!(wrong < 0.03, "{bytes}: {last} for {wanted}");
            }
        }
    }

    #[test]
    fn lines_far_apart_do_not_wait() {
        let mut bandwidth = Bandwidth::new(1.0);
        for n in 0..10_000 {
            assert_eq!(bandwidth.take(n * 70), n * 70);
        }
    }
}
