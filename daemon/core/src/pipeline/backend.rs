//! Rename and everything behind it: takes µops as they are delivered and gives each its stamps.
//!
//! [`Backend`] owns the parts and leads each µop through them: a cycle to issue in ([`issue`]), its
//! inputs ([`registers`]), a port and the first free cycle there ([`ports`], [`scheduler`]), its
//! access ([`memory`]), its outputs, and retirement ([`retire`]). Parts know nothing of each other
//! beyond what they are handed, nor of the back end.

mod addresses;
mod dealt;
pub mod entries;
pub mod issue;
pub mod locks;
pub mod memory;
pub mod moves;
mod overtaken;
pub mod ports;
pub mod queue;
pub mod registers;
pub mod retire;
pub mod scheduler;
pub mod spacing;
pub mod started;
pub mod topdown;
mod uop;

use std::sync::Arc;

use super::frontend::stack_engine::StackSync;
use super::inst::Inst;
use super::observer::{Backlog, Delivery, Observer, Retired, UopStamps};
use super::state::{Moment, parts};
use crate::lists::part;
use crate::memory::CodeLate;
use crate::memory::counts::Counts;
use entries::Entries;
use issue::{Issue, Needs, Resources};
use locks::Locks;
use mcad_isa::machine::CpuModel;
use mcad_isa::machine::params::{Execute, PortSet, Rename};
use mcad_isa::program::{Laminated, Uop, flag};
use mcad_isa::regs::RegId;
use mcad_report::TopDown;
use memory::Memory;
use overtaken::Overtaken;
use ports::Ports;
use queue::DecodeQueue;
use registers::Registers;
pub use registers::{Stamp, Stamps};
use retire::Retirement;
use scheduler::ready_cycle;
use spacing::Spacing;
use started::StartedLoads;
use topdown::{Cause, SlotCount, Stall, Unit, Wait};
use uop::Executed;
pub use uop::Given;

/// A laminated µop as the front end delivers it.
#[derive(Clone, Copy, Debug)]
pub struct Delivered {
    /// Which of the instruction's laminated µops.
    pub number: u16,
    /// Cycle in which it enters the instruction decode queue.
    pub cycle: u64,
    /// Where it came from.
    pub from: Delivery,
}

/// What may issue in any cycle.
const FREE: (u64, Stall) = (0, Stall::Other);

/// Everything from rename to retirement.
pub struct Backend {
    rename: Rename,
    execute: Execute,
    alu_ports: PortSet,
    /// What a µop must find that synchronises rsp.
    sync_needs: Needs,
    merge_ports: PortSet,
    load_ports: PortSet,
    /// Ports of a conditional jump that is not taken, in programs.
    not_taken_ports: PortSet,
    ahead_ports: PortSet,
    /// The last conditional jump was one.
    not_taken: bool,
    issue: Issue,
    /// Ports, public for statistics.
    pub ports: Ports,
    /// Retirement, public for statistics.
    pub retirement: Retirement,
    entries: Entries,
    started: StartedLoads,
    overtaken: Overtaken,
    registers: Registers,
    memory: Memory,
    spacing: Spacing,
    locks: Locks,
    /// Cycles by which system calls begin before the last older instruction retires, if fetch starts anew behind them.
    system_call_ahead: Option<u32>,
    queue: DecodeQueue,
    slot_count: SlotCount,
    /// When microcode knows how far the current repeated string instruction goes.
    string_known: u64,
    /// When the first and the last µop so far of the current instruction retire.
    ends: Retired,
}

parts! {
    Backend { issue, ports, retirement, entries, started, overtaken, spacing, locks, queue, slot_count }
    remembers { memory, registers }
    fixed { rename, execute, alu_ports, sync_needs, merge_ports, load_ports, not_taken_ports, ahead_ports, not_taken, ends, string_known, system_call_ahead }
}

