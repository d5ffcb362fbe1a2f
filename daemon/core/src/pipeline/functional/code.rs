//! What a core's front end remembers for long, without its instructions: which code the µop cache
//! has, where fetch begins, and what has come back there since the kernel ran.
//!
//! Executed instructions are gathered into the same groups as in [`FetchQueue`], which ask the µop
//! cache in the same order, so that it has the same in it. No instruction is kept for that, and
//! nothing is handed on: of an open group only its pieces of the program are known, and of a closed one from
//! where each block of code comes. Loops that a loop stream detector would replay go on asking: what they
//! ask for is what they have asked for last, so that nothing changes but where the detector's last
//! iteration ends.
//!
//! [`FetchQueue`]: crate::pipeline::frontend::fetch::FetchQueue

use std::sync::Arc;

use crate::pipeline::backlog::Backlog;
use crate::pipeline::frontend::plan::Plan;
use crate::pipeline::frontend::predict::stream::{LINE_SHIFT, Start, Starts, Steers, Way};
use crate::pipeline::frontend::uop_cache::contents::UopCache;
use crate::pipeline::frontend::uop_cache::groups::{Group, Groups, Pieces};
use crate::pipeline::frontend::uop_cache::pack::{Entry, Line, Open};
use crate::pipeline::frontend::uop_cache::refills::Refills;
use crate::pipeline::inst::{Inst, Source};
use crate::pipeline::window::Window;
use mcad_isa::machine::CpuModel;
use mcad_isa::machine::params::Frontend;
use mcad_isa::program::Program;

/// What a front end begins with in the middle of a program.
pub struct WarmCode {
    /// The µop cache, and from where code comes.
    pub route: Route,
    /// Branch prediction, where the model has it.
    pub prediction: Option<Box<Starts>>,
    /// What has come back.
    pub refills: Refills,
}

/// From where code comes.
#[derive(Clone)]
pub struct Route {
    /// What the µop cache has.
    pub cache: UopCache,
    /// From where the last block of code came.
    pub last: Source,
    /// A branch was the last instruction.
    pub after_branch: bool,
    /// What the last line before the open group has room for.
    pub line: Open,
}

impl Route {
    /// What the line before the open group has room for.
    #[inline]
    fn open(&self) -> Open {
        (self.cache).goes_on(self.line, self.last, self.after_branch)
    }

    /// A group that begins at `address` is closed; `each` is told of its blocks of code from where they
    /// come, with their entries and lines.
    #[inline]
    fn pass(
        &mut self,
        p: &Frontend,
        group: &Group,
        address: u64,
        mut each: impl FnMut(Source, u64, &[Entry], &[Line]),
    ) {
        let group_cacheable = group.cacheable || !p.uop_cache_both_halves;
        let moved = group.moved_to(address);
        for (part, entries, lines) in group.parts() {
            let may_hit = self.last == Source::UopCache || self.after_branch;
            let cacheable = part.packed.cacheable && group_cacheable;
            let hit = cacheable && self.cache.has(part, entries, moved);
            self.last = match self.cache.delivers(hit, may_hit) {
                true => Source::UopCache,
                false => Source::Decoders,
            };
            self.after_branch = false;
            each(self.last, part.instructions, entries, lines);
        }
        self.after_branch = group.ends_in_branch;
        self.line = (self.cache).leaves(group.open, self.last, group.taken);
    }
}

/// The front end's long memory.
pub(super) struct CodeWalk {
    p: Frontend,
    route: Route,
    groups: Groups,
    prediction: Option<Box<Starts>>,
    refills: Refills,
    /// Instructions so far.
    end: u64,
    /// Number of the open group's first instruction, and its address.
    open: u64,
    address: u64,
    /// The open group's instructions, and the same as a list that has all: first and how many.
    pieces: Pieces,
    all: Vec<(u32, u32)>,
    next_address: u64,
    /// Line of the last instruction.
    last_line: u64,
    /// From where the instructions up to a number come, of those that fetch has not come to.
    routes: Backlog<(u64, Source)>,
    /// Instructions with the first entry of a line from the µop cache, by number and address, since they were
    /// taken last; only where something has to come back.
    lines: Vec<(u64, u64)>,
    /// Instructions that [`Groups`] does not know are laid out here.
    insts: Window<Inst>,
}

