//! How long the predictor takes from start to start, besides the bubbles of the branch target buffer.

use super::btb::is_other_page;
use super::near_pages::NearPages;
use super::pairs::Pairs;
use super::stream::{Branch, CodePlace, LINE_SHIFT, Way};
use super::windows::Windows;
use super::{Kind, Steer};
use mcad_isa::machine::params::branch;

/// How long the predictor takes from start to start, in shares of a cycle.
#[derive(Clone)]
pub struct Pace {
    /// More for a call, for an indirect branch, for a return, for one that goes elsewhere than last, and for a chosen target.
    call: u32,
    indirect: u32,
    back: u32,
    back_elsewhere: u32,
    to_chosen: u32,
    /// More for a target with other bits from this one on.
    far: u32,
    far_from: u32,
    /// What a level that has the branch takes more itself.
    bubbles: [u32; branch::MAX_BTB_LEVELS],
    /// More for a target in another page, by the level that has the branch.
    other_page: [u32; branch::MAX_BTB_LEVELS],
    /// More for a call, wherever it goes, and for a return, by the same.
    calls: [u32; branch::MAX_BTB_LEVELS],
    returns: [u32; branch::MAX_BTB_LEVELS],
    /// Lines that cost nothing behind a jump to a chosen target.
    made_up: u32,
    /// Of a start that a branch leads to, and more if that branch lies in two lines.
    start: u32,
    across: u32,
    /// More if that branch's line was come to in order and is one that takes a cycle then, and where the last branch went.
    second_line: u32,
    target: u64,
    /// What is found in pairs.
    pairs: Option<Box<Pairs>>,
    windows: Option<Box<Windows>>,
    /// Lost by the last start, if that was where a branch went, or since, and not made up for.
    lost: u32,
    near: NearPages,
    /// More for a page that is not near.
    to_page: u32,
}

impl Pace {
    /// Before the first start.
    #[must_use]
    pub fn new(p: &branch::Branch) -> Self {
        let shares = |cycles: u64| {
            u32::try_from(cycles.saturating_mul(p.starts_per_cycle.into())).unwrap_or(u32::MAX)
        };
        let by_level = |bubbles: fn(&branch::Btb) -> u64| {
            std::array::from_fn(|n| p.btb.get(n).map_or(0, |level| shares(bubbles(level))))
        };
        Self {
            call: shares(p.call_bubbles),
            indirect: shares(p.indirect_bubbles),
            back: shares(p.return_bubbles),
            back_elsewhere: shares(p.changed_return_bubbles),
            to_chosen: shares(p.chosen_bubbles),
            far: shares(p.far_bubbles),
            bubbles: by_level(|level| level.bubbles),
            other_page: by_level(|level| level.other_page_bubbles),
            calls: by_level(|level| level.call_bubbles),
            returns: by_level(|level| level.return_bubbles),
            far_from: match p.target_bits {
                0 => u64::BITS,
                bits => bits,
            },
            made_up: match p.makes_up_behind_chosen {
                true => shares(p.chosen_bubbles),
                false => 0,
            },
            start: match p.branches_alone {
                true => p.starts_per_cycle,
                false => 1,
            },
            across: match p.branches_alone {
                true => p.starts_per_cycle,
                false => 0,
            },
            second_line: match p.second_lines_alone {
                true => p.starts_per_cycle - 1,
                false => 0,
            },
            target: 0,
            pairs: p.branches_in_pairs.then(Box::default),
            windows: p.two_windows.then(Box::default),
            lost: 0,
            near: NearPages::new(p),
            to_page: shares(p.near_pages.map_or(0, |near| near.bubbles)),
        }
    }

    /// Whether the branch target buffer lacks the upper bits of this target.
    fn is_far(&self, from: &Branch, to: CodePlace) -> bool {
        let other = (from.pc ^ to.address).checked_shr(self.far_from);
        from.in_shared_object != to.in_shared_object || other.is_some_and(|bits| bits != 0)
    }

    /// Those of the next start, to which a branch leads, if any does.
    #[inline]
    pub fn shares(&mut self, way: Way, branch: Option<&Branch>, to: CodePlace) -> u32 {
        let page = match self.near.misses(to.address) {
            true => self.to_page,
            false => 0,
        };
        page + self.second_line(way, branch, to) + self.with_page_near(way, branch, to)
    }

    /// What the line of a branch takes more if it was come to in order.
    #[inline]
    fn second_line(&mut self, way: Way, branch: Option<&Branch>, to: CodePlace) -> u32 {
        let (Some(branch), Way::Branch(steer)) = (branch, way) else {
            return 0;
        };
        if matches!(steer, Steer::OverriddenStraight | Steer::Held) {
            return 0;
        }
        let line = |address: u64| address >> LINE_SHIFT;
        let entered = line(std::mem::replace(&mut self.target, to.address));
        let alone = match branch.kind {
            _ if line(branch.pc) == entered => false,
            Kind::Call | Kind::IndirectCall => true,
            Kind::Return => matches!(steer, Steer::Chosen(_)),
            Kind::Conditional => !matches!(steer, Steer::Always(_)) && line(to.address) != entered,
            Kind::Jump | Kind::IndirectJump => false,
        };
        if alone { self.second_line } else { 0 }
    }

