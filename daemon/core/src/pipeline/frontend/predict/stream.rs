//! Branch prediction on the stream of executed instructions: where fetch starts anew, and what
//! led there.
//!
//! Where a branch goes is known when the next instruction arrives. From then on [`Starts`] has an
//! entry for it: fetch goes from line to line, and each line, target of a branch, and right path
//! after a wrong one is a start. Between two starts nothing holds up fetch.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::{Executed, Kind, Predictor, Steer};
use crate::pipeline::backlog::Backlog;
use crate::pipeline::fold::Folding;
use crate::pipeline::inst::Inst;
use mcad_isa::machine::params::branch;
use mcad_isa::program::Program;

/// log2 of the bytes that are fetched at once from the first-level cache's point of view.
pub const LINE_SHIFT: u32 = 6;

/// How fetch comes to an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// It is the first in its line, after the one before.
    Line,
    /// A branch goes there.
    Branch(Steer),
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
    /// Cycles that the predictor takes longer for the kind of branch that it was.
    pub bubbles: u32,
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

#[derive(Clone, Copy)]
struct Pending {
    instr: u32,
    pc: u64,
    next: u64,
    target: u64,
    kind: Kind,
}

/// What became of a row of branches, in order.
pub type Steers = Arc<[Steer]>;

/// Predictors at work on a thread.
pub struct Starts {
    predictor: Predictor,
    /// What the same predictors elsewhere made of the next branches, and how many of those have come.
    told: (Steers, usize),
    /// What is made of branches, for somebody else.
    record: Option<Vec<Steer>>,
    call_bubbles: u32,
    return_bubbles: u32,
    ideal: bool,
    pending: Option<Pending>,
    line: u64,
    /// Those that fetch has not come to.
    pub queue: Backlog<Start>,
    /// What happened so far.
    pub counts: Counts,
}

impl Starts {
    /// Before the first instruction.
    #[must_use]
    pub fn new(p: &branch::Branch) -> Self {
        Self {
            predictor: Predictor::new(p),
            told: Default::default(),
            record: None,
            call_bubbles: u32::try_from(p.call_bubbles).unwrap_or(u32::MAX),
            return_bubbles: u32::try_from(p.return_bubbles).unwrap_or(u32::MAX),
            ideal: p.ideal,
            pending: None,
            line: u64::MAX,
            queue: Backlog::new(),
            counts: Counts::default(),
        }
    }

    /// The same predictors after the same instructions, with nothing to be fetched or counted.
    #[must_use]
    pub fn snapshot(&self) -> Self {
        Self {
            predictor: self.predictor.clone(),
            told: Default::default(),
            record: None,
            call_bubbles: self.call_bubbles,
            return_bubbles: self.return_bubbles,
            ideal: self.ideal,
            pending: self.pending,
            line: self.line,
            queue: Backlog::new(),
            counts: Counts::default(),
        }
    }

    /// Shows its predictors' tables, and what waits.
    pub fn fold(&mut self, folding: &mut Folding) {
        self.predictor.fold(folding);
        self.queue.fold(folding);
    }

    /// The next branches need not be predicted: this is what becomes of them.
    pub fn tell(&mut self, steers: Steers) {
        self.told = (steers, 0);
    }

    /// What became of the branches since the last call; from the first one on that is noted.
    pub fn recorded(&mut self) -> Vec<Steer> {
        self.record.replace(Vec::new()).unwrap_or_default()
    }

    /// What the predictors make of a branch.
    #[inline]
    fn predict(&mut self, branch: &Executed) -> Steer {
        let (told, at) = &mut self.told;
        if let Some(steer) = told.get(*at) {
            *at += 1;
            return *steer;
        }
        let steer = self.predictor.branch(branch);
        if let Some(record) = &mut self.record {
            record.push(steer);
        }
        steer
    }

    /// The next executed instruction will have this number; `replayed`: it comes from the loop
    /// stream detector, and needs no fetch unless that was wrong.
    #[inline]
    pub fn arrive(&mut self, program: &Program, inst: &Inst, number: u64, replayed: bool) {
        let line = inst.address >> LINE_SHIFT;
        let other_line = line != self.line;
        self.line = line;
        let mut way = other_line.then_some(Way::Line);
        let mut bubbles = 0;
        if let Some(branch) = self.pending.take() {
            let steer = self.resolve(&branch, inst.address);
            if steer != Steer::Straight {
                way = Some(Way::Branch(steer));
                bubbles = self.bubbles(branch.kind);
            }
        }
        if let Some(way) = way {
            let free = matches!(way, Way::Line | Way::Branch(Steer::Taken(_)));
            if !(replayed && free) {
                self.queue.push(Start {
                    number,
                    address: inst.address,
                    way,
                    bubbles,
                });
            }
        }
        let Some(instr) = program.instrs.get(inst.instr as usize) else {
            return;
        };
        if let Some(kind) = instr.branch {
            self.pending = Some(Pending {
                instr: inst.instr,
                pc: inst.address,
                next: inst.address.wrapping_add(u64::from(instr.len)),
                target: inst.address.wrapping_add(instr.displacement as i64 as u64),
                kind,
            });
        }
    }

    fn bubbles(&self, kind: Kind) -> u32 {
        match kind {
            Kind::Call | Kind::IndirectCall => self.call_bubbles,
            Kind::Return => self.return_bubbles,
            Kind::Conditional | Kind::Jump | Kind::IndirectJump => 0,
        }
    }

    fn resolve(&mut self, b: &Pending, went: u64) -> Steer {
        let conditional = b.kind == Kind::Conditional;
        let taken = !conditional || went != b.next;
        let steer = self.predict(&Executed {
            pc: b.pc,
            next: b.next,
            target: if conditional { b.target } else { went },
            taken,
            kind: b.kind,
        });
        self.counts.branches += 1;
        self.counts.taken += u64::from(taken);
        match steer {
            Steer::Straight => return steer,
            Steer::Taken(level) => {
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
        let own = self.counts.by_instruction.entry(b.instr).or_default();
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