impl CodeWalk {
    /// Nothing yet.
    pub(super) fn new(model: &Arc<CpuModel>) -> Self {
        let p = model.core.frontend.clone();
        let branch = model.core.branch.as_ref();
        Self {
            route: Route {
                cache: UopCache::new(&p, false),
                last: Source::Decoders,
                after_branch: true,
                line: Open::default(),
            },
            groups: Groups::new(),
            prediction: branch.map(|branch| Box::new(Starts::told(branch))),
            refills: Refills::default(),
            end: 0,
            open: 0,
            address: 0,
            pieces: Pieces::default(),
            all: Vec::new(),
            next_address: 0,
            last_line: 0,
            routes: Backlog::new(),
            lines: Vec::new(),
            insts: Window::new(64),
            p,
        }
    }

    /// A copy of what it remembers where the instruction at `next` comes next.
    pub(super) fn snapshot(&mut self, program: &Program, next: u64) -> WarmCode {
        let mut route = self.route.clone();
        let jumped = next != self.next_address;
        if self.end != self.open && (jumped || self.last_line != next >> LINE_SHIFT) {
            let Self {
                p,
                groups,
                pieces,
                all,
                insts,
                address,
                ..
            } = self;
            let of = (*address, jumped);
            let group = groups.find(program, p, of, pieces, route.open(), || {
                lay_out(program, all, of, insts)
            });
            if let Some(group) = group {
                route.pass(p, group, *address, |_, _, _, _| {});
            }
        }
        WarmCode {
            route,
            prediction: (self.prediction.as_ref()).map(|starts| Box::new(starts.snapshot())),
            refills: self.refills.snapshot(),
        }
    }

    /// What becomes of the next branches.
    pub(super) fn tell(&mut self, steers: Steers) {
        if let Some(starts) = &mut self.prediction {
            starts.tell(steers);
        }
    }

    /// Instructions so far.
    #[inline]
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Those that are in closed groups.
    #[inline]
    pub(super) fn closed(&self) -> u64 {
        self.open
    }

    /// The next place in a closed group where fetch begins, and from where what is there comes.
    #[inline]
    pub(super) fn next_start(&mut self) -> Option<(Start, Source)> {
        let queue = &mut self.prediction.as_mut()?.queue;
        let start = *queue.front().filter(|start| start.number < self.open)?;
        queue.pop(1);
        while let Some(&(end, _)) = self.routes.front()
            && end <= start.number
        {
            self.routes.pop(1);
        }
        let source = self
            .routes
            .front()
            .map_or(Source::Decoders, |route| route.1);
        Some((start, source))
    }

    /// Branch prediction.
    #[inline]
    pub(super) fn prediction(&mut self) -> Option<&mut Starts> {
        self.prediction.as_deref_mut()
    }

    /// Lets what comes from the µop cache come back there where it was pushed out; `faults` says how
    /// often the kernel ran before an instruction.
    pub(super) fn refill(&mut self, mut faults: impl FnMut(u64) -> u64) {
        let bytes = u64::from(self.p.uop_cache_block_bytes.max(1));
        for (number, address) in self.lines.drain(..) {
            (self.refills).come(address / bytes, faults(number));
        }
    }

    /// Lines that would have to come back are not looked at.
    #[inline]
    pub(super) fn skip_lines(&mut self) {
        self.lines.clear();
    }

