//! Branch prediction on the stream of executed instructions: where fetch starts anew, and what
//! led there.
//!
//! Where a branch goes is known when the next instruction arrives. From then on [`Starts`] has an
//! entry for it: fetch goes from line to line, and each line, target of a branch, and right path
//! after a wrong one is a start. Between two starts nothing holds up fetch.

use std::ops::Range;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::btb::is_other_page;
use super::frames::{Frame, Frames};
use super::{Executed, Kind, Predictor, Steer};
use crate::pipeline::backlog::Backlog;
use crate::pipeline::fold::Folding;
use crate::pipeline::inst::Inst;
use mcad_isa::machine::params::branch;
use mcad_isa::program::{Program, flag};

/// log2 of the bytes that are fetched at once from the first-level cache's point of view.
pub const LINE_SHIFT: u32 = 6;

/// How fetch comes to an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// It is the first in its line, after the one before.
    Line,
    /// A branch goes there.
    Branch(Steer),
    /// A repeated string instruction whose count its microcode had not predicted is before it.
    String,
}

/// An instruction where fetch starts anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// Number of the instruction.
    pub number: u64,
    /// Its address.
    pub address: u64,
    /// How fetch comes there.
    pub way: Way,
    /// Shares of a cycle, of which `starts_per_cycle` make one, that the predictor takes for it, besides the
    /// bubbles of the branch target buffer.
    pub shares: u32,
    /// What that branch does to the frames of calls.
    pub frame: Frame,
}

/// What became of a branch's predictions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BranchCounts {
    /// Predicted the wrong way.
    pub wrong_direction: u64,
    /// Predicted to a wrong target.
    pub wrong_target: u64,
    /// Found only by the decoders.
    pub decoded: u64,
}

/// Sums over a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Branches executed.
    pub branches: u64,
    /// Of them, taken.
    pub taken: u64,
    /// Wrongly predicted directions of conditional branches.
    pub wrong_direction: u64,
    /// Wrongly predicted targets of indirect jumps and calls.
    pub wrong_indirect: u64,
    /// Wrongly predicted targets of returns.
    pub wrong_return: u64,
    /// Taken branches by the level of branch target buffer that had them.
    pub btb: [u64; branch::MAX_BTB_LEVELS],
    /// Taken branches that none had.
    pub decoded: u64,
    /// Directions that the quick predictor had wrong and the other one right.
    pub overridden: u64,
    /// Branches with wrong predictions, by static instruction.
    pub by_instruction: FxHashMap<u32, BranchCounts>,
}

impl Counts {
    /// Adds those of another thread.
    pub fn add(&mut self, other: &Self) {
        self.branches += other.branches;
        self.taken += other.taken;
        self.wrong_direction += other.wrong_direction;
        self.wrong_indirect += other.wrong_indirect;
        self.wrong_return += other.wrong_return;
        self.decoded += other.decoded;
        self.overridden += other.overridden;
        for (sum, count) in self.btb.iter_mut().zip(&other.btb) {
            *sum += count;
        }
        for (instr, counts) in &other.by_instruction {
            let own = self.by_instruction.entry(*instr).or_default();
            own.wrong_direction += counts.wrong_direction;
            own.wrong_target += counts.wrong_target;
            own.decoded += counts.decoded;
        }
    }
}

/// Where an instruction is.
#[derive(Clone, Copy, Debug)]
pub struct CodePlace {
    /// Its address.
    pub address: u64,
    /// It is where shared objects are mapped.
    pub in_shared_object: bool,
}

/// A static branch.
#[derive(Clone, Copy, Debug)]
pub struct Branch {
    /// Its address.
    pub pc: u64,
    /// Address behind it.
    pub next: u64,
    /// Address of the target in its code.
    pub target: u64,
    /// What it is.
    pub kind: Kind,
    /// It is where shared objects are mapped.
    pub in_shared_object: bool,
}

