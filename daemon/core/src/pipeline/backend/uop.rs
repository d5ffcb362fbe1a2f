//! One µop from its inputs to its outputs: the data flow behind rename, for all instructions.
//!
//! [`Backend::plain_uop`] leaves out what cannot happen to µops of plain instructions
//! ([`mcad_isa::program::Instr::plain`]); what both do is here once.

use super::Backend;
use super::addresses::Made;
use super::locks::{self, Locks};
use super::memory::Loaded;
use super::ports::Request;
use super::registers::{AtRename, Stamp};
use super::scheduler::ready_cycle;
use super::topdown::{Cause, Stall, Unit, Wait};
use super::{Delivered, UopStamps};
use crate::pipeline::access::Access;
use crate::pipeline::inst::Inst;
use mcad_isa::machine::params::PortSet;
use mcad_isa::program::{FIRST_INPUTS, Instr, Laminated, Program, Uop, flag};
use mcad_isa::regs::RegId;
use mcad_isa::uop::UopKind;

/// The instruction that a µop belongs to, and which of its laminated µops is delivered.
#[derive(Clone, Copy)]
pub struct Given<'a> {
    /// The code.
    pub program: &'a Program,
    /// What is executed.
    pub inst: &'a Inst,
    /// Its static instruction.
    pub instr: &'a Instr,
    /// The laminated µop.
    pub laminated: &'a Laminated,
    /// Its loads, then its stores.
    pub accesses: &'a [Access],
}

/// What became of a µop.
pub(super) struct Executed {
    ready: u64,
    dispatched: u64,
    pub(super) executed: u64,
    port: u8,
    pub(super) cause: Cause,
}

impl Executed {
    /// All stamps of a µop that issued and retired then.
    pub(super) fn stamps(
        &self,
        uop: u32,
        delivered: Delivered,
        issued: u64,
        retired: u64,
    ) -> UopStamps {
        UopStamps {
            uop,
            delivered: delivered.cycle,
            issued,
            ready: self.ready,
            dispatched: self.dispatched,
            executed: self.executed,
            retired,
            port: self.port,
            source: delivered.from,
            late: Some(self.cause.stall()).filter(Stall::is_miss),
            held: None,
        }
    }
}

