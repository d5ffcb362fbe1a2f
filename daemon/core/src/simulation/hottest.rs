//! The window around the hottest block, found while the run goes on.
//!
//! Which block has the most cycles is known at the end only, so a window is kept of every block
//! that leads or has half of the leader's cycles. It is taken anew whenever the block's executions
//! have grown by a share: that puts it into the steady state and not into the first round, and
//! bounds the work. Memory depends on the window's length and not on the run's: the candidates'
//! windows, and of each thread what came last. In a flat profile, where more blocks than that are
//! about as hot, the window may be that of another block, hotter than all others that have one.

use std::collections::VecDeque;

use mcad_proto::word::{BlockId, StreamId};
use rustc_hash::FxHashMap;

use super::timeline::Timed;
use crate::pipeline::observer::{Retired, UopStamps};

/// Windows kept; a hotter block than one of them takes the coldest one's place.
const CANDIDATES: usize = 16;

/// An instruction out of its time.
#[derive(Clone, Debug)]
struct Kept {
    number: u64,
    code: u32,
    pair: bool,
    retired: Retired,
    uops: Vec<UopStamps>,
}

/// A window of a block that may come out as the hottest.
#[derive(Debug)]
struct Candidate {
    block: BlockId,
    stream: StreamId,
    /// Instructions still to come.
    missing: usize,
    kept: Vec<Kept>,
}

/// What one block has come to.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    cycles: u64,
    executions: u64,
    /// Executions at which its window is taken anew.
    next: u64,
}

/// Finds the hottest block, and keeps a window around one execution of it.
#[derive(Debug)]
pub(super) struct Hottest {
    /// Instructions before the end of that execution, and after it.
    half: usize,
    counts: Vec<Count>,
    leader: Option<BlockId>,
    recent: FxHashMap<StreamId, VecDeque<Kept>>,
    candidates: Vec<Candidate>,
}

impl Hottest {
    /// A window of about this many instructions.
    pub(super) fn new(instructions: u64) -> Self {
        Self {
            half: (instructions / 2).max(1) as usize,
            counts: Vec::new(),
            leader: None,
            recent: FxHashMap::default(),
            candidates: Vec::new(),
        }
    }

    /// An instruction retired.
    pub(super) fn instruction(&mut self, timed: &Timed<'_>) {
        let recent = self.recent.entry(timed.thread).or_default();
        // The allocation of what drops out is used again.
        let mut uops = match recent.len() < self.half {
            true => Vec::new(),
            false => recent.pop_front().map_or_else(Vec::new, |old| old.uops),
        };
        uops.clear();
        uops.extend_from_slice(timed.uops);
        let kept = Kept {
            number: timed.number,
            code: timed.code,
            pair: timed.pair,
            retired: timed.retired,
            uops,
        };
        let wanting = |c: &&mut Candidate| c.stream == timed.thread && c.missing > 0;
        for candidate in self.candidates.iter_mut().filter(wanting) {
            candidate.kept.push(kept.clone());
            candidate.missing -= 1;
        }
        recent.push_back(kept);
    }

    /// A block retired after `cycles` of its own, and its instructions before it.
    pub(super) fn block(&mut self, stream: StreamId, block: BlockId, cycles: u64) {
        let place = block.0 as usize;
        if self.counts.len() <= place {
            self.counts.resize(place + 1, Count::default());
        }
        let Some(count) = self.counts.get_mut(place) else {
            return;
        };
        count.cycles += cycles;
        count.executions += 1;
        let Count {
            cycles,
            executions,
            next,
        } = *count;
        // As the report ranks them: more cycles, then the lower number.
        let rank = |id: BlockId| (self.cycles(id), std::cmp::Reverse(id));
        if self.leader.is_none_or(|leader| rank(leader) < rank(block)) {
            self.leader = Some(block);
        }
        let most = self.leader.map_or(0, |leader| self.cycles(leader));
        if executions >= next && cycles >= most / 2 && self.take(stream, block, cycles) {
            // Not doubled: loops of powers of two would end right there.
            let next = executions.saturating_mul(8) / 5 + 1;
            if let Some(count) = self.counts.get_mut(place) {
                count.next = next;
            }
        }
    }

