//! Watches iterations retire and reads the throughput off, as uiCA does.

use crate::pipeline::inst::Inst;
use crate::pipeline::observer::{Observer, Retired};

#[derive(Clone, Copy, Debug, Default)]
struct Round {
    first: u64,
    last: u64,
    slot: u32,
    complete: bool,
}

/// Retirement of each iteration.
pub struct Rounds {
    first_instr: u32,
    last_instr: u32,
    min_iterations: usize,
    min_cycles: u64,
    rounds: Vec<Round>,
}

impl Rounds {
    /// Watches blocks from static instruction `first` to `last`.
    #[must_use]
    pub fn new(first: u32, last: u32, min_iterations: usize, min_cycles: u64) -> Self {
        Self {
            first_instr: first,
            last_instr: last,
            min_iterations,
            min_cycles,
            rounds: Vec::with_capacity(512),
        }
    }

    /// The cycle at which a cycle-by-cycle simulation would have stopped, when it is known.
    fn stop(&self) -> Option<u64> {
        let tenth = self.rounds.get(self.min_iterations)?;
        Some(tenth.first.max(self.min_cycles + 1))
    }

    /// Whether enough iterations are known.
    #[must_use]
    pub fn done(&self) -> bool {
        match (self.stop(), self.rounds.last()) {
            (Some(stop), Some(last)) => last.first > stop,
            _ => false,
        }
    }

    /// Cycles per iteration over the second half.
    #[must_use]
    pub fn throughput(&self) -> f64 {
        let stop = self.stop().unwrap_or(u64::MAX);
        let seen = self.rounds.iter().take_while(|r| r.first <= stop).count();
        let mut last = seen.saturating_sub(2);
        let first = last.min(seen / 2);
        let Some(from) = self.rounds.get(first) else {
            return 0.0;
        };
        if last - first > 10 {
            // Iterations that end in the same retirement slot make the slope exact.
            for n in (last - 4..=last).rev() {
                if self.rounds.get(n).is_some_and(|r| r.slot == from.slot) {
                    last = n;
                    break;
                }
            }
        }
        let Some(to) = self.rounds.get(last) else {
            return 0.0;
        };
        if first == last {
            return from.last as f64;
        }
        (to.last - from.last) as f64 / (last - first) as f64
    }
}

impl Observer for Rounds {
    fn retired(&mut self, inst: &Inst, retired: Retired) {
        if inst.instr == self.first_instr {
            self.rounds.push(Round {
                first: retired.first,
                ..Round::default()
            });
        }
        if inst.instr == self.last_instr
            && let Some(round) = self.rounds.get_mut(inst.tag as usize)
        {
            round.last = retired.last;
            round.slot = retired.slot;
            round.complete = true;
        }
    }
}
