//! Branch prediction on the stream of executed instructions: where fetch starts anew, and what
//! led there.
//!
//! Where a branch goes is known when the next instruction arrives. From then on [`Starts`] has an
//! entry for it: fetch goes from line to line, and each line, target of a branch, and right path
//! after a wrong one is a start. Between two starts nothing holds up fetch.

use std::ops::Range;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::frames::{Frame, Frames};
use super::pace::Pace;
use super::{Executed, Kind, Predictor, Steer};
use crate::pipeline::backlog::Backlog;
use crate::pipeline::fold::Folding;
use crate::pipeline::inst::Inst;
use mcad_isa::machine::params::branch;
use mcad_isa::program::{Program, flag};

/// log2 of the bytes that are fetched at once from the first-level cache's point of view.
pub const LINE_SHIFT: u32 = 6;
/// Binary logarithm of the bytes of a page.
pub const PAGE_SHIFT: u32 = 12;

/// How fetch comes to an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// It is the first in its line, after the one before.
    Line,
    /// A branch goes there.
    Branch(Steer),
    /// A repeated string instruction whose count its microcode had not predicted is before it.
    String,
    /// A system call is before it.
    Kernel,
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

impl Start {
    /// Whether it is where a branch went that was predicted wrongly.
    #[inline]
    #[must_use]
    pub fn is_right_path(&self) -> bool {
        matches!(self.way, Way::Branch(steer) if steer.is_wrong())
    }
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

impl BranchCounts {
    /// Adds those of another thread.
    pub fn add(&mut self, other: &Self) {
        self.wrong_direction += other.wrong_direction;
        self.wrong_target += other.wrong_target;
        self.decoded += other.decoded;
    }
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
            self.by_instruction.entry(*instr).or_default().add(counts);
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

    /// Where its last byte is, if that is in the line behind the one that it begins in.
    #[inline]
    fn end_in_next_line(&self) -> Option<CodePlace> {
        let address = self.next.wrapping_sub(1);
        (address >> LINE_SHIFT != self.pc >> LINE_SHIFT).then_some(CodePlace {
            address,
            in_shared_object: self.in_shared_object,
        })
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
    /// Fetch starts anew behind strings whose counts are not predicted, and behind system calls.
    strings_restart: bool,
    calls_restart: bool,
    /// A branch that is taken needs the line of its last byte.
    to_last_byte: bool,
    /// How it does behind the last instruction, if that was such a one.
    restarts: Option<Way>,
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
            calls_restart: p.system_call_ahead.is_some(),
            to_last_byte: p.fetched_to_last_byte,
            restarts: None,
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
            pace: self.pace.clone(),
            ideal: self.ideal,
            pending: self.pending,
            strings_restart: self.strings_restart,
            calls_restart: self.calls_restart,
            to_last_byte: self.to_last_byte,
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

    /// The kernel ran behind the last instruction, and did something.
    pub fn kernel_ran(&mut self) {
        if let Oracle::Own(predictor) = &mut self.oracle {
            predictor.kernel_ran();
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
        let Some(instr) = instr else { return };
        let repeats = instr.is(flag::REP) && !instr.is(flag::REP_COMPARE);
        if self.strings_restart && inst.extra_cycles > 0 && repeats {
            self.restarts = Some(Way::String);
        } else if self.calls_restart && instr.calls_kernel {
            self.restarts = Some(Way::Kernel);
        }
    }

    /// How fetch starts anew behind the last instruction, though that is no branch, if it does.
    #[inline]
    #[must_use]
    pub fn restarts(&self) -> Option<Way> {
        self.restarts
    }

    /// The same of one that is not replayed, and is that branch if it is one.
    #[inline(always)]
    pub fn arrive_as(&mut self, at: CodePlace, number: u64, branch: Option<&Site>) {
        // Most branches are in the line of what came before.
        if at.address >> LINE_SHIFT != self.line
            || self.pending.is_some()
            || self.restarts.is_some()
        {
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
        let mut way = self.restarts.take().or(other_line.then_some(Way::Line));
        let mut frame = match way {
            Some(Way::Kernel) => Frame::Empties,
            _ => Frame::Stays,
        };
        let mut by = None;
        let mut end = None;
        if let Some(Site { branch, instr }) = self.pending.take() {
            let steer = self.resolve((&branch, instr), address);
            if steer == Steer::Passed {
                self.pace.pass(branch.pc);
            } else if steer != Steer::Straight {
                way = Some(Way::Branch(steer));
                by = Some(branch);
                frame = Frame::of(branch.kind);
                end = branch.end_in_next_line().filter(|_| self.to_last_byte);
            }
        }
        // The line of the branch's last byte is come to before what the branch leads to.
        if let Some(end) = end {
            let shares = self.pace.shares(Way::Line, None, end);
            self.start(
                number,
                end.address,
                (Way::Line, shares),
                Frame::Stays,
                replayed,
            );
        }
        if let Some(way) = way {
            let shares = self.pace.shares(way, by.as_ref(), at);
            self.start(number, address, (way, shares), frame, replayed);
        }
    }

    /// Fetch is to start anew there before that instruction.
    fn start(
        &mut self,
        number: u64,
        address: u64,
        (way, shares): (Way, u32),
        frame: Frame,
        replayed: bool,
    ) {
        let free = matches!(
            way,
            Way::Line
                | Way::Branch(
                    Steer::Taken(_)
                        | Steer::Always(_)
                        | Steer::Chosen(_)
                        | Steer::Led(_)
                        | Steer::Overridden(_)
                        | Steer::OverriddenStraight
                        | Steer::Held
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
            Steer::Straight | Steer::Passed | Steer::OverriddenStraight | Steer::Held => {
                return steer;
            }
            Steer::Taken(level)
            | Steer::Always(level)
            | Steer::Chosen(level)
            | Steer::Led(level)
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
