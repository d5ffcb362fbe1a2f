//! Translations of the lines that are predicted, which are asked for one after the other: what it takes to go to another page.
//! docs/ZEN5.md has the measurements.

use crate::pipeline::frontend::predict::stream::PAGE_SHIFT;
use mcad_isa::machine::params::branch::Branch;

/// Translations that are made in a cycle.
const A_CYCLE: u64 = 2;

/// Translations of the lines behind a predictor. A line of another page than the one before waits for its translation, and so do
/// those behind it, unless the last one that waited is few lines ago.
pub struct PageTurns {
    /// How long one waits, in shares of a cycle.
    wait: u64,
    /// Lines behind one that waited which need not.
    stays: u64,
    page: u64,
    /// Lines since one waited.
    since: u64,
    /// When the next translation may be there, in shares of a cycle.
    next: u64,
}

impl PageTurns {
    /// At rest.
    pub fn new(p: &Branch) -> Self {
        let turn = p.page_turn.unwrap_or_default();
        Self {
            wait: turn.cycles * A_CYCLE,
            stays: u64::from(turn.stays),
            page: u64::MAX,
            since: u64::MAX,
            next: 0,
        }
    }

    /// Cycle in which the translation of `address` is there, which is the next one that is asked for and predicted in cycle `at`.
    #[inline]
    pub fn pass(&mut self, address: u64, at: u64) -> u64 {
        if self.wait == 0 {
            return at;
        }
        let page = address >> PAGE_SHIFT;
        let mut there = (at * A_CYCLE).max(self.next);
        self.since = self.since.saturating_add(1);
        if page != self.page && self.since > self.stays {
            there += self.wait;
            self.since = 0;
        }
        self.page = page;
        self.next = there + 1;
        there / A_CYCLE
    }

    /// The next line is predicted anew: nothing is ahead.
    #[inline]
    pub fn restart(&mut self) {
        self.next = 0;
        self.since = u64::MAX;
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::predict::branches_of;
    use super::*;

    /// Cycles by which the translations of these pages' lines, two of which are predicted in a cycle, are late.
    fn late(pages: &[u64]) -> Vec<u64> {
        let mut turns = PageTurns::new(&branches_of("zen5"));
        let asked = pages.iter().zip(0..);
        asked
            .map(|(page, n)| turns.pass(page << PAGE_SHIFT, n / 2) - n / 2)
            .collect()
    }

    #[test]
    fn the_first_line_of_a_page_is_late_and_all_behind_it() {
        assert_eq!(late(&[1, 1, 1]), [3, 3, 3]);
        let stays: Vec<u64> = std::iter::repeat_n(1, 35).collect();
        let there = [&stays[..], &[2]].concat();
        assert_eq!(late(&there).last(), Some(&6));
    }

    #[test]
    fn others_are_not_soon_behind_it() {
        let turns: Vec<u64> = (0..35).map(|n| n % 5).collect();
        assert!(late(&turns).iter().all(|late| *late == 3));
    }

    #[test]
    fn translations_catch_up_where_lines_are_predicted_slowly() {
        let mut turns = PageTurns::new(&branches_of("zen5"));
        assert_eq!(turns.pass(1 << PAGE_SHIFT, 0), 3);
        assert_eq!(turns.pass(1 << PAGE_SHIFT, 100), 100);
    }

    #[test]
    fn nothing_is_late_where_no_page_has_to_be_turned() {
        let mut turns = PageTurns::new(&branches_of("zen4"));
        assert_eq!(turns.pass(1 << PAGE_SHIFT, 7), 7);
    }
}
