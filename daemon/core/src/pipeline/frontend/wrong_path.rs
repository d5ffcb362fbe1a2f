//! Loads on wrong paths that the right one has, too.
//!
//! Until a branch that was predicted wrongly is executed, the core goes on behind it as predicted. Where that way
//! joins the right one, as behind an `if`, it executes instructions that the right path executes once more: lines
//! that their loads ask for are there, or on their way, when the right path comes to them ("An Analysis of the
//! Performance Impact of Wrong-Path Memory References", Mutlu, Kim, Armstrong and Patt, IEEE Transactions on
//! Computers 2005).
//!
//! What was executed on a wrong path nobody traces, but where it joined the right one is found as in "Simulating
//! Wrong-Path Instructions in Decoupled Functional-First Simulation" (Eyerman, Van den Steen, Heirman and Hur, ISPASS
//! 2023): such a branch goes the other way some time, and then the path behind it, a [`Trail`], is on record. From the first
//! instruction on that both paths have, the right path is followed by its data flow alone ([`Walk`]): each µop starts
//! when its inputs are there, and none in or behind the cycle in which the branch is executed; what either path wrote before
//! they joined is not known on the other one, nor what follows from that. Loads whose addresses are known ask for their lines.

use super::fetch::FetchQueue;
use crate::lists::part;
use crate::pipeline::access::Access;
use crate::pipeline::backend::Backend;
use crate::pipeline::inst::{Inst, Source};
use mcad_isa::machine::CpuModel;
use mcad_isa::program::{Instr, Laminated, Program, Uop, flag};
use mcad_isa::regs::RegId;
use mcad_isa::uop::UopKind;

/// Instructions of the right path that are known when a wrong one is followed.
pub const LOOKAHEAD: u64 = 256;
/// Instructions of a path that are remembered.
const TRAIL: usize = 64;
/// Branches whose paths are, a power of two.
const BRANCHES: usize = 256;
/// Wrong predictions of a thread from which on paths are remembered: of those that do little, thousands may live at once.
const FIRST: u64 = 1024;
/// Times that paths which did not join are not compared again.
const APART: u8 = 15;
/// A branch on whose wrong paths no line was missing so many times is followed only seldom, once in so many times.
const QUIET: u32 = 32;
const SELDOM: u32 = 8;
/// The cycle of what is not known on a wrong path.
const NEVER: u64 = u64::MAX;

/// Registers, one bit each.
#[derive(Clone, Copy, Default)]
struct Set([u64; 2]);

impl Set {
    fn add(&mut self, reg: RegId) {
        self.0[usize::from(reg.0 >> 6 & 1)] |= 1u64 << (reg.0 & 63);
    }

    fn has(self, reg: RegId) -> bool {
        self.0[usize::from(reg.0 >> 6 & 1)] >> (reg.0 & 63) & 1 != 0
    }