impl Branch {
    /// The branch of so many bytes at an address, from which it is so far to the target in its code.
    #[inline]
    #[must_use]
    pub fn new(pc: u64, len: usize, (kind, displacement): (Kind, i32)) -> Self {
        Self {
            pc,
            next: pc.wrapping_add(len as u64),
            target: pc.wrapping_add(displacement as i64 as u64),
            kind,
            in_shared_object: false,
        }
    }

    /// It was executed, and went there.
    #[inline]
    #[must_use]
    pub fn went(&self, to: u64) -> Executed {
        let conditional = self.kind == Kind::Conditional;
        Executed {
            pc: self.pc,
            next: self.next,
            target: if conditional { self.target } else { to },
            taken: !conditional || to != self.next,
            kind: self.kind,
        }
    }
}

/// A branch, and which static instruction it is.
#[derive(Clone, Copy, Debug)]
pub struct Site {
    branch: Branch,
    instr: u32,
}

impl Site {
    /// An instruction, if it is a branch.
    #[inline]
    #[must_use]
    pub fn of(program: &Program, inst: &Inst) -> Option<Self> {
        let instr = program.instrs.get(inst.instr as usize)?;
        let what = (instr.branch?, instr.displacement);
        Some(Self {
            branch: Branch {
                in_shared_object: instr.in_shared_object,
                ..Branch::new(inst.address, usize::from(instr.len), what)
            },
            instr: inst.instr,
        })
    }
}

/// What became of a row of branches, in order.
#[derive(Clone, Debug, Default)]
pub struct Steers {
    all: Arc<[Steer]>,
    /// Those that are left.
    left: Range<usize>,
}

impl Steers {
    /// Some of these.
    #[must_use]
    pub fn new(all: &Arc<[Steer]>, left: Range<usize>) -> Self {
        Self {
            all: Arc::clone(all),
            left,
        }
    }
}

impl Iterator for Steers {
    type Item = Steer;

    #[inline]
    fn next(&mut self) -> Option<Steer> {
        self.all.get(self.left.next()?).copied()
    }
}

/// How long the predictor takes from start to start, in shares of a cycle.
#[derive(Clone, Copy)]
struct Pace {
    /// Shares of a cycle.
    per_cycle: u32,
    /// More for a call, for an indirect branch, for a return, for one that goes elsewhere than last, for a chosen target, and
    /// for the first return behind one.
    call: u32,
    indirect: u32,
    back: u32,
    back_elsewhere: u32,
    to_chosen: u32,
    back_chosen: u32,
    /// More for a target with other bits from this one on.
    far: u32,
    far_from: u32,
    /// What a level that has the branch takes more itself.
    bubbles: [u32; branch::MAX_BTB_LEVELS],
    /// More for a target in another page, by the level that has the branch.
    other_page: [u32; branch::MAX_BTB_LEVELS],
    indirect_alone: bool,
    lines_in_pairs: bool,
    /// Branches are found in pairs.
    in_pairs: bool,
    /// The last start was where a branch went that may be the first of a pair.
    first: bool,
    /// A target was chosen since the last return.
    chosen: bool,
    /// The last start was where a branch went.
    at_target: bool,
}

impl Pace {
    fn new(p: &branch::Branch) -> Self {
        let shares = |cycles: u64| {
            u32::try_from(cycles.saturating_mul(p.starts_per_cycle.into())).unwrap_or(u32::MAX)
        };
        Self {
            per_cycle: p.starts_per_cycle,
            call: shares(p.call_bubbles),
            indirect: shares(p.indirect_bubbles),
            back: shares(p.return_bubbles),
            back_elsewhere: shares(p.changed_return_bubbles),
            to_chosen: shares(p.chosen_bubbles),
            back_chosen: shares(p.chosen_return_bubbles),
            far: shares(p.far_bubbles),
            bubbles: std::array::from_fn(|n| p.btb.get(n).map_or(0, |b| shares(b.bubbles))),
            other_page: std::array::from_fn(|n| {
                p.btb.get(n).map_or(0, |b| shares(b.other_page_bubbles))
            }),
            far_from: match p.target_bits {
                0 => u64::BITS,
                bits => bits,
            },
            indirect_alone: p.indirect_alone,
            lines_in_pairs: p.lines_in_pairs,
            in_pairs: p.branches_in_pairs,
            first: false,
            chosen: false,
            at_target: false,
        }
    }

