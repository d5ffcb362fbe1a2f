//! Pages whose translations the predictor has at hand: what a jump to another one takes more.

use super::stream::PAGE_SHIFT;
use mcad_isa::machine::params::branch::{Branch, MAX_NEAR_PAGES};

/// A buffer of the nearest translations. A page that it has not takes the place of the first one that was not used lately; once all
/// were, only the last one is.
#[derive(Clone, Copy)]
pub struct NearPages {
    /// Numbers of pages plus 1, 0 where there is none.
    pages: [u64; MAX_NEAR_PAGES],
    entries: usize,
    /// A bit for each entry that was used lately.
    lately: u32,
    last: u64,
}

impl NearPages {
    /// An empty one.
    #[must_use]
    pub fn new(p: &Branch) -> Self {
        let entries = p.near_pages.map_or(0, |near| near.entries as usize);
        Self {
            pages: [0; MAX_NEAR_PAGES],
            entries: entries.min(MAX_NEAR_PAGES),
            lately: 0,
            last: 0,
        }
    }

    /// Whether a buffer that there is has not the page of this address, which it has afterwards.
    #[inline]
    pub fn misses(&mut self, address: u64) -> bool {
        let page = (address >> PAGE_SHIFT) + 1;
        if page == self.last || self.entries == 0 {
            return false;
        }
        self.last = page;
        let pages = self.pages.get_mut(..self.entries).unwrap_or(&mut []);
        let found = pages.iter().position(|p| *p == page);
        let entry = found.unwrap_or(self.lately.trailing_ones() as usize);
        if let Some(kept) = pages.get_mut(entry) {
            *kept = page;
        }
        self.lately |= 1 << entry;
        if self.lately == (1 << self.entries) - 1 {
            self.lately = 1 << entry;
        }
        found.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::super::branches_of;
    use super::*;

    /// Share of misses where so many pages are asked for in turn.
    fn misses(pages: u64) -> f64 {
        let mut near = NearPages::new(&branches_of("zen1"));
        let asked = 1000 * pages;
        let missed = (0..asked).filter(|n| near.misses((n % pages) << PAGE_SHIFT | n & 0xfff));
        missed.count() as f64 / asked as f64
    }

    #[test]
    fn as_many_pages_as_there_are_entries_are_at_hand_and_more_are_less_and_less() {
        for pages in 1..=8 {
            assert!(misses(pages) < 0.01, "{pages}");
        }
        let shares: Vec<f64> = [9, 10, 12, 16].map(misses).into();
        assert!(shares.is_sorted(), "{shares:?}");
        assert!(shares[0] > 0.2 && shares[3] > 0.95, "{shares:?}");
        assert!(!NearPages::new(&branches_of("zen2")).misses(1 << 20));
    }
}