    fn with_page_near(&mut self, way: Way, branch: Option<&Branch>, to: CodePlace) -> u32 {
        if way == Way::Line && self.lost > 0 {
            self.lost -= 1;
            return 0;
        }
        let with_the_branch_before = self.windows.as_ref().is_some_and(|w| w.is_second());
        let way = match way {
            Way::Branch(Steer::Led(level)) if with_the_branch_before => {
                Way::Branch(Steer::Taken(level))
            }
            Way::Branch(Steer::Led(level)) => Way::Branch(Steer::Chosen(level)),
            _ => way,
        };
        let chosen = matches!(way, Way::Branch(Steer::Chosen(_)));
        let chosen_jump = chosen && branch.is_some_and(|b| b.kind != Kind::Return);
        self.lost = if chosen_jump { self.made_up } else { 0 };
        let second = match (&mut self.pairs, &mut self.windows) {
            (Some(pairs), _) => pairs.is_second(way, branch, to),
            (_, Some(windows)) => {
                let begin = windows.begin(way, branch, to);
                let more = |b| self.behind(way, b, to, chosen).saturating_sub(self.start);
                return begin + branch.map_or(0, more);
            }
            _ => false,
        };
        let Some(branch) = branch else {
            return u32::from(!second);
        };
        let last = branch.next.wrapping_sub(1);
        let across = match branch.pc >> LINE_SHIFT == last >> LINE_SHIFT {
            true => 0,
            false => self.across,
        };
        let all = across + self.behind(way, branch, to, chosen);
        if second { all - self.start } else { all }
    }

    /// Those of a branch's start that is none of a pair.
    fn behind(&mut self, way: Way, branch: &Branch, to: CodePlace, chosen: bool) -> u32 {
        // A target that was chosen among several is known with all of its bits.
        let with_target = |own: u32| match chosen {
            true => own.max(self.to_chosen),
            false => own + self.reaching(way, branch, to),
        };
        let indirect = self.indirect.saturating_sub(self.waited(way));
        match branch.kind {
            Kind::Call => self.start + with_target(self.call),
            Kind::IndirectCall => self.start + with_target(self.call + indirect),
            Kind::Return if chosen => self.start + self.back + self.back_elsewhere,
            Kind::Return => self.start + self.back + Self::of(&self.returns, way),
            // What is left of a line behind a branch that is not taken needs nothing new.
            Kind::Conditional
                if matches!(way, Way::Branch(Steer::OverriddenStraight | Steer::Held)) =>
            {
                u32::from(to.address >> LINE_SHIFT != branch.pc >> LINE_SHIFT)
            }
            Kind::IndirectJump => self.start + with_target(indirect),
            Kind::Conditional | Kind::Jump => self.start + with_target(0),
        }
    }

    /// A branch at `pc` that was taken before is not.
    pub fn pass(&mut self, pc: u64) {
        if let Some(pairs) = &mut self.pairs {
            pairs.pass(pc);
        }
        if let Some(windows) = &mut self.windows {
            windows.pass(pc);
        }
    }

    /// What fetch waits for the branch target buffer in any case.
    fn waited(&self, way: Way) -> u32 {
        match way {
            Way::Branch(Steer::Taken(_)) => Self::of(&self.bubbles, way),
            _ => 0,
        }
    }

    /// That of these which is of the level that had the branch.
    fn of(levels: &[u32; branch::MAX_BTB_LEVELS], way: Way) -> u32 {
        match way {
            Way::Branch(Steer::Taken(level) | Steer::Always(level) | Steer::Overridden(level)) => {
                levels.get(usize::from(level)).copied().unwrap_or(0)
            }
            _ => 0,
        }
    }