impl Backend {
    /// An empty back end.
    #[must_use]
    pub fn new(model: &Arc<CpuModel>) -> Self {
        let core = &model.core;
        Self {
            rename: core.rename.clone(),
            execute: core.execute.clone(),
            alu_ports: core.ports.alu,
            sync_needs: Needs::on_ports(
                core.ports.alu,
                core.rename.stack_sync_alus,
                core.ports.one_a_cycle,
            ),
            merge_ports: core.ports.merge,
            load_ports: core.ports.load,
            not_taken_ports: PortSet::NONE,
            ahead_ports: PortSet::NONE,
            not_taken: false,
            issue: Issue::new(core.rename.issue_width, core.rename.most_counted()),
            ports: Ports::new(core),
            retirement: Retirement::new(&core.retire, core.rename.issue_width),
            entries: Entries::default(),
            started: StartedLoads::default(),
            overtaken: Overtaken::new(core),
            registers: Registers::new(&core.rename, &core.execute),
            memory: Memory::new(&core.execute),
            spacing: Spacing::default(),
            locks: Locks::new(None),
            system_call_ahead: None,
            queue: DecodeQueue::new(),
            slot_count: SlotCount::default(),
            ends: Retired::default(),
            string_known: 0,
        }
    }

    /// An empty back end for a whole program: what is not modelled of single blocks is.
    #[must_use]
    pub fn of_program(model: &Arc<CpuModel>) -> Self {
        let mut back = Self::new(model);
        back.memory = Memory::of_program(&model.core);
        back.entries = Entries::of_program(&model.core.rename);
        back.started = StartedLoads::of_program(&model.core);
        back.not_taken_ports = model.core.ports.not_taken;
        back.ahead_ports = model.core.ports.ahead_of_stores;
        if back.memory.lines().are_modelled() {
            back.ports.wait_without_end();
            back.locks = Locks::new(model.core.execute.locked);
        }
        back.system_call_ahead = (model.core.branch.as_ref()).and_then(|b| b.system_call_ahead);
        back
    }

    /// What stamps count from while the front end is at `clock` and delivers instruction `next`.
    #[must_use]
    pub fn moment(&self, clock: u64, next: u64) -> Moment {
        let issue = self.issue.cycle();
        Moment {
            issue,
            clock,
            retired: self.retirement.last(),
            in_flight: self.retirement.in_flight(issue),
            next,
        }
    }

    /// How much later than from the first-level cache the instruction at `address` comes, which is fetched in cycle `at`.
    pub fn fetch(&mut self, address: u64, at: u64) -> CodeLate {
        self.memory.fetch(address, at)
    }

    /// Cycles that the translation takes of the address of code that is kept as µops.
    #[inline]
    pub fn translate_code(&mut self, address: u64, at: u64) -> u64 {
        self.memory.translate_code(address, at)
    }

    /// How often the kernel ran so far and left its code in the place of the program's.
    #[inline]
    #[must_use]
    pub fn visits(&self) -> u64 {
        self.memory.visits()
    }

    /// What loads, stores and fetches found.
    #[must_use]
    pub fn found(&self) -> Counts {
        self.memory.found()
    }

    /// When each register is there.
    #[must_use]
    pub fn stamps(&self) -> &Stamps {
        self.registers.stamps()
    }

    /// Says whether the next laminated µop, which is of a conditional jump, is of one that is not taken.
    #[inline(always)]
    pub fn is_not_taken(&mut self, not_taken: bool) {
        self.not_taken = not_taken;
    }

    /// Ports of one of a laminated µop's µops, for which the instruction table has these.
    #[inline(always)]
    fn ports_of(&self, uop: &Laminated, ports: PortSet) -> PortSet {
        match uop.is_conditional && self.not_taken && self.not_taken_ports.contains(ports) {
            true => self.not_taken_ports,
            false => ports,
        }
    }

    /// The issue cycle.
    #[inline]
    pub fn issue(&mut self) -> &mut Issue {
        &mut self.issue
    }

    /// The queue that µops are delivered to.
    #[inline]
    pub fn queue(&mut self) -> &mut DecodeQueue {
        &mut self.queue
    }

    /// The way of loads and stores.
    #[inline]
    pub fn memory(&mut self) -> &mut Memory {
        &mut self.memory
    }

