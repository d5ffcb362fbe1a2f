//! Starts of fetch that the predictor finds two in a cycle, as on Zen 4 (docs/BRANCHES.md, "Pairs").
//!
//! An entry of its buffer has room for two branches: the one where a direct branch goes or, behind a conditional one that may be
//! passed, the next one of its own line.

use super::btb::is_other_page;
use super::marks::Marks;
use super::stream::{Branch, CodePlace, LINE_SHIFT, Way};
use super::{Kind, Steer};

/// What is found together with what.
#[derive(Clone, Default)]
pub struct Pairs {
    /// The last start may be the first of a pair.
    first: bool,
    /// Address of the branch that was passed last since the last start.
    passed: Option<u64>,
    /// Conditional branches with another one behind them in their line: their entry is full.
    full: Marks,
}

impl Pairs {
    /// A branch at `pc` that was taken before is not: it is found with the next one.
    pub fn pass(&mut self, pc: u64) {
        self.behind(pc);
        self.passed = Some(pc);
    }

    /// Whether a start was found in one cycle with the one before it. The first of two is where a direct branch goes in its page, and
    /// is no second one itself; it is none if another branch was passed in its line, nor, of branches to their own line, if it is
    /// conditional or goes back. The second is the next line, or where any branch leads; but behind one that was passed only a jump
    /// or a conditional one.
    pub fn is_second(&mut self, way: Way, branch: Option<&Branch>, to: CodePlace) -> bool {
        let first = std::mem::take(&mut self.first);
        if let Some(branch) = branch {
            self.behind(branch.pc);
        }
        let passed = self.passed.take().is_some();
        let Some(branch) = branch else {
            return first && way == Way::Line;
        };
        let Way::Branch(Steer::Taken(0) | Steer::Always(0)) = way else {
            return false;
        };
        let direct = matches!(branch.kind, Kind::Jump | Kind::Conditional);
        let second = first && (direct || !passed);
        let within_line = line(branch.pc) == line(to.address)
            && (branch.kind == Kind::Conditional || to.address <= branch.pc);
        self.first = direct
            && !second
            && !passed
            && !within_line
            && !is_other_page(branch.pc, to.address)
            && !self.is_full(branch);
        second
    }

    /// A branch at `pc` is behind the one that was passed.
    fn behind(&mut self, pc: u64) {
        if let Some(before) = self.passed.filter(|&before| line(before) == line(pc)) {
            self.full.mark(before, true);
        }
    }

    fn is_full(&self, branch: &Branch) -> bool {
        branch.kind == Kind::Conditional && self.full.has(branch.pc)
    }
}

fn line(address: u64) -> u64 {
    address >> LINE_SHIFT
}