    fn and(self, other: Self) -> Self {
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
struct Before {
    uops: u32,
    writes: Set,
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

/// The path behind a branch.
#[derive(Default)]
struct Trail {
    steps: Box<[Step]>,
    /// Some bits of their addresses, one bit each.
    places: u64,
    /// Where the right path joined it last.
    joint: Option<Joint>,
    /// How often it is not looked for where that is, since it was nowhere.
    apart: u8,
}

impl Trail {
    /// That which begins with these instructions.
    fn new(insts: &[Inst]) -> Self {
        let steps = insts.iter().take(TRAIL).map(|inst| Step {
            address: inst.address,
            instr: inst.instr,
        });
        let steps: Box<[Step]> = steps.collect();
        Self {
            places: (steps.iter()).fold(0, |places, step| places | 1 << (step.address & 63)),
            steps,
            joint: None,
            apart: 0,
        }
    }

    fn begins_at(&self, address: u64) -> bool {
        (self.steps.first()).is_some_and(|first| first.address == address)
    }

    /// The instruction that both it and the path of these instructions come to, as they did last or else first.
    fn joins(&mut self, insts: &[Inst]) -> Option<Joint> {
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

    /// Where the two join with the fewest instructions before, of both together.
    fn first_joint(&self, insts: &[Inst]) -> Option<Joint> {
        let mut before = self.steps.len() + TRAIL;
        let mut found = None;
        for (place, inst) in insts.iter().enumerate().take(TRAIL) {
            if place >= before {
                break;
            }
            if self.places >> (inst.address & 63) & 1 == 0 {
                continue;
            }
            let mut steps = self.steps.iter().take(before - place);
            if let Some(step) = steps.position(|step| step.address == inst.address) {
                before = place + step;
                found = Some((place as u8, step as u8));
            }
        }
        found
    }
}

/// The last two paths behind a branch.
#[derive(Default)]
struct Trails {
    branch: u32,
    paths: [Trail; 2],
    /// Which of them was the right one last.
    latest: usize,
    /// Wrong predictions since a line was missing on the wrong path.
    quiet: u32,
}

/// What a thread knows of wrong paths.
pub struct WrongPaths {
    /// As in [`mcad_isa::machine::params`].
    redirect: u64,
    issue_to_dispatch: u64,
    issue_width: u64,
    reorder_buffer: u64,
    /// None before the first is remembered.
    trails: Vec<Option<Box<Trails>>>,
    /// Wrong predictions so far.
    wrong: u64,
}

impl WrongPaths {
    /// Before the first branch; `None` for a core whose wrong paths are not modelled.
    #[must_use]
    pub fn new(model: &CpuModel) -> Option<Self> {
        let core = &model.core;
        let branch = core.branch.as_ref().filter(|p| p.wrong_path_loads)?;
        Some(Self {
            redirect: branch.redirect,
            issue_to_dispatch: core.execute.issue_to_dispatch,
            issue_width: u64::from(core.rename.issue_width.max(1)),
            reorder_buffer: u64::from(core.retire.reorder_buffer),
            trails: Vec::new(),
            wrong: 0,
        })
    }

    /// The branch that was delivered last was predicted wrongly and is executed in cycle `executed`; the right path is next in the
    /// queue.
    pub fn redirected(
        &mut self,
        program: &Program,
        queue: &FetchQueue,
        executed: u64,
        back: &mut Backend,
    ) {
        // For this one the queue had not to know that much ahead.
        let followed = self.are_followed();
        self.wrong += 1;
        if !followed {
            return;
        }
        let branch = back.issue().instr();
        // Of loops that are replayed it is not known that far what comes.
        if (queue.front()).is_none_or(|inst| inst.source == Source::LoopStream) {
            return;
        }
        let (insts, accesses) = queue.ahead(LOOKAHEAD);
        let issued = back.issue().cycle();
        if self.is_followed(branch)
            && let Some((place, other)) = self.joins(program, branch, insts)
        {
            let mut walk = Walk {
                paths: self,
                program,
                back,
                executed,
                known: Set::default(),
                there: [0; 128],
                begun: issued,
                delivered: 0,
                in_flight: 0,
                resolved: NEVER,
                last: branch,
                missed: false,
            };
            walk.join(part(insts, 0..place), other, NEVER);
            walk.follow(place, queue, insts, accesses);
            if walk.missed
                && let Some(trails) = self.trails_of(branch)
            {
                trails.quiet = 0;
            }
        }
        self.learn(branch, insts);
    }

    /// Whether the thread has done enough for wrong paths to be followed, for which [`LOOKAHEAD`] instructions must be known.
    #[inline]
    #[must_use]
    pub fn are_followed(&self) -> bool {
        self.wrong >= FIRST
    }

    fn place(branch: u32) -> usize {
        branch as usize % BRANCHES
    }

    fn trails_of(&mut self, branch: u32) -> Option<&mut Trails> {
        let trails = self.trails.get_mut(Self::place(branch))?.as_mut()?;
        (trails.branch == branch).then_some(&mut **trails)
    }

    /// Whether a branch's wrong path is followed this time.
    fn is_followed(&mut self, branch: u32) -> bool {
        self.trails_of(branch).is_some_and(|trails| {
            let quiet = trails.quiet;
            trails.quiet = quiet.wrapping_add(1);
            quiet < QUIET || quiet.is_multiple_of(SELDOM)
        })
    }

    /// Where the path that a branch was thought to take joins the one that it took, and what it has before that.
    fn joins(&mut self, program: &Program, branch: u32, insts: &[Inst]) -> Option<(usize, Before)> {
        let first = insts.first()?.address;
        let trails = self.trails_of(branch)?;
        let mut others = trails.paths.iter_mut();
        let other = others.find(|path| !path.begins_at(first))?;
        let (place, step) = other.joins(insts)?;
        let before = part(&other.steps, 0..usize::from(step));
        Some((usize::from(place), Before::new(program, before)))
    }

    /// A branch was followed by these instructions.
    fn learn(&mut self, branch: u32, insts: &[Inst]) {
        let place = Self::place(branch);
        let Some(first) = insts.first() else {
            return;
        };
        if self.trails.is_empty() {
            self.trails.resize_with(BRANCHES, || None);
        }
        let Some(slot) = self.trails.get_mut(place) else {
            return;
        };
        let trails = slot.get_or_insert_default();
        if trails.branch != branch {
            **trails = Trails {
                branch,
                ..Trails::default()
            };
        }
        let mut known = trails.paths.iter();
        trails.latest = match known.position(|path| path.begins_at(first.address)) {
            Some(known) => known,
            None => {
                let other = 1 - trails.latest;
                trails.paths[other] = Trail::new(insts);
                other
            }
        };
    }
}

/// What an instruction writes.
fn written(program: &Program, instr: &Instr) -> Set {
    let mut all = Set::default();
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

fn uops<'a>(program: &'a Program, instr: &Instr) -> &'a [Uop] {
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

fn zeroed<'a>(program: &'a Program, instr: &Instr) -> &'a [RegId] {
    let range = instr.zeroed.start as usize..instr.zeroed.end as usize;
    part(&program.zeroed, range)
}

/// The right path, as far as it is executed on a wrong one.
struct Walk<'a> {
    paths: &'a mut WrongPaths,
    program: &'a Program,
    back: &'a mut Backend,
    /// When the branch is executed, which ends all.
    executed: u64,
    /// Registers written behind the branch, and when each is there.
    known: Set,
    there: [u64; 128],
    /// The cycle of delivery, and µops in it.
    begun: u64,
    delivered: u64,
    /// µops behind the branch.
    in_flight: u64,
    /// When the last µop was executed.
    resolved: u64,
    /// The instruction before, in the program.
    last: u32,
    /// Some line was not there.
    missed: bool,
}

impl Walk<'_> {
    /// The wrong path comes to where it joins, before which the right one has these instructions; what either writes there is
    /// known in cycle `known`.
    fn join(&mut self, before: &[Inst], other: Before, known: u64) {
        let mut unknown = other.writes;
        for inst in before {
            if let Some(instr) = self.program.instrs.get(inst.instr as usize) {
                unknown = unknown.and(written(self.program, instr));
            }
        }
        for reg in unknown {
            self.write(reg, known);
        }
        self.deliver(u64::from(other.uops));
    }