    /// Takes all instructions of a block.
    #[inline]
    pub(super) fn run(&mut self, program: &Program, plan: &Plan) {
        let insts = plan.insts();
        let Some(first) = insts.first() else { return };
        let start = self.end;
        if let (Some(starts), Some(at)) = (&mut self.prediction, plan.starts().first()) {
            let restarted = starts.restarts();
            starts.arrive_as(at.at, start, at.branch.as_ref());
            if let Some(way) = restarted {
                self.restart(program, way);
            }
        }
        self.join(program, first);
        let mut lines = plan.lines().iter();
        let mut in_line = lines.next();
        let count = insts.len() as u64;
        self.add(first.instr, in_line.map_or(count, |&n| u64::from(n)));
        if let Some(starts) = &mut self.prediction {
            for at in plan.starts().iter().skip(1) {
                let number = start + u64::from(at.place);
                starts.arrive_as(at.at, number, at.branch.as_ref());
            }
        }
        self.next_address = plan.end();
        while in_line.is_some() {
            self.close_group(program, false);
            in_line = lines.next();
            let before = self.open - start;
            let left = count.saturating_sub(before);
            let Some(inst) = insts.get(before as usize) else {
                break;
            };
            self.address = inst.address;
            self.add(inst.instr, in_line.map_or(left, |&n| u64::from(n)));
        }
        self.last_line = insts.last().map_or(0, Inst::line);
    }

    /// Takes an instruction.
    pub(super) fn push(&mut self, program: &Program, inst: &Inst) {
        if let Some(starts) = &mut self.prediction {
            let restarted = starts.restarts();
            starts.arrive(program, inst, self.end, false);
            if let Some(way) = restarted {
                self.restart(program, way);
            }
        }
        self.join(program, inst);
        let Some(instr) = program.instrs.get(inst.instr as usize) else {
            return;
        };
        self.add(inst.instr, 1);
        self.next_address = inst.address.wrapping_add(u64::from(instr.len));
        self.last_line = inst.line();
    }

    /// Fetch starts anew though control goes on.
    #[cold]
    fn restart(&mut self, program: &Program, way: Way) {
        if self.end != self.open {
            self.close_group(program, false);
        }
        (self.route.last, self.route.after_branch) = (Source::Decoders, way == Way::Kernel);
        self.route.line = Open::default();
    }

    /// An instruction comes behind those so far, and may close their group.
    #[inline]
    fn join(&mut self, program: &Program, inst: &Inst) {
        if self.end != self.open {
            let jumped = inst.address != self.next_address;
            if !jumped && self.last_line == inst.line() {
                return;
            }
            self.close_group(program, jumped);
        }
        self.address = inst.address;
    }

    /// Instructions are appended to the open group.
    #[inline]
    fn add(&mut self, first: u32, count: u64) {
        self.pieces.add(first, count);
        self.all.push((first, count as u32));
        self.end += count;
    }

    /// Decides from where the open group comes; `taken`: control goes elsewhere behind it.
    #[inline]
    fn close_group(&mut self, program: &Program, taken: bool) {
        let Self {
            p,
            groups,
            pieces,
            all,
            insts,
            address,
            open,
            route,
            routes,
            lines,
            prediction,
            ..
        } = self;
        let of = (*address, taken);
        let group = groups.find(program, p, of, pieces, route.open(), || {
            lay_out(program, all, of, insts)
        });
        if let Some(group) = group {
            let moved = group.moved_to(*address);
            let mut at = *open;
            route.pass(p, group, *address, |source, instructions, entries, of| {
                if source == Source::UopCache && p.uop_cache_refill > 0 {
                    let mut place = 0;
                    for line in of {
                        if let Some(entry) = entries.get(place) {
                            let number = at + u64::from(entry.number);
                            lines.push((number, entry.address.wrapping_add(moved)));
                        }
                        place += usize::from(line.left);
                    }
                }
                at += instructions;
                if prediction.is_some() {
                    routes.push((at, source));
                }
            });
        }
        self.open = self.end;
        self.pieces.clear();
        self.all.clear();
    }
}

/// Lays a group's instructions out, which begin at an address.
#[cold]
fn lay_out<'a>(
    program: &Program,
    pieces: &[(u32, u32)],
    (mut address, taken): (u64, bool),
    insts: &'a mut Window<Inst>,
) -> (&'a Window<Inst>, u64, u64) {
    insts.reset();
    for &(first, count) in pieces {
        for instr in first..first + count {
            insts.push(Inst::new(instr, address));
            let len = (program.instrs.get(instr as usize)).map_or(0, |instr| instr.len);
            address = address.wrapping_add(u64::from(len));
        }
    }
    if let Some(last) = insts.back_mut() {
        last.taken = taken;
    }
    (insts, insts.head(), insts.end())
}

