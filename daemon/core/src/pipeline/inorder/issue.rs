//! Issue: in order, when operands are there, units are free and the rules of pairing allow.

use mcad_isa::llvm::sched::Machine;
use mcad_isa::machine::inorder::{AccessKind, InOrder, Late, USES, Use};

use super::Executed;
use super::code::{Code, Control, REGISTERS, Source, Static};
use super::scheduled::Scheduled;
use super::slots::{Cause, Slots};
use super::store_buffer::StoreBuffer;

/// The facts of a class, by its number.
#[derive(Clone, Copy, Debug)]
struct Rules {
    unit: Option<Copies>,
    interval: u32,
    write_back: u32,
    before: u32,
    after: u32,
    late: bool,
    alone: bool,
    access: Option<AccessKind>,
}

/// The copies of a unit.
#[derive(Clone, Copy, Debug)]
struct Copies {
    /// Place of the first among all copies of all units: its port, as [`InOrder::ports`] has them.
    first: u8,
    count: u8,
}

/// Who writes a register last.
#[derive(Clone, Copy, Debug)]
struct Register {
    issued: u64,
    latency: [u8; USES],
    loaded: bool,
}

impl Register {
    /// Its value has always been there.
    const FREE: Self = Self {
        issued: 0,
        latency: [0; USES],
        loaded: false,
    };
}

/// How an instruction issued.
#[derive(Clone, Copy, Debug)]
pub struct Issued {
    /// When.
    pub cycle: u64,
    /// When it retires.
    pub retired: u64,
    /// It executes late.
    pub late: bool,
    /// What kept it from issuing sooner, at last.
    pub cause: Cause,
    /// When its results are there.
    pub done: u64,
    /// The unit that it takes.
    pub port: Option<u8>,
}

impl Issued {
    /// In `cycle`, without effect.
    pub(super) const fn at(cycle: u64, cause: Cause) -> Self {
        Self {
            cycle,
            retired: cycle,
            late: false,
            cause,
            done: cycle,
            port: None,
        }
    }
}

/// State of issue.
#[derive(Clone, Debug)]
pub struct Issue {
    width: u64,
    retire: u64,
    division_after: i64,
    late: Option<Late>,
    late_latency: [u8; USES],
    rules: Vec<Rules>,
    /// When each copy of each unit is free.
    free: Vec<u64>,
    stores: Option<StoreBuffer>,
    registers: Box<[Register; REGISTERS]>,
    /// The last cycle of issue, slots taken in it, and what closes it.
    cycle: u64,
    taken: u64,
    closed: bool,
    late_branch: bool,
    /// When the last result so far is written, of classes that write in order.
    written: u64,
    /// What follows waits for this cycle.
    not_before: u64,
    not_before_cause: Cause,
    started: bool,
    /// Cycle of the last retirement.
    retired: u64,
    slots: Slots,
    /// Issue by a scheduling model, in the place of all of this.
    scheduled: Option<Box<Scheduled>>,
}

impl Issue {
    /// Nothing has issued. `machine` has the units of a core that issues by a scheduling model.
    #[must_use]
    pub fn new(core: &InOrder, machine: Option<&Machine>) -> Self {
        let copies = |name: &String| {
            let unit = core.units.iter().position(|u| u.name == *name)?;
            let before = core.units.iter().take(unit).map(|u| u.count).sum::<u32>();
            Some(Copies {
                first: before as u8,
                count: core.units.get(unit)?.count as u8,
            })
        };
        Self {
            width: u64::from(core.width),
            retire: u64::from(core.retire),
            division_after: (core.divider.as_ref())
                .map_or(-i64::from(core.retire), |d| i64::from(d.issue_after)),
            late: core.late.clone(),
            late_latency: core.late.as_ref().map_or([0; USES], |l| l.latency.by_use()),
            rules: core
                .classes
                .iter()
                .map(|class| Rules {
                    unit: class.unit.as_ref().and_then(copies),
                    interval: class.interval,
                    write_back: class.write_back,
                    before: class.before,
                    after: class.after,
                    late: class.late,
                    alone: class.alone,
                    access: class.access,
                })
                .collect(),
            free: vec![0; core.units.iter().map(|u| u.count as usize).sum()],
            stores: core.store_buffer.as_ref().map(StoreBuffer::new),
            registers: Box::new([Register::FREE; REGISTERS]),
            cycle: 0,
            taken: 0,
            closed: false,
            late_branch: false,
            written: 0,
            not_before: 0,
            not_before_cause: Cause::Serialization,
            started: false,
            retired: 0,
            slots: Slots::default(),
            scheduled: machine.map(|machine| Box::new(Scheduled::new(machine, core.width))),
        }
    }

    /// What became of the issue slots so far.
    #[must_use]
    pub fn slots(&self) -> Slots {
        let scheduled = self.scheduled.as_ref();
        scheduled.map_or(self.slots, |scheduled| scheduled.slots)
    }

