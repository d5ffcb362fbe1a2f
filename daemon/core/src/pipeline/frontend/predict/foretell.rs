//! A thread's predictors by themselves, ahead of the cores that execute it.
//!
//! What becomes of a branch does not depend on time: it follows from the branches before it. So it may
//! be found out by somebody who knows nothing but the executed blocks, and told to those who simulate
//! them ([`super::stream::Starts::tell`]).

use super::stream::Branch;
use super::{Predictor, Steer};
use crate::pipeline::fold::Folding;
use mcad_isa::code::Code;
use mcad_isa::machine::params::branch;

/// A block's branches.
#[derive(Clone, Debug, Default)]
pub struct Branches {
    /// Each with its place, and the address of the instruction behind it in the block.
    all: Box<[(usize, Branch, u64)]>,
}

impl Branches {
    /// Of a block of these instructions.
    #[must_use]
    pub fn new(code: &[Code]) -> Self {
        let behind = code.iter().skip(1).map(Code::address).chain([0]);
        let branch = |(place, (code, behind)): (usize, (&Code, u64))| {
            let branch = Branch::new(code.address(), code.len(), code.branch()?);
            Some((place, branch, behind))
        };
        let all = code.iter().zip(behind).enumerate();
        Self {
            all: all.filter_map(branch).collect(),
        }
    }
}

/// Predictors of a thread.
pub struct Foreteller {
    predictor: Box<Predictor>,
    /// The branch that was executed last, of which nobody knows where it went.
    pending: Option<Branch>,
}

impl Foreteller {
    /// Before the first instruction.
    #[must_use]
    pub fn new(p: &branch::Branch) -> Self {
        Self {
            predictor: Box::new(Predictor::new(p)),
            pending: None,
        }
    }

    /// Shows the predictors' tables.
    pub fn fold(&mut self, folding: &mut Folding) {
        self.predictor.fold(folding);
    }

    /// The kernel ran behind the last block, and did something.
    pub fn kernel_ran(&mut self) {
        self.predictor.kernel_ran();
    }

    /// The instructions of a block from `first`, which is at `address`, to before `end` are executed
    /// next; appends what became of the branches of which it is known then.
    // By its name profilers find what prediction takes.
    #[inline(never)]
    pub fn pass(
        &mut self,
        branches: &Branches,
        (first, end): (usize, usize),
        address: u64,
        steers: &mut Vec<Steer>,
    ) {
        if first >= end {
            return;
        }
        if let Some(branch) = self.pending.take() {
            steers.push(self.predictor.branch(&branch.went(address)));
        }
        for (place, branch, behind) in &branches.all {
            if (first..end).contains(place) {
                if place + 1 < end {
                    steers.push(self.predictor.branch(&branch.went(*behind)));
                } else {
                    self.pending = Some(*branch);
                }
            }
        }
    }
}