    /// Whether the branch target buffer lacks the upper bits of this target.
    fn is_far(&self, from: &Branch, to: CodePlace) -> bool {
        let other = (from.pc ^ to.address).checked_shr(self.far_from);
        from.in_shared_object != to.in_shared_object || other.is_some_and(|bits| bits != 0)
    }

    /// Those of the next start, to which a branch leads, if any does.
    fn shares(&mut self, way: Way, branch: Option<&Branch>, to: CodePlace) -> u32 {
        let paired = way == Way::Line && self.at_target && self.lines_in_pairs;
        self.at_target = way != Way::Line;
        let chosen = matches!(way, Way::Branch(Steer::Chosen(_)));
        self.chosen |= chosen && branch.is_some_and(|b| b.kind != Kind::Return);
        let second = self.in_pairs && self.is_second(way, branch, to);
        let Some(branch) = branch else {
            return u32::from(!paired);
        };
        if second {
            return 0;
        }
        // A target that was chosen among several is known with all of its bits.
        let with_target = |own: u32| match chosen {
            true => own.max(self.to_chosen),
            false => own + self.reaching(way, branch, to),
        };
        let indirect = self.indirect.saturating_sub(self.waited(way));
        match branch.kind {
            Kind::Call => 1 + with_target(self.call),
            Kind::IndirectCall => 1 + with_target(self.call + indirect),
            Kind::Return => {
                let behind = std::mem::take(&mut self.chosen);
                1 + self.back
                    + if behind { self.back_chosen } else { 0 }
                    + if chosen { self.back_elsewhere } else { 0 }
            }
            Kind::IndirectJump if self.indirect_alone => self.per_cycle + with_target(indirect),
            // What is left of a line behind a branch that is not taken needs nothing new.
            Kind::Conditional if way == Way::Branch(Steer::OverriddenStraight) => {
                u32::from(to.address >> LINE_SHIFT != branch.pc >> LINE_SHIFT)
            }
            Kind::IndirectJump => 1 + with_target(indirect),
            Kind::Conditional | Kind::Jump => 1 + with_target(0),
        }
    }

    /// A branch that was taken before is not: it is found like the others.
    fn pass(&mut self) {
        self.first = false;
    }

    /// Whether the branch that leads to a start was found in one cycle with the one before it. The second of two always goes to
    /// one place in its page; the first is a call, or goes to a place in its page, and is no second one itself.
    fn is_second(&mut self, way: Way, branch: Option<&Branch>, to: CodePlace) -> bool {
        let first = std::mem::take(&mut self.first);
        let (Some(branch), Way::Branch(Steer::Taken(0) | Steer::Always(0))) = (branch, way) else {
            return false;
        };
        let near = !is_other_page(branch.pc, to.address);
        let second = first
            && near
            && match branch.kind {
                Kind::Jump => true,
                Kind::Conditional => way == Way::Branch(Steer::Always(0)),
                _ => false,
            };
        self.first = !second
            && match branch.kind {
                Kind::Call | Kind::IndirectCall => true,
                Kind::Jump | Kind::IndirectJump | Kind::Conditional => near,
                Kind::Return => false,
            };
        second
    }

    /// What fetch waits for the branch target buffer in any case.
    fn waited(&self, way: Way) -> u32 {
        let Way::Branch(Steer::Taken(level)) = way else {
            return 0;
        };
        self.bubbles.get(usize::from(level)).copied().unwrap_or(0)
    }