    /// Nothing has issued any more.
    pub fn reset(&mut self) {
        if let Some(scheduled) = &mut self.scheduled {
            scheduled.reset();
        }
        self.free.fill(0);
        if let Some(stores) = &mut self.stores {
            stores.reset();
        }
        self.registers.fill(Register::FREE);
        self.cycle = 0;
        self.taken = 0;
        self.closed = false;
        self.late_branch = false;
        self.written = 0;
        self.not_before = 0;
        self.not_before_cause = Cause::Serialization;
        self.started = false;
        self.retired = 0;
        self.slots = Slots::default();
    }

    /// The cycle from which on a register can be used, and whether it comes from a load.
    #[inline]
    fn ready(&self, source: &Source, needed: Use) -> (u64, bool) {
        let register = &self.registers[usize::from(source.register)];
        let latency = register.latency[needed as usize];
        (register.issued + u64::from(latency), register.loaded)
    }

    /// When the last of the operands is there, and for what that has waited.
    #[inline]
    fn operands(&self, sources: &[Source], late: bool) -> (u64, Cause) {
        let (mut last, mut from_load) = (0, false);
        for source in sources {
            let needed = if late { Use::Late } else { source.needed };
            let (at, loaded) = self.ready(source, needed);
            // Of those that are there last, a loaded one counts.
            from_load = at >= last && loaded || at <= last && from_load;
            last = last.max(at);
        }
        let cause = if from_load {
            Cause::Load
        } else {
            Cause::Dependency
        };
        (last, cause)
    }

    /// Behind a branch that issued in `cycle` something that serialises has issued and was called
    /// back: what comes in its stead waits as long.
    pub fn serialised_astray(&mut self, cycle: u64, after: u64) {
        self.not_before = self.not_before.max(cycle + after);
        self.not_before_cause = Cause::Misprediction;
    }

    /// Cycles for which an instruction holds up what follows.
    #[must_use]
    pub fn after(&self, instr: &Static) -> u64 {
        self.rules
            .get(usize::from(instr.class))
            .map_or(0, |r| u64::from(r.after))
    }

    /// The copy of a unit that is free first, and when it is.
    #[inline]
    fn free(&self, unit: Copies) -> Option<(u8, u64)> {
        let copies = self.free.iter().skip(usize::from(unit.first));
        let (mut first, mut at) = (unit.first, u64::MAX);
        for (&free, port) in copies.zip(unit.first..unit.first + unit.count) {
            if free < at {
                (first, at) = (port, free);
            }
        }
        (unit.count > 0).then_some((first, at))
    }

    /// Issues an instruction that may issue from `ready` on, by what `waited_for` says; `next` is the one
    /// after it, with the cycle from which on it may issue.
    #[inline]
    pub fn issue(
        &mut self,
        code: &Code,
        executed: &Executed,
        ready: u64,
        waited_for: Cause,
        next: Option<(u32, u64)>,
    ) -> Issued {
        if let Some(scheduled) = &mut self.scheduled {
            return scheduled.issue(&code.scheduled, executed.instr, ready, waited_for);
        }
        let Some(instr) = code.instrs.get(executed.instr as usize) else {
            return Issued::at(self.cycle, Cause::Fetch);
        };
        let Some(&rules) = self.rules.get(usize::from(instr.class)) else {
            return Issued::at(self.cycle, Cause::Fetch);
        };
        if !self.started {
            self.started = true;
            self.cycle = ready;
        }
        let mut wait = Wait::new(self.cycle, self.taken, self.width);
        let slots = &mut self.slots;
        if self.taken >= self.width {
            wait.until(self.cycle + 1, Cause::Pairing, slots);
        }
        if let Some((cycles, cause)) = executed.gap {
            wait.until(self.cycle + 1 + u64::from(cycles), cause, slots);
        }
        wait.until(ready, waited_for, slots);
        wait.until(self.not_before, self.not_before_cause, slots);
        if self.closed || rules.alone && self.taken > 0 {
            wait.until(self.cycle + 1, Cause::Pairing, slots);
        }
        if rules.before > 0 {
            wait.until(
                self.cycle + u64::from(rules.before),
                Cause::Serialization,
                slots,
            );
        }
        if self.late_branch && rules.access == Some(AccessKind::Load) {
            wait.until(self.cycle + 1, Cause::Pairing, slots);
        }
        let unit = rules.unit.and_then(|unit| self.free(unit));
        if let Some((_, free)) = unit {
            wait.until(free, Cause::Unit, &mut self.slots);
        }
        let sources = code.sources(instr);
        let (early, cause) = self.operands(sources, false);
        let mut late = false;
        if early > wait.cycle {
            if rules.late {
                let (at_end, cause) = self.operands(sources, true);
                wait.until(at_end, cause, &mut self.slots);
                late = early > wait.cycle;
                let spares = self.late.as_ref().is_some_and(|l| l.spares_next);
                if late
                    && spares
                    && wait.cycle > self.cycle
                    && needs_early(code, &self.rules, instr, next, wait.cycle)
                {
                    // The next one may come to be ready while this one waits.
                    wait.until(early, cause, &mut self.slots);
                    late = false;
                }
            } else {
                wait.until(early, cause, &mut self.slots);
            }
        }
        if rules.access == Some(AccessKind::Store)
            && let Some(stores) = &mut self.stores
        {
            let room = stores.room(wait.cycle);
            wait.until(room, Cause::StoreBuffer, &mut self.slots);
        }
        if rules.write_back > 0 {
            let write_back = u64::from(rules.write_back);
            let in_order = self.written.saturating_sub(write_back);
            wait.until(in_order, Cause::WriteBack, &mut self.slots);
            self.written = wait.cycle + write_back;
        }
        let port = unit.map(|(port, _)| port);
        if let Some(copy) = port.and_then(|port| self.free.get_mut(usize::from(port))) {
            *copy = wait.cycle + u64::from(rules.interval);
        }
        Issued {
            port,
            ..self.take(code, instr, executed, &rules, &wait, late)
        }
    }