#[cfg(test)]
mod tests {
    use mcad_isa::x86::build::{Builder, decode};

    use super::*;
    use crate::pipeline::frontend::fetch::FetchQueue;
    use crate::pipeline::frontend::plan::Run;

    /// From where instructions come, by number.
    fn sources(walk: &CodeWalk, from: u64, to: u64) -> Vec<Source> {
        let routes = walk.routes.all();
        let of = |number: &u64| routes.iter().find(|(end, _)| number < end);
        (from..to)
            .filter_map(|number| Some(of(&number)?.1))
            .collect()
    }

    #[test]
    fn code_comes_from_where_the_front_end_has_it_from() {
        // CPUs without a loop stream detector: add rax, rbx; inc rcx; mov rax, 2^40; jne over the rest.
        let code: [&[u8]; 4] = [
            &[0x48, 0x01, 0xd8],
            &[0x48, 0xff, 0xc1],
            &[0x48, 0xb8, 0, 0, 0, 0, 0, 1, 0, 0],
            &[0x75, 0x10],
        ];
        for (cpu, seed) in [("skl", 1), ("glc", 2), ("zen5", 3), ("skl", 4), ("zen5", 5)] {
            let model = Arc::new(mcad_isa::machine::cpu(cpu).unwrap());
            let mut random = fastrand::Rng::with_seed(seed);
            let mut program = Program::default();
            let mut address = 0x40_0000;
            // Blocks that lie one behind the other, further apart than the cache is large in all.
            let plans: Vec<Plan> = (0..1200)
                .map(|_| {
                    let mut bytes = Vec::new();
                    for _ in 0..random.usize(1..12) {
                        bytes.extend_from_slice(code[random.usize(0..3)]);
                    }
                    bytes.extend_from_slice(code[3]);
                    let first = program.instrs.len();
                    Builder::new(&model).append(&mut program, &decode(&bytes, address).0);
                    let addresses: Vec<u64> = program.instrs[first..]
                        .iter()
                        .map(|instr| {
                            address += u64::from(instr.len);
                            address - u64::from(instr.len)
                        })
                        .collect();
                    address += random.u64(0..3) * 16;
                    Plan::new(&program, first as u32, &addresses, 0, 16).unwrap()
                })
                .collect();
            let mut queue = FetchQueue::new(&model, false);
            let mut walk = CodeWalk::new(&model);
            let (mut at, mut checked, mut kept) = (0, 0, 0);
            for _ in 0..20_000 {
                // Mostly to the next block or a near one.
                at = match random.u32(0..100) {
                    0..50 => at + 1,
                    50..98 => at + random.usize(0..30),
                    _ => random.usize(0..plans.len()),
                } % plans.len();
                let run = Run {
                    plan: &plans[at],
                    spans: &[],
                    accesses: &[],
                };
                if random.u32(0..10) > 0 {
                    queue.push_run(&program, run);
                    walk.run(&program, run.plan);
                } else {
                    for inst in run.plan.insts() {
                        queue.push(&program, *inst, &[]);
                        walk.push(&program, inst);
                    }
                }
                assert_eq!(walk.closed(), queue.released(), "{cpu}");
                let all: Vec<Source> = (checked..queue.released())
                    .map(|number| queue.get(number).unwrap().source)
                    .collect();
                assert_eq!(sources(&walk, checked, walk.closed()), all, "{cpu}");
                kept += (all.iter().filter(|source| **source == Source::UopCache)).count();
                checked = queue.released();
                while walk.routes.front().is_some_and(|route| route.0 <= checked) {
                    walk.routes.pop(1);
                }
                while queue.head() < checked {
                    queue.pop();
                }
            }
            let share = kept as f64 / checked as f64;
            assert!((0.02..0.98).contains(&share), "{cpu}: {share}");
        }
    }
}
