//! Intervals: a thread's instructions cut into pieces of fixed length that are simulated apart.
//!
//! An interval begins earlier, with instructions that only warm its core up: buffers fill, the µop
//! cache knows the code. What it counts begins where what its predecessor counts ends, both as
//! instructions are handed to the core, so that sums over the intervals are those of the thread up
//! to what the warm-up has not made equal. The result depends on the lengths and on nothing else:
//! not on how many threads simulate, nor on which.
//!
//! What caches and predictors know, which reaches back millions of instructions, an interval is given
//! where it begins ([`super::warming`]); the warm-up brings what pipelines know, which forget within
//! some thousand. How well both do is looked at in every run: the second half of a warm-up is
//! simulated by both neighbours. How far they differ there says how far an interval is off that
//! never forgets how it began. Most do at once; loops that can settle in more than one rhythm (which
//! port serves which µop) may keep theirs to their end.

use mcad_proto::word::StreamId;
use mcad_report::IntervalReport;

use super::core::{Core, Part, Thread};
use super::region::Stays;
use super::totals::Totals;
use crate::pipeline::frontend::predict::stream::Steers;
use crate::pipeline::frontend::uop_cache::groups::Groups;
use crate::pipeline::functional::Warm;

/// How threads are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Intervals {
    /// Instructions in an interval.
    pub length: u64,
    /// Instructions before it that warm it up; less than `length`.
    pub warm_up: u64,
}

impl Default for Intervals {
    /// A million, warmed up by what pipelines forget and a fiftieth of the work: longer ones come no
    /// nearer to what an uncut simulation gives.
    fn default() -> Self {
        Self {
            length: 1_000_000,
            warm_up: 20_000,
        }
    }
}

/// Cycles for the instructions that two neighbours have in common.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seam {
    /// In the earlier one, at its end.
    earlier: Option<u64>,
    /// In the later one, while it warmed up.
    later: Option<u64>,
}

impl Core {
    /// A part begins, with what a core remembers there.
    pub(super) fn open(&mut self, part: Part, warm: Option<Warm>) {
        let process = self.homes.of(part.stream);
        let mut thread = Thread::new(&self.model, part, process, self.is_told);
        if let Some(warm) = warm {
            thread.pipeline.resume(warm);
        }
        if let Some(mut groups) = self.groups.pop() {
            thread.pipeline.exchange_groups(&mut groups);
        }
        self.threads.insert(part, thread);
    }

    /// What becomes of the next branches of a part.
    pub(super) fn tell(&mut self, part: Part, steers: Steers) {
        let thread = self.threads.get_or_insert_with(part, || {
            Thread::new(&self.model, part, self.homes.of(part.stream), self.is_told)
        });
        thread.pipeline.tell(steers);
    }

    /// The instructions that a part has in common with a neighbour, and that are compared, begin.
    pub(super) fn mark(&mut self, part: Part) {
        self.catch_up(part);
        if let Some(thread) = self.threads.get_mut(part) {
            thread.mark = Some(thread.pipeline.cycles());
        }
    }

    /// Brings a part as near to what it was handed as it gets without knowing what follows, so that
    /// neighbours stand at the same instruction when they are compared or take turns.
    fn catch_up(&mut self, part: Part) {
        let Some(thread) = self.threads.get_mut(part) else {
            return;
        };
        if thread.warming {
            thread.pipeline.run(&self.program);
        } else {
            thread.lend(&mut self.cycles, &mut self.stacks);
            thread.pipeline.run(&self.program);
            thread.lend(&mut self.cycles, &mut self.stacks);
        }
    }

    /// A part is warm: from here on it counts.
    pub(super) fn begin(&mut self, part: Part) {
        self.catch_up(part);
        let Some(thread) = self.threads.get_mut(part) else {
            return;
        };
        thread.warming = false;
        thread.begin = Totals::of(&thread.pipeline);
        if let Some(memory) = thread.pipeline.lines().memory() {
            memory.by_instruction.clear();
        }
        thread.pipeline.forget_branches();
        if let Some(mark) = thread.mark.take() {
            self.seams.entry(part).or_default().later = Some(thread.begin.cycles - mark);
        }
    }

    /// A part has everything that it counts; what is still under way belongs to the next one.
    pub(super) fn end_interval(&mut self, part: Part) {
        self.catch_up(part);
        let Some(mut thread) = self.threads.remove(part) else {
            return;
        };
        let mut groups = Groups::default();
        thread.pipeline.exchange_groups(&mut groups);
        self.groups.push(groups);
        if thread.warming {
            // The thread ended before the interval began.
            return;
        }
        if let Some(mark) = thread.mark {
            let next = Part {
                interval: part.interval + 1,
                ..part
            };
            let cycles = thread.pipeline.cycles() - mark;
            self.seams.entry(next).or_default().earlier = Some(cycles);
        }
        self.sum(part, &mut thread);
    }