    /// How far things lag behind the µop that has just issued and retires at `retired`.
    fn backlog(&self, retired: u64) -> Backlog {
        Backlog {
            scheduler: u64::from(self.ports.schedulers().taken()),
            retirement: retired.saturating_sub(self.issue.cycle()),
            stores: self.memory.last_written().saturating_sub(retired),
        }
    }

    /// Fused µops issued.
    #[must_use]
    pub fn issued(&self) -> u64 {
        self.retirement.count()
    }

    /// Slot accounting after `cycles`.
    #[must_use]
    pub fn topdown(&self, cycles: u64) -> TopDown {
        self.slot_count
            .at(cycles, u64::from(self.rename.issue_width), self.issued())
    }

    /// Finds an issue cycle with what µops need that were delivered in cycle `delivered` and may not issue before a
    /// cycle, for a reason: the current one or a new one.
    #[inline(always)]
    fn place(&mut self, needs: Needs, delivered: u64, (at_least, held_by): (u64, Stall)) {
        if !self.issue.admits(needs, delivered, at_least) {
            self.open(delivered, at_least, held_by);
            self.issue.begin_with(needs);
        }
    }

    #[inline(never)]
    fn open(&mut self, delivered: u64, at_least: u64, held_by: Stall) {
        let resources = Resources {
            ports: &mut self.ports,
            retirement: &mut self.retirement,
            entries: &mut self.entries,
            registers: &mut self.registers,
            slot_count: &mut self.slot_count,
            held_by,
        };
        self.issue.open(delivered, at_least, resources);
    }

    /// Takes over the stack engine's offset: by a µop, unless rename can add it.
    pub fn stack_sync<O: Observer>(
        &mut self,
        inst: &Inst,
        sync: StackSync,
        delivered: u64,
        observer: &mut O,
    ) {
        if let StackSync::Adds(offset) = sync
            && self.registers.add_stack_offset(offset)
        {
            return;
        }
        self.issue.begin(inst.instr);
        let needs = match sync {
            StackSync::Idles => Needs::slots(1),
            StackSync::Adds(_) => self.sync_needs,
        };
        if self.rename.stack_operands_in_turn && self.issue.has_synchronised() {
            self.issue.close();
        }
        self.place(needs, delivered, FREE);
        self.issue.synchronised();
        self.queue.push(self.issue.cycle());
        let stamps = if sync == StackSync::Idles {
            self.at_rename(UopStamps::SYNC, delivered, inst)
        } else {
            let input = self.registers.ready(RegId::RSP).cycle();
            let (stamps, dispatched) =
                self.own(self.alu_ports, input, UopStamps::SYNC, delivered, inst);
            self.registers.synchronise_stack(dispatched + 1);
            stamps
        };
        if O::UOPS {
            observer.uop(inst, stamps);
        }
        self.issue.take(1);
    }

    /// A µop of the machine's own that is done when it issues.
    fn at_rename(&mut self, name: u32, delivered: u64, inst: &Inst) -> UopStamps {
        let issued = self.issue.cycle();
        let (retired, _) = self.retirement.retire(issued, Cause::CORE, inst.instr);
        UopStamps {
            uop: name,
            delivered,
            issued,
            ready: issued,
            dispatched: issued,
            executed: issued,
            retired,
            port: 0xff,
            source: Delivery::Inserted,
            late: None,
            held: None,
        }
    }

    /// A one-cycle µop of the machine's own; returns its stamps and its dispatch.
    fn own(
        &mut self,
        ports: PortSet,
        input: u64,
        name: u32,
        delivered: u64,
        inst: &Inst,
    ) -> (UopStamps, u64) {
        let issued = self.issue.cycle();
        let port = self.ports.choose(ports, self.issue.slots());
        let ready = ready_cycle(issued, self.execute.issue_to_dispatch, input);
        let (port, dispatched) = if self.ports.are_bound(ports) {
            (port, self.ports.start(port, ready))
        } else {
            self.ports.start_on_any(ports, ready, ready)
        };
        let executed = dispatched + 2;
        let (retired, _) = self.retirement.retire(executed, Cause::CORE, inst.instr);
        let stamps = UopStamps {
            uop: name,
            delivered,
            issued,
            ready,
            dispatched,
            executed,
            retired,
            port,
            source: Delivery::Inserted,
            late: None,
            held: None,
        };
        (stamps, dispatched)
    }