    /// Issues in the cycle that was waited for.
    #[inline]
    fn take(
        &mut self,
        code: &Code,
        instr: &Static,
        executed: &Executed,
        rules: &Rules,
        wait: &Wait,
        late: bool,
    ) -> Issued {
        let cycle = wait.cycle;
        if cycle > self.cycle {
            self.cycle = cycle;
            self.taken = 0;
            self.closed = false;
            self.late_branch = false;
        }
        self.taken += 1;
        self.slots.used += 1;
        self.closed |= rules.alone || instr.control == Control::Unpredicted;
        self.late_branch |= late
            && instr.control != Control::None
            && self.late.as_ref().is_some_and(|l| l.branch_blocks_load);
        let loaded = rules.access == Some(AccessKind::Load);
        let mut done = cycle + 1;
        for target in code.targets(instr) {
            let latency = if late {
                self.late_latency
            } else {
                target.latency
            };
            let operand = u64::from(latency[Use::Operand as usize]);
            done = done.max(cycle + operand + u64::from(executed.missed));
            self.registers[usize::from(target.register)] = Register {
                issued: cycle + u64::from(executed.missed),
                latency,
                loaded,
            };
        }
        if let Some(kind) = rules.access
            && let Some((address, size)) = executed.access
            && let Some(stores) = &mut self.stores
        {
            stores.access(cycle, address, size, kind == AccessKind::Store);
        }
        let mut retired = cycle + self.retire;
        if rules.after > 0 {
            self.not_before = cycle + u64::from(rules.after);
            self.not_before_cause = Cause::Serialization;
        }
        let cycles = match executed.cycles {
            0 => u64::from(instr.cycles),
            known => u64::from(known),
        };
        if cycles > 0 {
            retired = cycle + cycles;
            self.not_before = retired.saturating_add_signed(self.division_after);
            self.not_before_cause = Cause::Division;
        }
        retired = retired.max(self.retired);
        self.retired = retired;
        Issued {
            cycle,
            retired,
            late,
            cause: wait.cause,
            done: if cycles > 0 { retired } else { done },
            port: None,
        }
    }
}

/// Whether the next instruction, if it is there in this cycle, needs the result of this one and
/// cannot execute late.
fn needs_early(
    code: &Code,
    rules: &[Rules],
    instr: &Static,
    next: Option<(u32, u64)>,
    cycle: u64,
) -> bool {
    let Some((next, ready)) = next else {
        return false;
    };
    let Some(next) = code.instrs.get(next as usize) else {
        return false;
    };
    let rules = rules.get(usize::from(next.class));
    if ready > cycle || rules.is_none_or(|r| r.late) {
        return false;
    }
    code.sources(next).iter().any(|source| {
        source.needed != Use::StoreData
            && code
                .targets(instr)
                .iter()
                .any(|t| t.register == source.register)
    })
}

/// The way to an instruction's cycle of issue: every slot passed over is lost for a cause.
pub(super) struct Wait {
    pub(super) cycle: u64,
    taken: u64,
    width: u64,
    pub(super) cause: Cause,
}

impl Wait {
    /// In `cycle`, of whose `width` slots some are taken.
    pub(super) const fn new(cycle: u64, taken: u64, width: u64) -> Self {
        Self {
            cycle,
            taken,
            width,
            cause: Cause::Pairing,
        }
    }

    /// Waits until `cycle`, if that is not over.
    #[inline]
    pub(super) fn until(&mut self, cycle: u64, cause: Cause, slots: &mut Slots) {
        if cycle > self.cycle {
            let lost = self.width - self.taken + (cycle - self.cycle - 1) * self.width;
            if lost > 0 {
                slots.lose(cause, lost);
                self.cause = cause;
            }
            self.cycle = cycle;
            self.taken = 0;
        }
    }
}
