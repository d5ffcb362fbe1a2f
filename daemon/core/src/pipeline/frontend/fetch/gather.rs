//! How executed instructions come into the queue: one by one or a block at a time, into the open group,
//! and what is decided where a group ends.

use super::super::loop_stream::Step;
use super::super::plan::Run;
use super::super::predict::stream::Way;
use super::super::uop_cache::pack::{Entry, Line, Open};
use super::FetchQueue;
use crate::pipeline::access::Access;
use crate::pipeline::inst::{Inst, Source};
use mcad_isa::program::Program;

impl FetchQueue {
    /// Static instructions from number `first` on are about to be appended to the open group.
    #[inline]
    fn add(&mut self, first: u32, count: u64) {
        if self.insts.end() == self.open {
            self.pieces.clear();
        }
        self.pieces.add(first, count);
    }

    #[inline]
    fn append(&mut self, inst: Inst, accesses: &[Access]) {
        self.add(inst.instr, 1);
        self.insts.push(inst);
        if !accesses.is_empty() {
            self.accesses.append(accesses);
        }
    }

    /// Takes the next executed instruction.
    #[inline]
    pub fn push(&mut self, program: &Program, inst: Inst, accesses: &[Access]) {
        if let Some(starts) = &mut self.prediction {
            let number = self.insts.end() + self.detector.held();
            let restarted = starts.restarts();
            starts.arrive(program, &inst, number, self.detector.is_replaying());
            if let Some(way) = restarted {
                self.restart(program, way);
            }
        }
        self.take(program, inst, accesses);
    }

    /// Takes an instruction that has arrived.
    #[inline]
    fn take(&mut self, program: &Program, inst: Inst, accesses: &[Access]) {
        if self.detector.is_replaying() {
            self.replay(program, inst, accesses);
        } else {
            self.pass(program, inst, accesses);
        }
    }

    /// An instruction while the loop stream detector replays a loop.
    fn replay(&mut self, program: &Program, inst: Inst, accesses: &[Access]) {
        let Some(instr) = program.instrs.get(inst.instr as usize) else {
            return;
        };
        match self.detector.step(inst, accesses, instr) {
            Step::Held => {}
            Step::Complete { refill } => {
                let (insts, accesses) = self.detector.take();
                self.accesses.append(&accesses);
                let count = insts.len();
                for (n, mut inst) in insts.into_iter().enumerate() {
                    inst.source = Source::LoopStream;
                    inst.stream_end = refill && n + 1 == count;
                    inst.taken = n + 1 == count;
                    self.next_address = inst.address.wrapping_add(u64::from(
                        program.instrs.get(inst.instr as usize).map_or(1, |i| i.len),
                    ));
                    self.insts.push(inst);
                }
                let end = self.insts.end();
                if refill {
                    self.open = end;
                    self.stream_from = end;
                }
            }
            Step::Pass => self.leave_loop(program),
        }
    }

    /// The loop is left: whole iterations that wait make the last refill, the rest goes the usual
    /// way.
    fn leave_loop(&mut self, program: &Program) {
        let (insts, accesses) = self.detector.take();
        self.detector.stop();
        let end = self.insts.end();
        if end > self.stream_from
            && self
                .insts
                .back()
                .is_some_and(|i| i.source == Source::LoopStream)
        {
            if let Some(last) = self.insts.back_mut() {
                last.stream_end = true;
            }
            self.open = end;
            self.stream_from = end;
        }
        self.route = Source::UopCache;
        self.after_branch = true;
        let mut rest = accesses.as_slice();
        for inst in insts {
            let (own, others) =
                rest.split_at((usize::from(inst.loads) + usize::from(inst.stores)).min(rest.len()));
            rest = others;
            // What was held may itself be a loop that is replayed from here on.
            self.take(program, inst, own);
        }
    }

    /// Fetch starts anew though control goes on: what follows a string comes from the decoders, what follows a
    /// system call as what follows a branch.
    #[cold]
    fn restart(&mut self, program: &Program, way: Way) {
        let end = self.insts.end();
        if end != self.open {
            self.close_group(program, end);
        }
        (self.route, self.after_branch) = (Source::Decoders, way == Way::Kernel);
        self.line = Open::default();
    }

    /// Closes the open group if `inst`, which follows it, does not belong to it.
    #[inline]
    fn join(&mut self, program: &Program, inst: &Inst) {
        let end = self.insts.end();
        if end == self.open {
            return;
        }
        let jumped = inst.address != self.next_address;
        let Some(last) = self.insts.back_mut() else {
            return;
        };
        last.taken |= jumped;
        let back = jumped && inst.address <= last.address;
        if !jumped && last.line() == inst.line() {
            return;
        }
        self.close_group(program, end);
        self.cached &= self.route == Source::UopCache;
        if back {
            self.detector.back_edge(&self.p, self.cached);
            self.cached = true;
            if self.detector.is_replaying() {
                self.stream_from = self.open;
            }
        } else if jumped {
            self.detector.jumped();
        }
    }

    #[inline]
    fn pass(&mut self, program: &Program, inst: Inst, accesses: &[Access]) {
        self.join(program, &inst);
        if self.detector.is_replaying() {
            self.replay(program, inst, accesses);
            return;
        }
        let Some(instr) = program.instrs.get(inst.instr as usize) else {
            return;
        };
        self.detector.passed(inst.instr, instr);
        self.next_address = inst.address.wrapping_add(u64::from(instr.len));
        let inst = inst.laid_out(instr, self.p.predecode_block_bytes);
        self.append(inst, accesses);
    }