    /// More for what the branch target buffer does not have of a target.
    fn reaching(&self, way: Way, from: &Branch, to: CodePlace) -> u32 {
        let Way::Branch(Steer::Taken(level) | Steer::Always(level) | Steer::Overridden(level)) =
            way
        else {
            return 0;
        };
        let far = if self.is_far(from, to) { self.far } else { 0 };
        let by_level = self.other_page.get(usize::from(level)).copied();
        match is_other_page(from.pc, to.address) {
            true => far + by_level.unwrap_or(0),
            false => far,
        }
    }
}

/// Who predicts a thread's branches.
enum Oracle {
    /// Predictors here.
    Own(Box<Predictor>),
    /// The same predictors elsewhere, where the thread has come further: this is what they made of
    /// the next branches.
    Told(Steers),
}

/// Predictors at work on a thread.
pub struct Starts {
    oracle: Oracle,
    pace: Pace,
    ideal: bool,
    /// The branch that was executed last, of which nobody knows where it went, and its instruction.
    pending: Option<Site>,
    /// Fetch starts anew behind strings whose counts are not predicted.
    strings_restart: bool,
    /// The last instruction was such a one.
    restarts: bool,
    line: u64,
    /// Those that fetch has not come to.
    pub queue: Backlog<Start>,
    /// Calls whose returns are foreseen, as far as fetch has come.
    pub frames: Frames,
    /// What happened so far.
    pub counts: Counts,
}

impl Starts {
    /// Before the first instruction.
    #[must_use]
    pub fn new(p: &branch::Branch) -> Self {
        Self::by(Oracle::Own(Box::new(Predictor::new(p))), p)
    }

    /// The same with predictors elsewhere ([`Starts::tell`]).
    #[must_use]
    pub fn told(p: &branch::Branch) -> Self {
        Self::by(Oracle::Told(Steers::default()), p)
    }

    fn by(oracle: Oracle, p: &branch::Branch) -> Self {
        Self {
            oracle,
            pace: Pace::new(p),
            ideal: p.ideal,
            pending: None,
            strings_restart: p.string_restarts,
            restarts: false,
            line: u64::MAX,
            queue: Backlog::new(),
            frames: Frames::new(p),
            counts: Counts::default(),
        }
    }

    /// The same after the same instructions, with nothing to be fetched or counted.
    #[must_use]
    pub fn snapshot(&self) -> Self {
        Self {
            oracle: match &self.oracle {
                Oracle::Own(predictor) => Oracle::Own(predictor.clone()),
                Oracle::Told(_) => Oracle::Told(Steers::default()),
            },
            pace: self.pace,
            ideal: self.ideal,
            pending: self.pending,
            strings_restart: self.strings_restart,
            restarts: self.restarts,
            line: self.line,
            queue: Backlog::new(),
            frames: self.frames.snapshot(),
            counts: Counts::default(),
        }
    }

    /// Shows its predictors' tables, and what waits.
    pub fn fold(&mut self, folding: &mut Folding) {
        if let Oracle::Own(predictor) = &mut self.oracle {
            predictor.fold(folding);
        }
        self.queue.fold(folding);
    }

    /// What becomes of the next branches, where predictors elsewhere find that out.
    pub fn tell(&mut self, steers: Steers) {
        if let Oracle::Told(told) = &mut self.oracle {
            *told = steers;
        }
    }

    /// What the predictors make of a branch.
    #[inline]
    fn predict(&mut self, branch: &Executed) -> Steer {
        match &mut self.oracle {
            Oracle::Own(predictor) => predictor.branch(branch),
            // Nobody tells only when who should has come to an end before its time.
            Oracle::Told(steers) => steers.next().unwrap_or_default(),
        }
    }

    /// The next executed instruction will have this number; `replayed`: it comes from the loop
    /// stream detector, and needs no fetch unless that was wrong.
    #[inline]
    pub fn arrive(&mut self, program: &Program, inst: &Inst, number: u64, replayed: bool) {
        let instr = program.instrs.get(inst.instr as usize);
        let at = CodePlace {
            address: inst.address,
            in_shared_object: instr.is_some_and(|instr| instr.in_shared_object),
        };
        self.come(at, number, replayed);
        self.pending = Site::of(program, inst);
        self.restarts = self.strings_restart
            && inst.extra_cycles > 0
            && instr.is_some_and(|instr| instr.is(flag::REP) && !instr.is(flag::REP_COMPARE));
    }