    /// The thread's instructions are over.
    pub(super) fn end_thread(&mut self, stream: StreamId) {
        self.recent.remove(&stream);
        for candidate in &mut self.candidates {
            if candidate.stream == stream {
                candidate.missing = 0;
            }
        }
    }

    /// Gives the window out, in the order of its instructions.
    pub(super) fn tell(self, mut take: impl FnMut(&Timed<'_>)) {
        let rank = |c: &&Candidate| (Some(c.block) == self.leader, self.cycles(c.block));
        let Some(candidate) = self.candidates.iter().max_by_key(rank) else {
            return;
        };
        for kept in &candidate.kept {
            take(&Timed {
                thread: candidate.stream,
                number: kept.number,
                code: kept.code,
                pair: kept.pair,
                retired: kept.retired,
                uops: &kept.uops,
            });
        }
    }

    fn cycles(&self, block: BlockId) -> u64 {
        let count = self.counts.get(block.0 as usize);
        count.map_or(0, |count| count.cycles)
    }

    /// A hot block has just executed: takes its window, if there is a place for it.
    fn take(&mut self, stream: StreamId, block: BlockId, cycles: u64) -> bool {
        let of = |c: &Candidate| self.cycles(c.block);
        let known = self.candidates.iter().position(|c| c.block == block);
        let place = match known {
            None if self.candidates.len() == CANDIDATES => {
                let coldest = self
                    .candidates
                    .iter()
                    .enumerate()
                    .min_by_key(|(_, c)| of(c));
                match coldest {
                    Some((place, coldest)) if of(coldest) < cycles => Some(place),
                    _ => return false,
                }
            }
            known => known,
        };
        let recent = self.recent.get(&stream);
        let candidate = Candidate {
            block,
            stream,
            missing: self.half,
            kept: recent.map_or_else(Vec::new, |recent| recent.iter().cloned().collect()),
        };
        match place.and_then(|place| self.candidates.get_mut(place)) {
            // Its second half is still to come.
            Some(old) if old.block == block && old.missing > 0 => return false,
            Some(old) => *old = candidate,
            None => self.candidates.push(candidate),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: StreamId = StreamId(0);

    /// An execution of a block of one instruction, which takes some cycles.
    fn execute(hottest: &mut Hottest, number: u64, block: u32, cycles: u64) {
        let retired = Retired {
            first: number,
            last: number,
            slot: 0,
        };
        hottest.instruction(&Timed {
            thread: STREAM,
            number,
            code: block,
            pair: false,
            retired,
            uops: &[],
        });
        hottest.block(STREAM, BlockId(block), cycles);
    }

    fn told(hottest: Hottest) -> Vec<u32> {
        let mut codes = Vec::new();
        hottest.tell(|timed| codes.push(timed.code));
        codes
    }

    #[test]
    fn a_late_leader_is_shown_from_the_middle_of_its_time() {
        let mut hottest = Hottest::new(20);
        for n in 0..1000 {
            execute(&mut hottest, n, 0, 3);
        }
        // It takes the lead in its very last executions.
        for n in 1000..2000 {
            execute(&mut hottest, n, 1, 4);
        }
        assert_eq!(told(hottest), [1; 20]);
    }

    #[test]
    fn flat_profiles_cost_a_bounded_number_of_windows() {
        let mut hottest = Hottest::new(8);
        for n in 0..100_000_u32 {
            execute(&mut hottest, n.into(), n % 50, 1);
            assert!(hottest.candidates.len() <= CANDIDATES);
        }
        let codes = told(hottest);
        assert_eq!(codes.len(), 8);
        let steps = codes.windows(2).all(|pair| (pair[0] + 1) % 50 == pair[1]);
        assert!(steps, "{codes:?}");
    }

    #[test]
    fn a_leader_that_ends_the_run_has_what_there_is() {
        let mut hottest = Hottest::new(8);
        for n in 0..100 {
            execute(&mut hottest, n, 0, 1);
        }
        execute(&mut hottest, 100, 1, 1000);
        assert_eq!(told(hottest), [0, 0, 0, 1]);
        assert!(told(Hottest::new(8)).is_empty());
    }
}