    /// Takes in the sums of another core of the same model that simulated other intervals.
    pub(super) fn absorb(&mut self, mut other: Self) {
        self.totals.add(&Totals::default(), &other.totals);
        self.finished.append(&mut other.finished);
        self.finished_cycles += other.finished_cycles;
        // Where blocks are in a program depends on which of them it has by vector type, and when that
        // was met.
        let instructions = self.program().instrs.len();
        if self.cycles.len() < instructions {
            self.cycles.resize(instructions, 0);
        }
        for id in other.places.ids() {
            for (own, from) in self.range(id).zip(other.range(id)) {
                let came = other.take_of(from as u32);
                self.add_to(own as u32, &came);
            }
        }
        other.branches.by_instruction.clear();
        self.branches.add(&other.branches);
        self.stacks.absorb(&other.stacks);
        for (form, unlisted) in other.unlisted {
            let next = self.unlisted.len();
            let own = *self.unlisted_names.entry(form.clone()).or_insert(next);
            match self.unlisted.get_mut(own) {
                Some((_, sum)) => sum.count += unlisted.count,
                None => self.unlisted.push((form, unlisted)),
            }
        }
        if self.stays.len() < other.stays.len() {
            self.stays.resize_with(other.stays.len(), Stays::default);
        }
        for (sum, stays) in self.stays.iter_mut().zip(&other.stays) {
            sum.merge(stays);
        }
        for (part, seam) in other.seams {
            let sum = self.seams.entry(part).or_default();
            sum.earlier = sum.earlier.or(seam.earlier);
            sum.later = sum.later.or(seam.later);
        }
    }

    /// Says how far neighbours differ, once the intervals of all threads have been absorbed. The report sums up
    /// those of a thread.
    pub(super) fn interval_report(&mut self, intervals: Intervals) -> IntervalReport {
        let mut report = IntervalReport {
            length: intervals.length,
            warm_up: intervals.warm_up,
            count: self.finished.len() as u64,
            difference: 0,
            compared: 0,
        };
        // The one count that the sum of intervals may leave below zero by a few slots.
        let t = &mut self.totals.topdown;
        let counted =
            t.retiring + t.bad_speculation + t.frontend + t.backend_memory + t.backend_core;
        t.other = t.slots.saturating_sub(counted);
        for seam in self.seams.values() {
            if let Seam {
                earlier: Some(earlier),
                later: Some(later),
            } = seam
            {
                report.difference += earlier.abs_diff(*later);
                report.compared += earlier;
            }
        }
        report
    }
}

/// Where a thread is in its intervals: says what happens before each of its executions.
#[derive(Debug)]
pub(super) struct Cut {
    intervals: Intervals,
    stream: StreamId,
    /// The interval that counts.
    interval: u32,
    /// Instructions of it so far.
    at: u64,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// Only this interval executes.
    Alone,
    /// The next one warms up.
    Warming,
    /// Both are being compared.
    Compared,
}

/// What happens between two executions of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The next interval begins to warm up.
    Open,
    /// The instructions that are compared begin.
    Compare,
    /// The next interval begins to count, and this one is over.
    Next,
}

impl Cut {
    pub(super) fn new(intervals: Intervals, stream: StreamId) -> Self {
        Self {
            intervals,
            stream,
            interval: 0,
            at: 0,
            stage: Stage::Alone,
        }
    }

    /// The interval that counts.
    pub(super) fn part(&self) -> Part {
        Part {
            stream: self.stream,
            interval: self.interval,
        }
    }

    /// The interval that warms up.
    pub(super) fn next(&self) -> Option<Part> {
        (self.stage > Stage::Alone).then_some(Part {
            stream: self.stream,
            interval: self.interval + 1,
        })
    }

    /// What is due before the next execution; to be asked until nothing is.
    pub(super) fn step(&mut self) -> Option<Step> {
        let Intervals { length, warm_up } = self.intervals;
        let left = length.saturating_sub(self.at);
        let (stage, step) = match self.stage {
            Stage::Alone if left <= warm_up => (Stage::Warming, Step::Open),
            Stage::Warming if left <= warm_up / 2 => (Stage::Compared, Step::Compare),
            Stage::Compared if left == 0 => {
                // What the last block had beyond the end belongs to the next interval's length.
                self.at -= length;
                self.interval += 1;
                (Stage::Alone, Step::Next)
            }
            _ => return None,
        };
        self.stage = stage;
        Some(step)
    }

    /// Instructions were handed on.
    pub(super) fn executed(&mut self, instructions: u64) {
        self.at += instructions;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The steps of a thread of blocks of a length, with the instructions before each.
    fn steps(intervals: Intervals, block: u64, blocks: u64) -> Vec<(u64, Step)> {
        let mut cut = Cut::new(intervals, StreamId(0));
        let mut steps = Vec::new();
        for n in 0..blocks {
            while let Some(step) = cut.step() {
                steps.push((n * block, step));
            }
            cut.executed(block);
        }
        steps
    }

    #[test]
    fn steps_come_in_order_at_their_places() {
        let intervals = Intervals {
            length: 100,
            warm_up: 20,
        };
        use Step::{Compare, Next, Open};
        assert_eq!(
            steps(intervals, 1, 201),
            [
                (80, Open),
                (90, Compare),
                (100, Next),
                (180, Open),
                (190, Compare),
                (200, Next)
            ]
        );
        // A block that reaches over the end does not move the next one.
        assert_eq!(
            steps(intervals, 30, 8)[..],
            [
                (90, Open),
                (90, Compare),
                (120, Next),
                (180, Open),
                (210, Compare),
                (210, Next)
            ]
        );
    }
}