    /// Whether fetch starts anew behind the last instruction, though that is no branch.
    #[inline]
    #[must_use]
    pub fn restarts(&self) -> bool {
        self.restarts
    }

    /// The same of one that is not replayed, and is that branch if it is one.
    #[inline(always)]
    pub fn arrive_as(&mut self, at: CodePlace, number: u64, branch: Option<&Site>) {
        // Most branches are in the line of what came before.
        if at.address >> LINE_SHIFT != self.line || self.pending.is_some() || self.restarts {
            self.come(at, number, false);
        }
        if let Some(branch) = branch {
            self.pending = Some(*branch);
        }
    }

    /// The next executed instruction is `at`: fetch may start anew there.
    fn come(&mut self, at: CodePlace, number: u64, replayed: bool) {
        let address = at.address;
        let line = address >> LINE_SHIFT;
        let other_line = line != self.line;
        self.line = line;
        let mut way = other_line.then_some(Way::Line);
        if std::mem::take(&mut self.restarts) {
            way = Some(Way::String);
        }
        let mut frame = Frame::Stays;
        let mut by = None;
        if let Some(Site { branch, instr }) = self.pending.take() {
            let steer = self.resolve((&branch, instr), address);
            if steer == Steer::Passed {
                self.pace.pass();
            } else if steer != Steer::Straight {
                way = Some(Way::Branch(steer));
                by = Some(branch);
                frame = Frame::of(branch.kind);
            }
        }
        if let Some(way) = way {
            let shares = self.pace.shares(way, by.as_ref(), at);
            let free = matches!(
                way,
                Way::Line
                    | Way::Branch(
                        Steer::Taken(_)
                            | Steer::Always(_)
                            | Steer::Chosen(_)
                            | Steer::Overridden(_)
                            | Steer::OverriddenStraight
                    )
            );
            if !(replayed && free) {
                self.queue.push(Start {
                    number,
                    address,
                    way,
                    shares,
                    frame,
                });
            }
        }
    }

    fn resolve(&mut self, (b, instr): (&Branch, u32), went: u64) -> Steer {
        let branch = b.went(went);
        let taken = branch.taken;
        let steer = match self.predict(&branch) {
            steer if self.ideal => steer.at_once(),
            steer => steer,
        };
        self.counts.branches += 1;
        self.counts.taken += u64::from(taken);
        self.counts.overridden += u64::from(steer.is_overridden());
        match steer {
            Steer::Straight | Steer::Passed | Steer::OverriddenStraight => return steer,
            Steer::Taken(level)
            | Steer::Always(level)
            | Steer::Chosen(level)
            | Steer::Overridden(level) => {
                if let Some(count) = self.counts.btb.get_mut(usize::from(level)) {
                    *count += 1;
                }
                return steer;
            }
            _ => {}
        }
        if self.ideal {
            return if taken {
                Steer::Taken(0)
            } else {
                Steer::Straight
            };
        }
        let own = self.counts.by_instruction.entry(instr).or_default();
        match (steer, b.kind) {
            (Steer::WrongDirection, _) => {
                own.wrong_direction += 1;
                self.counts.wrong_direction += 1;
            }
            (Steer::WrongTarget, Kind::Return) => {
                own.wrong_target += 1;
                self.counts.wrong_return += 1;
            }
            (Steer::WrongTarget, _) => {
                own.wrong_target += 1;
                self.counts.wrong_indirect += 1;
            }
            _ => {
                own.decoded += 1;
                self.counts.decoded += 1;
            }
        }
        steer
    }
}

#[cfg(test)]
mod tests {
    use super::super::branches_of;
    use super::*;

    fn at(pc: u64, kind: Kind) -> Branch {
        Branch::new(pc, 5, (kind, 0))
    }

    fn to(address: u64) -> CodePlace {
        CodePlace {
            address,
            in_shared_object: false,
        }
    }

