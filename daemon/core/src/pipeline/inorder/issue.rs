//! Issue: in order, when operands are there, units are free and the rules of pairing allow.

use mcad_isa::llvm::sched::Machine;
use mcad_isa::machine::inorder::{AccessKind, InOrder, Late, USES, Use};

use super::code::{Code, Control, PLACES, Static};
use super::scheduled::Scheduled;
use super::slots::{Cause, Ledger, Slots};
use super::store_buffer::StoreBuffer;
use super::{Around, Executed, Missed};

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
    /// Nothing but operands and its unit can hold it up, and it holds up nothing else.
    plain: bool,
}

/// The copies of a unit.
#[derive(Clone, Copy, Debug)]
struct Copies {
    /// Place of the first among all copies of all units: its port, as [`InOrder::ports`] has them.
    first: u8,
    count: u8,
}

/// A cycle, and above it in rank what to hold responsible for waiting until then: of what is there in
/// the same cycle, the later one in [`Awaited::CAUSES`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Awaited(u64);

impl Awaited {
    const BITS: u32 = 3;

    /// What a value that is waited for is.
    const CAUSES: [Cause; 8] = [
        Cause::Dependency,
        Cause::Load,
        Cause::SecondLevel,
        Cause::Memory,
        Cause::Translation,
        Cause::ThirdLevel,
        Cause::Dependency,
        Cause::Dependency,
    ];

    /// Results of an instruction that issues in `cycle` and, if it `loads`, may have missed.
    #[inline(always)]
    const fn loaded(cycle: u64, loads: u64, missed: Missed) -> Self {
        let what = match missed.cause {
            _ if missed.late == 0 => loads,
            Cause::SecondLevel => 2,
            Cause::Memory => 3,
            Cause::Translation => 4,
            Cause::ThirdLevel => 5,
            _ => loads,
        };
        Self((cycle + missed.late as u64) << Self::BITS | what)
    }

    #[inline(always)]
    const fn after(self, latency: u8) -> Self {
        Self(self.0 + ((latency as u64) << Self::BITS))
    }

    #[inline(always)]
    const fn cycle(self) -> u64 {
        self.0 >> Self::BITS
    }

    #[inline(always)]
    fn cause(self) -> Cause {
        Self::CAUSES[(self.0 & 7) as usize]
    }
}