impl Backend {
    /// Renames, schedules and executes one µop.
    #[inline(always)]
    pub(super) fn uop(&mut self, i: &Given<'_>, uop: &Uop, is_first: bool) -> Executed {
        let issued = self.issue.cycle();
        if (uop.ports.is_empty() || i.instr.is(flag::ELIMINABLE | flag::ADD_IMMEDIATE))
            && self.done_at_rename(i, uop)
        {
            return Executed {
                ready: issued,
                dispatched: issued,
                executed: issued,
                port: 0xff,
                cause: Cause::CORE,
            };
        }
        let mut inputs = self.registers.inputs(&uop.first_inputs);
        if usize::from(uop.inputs_len) > FIRST_INPUTS {
            inputs = inputs.max(self.registers.other_inputs(i.program, uop));
        }
        if (i.instr).is(flag::BY_WRITER | flag::SHIFT | flag::CONDITIONAL)
            || i.instr.high8_reads != 0
        {
            inputs = (self.registers).late_inputs(i.program, i.instr, uop, issued, inputs);
        }
        let waited = inputs.keeps_waiting_for_a_load(issued);
        let inputs = inputs.cycle();
        let mut ready = ready_cycle(issued, self.execute.issue_to_dispatch, inputs);
        ready = self.load_queued(uop, uop.kind, ready.max(self.fenced(uop.kind)));
        let spaced = is_first && i.instr.is(flag::SPACED);
        if spaced {
            ready = self.first_uop_ready(i, issued.max(inputs), ready);
        }
        let ports = self.ports_of(i.laminated, uop.ports);
        let port = self.ports.choose(ports, self.issue.slots());
        ready = self.not_overtaken(uop, uop.kind, port, ready);
        let (port, dispatched) = if uop.divider == 0 && !self.ports.are_bound(ports) {
            self.start_on_any(i, uop, ports, ready)
        } else if uop.divider == 0 && !self.conflicts(uop.kind) {
            (port, self.ports.start(port, ready))
        } else {
            let request = self.request(i, (uop, uop.kind), port, ready);
            (port, self.ports.dispatch(request))
        };
        let mut executed = dispatched + 2;
        if spaced {
            let apart = u64::from(i.instr.throughput) / 100;
            executed = executed.max(match i.instr.locked && self.locks.are_modelled() {
                true => dispatched + Locks::takes(apart),
                false => dispatched + apart,
            });
        }
        executed = executed.max(if is_memory(uop) {
            self.access(i, (uop, uop.kind), (port, dispatched), inputs, executed)
        } else {
            (self.registers).write(i.program, i.instr, uop, issued, dispatched)
        });
        if spaced && i.instr.is(flag::LOAD_FENCE | flag::STORE_FENCE) {
            let (loads, stores) = (i.instr.is(flag::LOAD_FENCE), i.instr.is(flag::STORE_FENCE));
            self.memory.fences_mut().done(executed, loads, stores);
        }
        let cause = match Unit::of(issued + self.execute.issue_to_dispatch, ready, dispatched) {
            _ if is_memory(uop) => self.accessed(uop.kind),
            _ if waited => Cause::memory(Wait::First),
            Unit::Ports if uop.divider > 0 => Cause::core(Unit::Divider),
            Unit::Dependencies if spaced && ready > inputs + 1 => Cause::core(Unit::Divider),
            unit => Cause::core(unit),
        };
        Executed {
            ready,
            dispatched,
            executed,
            port,
            cause,
        }
    }

    /// [`Backend::uop`] for a µop of a plain instruction; returns when it is done, and why then.
    #[inline(always)]
    pub(super) fn plain_uop(&mut self, i: &Given<'_>, uop: &Uop) -> (u64, Cause) {
        const UNUSUAL: u32 = flag::ELIMINABLE
            | flag::ADD_IMMEDIATE
            | flag::BY_WRITER
            | flag::SHIFT
            | flag::CONDITIONAL;
        match uop.kind {
            UopKind::Load(number) => self.plain_load(i, uop, number),
            UopKind::StoreAddress(number) => self.plain_store_address(i, uop, number),
            UopKind::StoreData(number) => self.plain_store_data(i, uop, number),
            UopKind::Compute if uop.ports.is_empty() || i.instr.is(UNUSUAL) => {
                self.plain_unusual(i, uop)
            }
            UopKind::Compute => {
                let inputs = self.registers.inputs(&uop.first_inputs);
                self.compute(i, uop, inputs)
            }
        }
    }

    /// Executes a µop that accesses no memory and has its inputs at `inputs`; returns when it is
    /// done, and why then.
    #[inline(always)]
    fn compute(&mut self, i: &Given<'_>, uop: &Uop, inputs: Stamp) -> (u64, Cause) {
        let issued = self.issue.cycle();
        let waited = inputs.keeps_waiting_for_a_load(issued);
        let ports = self.ports_of(i.laminated, uop.ports);
        let port = self.ports.choose(ports, self.issue.slots());
        let ready = ready_cycle(issued, self.execute.issue_to_dispatch, inputs.cycle());
        let dispatched = if self.ports.are_bound(ports) {
            self.ports.start(port, ready)
        } else {
            self.start_on_any(i, uop, ports, ready).1
        };
        let written = (self.registers).write(i.program, i.instr, uop, issued, dispatched);
        let cause = self.cause(waited, issued, ready, dispatched);
        (written.max(dispatched + 2), cause)
    }