    /// Merges high-8 registers that were written apart and are now read whole: the merge µops
    /// issue alone in a cycle.
    fn merge_high8<O: Observer>(
        &mut self,
        inst: &Inst,
        mask: u8,
        delivered: u64,
        observer: &mut O,
    ) {
        if self.issue.slots() > 0 {
            self.issue.close();
        }
        self.place(Needs::slots(mask.count_ones()), delivered, FREE);
        for reg in (0..4u8).map(RegId) {
            if mask & (1 << reg.0) != 0 {
                let input = self.registers.ready(reg).cycle();
                let (stamps, at) =
                    self.own(self.merge_ports, input, UopStamps::MERGE, delivered, inst);
                self.registers.merge(reg, at + 1);
                if O::UOPS {
                    observer.uop(inst, stamps);
                }
                self.issue.take(1);
            }
        }
        self.issue.close();
    }

    /// Issues a laminated µop of `inst` that is simple ([`Laminated::is_simple`]), delivered in cycle
    /// `delivered`: the same as [`Backend::laminated`] does, without all that cannot happen. Returns
    /// the cycle in which it is done; `None`, and nothing has happened, where something may.
    #[inline(always)]
    pub fn simple<O: Observer>(
        &mut self,
        inst: &Inst,
        uop: &Laminated,
        first: bool,
        delivered: u64,
        observer: &mut O,
    ) -> Option<u64> {
        if !uop.is_simple
            || self.registers.high8_apart() != 0
            || inst.stores != 0
            || inst.reaches
            || O::UOPS
        {
            return None;
        }
        if first {
            self.issue.begin(inst.instr);
        }
        self.place(Needs::of(uop), delivered, FREE);
        let issued = self.issue.cycle();
        self.queue.push(issued);
        let inputs = self.registers.inputs(&uop.inputs);
        let waited = inputs.keeps_waiting_for_a_load(issued);
        let ports = self.ports_of(uop, uop.ports);
        let port = self.ports.choose(ports, self.issue.slots());
        let ready = ready_cycle(issued, self.execute.issue_to_dispatch, inputs.cycle());
        let (dispatched, unbound) = if self.ports.are_bound(ports) {
            (self.ports.start(port, ready), None)
        } else {
            let inputs = (&uop.inputs, &[][..]);
            let (_, dispatched) = self.start_unbound(ports, inputs, ready);
            (dispatched, Some(ready))
        };
        let written = (self.registers).write_simple(uop, issued, dispatched, unbound);
        let executed = written.max(dispatched + 2);
        let cause = self.cause(waited, issued, ready, dispatched);
        self.retire_fused(inst, executed, cause, first);
        self.entries.take(uop.takes, self.ends.last);
        if uop.is_last {
            self.retire_instruction(inst, observer);
        }
        Some(executed)
    }

    /// Issues one laminated µop. Returns the cycle in which its last fused µop is done.
    #[inline(always)]
    pub fn laminated<O: Observer>(
        &mut self,
        given: &Given<'_>,
        delivered: Delivered,
        observer: &mut O,
    ) -> u64 {
        if delivered.number == 0 {
            self.issue.begin(given.inst.instr);
        }
        let general = given.inst.reaches || self.registers.high8_apart() != 0 || O::UOPS;
        if given.laminated.is_plain && !general {
            self.plain(given, delivered, observer)
        } else {
            self.any(given, delivered, observer)
        }
    }

