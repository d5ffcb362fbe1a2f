//! Windows of code that the predictor finds two in a cycle, as on Zen 5 (docs/BRANCHES.md, "Windows").
//!
//! A window ends at the next branch that is known, whether that is taken or passed. The first one goes on into a second line if its
//! own has none; the second one is where a direct branch in the first goes, or what is behind a passed one, and ends with its line.
//! An entry of the branch target buffer knows one branch besides its own: where it leads or,
//! behind a conditional one, in its line, whichever way came last when it was predicted wrongly.

use super::marks::Marks;
use super::stream::{Branch, CodePlace, LINE_SHIFT, Way};
use super::{Kind, Steer};

/// Where the predictor is.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    /// In the second window of a cycle.
    second: bool,
    /// In the second line of the first one.
    crossed: bool,
    /// Cycles that began behind branches that were passed.
    begun: u32,
    /// Directions of all branches in this line are known, since one of them was overridden.
    told: bool,
    /// A branch forward that was taken to be taken, and was not, is the last one in this line.
    fell: Option<u64>,
}

/// What it finds together.
#[derive(Clone, Default)]
pub struct Windows {
    at: Place,
    /// Conditional branches whose entry knows the next one in their line.
    full: Marks,
}

impl Windows {
    /// A branch at `pc` that was taken before is not.
    pub fn pass(&mut self, pc: u64) {
        self.behind(pc);
        let begun = self.end(true);
        self.at.begun += begun;
    }

    /// Whether what comes next is found in one cycle with the branch before it.
    pub fn is_second(&self) -> bool {
        self.at.second
    }

    /// Cycles that begin with a start, none if it is in the windows of the cycle before.
    pub fn begin(&mut self, way: Way, branch: Option<&Branch>, to: CodePlace) -> u32 {
        if let Some(branch) = branch {
            self.behind(branch.pc);
        }
        let before = std::mem::take(&mut self.at);
        (self.at.second, self.at.crossed) = (before.second, before.crossed);
        before.begun + self.start(way, branch, to, before.told)
    }

    fn start(&mut self, way: Way, branch: Option<&Branch>, to: CodePlace, told: bool) -> u32 {
        match (way, branch) {
            (Way::Line, _) => self.cross(),
            // Its target's line comes next either way.
            (Way::Branch(Steer::Overridden(0)), Some(branch))
                if line(to.address) == line(branch.pc) + 1 =>
            {
                self.cross()
            }
            (Way::Branch(Steer::OverriddenStraight), _) => {
                if !told {
                    self.at = Place::default();
                }
                self.at.told = true;
                u32::from(!told)
            }
            (Way::Branch(Steer::Taken(0) | Steer::Always(0)), Some(branch)) => self.take(branch),
            (Way::Branch(Steer::WrongDirection), Some(branch)) => {
                // Loops' ends leave theirs as it was.
                let fell = to.address == branch.next && branch.target > branch.pc;
                self.full.mark(branch.pc, false);
                self.at = Place {
                    fell: fell.then_some(branch.pc),
                    ..Place::default()
                };
                1
            }
            _ => {
                self.at = Place::default();
                1
            }
        }
    }

    /// A branch at `pc` is the next one.
    fn behind(&mut self, pc: u64) {
        if let Some(before) = self.at.fell.take()
            && line(before) == line(pc)
        {
            self.full.mark(before, true);
        }
    }

    /// Goes on to the next line, in the same cycle if it may.
    fn cross(&mut self) -> u32 {
        let goes_on = !(self.at.second || self.at.crossed);
        self.at = Place {
            crossed: goes_on,
            ..Place::default()
        };
        u32::from(!goes_on)
    }

    /// Goes where a branch leads.
    fn take(&mut self, branch: &Branch) -> u32 {
        let direct = matches!(branch.kind, Kind::Jump | Kind::Conditional);
        let full = branch.kind == Kind::Conditional && self.full.has(branch.pc);
        self.end(direct && !full)
    }

    /// Ends a window, and goes on in the same cycle if it may.
    fn end(&mut self, may: bool) -> u32 {
        let goes_on = may && !self.at.second;
        (self.at.second, self.at.crossed) = (goes_on, false);
        u32::from(!goes_on)
    }
}

