//! Whether what a model takes for granted holds for a program: cheap counts from its accesses and
//! branches, for models without caches or branch prediction of their own.
//!
//! Not a prediction. The counts are those of the simplest mechanisms that there are: a direct-mapped
//! cache of [`LINES`] lines and a counter of two bits for each branch. Where even these say that
//! little is missed, taking hits for granted does little harm; where they miss often, figures of
//! a model without any rest on what is not so. Counted by thread, so that nothing depends on how
//! threads take turns.

use mcad_proto::word::{BlockId, StreamId};
use rustc_hash::FxHashMap;

use super::dictionary::TranslatedBlock;
use super::execution::Execution;
use crate::pipeline::access::Address;

/// Lines of 64 bytes that are remembered: 64 KiB.
const LINES: usize = 1024;
/// Branches with a counter of their own; others share.
const BRANCHES: usize = 4096;
/// Misses or wrong predictions per 1 000 instructions that are worth a warning: at twenty cycles
/// each they take a tenth of a cycle an instruction.
const WORTH_TELLING: u64 = 5;

/// What a thread did last.
struct Thread {
    /// The line in each place, with its lowest bit set; 0 is none.
    lines: Box<[u64; LINES]>,
    /// 2 and more: taken.
    counters: Box<[u8; BRANCHES]>,
    /// The conditional branch that ended the last block: its counter, and where it goes on if it is not
    /// taken.
    branch: Option<(usize, u64)>,
}

impl Default for Thread {
    fn default() -> Self {
        Self {
            lines: Box::new([0; LINES]),
            counters: Box::new([1; BRANCHES]),
            branch: None,
        }
    }
}

/// The counts.
#[derive(Default)]
pub(super) struct Evidence {
    threads: FxHashMap<StreamId, Thread>,
    instructions: u64,
    misses: u64,
    wrong: u64,
}

impl Evidence {
    /// A thread executed a block.
    pub(super) fn execute(&mut self, stream: StreamId, block: &TranslatedBlock, e: &Execution<'_>) {
        let thread = self.threads.entry(stream).or_default();
        self.instructions += (e.end - e.first) as u64;
        if let Some((counter, falls_to)) = thread.branch.take()
            && let Some(counter) = thread.counters.get_mut(counter)
        {
            let taken = block.address.0 != falls_to;
            self.wrong += u64::from(taken != (*counter >= 2));
            *counter = match taken {
                true => (*counter + 1).min(3),
                false => counter.saturating_sub(1),
            };
        }
        if e.end >= block.len() {
            thread.branch = counter(block, e.block);
        }
        for access in e.accesses {
            if let Address::Known(address) = access.address {
                let line = address >> 6;
                let place = thread.lines.get_mut(line as usize % LINES);
                if let Some(place) = place {
                    let held = (line << 1) | 1;
                    self.misses += u64::from(*place != held);
                    *place = held;
                }
            }
        }
    }

    /// A thread ended.
    pub(super) fn end_thread(&mut self, stream: StreamId) {
        self.threads.remove(&stream);
    }

    /// What does not hold of a model with or without caches and branch prediction, for people.
    pub(super) fn against(&self, caches: bool, predictor: bool) -> Vec<String> {
        let often = |count: u64| {
            let rate = count.saturating_mul(1000) / self.instructions.max(1);
            (rate >= WORTH_TELLING).then_some(rate)
        };
        let mut all = Vec::new();
        if let (false, Some(rate)) = (caches, often(self.misses)) {
            all.push(format!(
                "loads and stores do not all hit: of 1 000 instructions, {rate} accesses are to \
                 lines that 64 KiB, direct-mapped, do not hold"
            ));
        }
        if let (false, Some(rate)) = (predictor, often(self.wrong)) {
            all.push(format!(
                "branches are not all predicted: of 1 000 instructions, {rate} branches go another \
                 way than a two-bit counter says"
            ));
        }
        all
    }
}

/// The counter of the conditional branch at a block's end, and where it falls through to.
fn counter(block: &TranslatedBlock, id: BlockId) -> Option<(usize, u64)> {
    let conditional = block.falls_through && !block.ends_with_rep;
    let other_way = block.target.is_some_and(|target| target != block.end);
    (conditional && other_way).then_some((id.0 as usize % BRANCHES, block.end.0))
}

#[cfg(test)]
mod tests {
    use mcad_proto::event::Arch;
    use mcad_proto::word::GuestAddr;

    use super::*;
    use crate::pipeline::access::Access;

    /// A conditional jump over nothing.
    fn block() -> TranslatedBlock {
        TranslatedBlock {
            arch: Arch::X86_64,
            address: GuestAddr(0x1000),
            end: GuestAddr(0x1002),
            bytes: [0x75, 0xfe].into(),
            offsets: [0, 2].into(),
            ending: super::super::dictionary::Ending::Plain,
            target: Some(GuestAddr(0x1000)),
            falls_through: true,
            leaves_anywhere: false,
            starts_with_rep: false,
            ends_with_rep: false,
            accesses: [false].into(),
            image: None,
        }
    }

    /// One instruction a turn: `addresses` are read in turns, and the jump is taken as `taken` says.
    fn evidence(addresses: &[u64], taken: impl Fn(u64) -> bool) -> Evidence {
        let mut evidence = Evidence::default();
        let (here, there) = (
            block(),
            TranslatedBlock {
                address: GuestAddr(0x1002),
                target: None,
                ..block()
            },
        );
        for n in 0..10_000u64 {
            let address = addresses[n as usize % addresses.len()];
            let accesses = [Access::known(address, 8)];
            let execution = |block, accesses| Execution {
                block: BlockId(block),
                first: 0,
                end: 1,
                spans: &[],
                accesses,
                in_order: true,
                repeats: 0,
                reaches: &[],
                kernel: &[],
            };
            evidence.execute(StreamId(0), &here, &execution(0, &accesses));
            if !taken(n) {
                evidence.execute(StreamId(0), &there, &execution(1, &[]));
            }
        }
        evidence
    }

    #[test]
    fn what_hits_and_is_foreseen_speaks_against_nothing() {
        // Two lines in places of their own, and a jump that is always taken.
        let good = evidence(&[0x100, 0x140], |_| true);
        assert_eq!((good.misses, good.wrong), (2, 1));
        assert!(good.against(false, false).is_empty());
        // Two lines in one place miss every time.
        let bad = evidence(&[0x100, 0x100 + 64 * LINES as u64], |_| true);
        assert_eq!(bad.misses, 10_000);
        assert_eq!(bad.against(false, false).len(), 1);
        // A model with caches says itself what misses.
        assert!(bad.against(true, false).is_empty());
        // A jump that goes each way in turn is foreseen half of the times at most.
        let turns = evidence(&[0x100], |n| n % 2 == 0);
        assert!(turns.wrong >= 5_000 - 1, "{}", turns.wrong);
        assert_eq!(turns.against(true, false).len(), 1);
        assert!(turns.against(true, true).is_empty());
    }
}
