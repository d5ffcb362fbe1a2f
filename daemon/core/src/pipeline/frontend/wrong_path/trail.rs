//! Paths behind branches, where two of them join, and what they have before.

use crate::lists::part;
use crate::pipeline::inst::Inst;
use mcad_isa::program::{Instr, Laminated, Program, Uop, flag};
use mcad_isa::regs::RegId;

/// Instructions of a path that are remembered.
const TRAIL: usize = 64;
/// Times that paths which did not join are not compared again.
const APART: u8 = 15;

/// Registers, one bit each.
#[derive(Clone, Copy, Default)]
pub(super) struct Set([u64; 2]);

impl Set {
    fn add(&mut self, reg: RegId) {
        self.0[usize::from(reg.0 >> 6 & 1)] |= 1u64 << (reg.0 & 63);
    }

    pub(super) fn and(self, other: Self) -> Self {
        let ([a, b], [c, d]) = (self.0, other.0);
        Self([a | c, b | d])
    }
}

impl Iterator for Set {
    type Item = RegId;

    fn next(&mut self) -> Option<RegId> {
        let n = usize::from(self.0[0] == 0);
        let word = &mut self.0[n];
        let first = word.trailing_zeros();
        *word &= word.wrapping_sub(1);
        (first < u64::BITS).then_some(RegId((n as u32 * u64::BITS + first) as u8))
    }
}

/// An instruction of a path.
#[derive(Clone, Copy)]
struct Step {
    address: u64,
    instr: u32,
}

/// What a path has before another one joins it.
#[derive(Clone, Copy, Default)]
pub(super) struct Before {
    pub(super) uops: u32,
    pub(super) writes: Set,
}

impl Before {
    /// Of these instructions.
    fn new(program: &Program, steps: &[Step]) -> Self {
        let mut before = Self::default();
        for step in steps {
            if let Some(instr) = program.instrs.get(step.instr as usize) {
                before.uops += u32::from(instr.fused);
                before.writes = before.writes.and(written(program, instr));
            }
        }
        before
    }
}

/// Where two paths join: instructions of one and of the other that are before.
type Joint = (u8, u8);

/// Classes of addresses by which a path's instructions are looked for.
const CLASSES: usize = 128;
/// No instruction, or none behind.
const NO_STEP: u8 = u8::MAX;

/// Where a path has which addresses.
struct Places {
    /// The first instruction of each class.
    first: [u8; CLASSES],
    /// The next one of its class, for each.
    next: [u8; TRAIL],
}

impl Places {
    fn class(address: u64) -> usize {
        (address ^ address >> 7) as usize % CLASSES
    }

    fn new(steps: &[Step]) -> Self {
        let mut places = Self {
            first: [NO_STEP; CLASSES],
            next: [NO_STEP; TRAIL],
        };
        for (n, step) in steps.iter().enumerate().take(TRAIL).rev() {
            let first = &mut places.first[Self::class(step.address)];
            places.next[n] = std::mem::replace(first, n as u8);
        }
        places
    }

    /// Where the first of these instructions is that has this address.
    fn find(&self, steps: &[Step], address: u64) -> Option<usize> {
        let mut place = usize::from(self.first[Self::class(address)]);
        while let Some(step) = steps.get(place) {
            if step.address == address {
                return Some(place);
            }
            place = usize::from(self.next[place % TRAIL]);
        }
        None
    }
}

/// The path behind a branch.
#[derive(Default)]
pub(super) struct Trail {
    steps: Box<[Step]>,
    /// Where which addresses are, if they are looked for.
    places: Option<Box<Places>>,
    /// Where the right path joined it last.
    joint: Option<Joint>,
    /// What so many of its instructions are, the first ones, that were asked for last.
    before: (u8, Before),
    /// How often it is not looked for where that is, since it was nowhere.
    apart: u8,
}

impl Trail {
    /// That which begins with these instructions.
    pub(super) fn new(insts: &[Inst]) -> Self {
        let steps = insts.iter().take(TRAIL).map(|inst| Step {
            address: inst.address,
            instr: inst.instr,
        });
        let steps: Box<[Step]> = steps.collect();
        Self {
            steps,
            places: None,
            joint: None,
            before: (0, Before::default()),
            apart: 0,
        }
    }

    pub(super) fn begins_at(&self, address: u64) -> bool {
        (self.steps.first()).is_some_and(|first| first.address == address)
    }

    /// The instruction that both it and the path of these instructions come to, as they did last or else first.
    pub(super) fn joins(&mut self, insts: &[Inst]) -> Option<Joint> {
        let is_there = |&(place, step): &Joint| {
            let (inst, step) = (
                insts.get(usize::from(place)),
                self.steps.get(usize::from(step)),
            );
            inst.zip(step)
                .is_some_and(|(inst, step)| inst.address == step.address)
        };
        if let Some(known) = self.joint.filter(is_there) {
            return Some(known);
        }
        // Of few instructions it would not be the first one.
        if insts.len() < TRAIL {
            return None;
        }
        if self.apart > 0 {
            self.apart -= 1;
            return None;
        }
        self.joint = self.first_joint(insts);
        if self.joint.is_none() {
            self.apart = APART;
        }
        self.joint
    }

    /// What so many of its instructions are, the first ones.
    pub(super) fn before(&mut self, program: &Program, steps: u8) -> Before {
        if self.before.0 != steps {
            let before = part(&self.steps, 0..usize::from(steps));
            self.before = (steps, Before::new(program, before));
        }
        self.before.1
    }