fn line(address: u64) -> u64 {
    address >> LINE_SHIFT
}

#[cfg(test)]
mod tests {
    use super::*;

    fn branch(pc: u64, kind: Kind) -> Branch {
        Branch::new(pc, 2, (kind, 0))
    }

    fn to(address: u64) -> CodePlace {
        CodePlace {
            address,
            in_shared_object: false,
        }
    }

    /// What a conditional branch at 0x1000 takes that goes to the next line but one, behind a jump, and a jump from there.
    fn conditional(windows: &mut Windows) -> [u32; 2] {
        let taken = Way::Branch(Steer::Taken(0));
        windows.begin(
            Way::Branch(Steer::Chosen(0)),
            Some(&branch(0x800, Kind::IndirectJump)),
            to(0x1000),
        );
        [(0x1000, 0x1080), (0x1080, 0x1100)].map(|(pc, target)| {
            windows.begin(taken, Some(&branch(pc, Kind::Conditional)), to(target))
        })
    }

    #[test]
    fn an_entry_knows_what_came_when_it_was_last_predicted_wrongly() {
        let mut windows = Windows::default();
        assert_eq!(conditional(&mut windows), [0, 1]);
        let wrong = Way::Branch(Steer::WrongDirection);
        let it = Branch::new(0x1000, 2, (Kind::Conditional, 0x80));
        let behind = branch(0x1010, Kind::Jump);
        let taken = Way::Branch(Steer::Taken(0));
        // It falls through, to a jump in its line.
        windows.begin(wrong, Some(&it), to(0x1002));
        windows.begin(taken, Some(&behind), to(0x2000));
        assert_eq!(conditional(&mut windows), [1, 0]);
        // No jump in its line, or it is taken.
        windows.begin(wrong, Some(&it), to(0x1002));
        windows.begin(Way::Line, None, to(0x1040));
        assert_eq!(conditional(&mut windows), [0, 1]);
        windows.begin(wrong, Some(&it), to(0x1002));
        windows.begin(taken, Some(&behind), to(0x2000));
        windows.begin(wrong, Some(&it), to(0x1080));
        assert_eq!(conditional(&mut windows), [0, 1]);
    }

    #[test]
    fn a_window_ends_at_a_branch_that_is_passed() {
        let mut windows = Windows::default();
        let taken = Way::Branch(Steer::Taken(0));
        let jump = |windows: &mut Windows, passed: &[u64]| {
            passed.iter().for_each(|pc| windows.pass(*pc));
            windows.begin(taken, Some(&branch(0x1030, Kind::Jump)), to(0x1000))
        };
        // One passed and the jump are a cycle, two are one before it, which leaves the jump a second window.
        let begun = [&[][..], &[], &[0x1000], &[0x1000, 0x1008], &[]]
            .map(|passed| jump(&mut windows, passed));
        assert_eq!(begun, [0, 1, 1, 1, 1]);
        // What is behind a passed branch ends with its line, and goes on into the next one if a cycle begins with it.
        windows.pass(0x1000);
        assert_eq!(windows.begin(Way::Line, None, to(0x1040)), 1);
        assert_eq!(jump(&mut windows, &[0x1040]), 1);
        [0x1000, 0x1008].iter().for_each(|pc| windows.pass(*pc));
        assert_eq!(windows.begin(Way::Line, None, to(0x1040)), 1);
    }

    #[test]
    fn what_the_quick_predictor_has_wrong_begins_a_cycle_once_in_a_line() {
        let mut windows = Windows::default();
        let overridden = Way::Branch(Steer::OverriddenStraight);
        let conditional = |pc| branch(pc, Kind::Conditional);
        let passed = [0x1000, 0x1004, 0x1008]
            .map(|pc| windows.begin(overridden, Some(&conditional(pc)), to(pc + 2)));
        assert_eq!(passed, [1, 0, 0]);
        assert_eq!(windows.begin(Way::Line, None, to(0x1040)), 0);
        let taken = Way::Branch(Steer::Overridden(0));
        let later = windows.begin(taken, Some(&conditional(0x1040)), to(0x2000));
        assert_eq!(later, 1);
        // Its target's line comes next in any case.
        let next = windows.begin(taken, Some(&conditional(0x2000)), to(0x2040));
        assert_eq!(next, 0);
    }
}