    /// Why a µop that computes is done when it is; `waited`: for a load.
    #[inline(always)]
    pub(super) fn cause(&self, waited: bool, issued: u64, ready: u64, dispatched: u64) -> Cause {
        match waited {
            true => Cause::memory(Wait::First),
            false => {
                let entered = issued + self.execute.issue_to_dispatch;
                Cause::core(Unit::of(entered, ready, dispatched))
            }
        }
    }

    /// A µop of a plain instruction that may be done at rename, or waits longer for some inputs;
    /// returns when it is done, and why then.
    #[inline(never)]
    fn plain_unusual(&mut self, i: &Given<'_>, uop: &Uop) -> (u64, Cause) {
        if self.done_at_rename(i, uop) {
            return (self.issue.cycle(), Cause::CORE);
        }
        let inputs = self.registers.inputs(&uop.first_inputs);
        let issued = self.issue.cycle();
        let inputs = (self.registers).late_inputs(i.program, i.instr, uop, issued, inputs);
        self.compute(i, uop, inputs)
    }

    /// A load of a plain instruction; returns when it is done, and why then.
    #[inline(never)]
    fn plain_load(&mut self, i: &Given<'_>, uop: &Uop, number: u8) -> (u64, Cause) {
        self.plain_access(i, uop, UopKind::Load(number))
    }

    /// The same of a store's address.
    #[inline(never)]
    fn plain_store_address(&mut self, i: &Given<'_>, uop: &Uop, number: u8) -> (u64, Cause) {
        self.plain_access(i, uop, UopKind::StoreAddress(number))
    }

    /// The same of its data.
    #[inline(never)]
    fn plain_store_data(&mut self, i: &Given<'_>, uop: &Uop, number: u8) -> (u64, Cause) {
        self.plain_access(i, uop, UopKind::StoreData(number))
    }

    /// A memory µop of a plain instruction, of this kind; what the others need falls away.
    #[inline(always)]
    fn plain_access(&mut self, i: &Given<'_>, uop: &Uop, kind: UopKind) -> (u64, Cause) {
        let inputs = self.registers.inputs(&uop.first_inputs).cycle();
        let ready = ready_cycle(self.issue.cycle(), self.execute.issue_to_dispatch, inputs);
        let ready = self.load_queued(uop, kind, ready.max(self.fenced(kind)));
        let port = self.ports.choose(uop.ports, self.issue.slots());
        let ready = self.not_overtaken(uop, kind, port, ready);
        let (port, dispatched) = if !self.ports.are_bound(uop.ports) {
            self.start_on_any(i, uop, uop.ports, ready)
        } else if self.conflicts(kind) {
            let request = self.request(i, (uop, kind), port, ready);
            let dispatched = self.ports.dispatch(Request {
                divider: 0,
                ..request
            });
            (port, dispatched)
        } else {
            (port, self.ports.start(port, ready))
        };
        let at_least = dispatched + 2;
        let executed = self.access(i, (uop, kind), (port, dispatched), inputs, at_least);
        (executed, self.accessed(kind))
    }

    /// Starts a µop on one of these unbound ports, ready at `ready`; returns where and when.
    #[inline(never)]
    fn start_on_any(&mut self, i: &Given<'_>, uop: &Uop, ports: PortSet, ready: u64) -> (u8, u64) {
        let others = match usize::from(uop.inputs_len) > FIRST_INPUTS {
            true => i.program.inputs_of(uop).get(FIRST_INPUTS..).unwrap_or(&[]),
            false => &[],
        };
        let started = match self.goes_ahead_until(uop, ready) {
            Some(until) => (self.ports).start_ahead((self.ahead_ports, ports), ready, until),
            None => self.start_unbound(ports, (&uop.first_inputs, others), ready),
        };
        if self.execute.vain_starts {
            let outputs = i.program.outputs_of(uop);
            self.registers.awaited(outputs, ready, started.1);
        }
        started
    }