    /// More for what the branch target buffer does not have of a target.
    fn reaching(&self, way: Way, from: &Branch, to: CodePlace) -> u32 {
        let Way::Branch(Steer::Taken(_) | Steer::Always(_) | Steer::Overridden(_)) = way else {
            return 0;
        };
        let far = if self.is_far(from, to) { self.far } else { 0 };
        let page = match is_other_page(from.pc, to.address) {
            true => Self::of(&self.other_page, way),
            false => 0,
        };
        let call = match from.kind {
            Kind::Call | Kind::IndirectCall => Self::of(&self.calls, way),
            _ => 0,
        };
        far + page.max(call)
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
    fn a_target_that_is_chosen_takes_three_cycles_on_zen_5_unless_the_branch_before_has_it() {
        let mut pace = Pace::new(&branches_of("zen5"));
        let taken = Way::Branch(Steer::Taken(0));
        let chosen = Way::Branch(Steer::Chosen(0));
        let led = Way::Branch(Steer::Led(0));
        // A call with its return takes four cycles, an indirect jump between the two one more, and two more if its
        // target is chosen.
        let steps = [
            (taken, Some(Kind::Call), 1),
            (Way::Line, None, 0),
            (Way::Line, None, 1),
            (taken, Some(Kind::IndirectJump), 1),
            (taken, Some(Kind::Return), 3),
            (Way::Line, None, 0),
            (taken, Some(Kind::Call), 1),
            (chosen, Some(Kind::IndirectJump), 3),
            (taken, Some(Kind::Conditional), 0),
            (taken, Some(Kind::Return), 3),
            (chosen, Some(Kind::IndirectCall), 3),
            (taken, Some(Kind::Return), 3),
            // In the second window of a cycle, and in the first one.
            (taken, Some(Kind::Jump), 0),
            (led, Some(Kind::IndirectJump), 1),
            (led, Some(Kind::IndirectJump), 3),
            (taken, Some(Kind::Jump), 0),
            (chosen, Some(Kind::IndirectJump), 3),
        ];
        for (n, (way, kind, shares)) in steps.into_iter().enumerate() {
            let branch = kind.map(|kind| at(0x1000, kind));
            assert_eq!(pace.shares(way, branch.as_ref(), to(0x2000)), shares, "{n}");
        }
    }

    #[test]
    fn what_a_chosen_target_takes_is_made_up_for_by_lines_behind_it() {
        let p = branches_of("glc");
        assert_eq!((p.starts_per_cycle, p.chosen_bubbles), (1, 2));
        let mut pace = Pace::new(&p);
        let chosen = Way::Branch(Steer::Chosen(0));
        let taken = Way::Branch(Steer::Taken(0));
        let steps = [
            (chosen, Some(Kind::IndirectJump), 3),
            (Way::Line, None, 0),
            (Way::Line, None, 0),
            (Way::Line, None, 1),
            (chosen, Some(Kind::IndirectJump), 3),
            (Way::Line, None, 0),
            (taken, Some(Kind::Jump), 1),
            (Way::Line, None, 1),
        ];
        for (n, (way, kind, shares)) in steps.into_iter().enumerate() {
            let branch = kind.map(|kind| at(0x1000, kind));
            assert_eq!(pace.shares(way, branch.as_ref(), to(0x2000)), shares, "{n}");
        }
    }

    #[test]
    fn a_second_line_takes_a_cycle_before_what_does_not_always_go_there() {
        let mut pace = Pace::new(&branches_of("rwc"));
        let taken = Way::Branch(Steer::Taken(0));
        let always = Way::Branch(Steer::Always(0));
        let changed = Way::Branch(Steer::Chosen(0));
        let steps = [
            // To a function, which returns from the line that it begins in, and from the next one, to where it did and elsewhere.
            (taken, 0x1010, Kind::Call, 0x2000, 3),
            (changed, 0x2030, Kind::Return, 0x1015, 4),
            (taken, 0x1020, Kind::Call, 0x2000, 2),
            (taken, 0x2050, Kind::Return, 0x1025, 2),
            (taken, 0x1050, Kind::Call, 0x2000, 3),
            (changed, 0x2050, Kind::Return, 0x1055, 5),
            // Branches that go either way, always there, and back as a loop's.
            (taken, 0x1090, Kind::Conditional, 0x3000, 3),
            (always, 0x3050, Kind::Conditional, 0x4000, 2),
            (taken, 0x4050, Kind::Conditional, 0x4010, 2),
            // Jumps.
            (taken, 0x4050, Kind::Jump, 0x3000, 2),
            (changed, 0x3050, Kind::IndirectJump, 0x1000, 6),
        ];
        for (n, (way, pc, kind, target, shares)) in steps.into_iter().enumerate() {
            let branch = at(pc, kind);
            let found = pace.shares(way, Some(&branch), to(target));
            assert_eq!(found, shares, "{n}");
        }
    }

    #[test]
    fn a_line_of_straight_code_takes_half_a_cycle_on_redwood_cove() {
        let p = branches_of("rwc");
        assert_eq!((p.starts_per_cycle, p.chosen_bubbles), (2, 2));
        let mut pace = Pace::new(&p);
        let chosen = Way::Branch(Steer::Chosen(0));
        let taken = Way::Branch(Steer::Taken(0));
        let steps = [
            (chosen, Some(Kind::IndirectJump), 6),
            (Way::Line, None, 1),
            (Way::Line, None, 1),
            (taken, Some(Kind::Jump), 2),
            (Way::Line, None, 1),
            (taken, Some(Kind::Conditional), 2),
        ];
        for (n, (way, kind, shares)) in steps.into_iter().enumerate() {
            let branch = kind.map(|kind| at(0x1000, kind));
            assert_eq!(pace.shares(way, branch.as_ref(), to(0x2000)), shares, "{n}");
        }
        // Five bytes that end in the line, and in the next one.
        for (pc, shares) in [(0x103b, 2), (0x103c, 4), (0x103f, 4), (0x1040, 2)] {
            let branch = at(pc, Kind::Jump);
            assert_eq!(
                pace.shares(taken, Some(&branch), to(0x2000)),
                shares,
                "{pc:x}"
            );
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
            let shares = pace.shares(way, Some(&at(0x2000, kind)), to(0x2000));
            assert_eq!(shares + 2 * of(level), 2 * cycles, "{way:?} {kind:?}");
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
