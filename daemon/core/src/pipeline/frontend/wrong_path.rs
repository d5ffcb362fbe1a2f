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

mod trail;

use super::fetch::FetchQueue;
use crate::lists::part;
use crate::pipeline::access::Access;
use crate::pipeline::backend::{Backend, Stamp, Stamps};
use crate::pipeline::inst::{Inst, Source};
use mcad_isa::machine::CpuModel;
use mcad_isa::program::{Laminated, Program, flag};
use mcad_isa::regs::RegId;
use mcad_isa::uop::UopKind;
use trail::{Before, Trail, simple, uops, written, zeroed};

/// Instructions of the right path that are known when a wrong one is followed.
pub const LOOKAHEAD: u64 = 256;
/// Branches whose paths are, a power of two.
const BRANCHES: usize = 256;
/// Wrong predictions of a thread from which on paths are remembered: of those that do little, thousands may live at once.
const FIRST: u64 = 1024;
/// A branch on whose wrong paths no line was missing so many times is followed only seldom, once in so many times.
const QUIET: u32 = 32;
const SELDOM: u32 = 8;
/// The cycle of what is not known on a wrong path, so that a stamp can say it and some latencies more.
const NEVER: u64 = u64::MAX / 4;

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
            let there = *back.stamps();
            let mut walk = Walk {
                paths: self,
                program,
                back,
                executed,
                there,
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
        Some((usize::from(place), other.before(program, step)))
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

/// The right path, as far as it is executed on a wrong one.
struct Walk<'a> {
    paths: &'a mut WrongPaths,
    program: &'a Program,
    back: &'a mut Backend,
    /// When the branch is executed, which ends all.
    executed: u64,
    /// When each register is there.
    there: Stamps,
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
            self.begun += 1;
        }
    }

    #[inline]
    fn write(&mut self, reg: RegId, at: u64) {
        self.there[usize::from(reg.0)] = Stamp::new(at, false);
    }

    #[inline]
    fn there(&self, reg: RegId) -> Stamp {
        self.there[usize::from(reg.0)]
    }

    /// Follows the right path from where it was joined.
    fn follow(
        &mut self,
        mut place: usize,
        queue: &FetchQueue,
        insts: &[Inst],
        accesses: &[Access],
    ) {
        let count = |insts: &[Inst]| insts.iter().map(Inst::accesses).sum::<usize>();
        let mut passed = count(part(insts, 0..place));
        let (head, mut wrong) = (queue.head(), queue.wrong_starts());
        let mut next_wrong = wrong.next();
        // Whether fetch comes from a wrong path to some instruction up to this one.
        let mut is_wrong_up_to = |place: usize| {
            let mut is_wrong = false;
            while next_wrong.is_some_and(|wrong| wrong <= head + place as u64) {
                is_wrong = true;
                next_wrong = wrong.next();
            }
            is_wrong
        };
        is_wrong_up_to(place);
        while let Some(inst) = insts.get(place) {
            if is_wrong_up_to(place) {
                // What is not known where they join is, once it has been executed on the right one.
                let right = (self.resolved + self.paths.redirect).min(NEVER);
                let rest = part(insts, place..insts.len());
                match self.paths.joins(self.program, self.last, rest) {
                    Some((more, other)) => {
                        let before = part(rest, 0..more);
                        self.join(before, other, right);
                        passed += count(before);
                        place += more;
                        is_wrong_up_to(place);
                        if more > 0 {
                            continue;
                        }
                    }
                    None => (self.begun, self.delivered) = (right, 0),
                }
            }
            if !self.step(inst, accesses.get(passed..).unwrap_or(&[])) {
                return;
            }
            passed += inst.accesses();
            place += 1;
        }
    }

    /// Executes an instruction of a µop that only computes.
    #[inline]
    fn compute(&mut self, uop: &Laminated, starts: u64) {
        let [a, b, c, d] = uop.inputs.map(|reg| self.there(reg));
        let ready = a.max(b).max(c.max(d)).cycle().max(starts);
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
        let starts = self.begun + self.paths.issue_to_dispatch;
        self.deliver(u64::from(instr.fused));
        let ends = inst.reaches || instr.locked || instr.is(ENDS);
        if ends || starts >= self.executed || self.in_flight > self.paths.reorder_buffer {
            return false;
        }
        // Rename does it: where any number of moves is eliminated, its µop reads and writes nothing.
        if instr.is(flag::ELIMINABLE) {
            self.there[usize::from(instr.move_to.0)] = self.there(instr.move_from);
            return true;
        }
        if let Some(uop) = simple(self.program, instr) {
            self.compute(uop, starts);
            return true;
        }
        for uop in uops(self.program, instr) {
            let inputs = self.program.inputs_of(uop).iter();
            let inputs = inputs.map(|reg| self.there(*reg));
            let ready = inputs
                .fold(Stamp::default(), Stamp::max)
                .cycle()
                .max(starts);
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
            for output in self.program.outputs_of(uop) {
                let at = done.map_or(NEVER, |done| done + u64::from(output.latency));
                self.write(output.reg, at);
            }
            self.resolved = done.map_or(NEVER, |done| done + 1);
        }
        for reg in zeroed(self.program, instr) {
            self.write(*reg, 0);
        }
        true
    }
}