    /// Until which cycle a load that is ready at `ready` goes ahead of stores, on the only ports where it may then.
    #[inline]
    fn goes_ahead_until(&self, uop: &Uop, ready: u64) -> Option<u64> {
        let is_load = matches!(uop.kind, UopKind::Load(_)) && uop.ports.meets(self.ahead_ports);
        let until = self.memory.disambiguation.started();
        (is_load && ready < until).then_some(until)
    }

    /// The same, but for what its outputs are awaited for.
    #[inline(always)]
    pub(super) fn start_unbound(
        &mut self,
        ports: PortSet,
        inputs: (&[RegId; FIRST_INPUTS], &[RegId]),
        ready: u64,
    ) -> (u8, u64) {
        let (issued, delay) = (self.issue.cycle(), self.execute.issue_to_dispatch);
        // One that waits for nothing cannot be woken any sooner.
        let woken = if self.execute.vain_starts && ready > issued + delay {
            ready_cycle(issued, delay, self.registers.awaited_inputs(inputs))
        } else {
            ready
        };
        self.ports.start_on_any(ports, woken, ready)
    }

    /// Whether rename does all that a µop does.
    fn done_at_rename(&mut self, i: &Given<'_>, uop: &Uop) -> bool {
        let cycle = self.issue.cycle();
        match self.registers.at_rename(i.program, i.instr, uop, cycle) {
            AtRename::Done => true,
            AtRename::No => false,
            AtRename::Overflow(lost) => {
                self.issue.take(lost);
                self.slot_count.lose(u64::from(lost), Stall::Other);
                uop.ports.is_empty()
            }
        }
    }

    /// First cycle in which fences let a µop be ready.
    #[inline(always)]
    fn fenced(&self, kind: UopKind) -> u64 {
        match kind {
            UopKind::Compute => 0,
            UopKind::Load(_) => self.memory.fences().load(),
            UopKind::StoreAddress(_) | UopKind::StoreData(_) => self.memory.fences().store(),
        }
    }

    /// First cycle from `ready` on in which a load finds room in a load queue that it enters when it starts.
    #[inline(always)]
    fn load_queued(&self, uop: &Uop, kind: UopKind, ready: u64) -> u64 {
        match kind {
            UopKind::Load(_) if !is_of_stack(uop) => self.started.room(ready),
            _ => ready,
        }
    }

    /// First cycle from `ready` on in which no younger access to memory starts on `port` in its place.
    #[inline(always)]
    fn not_overtaken(&mut self, uop: &Uop, kind: UopKind, port: u8, ready: u64) -> u64 {
        match kind {
            UopKind::Compute | UopKind::StoreData(_) => ready,
            UopKind::Load(_) | UopKind::StoreAddress(_) => {
                let issued = self.issue.cycle();
                let first = issued + self.execute.issue_to_dispatch;
                (self.overtaken).start(&self.ports, (uop, port), (issued, first, ready))
            }
        }
    }

    /// Whether more than its port may hold a µop up, or it others.
    #[inline(always)]
    fn conflicts(&self, kind: UopKind) -> bool {
        match kind {
            UopKind::Load(_) => self.ports.loads_conflict(),
            UopKind::StoreData(_) => self.ports.stores_conflict(),
            UopKind::StoreAddress(_) | UopKind::Compute => false,
        }
    }

    /// The part of a load or store µop that comes after its dispatch; returns when it is done.
    #[inline(always)]
    fn access(
        &mut self,
        i: &Given<'_>,
        (uop, kind): (&Uop, UopKind),
        (port, dispatched): (u8, u64),
        inputs: u64,
        at_least: u64,
    ) -> u64 {
        match kind {
            UopKind::Compute => at_least,
            UopKind::Load(n) => {
                let executed = at_least.max(self.load(i, uop, n, (port, dispatched)));
                if !is_of_stack(uop) {
                    self.started.start(dispatched, executed);
                }
                self.memory.fences_mut().load_done(executed);
                executed
            }
            UopKind::StoreAddress(n) => {
                let made = self.address_of(i, uop);
                let at = (self.memory).store_address(i.inst, n, dispatched, i.accesses, made);
                self.after_access();
                let executed = at_least.max(at);
                self.memory.fences_mut().store_done(executed);
                executed
            }
            UopKind::StoreData(_) => {
                let at = (self.memory).store_data(i.inst, i.instr, uop, dispatched, inputs);
                let executed = at_least.max(at);
                self.memory.fences_mut().store_done(executed);
                executed
            }
        }
    }