/// Who writes a register last. One that nobody does has always been there.
#[derive(Clone, Copy, Debug, Default)]
struct Register {
    issued: Awaited,
    latency: [u8; USES],
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
    registers: Box<[Register; PLACES]>,
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
    /// What comes next may not be as [`Rules::plain`] says: nothing has issued yet, or what issued last
    /// closes its cycle for some.
    special: bool,
    /// Cycle of the last retirement.
    retired: u64,
    ledger: Ledger,
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
            let count = core.units.get(unit)?.count as u8;
            (count > 0).then_some(Copies {
                first: before as u8,
                count,
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
                    plain: class.write_back == 0
                        && class.before == 0
                        && class.after == 0
                        && !class.late
                        && !class.alone
                        && (class.access.is_none() || core.store_buffer.is_none()),
                })
                .collect(),
            free: vec![0; core.units.iter().map(|u| u.count as usize).sum()],
            stores: core.store_buffer.as_ref().map(StoreBuffer::new),
            registers: Box::new([Register::default(); PLACES]),
            cycle: 0,
            taken: 0,
            closed: false,
            late_branch: false,
            written: 0,
            not_before: 0,
            not_before_cause: Cause::Serialization,
            started: false,
            special: true,
            retired: 0,
            ledger: Ledger::default(),
            scheduled: machine.map(|machine| Box::new(Scheduled::new(machine, core.width))),
        }
    }

    /// What became of the issue slots so far.
    #[must_use]
    pub fn slots(&self) -> Slots {
        self.ledger().slots
    }

    /// The same, with what was lost for the instruction that issued last.
    #[inline]
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        match &self.scheduled {
            Some(scheduled) => &scheduled.ledger,
            None => &self.ledger,
        }
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
        self.registers.fill(Register::default());
        self.cycle = 0;
        self.taken = 0;
        self.closed = false;
        self.late_branch = false;
        self.written = 0;
        self.not_before = 0;
        self.not_before_cause = Cause::Serialization;
        self.started = false;
        self.special = true;
        self.retired = 0;
        self.ledger = Ledger::default();
    }

    /// When the last of the operands is there, and for what that has waited; for an instruction that
    /// executes late, all are needed at the end.
    #[inline(always)]
    fn operands(&self, code: &Code, instr: &Static, late: bool) -> Awaited {
        let mut last = Awaited::default();
        let mut wait_for = |place: u16, needed: Use| {
            if let Some(register) = self.registers.get(usize::from(place)) {
                let needed = if late { Use::Late } else { needed };
                let there = register.issued.after(register.latency[needed as usize]);
                last = last.max(there);
            }
        };
        for read in instr.first_sources() {
            wait_for(read.place, read.needed);
        }
        for source in code.other_sources(instr) {
            wait_for(source.register.into(), source.needed);
        }
        last
    }

    /// Has the results of an instruction from now on; gives the cycle in which the last one can be used.
    #[inline(always)]
    fn write(
        &mut self,
        code: &Code,
        instr: &Static,
        issued: Awaited,
        all: Option<[u8; USES]>,
    ) -> u64 {
        let mut done = issued;
        for written in instr.first_targets() {
            let latency = all.unwrap_or(written.latency);
            done = done.max(issued.after(latency[Use::Operand as usize]));
            if let Some(register) = self.registers.get_mut(usize::from(written.place)) {
                *register = Register { issued, latency };
            }
        }
        for target in code.other_targets(instr) {
            let latency = all.unwrap_or(target.latency);
            done = done.max(issued.after(latency[Use::Operand as usize]));
            self.registers[usize::from(target.register)] = Register { issued, latency };
        }
        done.cycle()
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
    #[inline(always)]
    fn free(&self, unit: Copies) -> Option<(u8, u64)> {
        let when = |port: u8| self.free.get(usize::from(port)).copied();
        let (mut first, mut at) = (unit.first, when(unit.first)?);
        for port in unit.first + 1..unit.first + unit.count {
            let free = when(port)?;
            first = if free < at { port } else { first };
            at = at.min(free);
        }
        Some((first, at))
    }

    /// Issues an instruction that may issue from `ready` on, by what `waited_for` says; `next` is the one
    /// after it, with the cycle from which on it may issue. `LISTS`: whether what it loses is to be listed
    /// in the ledger.
    #[inline(always)]
    pub fn issue<const LISTS: bool>(
        &mut self,
        code: &Code,
        executed: &Executed,
        fetched: (u64, Cause),
        next: Option<(u32, u64)>,
        around: &mut impl Around,
    ) -> Issued {
        if let Some(instr) = code.instrs.get(executed.instr as usize)
            && let Some(rules) = self.rules.get(usize::from(instr.class))
            && rules.plain
            && !self.special
            && self.not_before <= self.cycle
            && executed.cycles == 0
            && instr.issues_plainly()
        {
            let (unit, interval) = (rules.unit, rules.interval);
            let loads = u64::from(rules.access == Some(AccessKind::Load));
            return self.issue_plain::<LISTS>(
                (code, instr, executed),
                fetched,
                (unit, interval, loads),
                around,
            );
        }
        self.issue_by_rules(code, executed, fetched, next, around)
    }

    /// The same where nothing but fetch, operands and its unit can hold it up. That any of these does is
    /// hard to foresee, so there are no branches on it.
    #[inline(always)]
    fn issue_plain<const LISTS: bool>(
        &mut self,
        (code, instr, executed): (&Code, &Static, &Executed),
        (ready, waited_for): (u64, Cause),
        (unit, interval, loads): (Option<Copies>, u32, u64),
        around: &mut impl Around,
    ) -> Issued {
        self.ledger.begin();
        let mut wait = Wait::new(self.cycle, self.taken, self.width);
        wait.leave_full();
        if let Some((cycles, cause)) = executed.gap {
            wait.until(self.cycle + 1 + u64::from(cycles), cause, &mut self.ledger);
        }
        wait.until_plain::<LISTS>(ready, waited_for, &mut self.ledger);
        let unit = unit.and_then(|unit| self.free(unit));
        let free = unit.map_or(0, |(_, free)| free);
        wait.until_plain::<LISTS>(free, Cause::Unit, &mut self.ledger);
        let operands = self.operands(code, instr, false);
        wait.until_plain::<LISTS>(operands.cycle(), operands.cause(), &mut self.ledger);
        let room = around.room(executed);
        wait.until_plain::<LISTS>(room, Cause::StoreBuffer, &mut self.ledger);
        let cycle = wait.cycle;
        let port = unit.map(|(port, _)| port);
        if let Some(copy) = port.and_then(|port| self.free.get_mut(usize::from(port))) {
            *copy = cycle + u64::from(interval);
        }
        self.cycle = cycle;
        self.taken = wait.taken + 1;
        self.ledger.slots.used += 1;
        let missed = around.access(executed, cycle);
        self.hold(cycle, missed);
        let there = Awaited::loaded(cycle, loads, missed);
        let done = self.write(code, instr, there, None);
        self.retired = self.retired.max(cycle + self.retire);
        Issued {
            cycle,
            retired: self.retired,
            late: false,
            cause: wait.cause,
            done: done.max(cycle + 1),
            port,
        }
    }

    /// The same by all rules.
    #[inline(never)]
    fn issue_by_rules(
        &mut self,
        code: &Code,
        executed: &Executed,
        (ready, waited_for): (u64, Cause),
        next: Option<(u32, u64)>,
        around: &mut impl Around,
    ) -> Issued {
        if let Some(scheduled) = &mut self.scheduled {
            return scheduled.issue(&code.scheduled, executed, (ready, waited_for), around);
        }
        let Some(instr) = code.instrs.get(executed.instr as usize) else {
            return Issued::at(self.cycle, Cause::Fetch);
        };
        let Some(&rules) = self.rules.get(usize::from(instr.class)) else {
            return Issued::at(self.cycle, Cause::Fetch);
        };
        self.ledger.begin();
        if !self.started {
            self.started = true;
            self.cycle = ready;
        }
        let mut wait = Wait::new(self.cycle, self.taken, self.width);
        let slots = &mut self.ledger;
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
            wait.until(free, Cause::Unit, &mut self.ledger);
        }
        let early = self.operands(code, instr, false);
        let (early, cause) = (early.cycle(), early.cause());
        let mut late = false;
        if early > wait.cycle {
            if rules.late {
                let at_end = self.operands(code, instr, true);
                let (at_end, cause) = (at_end.cycle(), at_end.cause());
                wait.until(at_end, cause, &mut self.ledger);
                late = early > wait.cycle;
                let spares = self.late.as_ref().is_some_and(|l| l.spares_next);
                if late
                    && spares
                    && wait.cycle > self.cycle
                    && needs_early(code, &self.rules, instr, next, wait.cycle)
                {
                    // The next one may come to be ready while this one waits.
                    wait.until(early, cause, &mut self.ledger);
                    late = false;
                }
            } else {
                wait.until(early, cause, &mut self.ledger);
            }
        }
        let room = around.room(executed);
        wait.until(room, Cause::StoreBuffer, &mut self.ledger);
        if rules.access == Some(AccessKind::Store)
            && let Some(stores) = &mut self.stores
        {
            let room = stores.room(wait.cycle);
            wait.until(room, Cause::StoreBuffer, &mut self.ledger);
        }
        if rules.write_back > 0 {
            let write_back = u64::from(rules.write_back);
            let in_order = self.written.saturating_sub(write_back);
            wait.until(in_order, Cause::WriteBack, &mut self.ledger);
            self.written = wait.cycle + write_back;
        }
        let port = unit.map(|(port, _)| port);
        if let Some(copy) = port.and_then(|port| self.free.get_mut(usize::from(port))) {
            *copy = wait.cycle + u64::from(rules.interval);
        }
        Issued {
            port,
            ..self.take((code, instr, executed), &rules, &wait, late, around)
        }
    }

    /// What follows an access in `cycle` waits until that has a buffer.
    #[inline(always)]
    fn hold(&mut self, cycle: u64, missed: Missed) {
        if missed.held > 0 {
            self.not_before = cycle + u64::from(missed.held);
            self.not_before_cause = missed.cause;
        }
    }

    /// Issues in the cycle that was waited for.
    #[inline]
    fn take(
        &mut self,
        (code, instr, executed): (&Code, &Static, &Executed),
        rules: &Rules,
        wait: &Wait,
        late: bool,
        around: &mut impl Around,
    ) -> Issued {
        let cycle = wait.cycle;
        if cycle > self.cycle {
            self.cycle = cycle;
            self.taken = 0;
            self.closed = false;
            self.late_branch = false;
        }
        self.taken += 1;
        self.ledger.slots.used += 1;
        self.closed |= rules.alone || instr.control == Control::Unpredicted;
        self.late_branch |= late
            && instr.control != Control::None
            && self.late.as_ref().is_some_and(|l| l.branch_blocks_load);
        let loads = u64::from(rules.access == Some(AccessKind::Load));
        let missed = around.access(executed, cycle);
        self.hold(cycle, missed);
        let there = Awaited::loaded(cycle, loads, missed);
        let latency = late.then_some(self.late_latency);
        let done = self.write(code, instr, there, latency);
        let done = done.max(cycle + 1);
        if let Some(kind) = rules.access
            && let Some((address, size)) = executed.access
            && let Some(stores) = &mut self.stores
        {
            stores.access(cycle, address, size, kind == AccessKind::Store);
        }
        let mut retired = cycle + self.retire;
        if u64::from(rules.after) > u64::from(missed.held) {
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
        self.special = self.closed || self.late_branch;
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

    /// Of a cycle whose slots are all taken, goes on to the next.
    #[inline(always)]
    fn leave_full(&mut self) {
        let full = self.taken >= self.width;
        self.cycle += u64::from(full);
        self.taken = if full { 0 } else { self.taken };
    }

    /// Waits until `cycle`, if that is not over.
    #[inline]
    pub(super) fn until(&mut self, cycle: u64, cause: Cause, ledger: &mut Ledger) {
        if cycle > self.cycle {
            let lost = self.width - self.taken + (cycle - self.cycle - 1) * self.width;
            if lost > 0 {
                ledger.lose(cause, lost);
                self.cause = cause;
            }
            self.cycle = cycle;
            self.taken = 0;
        }
    }

    /// The same without a branch on it; not all slots of the cycle may be taken.
    #[inline(always)]
    fn until_plain<const LISTS: bool>(&mut self, cycle: u64, cause: Cause, ledger: &mut Ledger) {
        let later = u64::from(cycle > self.cycle);
        let all = cycle.wrapping_sub(self.cycle).wrapping_mul(self.width);
        let lost = all.wrapping_sub(self.taken) & later.wrapping_neg();
        ledger.lose_if_any::<LISTS>(cause, lost);
        self.cause = if later != 0 { cause } else { self.cause };
        self.cycle = self.cycle.max(cycle);
        self.taken &= later.wrapping_sub(1);
    }
}