    /// So many µops are delivered.
    fn deliver(&mut self, uops: u64) {
        self.in_flight += uops;
        self.delivered += uops;
        // Most instructions have one: nothing is divided for them.
        while self.delivered >= self.paths.issue_width {
            self.delivered -= self.paths.issue_width;
            self.begun = self.begun.saturating_add(1);
        }
    }

    fn write(&mut self, reg: RegId, at: u64) {
        self.known.add(reg);
        if let Some(there) = self.there.get_mut(usize::from(reg.0)) {
            *there = at;
        }
    }

    fn there(&self, reg: RegId) -> u64 {
        match self.known.has(reg) {
            true => self.there.get(usize::from(reg.0)).copied().unwrap_or(0),
            false => self.back.there(reg),
        }
    }

    /// Follows the right path from where it was joined.
    fn follow(
        &mut self,
        mut place: usize,
        queue: &FetchQueue,
        insts: &[Inst],
        mut accesses: &[Access],
    ) {
        let skip = |accesses: &mut &[Access], passed: &[Inst]| {
            let count = passed.iter().map(Inst::accesses).sum();
            *accesses = accesses.get(count..).unwrap_or(&[]);
        };
        skip(&mut accesses, part(insts, 0..place));
        let mut wrong = queue.wrong_starts().peekable();
        let mut wrong_up_to = |place: usize| {
            let number = queue.head() + place as u64;
            std::iter::from_fn(|| wrong.next_if(|wrong| *wrong <= number)).count() > 0
        };
        wrong_up_to(place);
        while let Some(inst) = insts.get(place) {
            if wrong_up_to(place) {
                // What is not known where they join is, once it has been executed on the right one.
                let right = self.resolved.saturating_add(self.paths.redirect);
                let rest = part(insts, place..insts.len());
                match self.paths.joins(self.program, self.last, rest) {
                    Some((more, other)) => {
                        let before = part(rest, 0..more);
                        self.join(before, other, right);
                        skip(&mut accesses, before);
                        place += more;
                        wrong_up_to(place);
                        if more > 0 {
                            continue;
                        }
                    }
                    None => (self.begun, self.delivered) = (right, 0),
                }
            }
            if !self.step(inst, accesses) {
                return;
            }
            skip(&mut accesses, std::slice::from_ref(inst));
            place += 1;
        }
    }