    /// After a page fault, everything begins anew; lines that come into the first level take the load ports' time.
    #[inline(always)]
    pub(super) fn after_access(&mut self) {
        while let Some(at) = self.memory.take_arrival() {
            self.ports.occupy_all(self.load_ports, at);
        }
        if let Some(until) = self.memory.take_fault() {
            self.issue.block_until(until, Stall::Memory(Wait::Faults));
        }
    }

    /// Why a load or store that has just executed is done when it is.
    #[inline(always)]
    fn accessed(&self, kind: UopKind) -> Cause {
        match kind {
            UopKind::Load(_) => Cause::memory(self.memory.late()),
            _ => Cause::memory(Wait::First),
        }
    }

    /// Executes a load; returns the cycle in which its value is there.
    #[inline(always)]
    fn load(&mut self, i: &Given<'_>, uop: &Uop, number: u8, (port, dispatched): (u8, u64)) -> u64 {
        let issued = self.issue.cycle();
        let crossing = self.memory.crossing(i.inst, number, i.accesses);
        if crossing.is_some() {
            self.ports.occupy(port, dispatched + 1);
        }
        let made = self.address_of(i, uop);
        let loaded = (self.memory).load(i.inst, i.instr, number, dispatched, i.accesses, made);
        let (not_before, later) = match loaded {
            Loaded::Line(later) => {
                self.after_access();
                let longer = self.memory.longer(uop);
                let crossing = crossing.map_or(0, |_| uop.crossing_later);
                (0, later + longer + u64::from(crossing))
            }
            Loaded::Store(there) => (there + u64::from(uop.forwarded_later), 0),
            Loaded::Register(source) => {
                // The load is executed all the same, to check.
                (self.registers).rename_to(i.program, i.instr, uop, issued, source);
                return dispatched + self.execute.load_latency;
            }
        };
        // What is behind a load that got something else first is executed anew.
        if let Some(until) = self.memory.take_restart() {
            self.issue.block_until(until, Stall::BadSpeculation);
        }
        let follows =
            self.execute.fast_pointer_chasing && uop.near && self.registers.follow_a_pointer(uop);
        let sooner = u64::from(follows);
        (self.registers).write_loaded(
            i.program, i.instr, uop, issued, dispatched, not_before, sooner, later,
        )
    }

    /// What the address of a load or store is made of, where that matters.
    #[inline(always)]
    fn address_of(&mut self, i: &Given<'_>, uop: &Uop) -> Made {
        if self.execute.memory_renaming_learnt == 0 {
            return Made::UNKNOWN;
        }
        match uop.kind {
            // `leave` and `pop rsp`.
            UopKind::Load(_) if i.instr.is(flag::WRITES_RSP) => self.registers.leave_stack(),
            UopKind::StoreAddress(_) => self.registers.follow(&uop.first_inputs),
            _ => {}
        }
        match uop.absolute {
            true => Made::ABSOLUTE,
            false => (self.registers).made_of(&uop.first_inputs, i.instr.rsp_change != 0),
        }
    }