    /// Where the two join with the fewest instructions before, of both together.
    fn first_joint(&mut self, insts: &[Inst]) -> Option<Joint> {
        let new = || Box::new(Places::new(&self.steps));
        let places = self.places.get_or_insert_with(new);
        let mut before = self.steps.len() + TRAIL;
        let mut found = None;
        for (place, inst) in insts.iter().enumerate().take(TRAIL) {
            if place >= before {
                break;
            }
            let steps = part(&self.steps, 0..self.steps.len().min(before - place));
            if let Some(step) = places.find(steps, inst.address) {
                before = place + step;
                found = Some((place as u8, step as u8));
            }
        }
        found
    }
}

/// What an instruction writes.
pub(super) fn written(program: &Program, instr: &Instr) -> Set {
    let mut all = Set::default();
    if instr.is(flag::ELIMINABLE) {
        all.add(instr.move_to);
        return all;
    }
    if let Some(uop) = simple(program, instr) {
        for output in part(&uop.outputs, 0..usize::from(uop.outputs_len)) {
            all.add(output.reg);
        }
        return all;
    }
    for uop in uops(program, instr) {
        for output in program.outputs_of(uop) {
            all.add(output.reg);
        }
    }
    for reg in zeroed(program, instr) {
        all.add(*reg);
    }
    all
}

/// Its µop, if it has one that only computes.
#[inline]
pub(super) fn simple<'a>(program: &'a Program, instr: &Instr) -> Option<&'a Laminated> {
    let uop = (instr.laminated_len == 1).then(|| program.laminated.get(instr.laminated as usize));
    uop.flatten().filter(|uop| uop.is_simple)
}

pub(super) fn uops<'a>(program: &'a Program, instr: &Instr) -> &'a [Uop] {
    let from = instr.laminated as usize;
    let laminated = part(
        &program.laminated,
        from..from + usize::from(instr.laminated_len),
    );
    match (laminated.first(), laminated.last()) {
        (Some(first), Some(last)) => {
            let to = last.uops as usize + usize::from(last.uops_len);
            part(&program.uops, first.uops as usize..to)
        }
        _ => &[],
    }
}

pub(super) fn zeroed<'a>(program: &'a Program, instr: &Instr) -> &'a [RegId] {
    let range = instr.zeroed.start as usize..instr.zeroed.end as usize;
    part(&program.zeroed, range)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Instructions at these addresses.
    fn path(addresses: impl IntoIterator<Item = u64>) -> Vec<Inst> {
        let inst = |address| Inst::new(0, address);
        addresses.into_iter().map(inst).collect()
    }

    fn trail(addresses: impl IntoIterator<Item = u64>) -> Trail {
        Trail::new(&path(addresses))
    }

    /// A loop that ends in a branch around one instruction, from its first instruction after the branch on.
    fn turns(begins: u64) -> Vec<u64> {
        (0..100).map(|n| 100 + (begins + n) % 12).collect()
    }

    #[test]
    fn paths_join_where_the_fewest_instructions_of_both_are_before() {
        // One comes to the other's first instruction after one of its own, and the other to that one after eleven.
        let (around, through) = (turns(1), turns(0));
        assert_eq!(
            trail(around.clone()).first_joint(&path(through.clone())),
            Some((1, 0))
        );
        assert_eq!(trail(through).first_joint(&path(around)), Some((0, 1)));
        // One arm each.
        let (one, other) = ([1, 2, 3, 50, 51], [20, 21, 50, 51, 52]);
        assert_eq!(trail(one).first_joint(&path(other)), Some((2, 3)));
        assert_eq!(trail(one).first_joint(&path([7, 8, 9])), None);
    }

    #[test]
    fn where_paths_joined_last_they_are_taken_to_join() {
        let mut known = trail(turns(1));
        assert_eq!(known.joins(&path(turns(0))).map(|joint| joint.0), Some(1));
        // Too few to look for the first one, but that is there.
        assert!(known.joins(&path([100, 101])).is_some());
        assert!(known.joins(&path([300, 301])).is_none());
        // Paths that did not join are not compared for some time.
        let mut apart = trail(turns(1));
        assert!(apart.joins(&path(500..600)).is_none());
        for _ in 0..APART {
            assert!(apart.joins(&path(turns(0))).is_none());
        }
        assert!(apart.joins(&path(turns(0))).is_some());
    }

    #[test]
    fn steps_are_found_as_by_looking_at_all_of_them() {
        let mut random = fastrand::Rng::with_seed(3);
        for addresses in [4, 60, 4000] {
            for _ in 0..100 {
                let mut path = || path((0..100).map(|_| random.u64(..addresses)));
                let (mut one, other) = (Trail::new(&path()), path());
                let steps = |step: usize| (0..TRAIL).map(move |place| (place + step, place, step));
                let joints = (0..TRAIL)
                    .flat_map(steps)
                    .filter(|(_, place, step)| other[*place].address == one.steps[*step].address);
                let least = joints.map(|(before, ..)| before).min();
                let found = one.first_joint(&other);
                let before = found.map(|(place, step)| usize::from(place + step));
                assert_eq!(before, least);
                if let Some((place, step)) = found {
                    let (there, came) = (usize::from(place), usize::from(step));
                    assert_eq!(other[there].address, one.steps[came].address);
                }
            }
        }
    }

    #[test]
    fn sets_have_what_was_added() {
        let mut set = Set::default();
        for reg in [0, 5, 63, 64, 127] {
            set.add(RegId(reg));
        }
        let all: Vec<u8> = set.map(|reg| reg.0).collect();
        assert_eq!(all, [0, 5, 63, 64, 127]);
    }
}