    /// Takes all instructions of a block: the same as [`FetchQueue::push`] does with one after the
    /// other.
    pub fn push_run(&mut self, program: &Program, run: Run<'_>) {
        let insts = run.plan.insts();
        let Some(first) = insts.first() else { return };
        if self.detector.is_replaying() {
            for (inst, accesses) in run.one_by_one() {
                self.push(program, inst, accesses);
            }
            return;
        }
        let start = self.insts.end();
        if let (Some(starts), Some(first)) = (&mut self.prediction, run.plan.starts().first()) {
            let restarted = starts.restarts();
            starts.arrive_as(first.at, start, first.branch.as_ref());
            if let Some(way) = restarted {
                self.restart(program, way);
            }
        }
        self.join(program, first);
        if self.detector.is_replaying() {
            // The first one has arrived already.
            let mut rest = run.one_by_one();
            if let Some((inst, accesses)) = rest.next() {
                self.take(program, inst, accesses);
            }
            for (inst, accesses) in rest {
                self.push(program, inst, accesses);
            }
            return;
        }
        let mut lines = run.plan.lines().iter().copied().map(u64::from);
        let mut in_line = lines.next();
        self.add(first.instr, in_line.unwrap_or(insts.len() as u64));
        self.insts.append(insts);
        let own = self.insts.range_mut(start, start + insts.len() as u64);
        for span in run.spans {
            if let Some(inst) = own.get_mut(usize::from(span.index)) {
                (inst.loads, inst.stores) = (span.loads, span.stores);
            }
        }
        self.accesses.append(run.accesses);
        if let Some(starts) = &mut self.prediction {
            for at in run.plan.starts().iter().skip(1) {
                let number = start + u64::from(at.place);
                starts.arrive_as(at.at, number, at.branch.as_ref());
            }
        }
        self.detector.passed_all(program, insts);
        self.next_address = run.plan.end();
        let (mut at, end) = (start, start + insts.len() as u64);
        while let Some(count) = in_line {
            at += count;
            self.close_group(program, at);
            self.cached &= self.route == Source::UopCache;
            in_line = lines.next();
            self.pieces.clear();
            let instr = first.instr + (at - start) as u32;
            self.pieces.add(instr, in_line.unwrap_or(end - at));
        }
    }

    /// Takes an instruction of a loop that the loop stream detector replays; `end` ends a group
    /// that is delivered at once.
    pub fn push_stream(&mut self, mut inst: Inst, accesses: &[Access], end: bool) {
        inst.source = Source::LoopStream;
        inst.stream_end = end;
        self.append(inst, accesses);
        if end {
            self.open = self.insts.end();
        }
    }

    /// Takes instructions of code that goes straight on and is executed only once, so that they come
    /// from the decoders; how they lie in the predecoder's blocks they say.
    #[inline]
    pub fn push_straight(&mut self, insts: &[Inst], accesses: &[Access]) {
        self.insts.append(insts);
        self.accesses.append(accesses);
        self.open = self.insts.end();
    }

    /// Releases everything: nothing follows.
    pub fn close(&mut self, program: &Program) {
        if self.detector.is_replaying() {
            self.leave_loop(program);
        }
        // The last group has no successor that could change its route.
        if let Some(last) = self.insts.back_mut() {
            last.taken = true;
        }
        let end = self.insts.end();
        for number in self.open..end {
            if let Some(inst) = self.get_mut(number) {
                inst.source = Source::Decoders;
            }
        }
        self.open = end;
    }

    /// Decides from where the open group, which ends before number `end`, is delivered, and
    /// releases it.
    fn close_group(&mut self, program: &Program, end: u64) {
        let span = (self.open, end);
        let address = self.insts.get(self.open).map_or(0, |first| first.address);
        let line = (self.cache).goes_on(self.line, self.route, self.after_branch);
        let pieces = &self.pieces;
        let group = (self.groups).group(program, &self.p, &self.insts, span, pieces, line);
        let Some(group) = group else {
            debug_assert!(false, "a group has instructions");
            return;
        };
        // With the erratum's rule, one half that cannot be cached takes the other with it.
        let group_cacheable = group.cacheable || !self.p.uop_cache_both_halves;
        let moved = group.moved_to(address);
        let mut at = self.open;
        for (part, entries, lines) in group.parts() {
            let to = at + part.instructions;
            let may_hit = self.route == Source::UopCache || self.after_branch;
            let cacheable = part.packed.cacheable && group_cacheable;
            let hit = cacheable && self.cache.has(part, entries, moved);
            self.route = match self.cache.delivers(hit, may_hit) {
                true => Source::UopCache,
                false => Source::Decoders,
            };
            self.after_branch = false;
            if self.route == Source::UopCache {
                for inst in self.insts.range_mut(at, to) {
                    inst.source = Source::UopCache;
                }
                let line = |line: &Line| Line { from: at, ..*line };
                self.lines.extend(lines.iter().map(line));
                if moved == 0 {
                    self.entries.append(entries);
                } else {
                    let entry = |entry: &Entry| Entry {
                        address: entry.address.wrapping_add(moved),
                        ..*entry
                    };
                    self.entries.extend(entries.iter().map(entry));
                }
            }
            at = to;
        }
        self.after_branch = group.ends_in_branch;
        self.line = (self.cache).leaves(group.open, self.route, group.taken);
        self.open = end;
    }
}