    /// Executes an instruction of a µop that only computes.
    #[inline]
    fn compute(&mut self, uop: &Laminated, starts: u64) {
        let inputs = uop.inputs.iter().map(|reg| self.there(*reg));
        let ready = inputs.fold(starts, u64::max);
        let is_done = ready < self.executed;
        for output in part(&uop.outputs, 0..usize::from(uop.outputs_len)) {
            let at = match is_done {
                true => ready + u64::from(output.latency),
                false => NEVER,
            };
            self.write(output.reg, at);
        }
        self.resolved = if is_done { ready + 1 } else { NEVER };
    }

    /// Executes an instruction; whether the path goes on behind it.
    fn step(&mut self, inst: &Inst, accesses: &[Access]) -> bool {
        const ENDS: u32 = flag::SERIALIZING | flag::LOAD_FENCE | flag::REP | flag::REP_COMPARE;
        let Some(instr) = self.program.instrs.get(inst.instr as usize) else {
            return false;
        };
        if instr.is(flag::FUSED_PREVIOUS) {
            return true;
        }
        self.last = inst.instr;
        let starts = self.begun.saturating_add(self.paths.issue_to_dispatch);
        self.deliver(u64::from(instr.fused));
        let ends = inst.reaches || instr.locked || instr.is(ENDS);
        if ends || starts >= self.executed || self.in_flight > self.paths.reorder_buffer {
            return false;
        }
        if instr.laminated_len == 1
            && let Some(uop) = self.program.laminated.get(instr.laminated as usize)
            && uop.is_simple
        {
            self.compute(uop, starts);
            return true;
        }
        for uop in uops(self.program, instr) {
            let inputs = self.program.inputs_of(uop).iter();
            let inputs = inputs.map(|reg| self.there(*reg)).max().unwrap_or(0);
            let ready = inputs.max(starts);
            let done = match uop.kind {
                _ if ready >= self.executed => None,
                UopKind::Load(number) if inst.loads > 0 => {
                    let access = accesses.get(usize::from(number.min(inst.loads - 1)));
                    access.and_then(|access| {
                        let late = (self.back.memory()).load_on_wrong_path(inst, access, ready)?;
                        self.missed |= late > 0;
                        Some(ready + late)
                    })
                }
                _ => Some(ready),
            };
            let moved = instr.is(flag::ELIMINABLE);
            for output in self.program.outputs_of(uop) {
                let latency = if moved { 0 } else { u64::from(output.latency) };
                self.write(output.reg, done.map_or(NEVER, |done| done + latency));
            }
            self.resolved = done.map_or(NEVER, |done| done + 1);
        }
        for reg in zeroed(self.program, instr) {
            self.write(*reg, 0);
        }
        true
    }
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
    fn sets_have_what_was_added() {
        let mut set = Set::default();
        for reg in [0, 5, 63, 64, 127] {
            set.add(RegId(reg));
        }
        assert!(set.has(RegId(64)) && !set.has(RegId(6)));
        let all: Vec<u8> = set.map(|reg| reg.0).collect();
        assert_eq!(all, [0, 5, 63, 64, 127]);
    }
}