    /// What the calendar must know of a µop that more than its port may hold up.
    #[inline(always)]
    fn request(
        &self,
        i: &Given<'_>,
        (uop, kind): (&Uop, UopKind),
        port: u8,
        ready: u64,
    ) -> Request {
        let store_line = match kind {
            UopKind::StoreData(_) => self.memory.store_line(),
            _ => None,
        };
        let banks = match kind {
            UopKind::Load(n) if i.inst.loads > 0 => i
                .accesses
                .get(usize::from(n.min(i.inst.loads - 1)))
                .map_or(0, |access| self.ports.banks(access.in_line(), access.size)),
            _ => 0,
        };
        Request {
            port,
            ready,
            divider: uop.divider,
            load: matches!(kind, UopKind::Load(_)),
            wide: i.instr.is(flag::WIDE_ACCESS),
            store_line,
            banks,
        }
    }

    /// When an instruction whose µops are done at `done` has written what it must before it retires.
    #[inline(always)]
    pub(super) fn written(&self, i: &Given<'_>, done: u64) -> u64 {
        match self.execute.locked_retirement.filter(|_| i.instr.locked) {
            Some(p) => {
                let written = self.memory.last_written() + p.behind_writes;
                done.max(self.retirement.last().max(written) + p.takes)
            }
            None => done,
        }
    }

    /// When fetch can start anew behind an instruction that is done at `done`, which is behind a string once it is known how
    /// far that goes.
    pub(super) fn known_behind(&self, i: &Given<'_>, done: u64) -> u64 {
        match i.instr.calls_kernel {
            true => self.ends.last,
            false if self.waits_for_string(i) => {
                done.min(self.string_known + self.execute.rep_known)
            }
            false => done,
        }
    }

    #[cold]
    fn first_uop_ready(&mut self, i: &Given<'_>, known: u64, ready: u64) -> u64 {
        let (instr, mut ready) = (i.instr, ready);
        if instr.is(flag::LOAD_FENCE | flag::STORE_FENCE) {
            let (loads, stores) = (instr.is(flag::LOAD_FENCE), instr.is(flag::STORE_FENCE));
            ready = ready.max(self.memory.fences().ready(loads, stores));
        }
        if instr.locked && self.locks.are_modelled() {
            let before = locks::Before {
                retired: self.retirement.last(),
                written: self.memory.last_written(),
                uops: self.retirement.count(),
                stores: self.memory.stores(),
            };
            let own = (u64::from(instr.fused), u64::from(i.inst.stores));
            return (self.locks).start(before, ready, u64::from(instr.throughput) / 100, own);
        }
        if let (true, Some(ahead)) = (instr.calls_kernel, self.system_call_ahead) {
            // Whatever registers the kernel reads, it reads later.
            let begins = self.issue.cycle() + self.execute.issue_to_dispatch;
            return begins.max(self.retirement.last().saturating_sub(ahead.into()));
        }
        if instr.throughput > 0 {
            let throughput = (self.short_string(i)).unwrap_or_else(|| u64::from(instr.throughput));
            if self.execute.spacing_when_ready {
                return self.spacing.start(instr.form, throughput, ready);
            }
            let from = known.max(ready.saturating_sub(self.execute.issue_to_dispatch));
            ready = ready.max(self.spacing.start(instr.form, throughput, from) + 1);
        }
        ready
    }
}

impl Backend {
    /// Hundredths of a cycle from one repeated string instruction to the next whose count was
    /// predicted, where that is not the table's.
    fn short_string(&self, i: &Given<'_>) -> Option<u64> {
        if !i.inst.reaches || i.inst.extra_cycles > 0 || i.instr.is(flag::REP_COMPARE) {
            return None;
        }
        let element = i.accesses.first().filter(|_| i.instr.is(flag::REP))?.size;
        let spacing = self.execute.rep_spacing(i.inst.loads > 0, element);
        (spacing > 0).then_some(spacing)
    }
}

/// Whether a load's address is the stack pointer's: such take no entry in a load queue that is entered at the start.
#[inline(always)]
fn is_of_stack(uop: &Uop) -> bool {
    uop.first_inputs.contains(&RegId::RSP)
}

/// Whether a µop loads or stores.
#[inline(always)]
pub(super) fn is_memory(uop: &Uop) -> bool {
    uop.kind != UopKind::Compute
}
