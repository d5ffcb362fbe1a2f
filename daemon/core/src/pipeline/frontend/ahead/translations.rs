//! Translations of the code that the predictor has come to.
//!
//! They are in the buffer of the first level, or on their way from the second one or the tables, so many at once. What lies
//! between the predictor and the look-ups of lines may itself be in order: a line that waits for its translation then holds up
//! those behind it, and with it the look-ups, which make nothing up that they have lost.

use super::arrivals::Arrivals;
use crate::pipeline::frontend::predict::stream::PAGE_SHIFT;
use mcad_isa::machine::params::branch::Branch;

/// Lines that are translated in a cycle, in order.
const PER_CYCLE: u64 = 2;

/// Those of a thread.
pub struct Translations {
    /// Those on their way; in order: lines that wait, in shares of a cycle.
    arrivals: Arrivals,
    /// How long a line waits in order, in shares of a cycle.
    hold: u64,
    /// Lines within which they are asked for together, lines so far, and the first of those together with when that was asked for.
    together: u64,
    lines: u64,
    first: (u64, u64),
    /// The last page whose translation was on its way, and when that was there.
    last: (u64, u64),
}

impl Translations {
    /// None yet.
    #[must_use]
    pub fn new(p: &Branch) -> Self {
        Self {
            arrivals: Arrivals::new(p.translations),
            hold: p.translations_hold * PER_CYCLE,
            together: p.translations_together.into(),
            lines: u64::from(p.translations_together),
            first: (0, 0),
            last: (u64::MAX, 0),
        }
    }

    /// When a missing translation is asked for that the predictor has come to in cycle `at`: when the last line ahead is there, in
    /// cycle `arrived`, or together with that of a line before which waited so.
    #[inline]
    pub fn begin(&mut self, at: u64, arrived: u64) -> u64 {
        if self.together == 0 {
            return at;
        }
        if self.lines - self.first.0 >= self.together {
            self.first = (self.lines, arrived);
        }
        at.max(self.first.1)
    }

    /// When a line's translation is there, which is asked for in cycle `at` and takes so many cycles: who asks for the same
    /// page again waits for the same one.
    #[inline]
    pub fn come(&mut self, address: u64, at: u64, cycles: u64) -> u64 {
        self.lines += 1;
        if self.hold > 0 {
            let (at, cycles) = (at.saturating_mul(PER_CYCLE), cycles * PER_CYCLE);
            let held = cycles.min(self.hold);
            let passed = self.arrivals.come(at, held, 1, usize::MAX);
            return (passed + (cycles - held)) / PER_CYCLE;
        }
        let page = address >> PAGE_SHIFT;
        match cycles {
            0 => at,
            _ => {
                if page != self.last.0 {
                    self.last = (page, self.arrivals.come(at, cycles, 0, usize::MAX));
                }
                self.last.1.max(at)
            }
        }
    }
}