    /// [`Backend::laminated`] for a plain instruction ([`mcad_isa::program::Instr::plain`]): the same as
    /// [`Backend::any`] does, without all that cannot happen.
    #[inline(always)]
    fn plain<O: Observer>(&mut self, i: &Given<'_>, delivered: Delivered, observer: &mut O) -> u64 {
        let first = delivered.number == 0;
        let stores = i.inst.stores > 0;
        let at_least = match first && stores {
            true => (self.memory.room_for(i.inst), Stall::Memory(Wait::Stores)),
            false => FREE,
        };
        let laminated = i.laminated;
        self.place(Needs::of(laminated), delivered.cycle, at_least);
        self.queue.push(self.issue.cycle());
        let from = laminated.uops as usize;
        let uop = i.program.uops.get(from);
        let last_done = match uop.filter(|_| laminated.uops_len == 1) {
            Some(uop) => {
                let (executed, why) = self.plain_uop(i, uop);
                self.retire_fused(i.inst, executed, why, first);
                executed
            }
            None => {
                let to = from + usize::from(laminated.uops_len);
                self.plain_uops(i, part(&i.program.uops, from..to), first)
            }
        };
        self.entries.take(laminated.takes, self.ends.last);
        if laminated.is_last {
            self.registers.set_to_zero(i.program, i.instr);
            if stores {
                self.memory.retire(i.inst, i.accesses, self.ends.last);
            }
            self.retire_instruction(i.inst, observer);
        }
        last_done
    }

    /// Executes the µops of a plain instruction's laminated µop; returns when the last fused one is
    /// done. `first`: none of the instruction came before.
    #[inline(never)]
    fn plain_uops(&mut self, i: &Given<'_>, uops: &[Uop], mut first: bool) -> u64 {
        let (mut done, mut cause, mut last_done) = (0, Cause::CORE, 0);
        for uop in uops {
            let (executed, why) = self.plain_uop(i, uop);
            if executed >= done {
                (done, cause) = (executed, why.after(cause));
            }
            if uop.ends_fused {
                self.retire_fused(i.inst, done, cause, first);
                last_done = done;
                (done, cause, first) = (0, Cause::CORE, false);
            }
        }
        last_done
    }

    /// [`Backend::laminated`] for any instruction.
    #[inline(never)]
    fn any<O: Observer>(&mut self, i: &Given<'_>, delivered: Delivered, observer: &mut O) -> u64 {
        let first = delivered.number == 0;
        let laminated = i.laminated;
        let last = laminated.is_last;
        let from = laminated.uops as usize;
        let uops = part(
            &i.program.uops,
            from..from + usize::from(laminated.uops_len),
        );
        let at_least = if first {
            self.before_issue(i, delivered.cycle, observer)
        } else {
            FREE
        };
        self.place(Needs::of(laminated), delivered.cycle, at_least);
        self.queue.push(self.issue.cycle());
        if first && i.inst.extra_cycles > 0 {
            self.string_known = self.string_known_from(i.inst);
        }

        let goes_through =
            i.inst.extra_cycles > 0 || i.inst.reaches && i.instr.is(flag::REP | flag::REP_COMPARE);
        let (mut done, mut cause, mut last_done) = (0, Cause::CORE, 0);
        let mut first_group = first;
        let mut held: Vec<(u32, Executed)> = Vec::new();
        let mut begins = first;
        for (n, uop) in uops.iter().enumerate() {
            let mut e = self.uop(i, uop, begins);
            // What only delays an input starts nothing.
            begins &= self.execute.input_delays && uop.ports.is_empty();
            if last && goes_through && n + 1 == uops.len() {
                e.executed = self.go_through_string(i, e.executed);
            }
            if e.executed >= done {
                (done, cause) = (e.executed, e.cause.after(cause));
            }
            if O::UOPS {
                held.push((laminated.uops + n as u32, e));
            }
            if uop.ends_fused {
                let issued = self.issue.cycle();
                let written = match last && n + 1 == uops.len() {
                    true => self.written(i, done),
                    false => done,
                };
                let retired = self.retire_fused(i.inst, written, cause, first_group);
                if O::UOPS {
                    // The first of an instruction that fetch came to from a wrong path.
                    let lost = self.issue.losses().iter();
                    let mut redirected =
                        first && lost.clone().any(|loss| loss.why == Stall::BadSpeculation);
                    for (uop, e) in held.drain(..) {
                        let mut stamps = e.stamps(uop, delivered, issued, retired);
                        if std::mem::take(&mut redirected) {
                            stamps.late = Some(Stall::BadSpeculation);
                        }
                        observer.uop(i.inst, stamps);
                    }
                }
                last_done = done;
                (done, cause, first_group) = (0, Cause::CORE, false);
            }
        }
        self.entries.take(laminated.takes, self.ends.last);
        if last {
            self.registers.end_instruction(i.program, i.instr);
            self.memory.retire(i.inst, i.accesses, self.ends.last);
            self.retire_instruction(i.inst, observer);
            if i.inst.reaches {
                self.memory.call_kernel(self.ends.last);
            }
            last_done = self.known_behind(i, last_done);
        }
        last_done
    }