    #[test]
    fn a_return_behind_a_chosen_target_takes_longer_once() {
        let p = branches_of("zen5");
        let mut pace = Pace::new(&p);
        let taken = Way::Branch(Steer::Taken(0));
        let chosen = Way::Branch(Steer::Chosen(0));
        // Half cycles: a call with its return takes four cycles, an indirect jump between the two one
        // more, and two more if its target was chosen; lines behind targets come with them.
        let steps = [
            (taken, Some(Kind::Call), 3),
            (Way::Line, None, 0),
            (Way::Line, None, 1),
            (taken, Some(Kind::IndirectJump), 2),
            (taken, Some(Kind::Return), 5),
            (Way::Line, None, 0),
            (taken, Some(Kind::Call), 3),
            (chosen, Some(Kind::IndirectJump), 2),
            (taken, Some(Kind::Conditional), 1),
            (taken, Some(Kind::Return), 9),
            (taken, Some(Kind::Return), 5),
            (chosen, Some(Kind::IndirectCall), 3),
            (taken, Some(Kind::Return), 9),
        ];
        for (n, (way, kind, shares)) in steps.into_iter().enumerate() {
            let branch = kind.map(|kind| at(0x1000, kind));
            assert_eq!(pace.shares(way, branch.as_ref(), to(0x2000)), shares, "{n}");
        }
    }

    #[test]
    fn an_indirect_branch_takes_two_cycles_on_redwood_cove_also_from_a_farther_buffer() {
        let p = branches_of("rwc");
        let mut pace = Pace::new(&p);
        let of = |level: usize| p.btb[level].bubbles as u32;
        let taken = |level| Way::Branch(Steer::Taken(level));
        let chosen = Way::Branch(Steer::Chosen(0));
        // Bubbles of the buffer's level come on top.
        for (level, way, kind, cycles) in [
            (0, taken(0), Kind::Jump, 1),
            (0, taken(0), Kind::IndirectJump, 2),
            (0, taken(0), Kind::IndirectCall, 2),
            (1, taken(1), Kind::Jump, 2),
            (1, taken(1), Kind::IndirectJump, 2),
            (2, taken(2), Kind::Jump, 4),
            (2, taken(2), Kind::IndirectJump, 4),
            (0, chosen, Kind::IndirectJump, 3),
            (0, taken(0), Kind::Return, 1),
            (0, chosen, Kind::Return, 2),
        ] {
            let shares = pace.shares(way, Some(&at(0x1000, kind)), to(0x2000));
            assert_eq!(shares + of(level), cycles, "{way:?} {kind:?}");
        }
    }

    #[test]
    fn far_targets_take_three_cycles_more_on_zen_4() {
        let p = branches_of("zen4");
        let mut pace = Pace::new(&p);
        let shared = |address| CodePlace {
            address,
            in_shared_object: true,
        };
        let (taken, chosen) = (Way::Branch(Steer::Taken(0)), Way::Branch(Steer::Chosen(0)));
        let border = 1 << 37;
        let steps = [
            (taken, Kind::Jump, to(0x2000), 1),
            (taken, Kind::Jump, to(border - 64), 1),
            (taken, Kind::Jump, to(border), 4),
            (taken, Kind::Call, to(0x2000), 2),
            (taken, Kind::Call, to(border), 5),
            (taken, Kind::IndirectJump, shared(0x2000), 4),
            (taken, Kind::Return, shared(0x2000), 2),
            // The predictor of targets has all of it.
            (chosen, Kind::IndirectJump, to(0x2000), 5),
            (chosen, Kind::IndirectJump, shared(0x2000), 5),
            (chosen, Kind::IndirectCall, shared(0x2000), 5),
            (taken, Kind::Return, to(border), 2),
        ];
        for (n, (way, kind, to, shares)) in steps.into_iter().enumerate() {
            assert_eq!(pace.shares(way, Some(&at(0x1000, kind)), to), shares, "{n}");
        }
    }
}