    /// A fused µop, done at `done`, retires and has taken an issue slot; returns the cycle.
    #[inline(always)]
    fn retire_fused(&mut self, inst: &Inst, done: u64, cause: Cause, first: bool) -> u64 {
        let (retired, slot) = self.retirement.retire(done, cause, inst.instr);
        if first {
            self.ends.first = retired;
        }
        (self.ends.last, self.ends.slot) = (retired, slot);
        self.issue.take(1);
        retired
    }

    /// All µops of an instruction have their stamps.
    #[inline(always)]
    fn retire_instruction<O: Observer>(&mut self, inst: &Inst, observer: &mut O) {
        if O::STATES {
            observer.backlog(inst, || self.backlog(self.ends.last));
        }
        let losses = self.issue.losses();
        if !losses.is_empty() {
            observer.lost(losses);
            losses.clear();
        }
        observer.retired(inst, self.ends);
    }

    /// A repeated string instruction goes on after its last µop, which is executed in a cycle;
    /// returns when it is done. What is behind it does not issue before, unless it is so short
    /// that it goes on for no cycles.
    fn go_through_string(&mut self, i: &Given<'_>, executed: u64) -> u64 {
        let least = u64::from(i.inst.extra_cycles);
        let (mut extra, mut why) = (least, Stall::Core(Unit::Latency));
        if i.inst.reaches {
            let late;
            (extra, late) = self.memory.repeat(i.inst, executed, least);
            if extra > 2 * least {
                why = Stall::Memory(Wait::of(late));
            }
            self.after_access();
        }
        let mut done = executed + extra;
        if least == 0 {
            return done;
        }
        self.issue.block(extra, why);
        if self.waits_for_string(i) {
            let known = self.string_known + self.execute.rep_known;
            self.issue.block_until(known + extra, why);
            done = done.max(known + extra);
        }
        done
    }

    /// Whether what is behind an instruction waits until its microcode knows how far it goes.
    #[inline]
    fn waits_for_string(&self, i: &Given<'_>) -> bool {
        i.inst.extra_cycles > 0 && self.execute.rep_known > 0 && !i.instr.is(flag::REP_COMPARE)
    }

    /// The cycle from which on microcode knows how far a repeated string instruction goes.
    fn string_known_from(&self, inst: &Inst) -> u64 {
        let pointers = if inst.loads > 0 { 3 } else { 2 };
        let known = RegId::STRING
            .iter()
            .take(pointers)
            .map(|reg| self.registers.ready(*reg));
        let known = known.map(registers::Stamp::cycle).max().unwrap_or(0);
        ready_cycle(self.issue.cycle(), self.execute.issue_to_dispatch, known)
    }

    /// Inserts the merges that an instruction needs; returns the first cycle in which it may
    /// issue, and why not before.
    fn before_issue<O: Observer>(
        &mut self,
        i: &Given<'_>,
        delivered: u64,
        observer: &mut O,
    ) -> (u64, Stall) {
        let mask = self.registers.high8_apart() & i.instr.wide_reads;
        if self.rename.high8_renamed && mask != 0 {
            self.merge_high8(i.inst, mask, delivered, observer);
        }
        let room = self.memory.room_for(i.inst);
        let empty = self.retirement.last() + 1;
        if i.instr.is(flag::SERIALIZING) && self.retirement.count() > 0 && empty > room {
            return (empty, Stall::Other);
        }
        (room, Stall::Memory(Wait::Stores))
    }
}
