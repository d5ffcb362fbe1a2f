//! Rename and everything behind it: takes µops as they are delivered and gives each its stamps.

mod add;
pub mod entries;
mod execute;
mod load;
pub mod memory;
pub mod moves;
mod plain;
pub mod ports;
pub mod retire;
pub mod schedule;
mod state;
pub mod store_buffer;
pub mod topdown;

use std::sync::Arc;

use super::inst::{Access, Inst};
use super::observer::{Backlog, Delivery, Observer, Retired, UopStamps};
use super::window::Window;
use mcad_isa::machine::CpuModel;
use mcad_isa::machine::params::{Execute, PortSet, Rename};
use mcad_isa::program::{Instr, Program, flag};
use mcad_isa::regs::RegId;
use mcad_report::TopDown;
use memory::Stores;
use moves::Moves;
use ports::Ports;
use retire::Retirement;
use schedule::{Constraints, ready_cycle};
use store_buffer::StoreBuffer;
use topdown::{SlotCount, Stall};

/// What the last writer of a register means for pointer chasing.
mod chase {
    /// A load whose result can be chased.
    pub const POINTER_LOAD: u8 = 1;
    /// Written without execution.
    pub const NO_UOPS: u8 = 2;
    /// Came here by an eliminated 32-bit move.
    pub const MOVE32: u8 = 4;
    /// A floating-point sum.
    pub const FP_ADD: u8 = 8;
    /// Flags that are late for who reads them in the same cycle.
    pub const LATE_FLAGS: u8 = 16;
}

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

/// Everything from rename to retirement.
pub struct Backend {
    rename: Rename,
    execute: Execute,
    alu_ports: PortSet,
    merge_ports: PortSet,
    cycle: u64,
    slots: u32,
    /// No more µops may issue in the current cycle.
    closed: bool,
    blocked_until: u64,
    /// Ports, public for statistics.
    pub ports: Ports,
    /// Retirement, public for statistics.
    pub retirement: Retirement,
    moves: Moves,
    stores: Stores,
    store_buffer: StoreBuffer,
    constraints: Constraints,
    ready: [u64; RegId::COUNT],
    chase: [u8; RegId::COUNT],
    /// Sums of immediates that rename has added to registers.
    added: [i64; 16],
    /// Issue cycle of the last µop whose flags are late: one for carry and the others together,
    /// though they may come from different µops.
    late_flags: u64,
    /// Addresses of the last two loads from the decoders that could be renamed.
    renamed_at: [u64; 2],
    high8_dirty: u8,
    deferred: Vec<(RegId, u64, u8)>,
    /// Issue cycles of the µops in the instruction decode queue.
    idq: Window<u64>,
    slot_count: SlotCount,
    first_retired: u64,
    last_retired: (u64, u32),
}

struct Executed {
    ready: u64,
    dispatched: u64,
    executed: u64,
    port: u8,
    memory: bool,
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
            merge_ports: core.ports.merge,
            cycle: 0,
            slots: 0,
            closed: true,
            blocked_until: 0,
            ports: Ports::new(core),
            retirement: Retirement::new(&core.retire, core.rename.issue_width),
            moves: Moves::new(&core.rename),
            stores: Stores::new(),
            store_buffer: StoreBuffer::new(&core.execute),
            constraints: Constraints::default(),
            ready: [0; RegId::COUNT],
            chase: [0; RegId::COUNT],
            added: [0; 16],
            late_flags: 0,
            renamed_at: [0; 2],
            high8_dirty: 0,
            deferred: Vec::new(),
            idq: Window::new(128),
            slot_count: SlotCount::default(),
            first_retired: 0,
            last_retired: (0, 0),
        }
    }

    /// Cycle of the last issue.
    #[inline]
    #[must_use]
    pub fn cycle(&self) -> u64 {
        self.cycle
    }

    /// How far things lag behind the µop that has just issued and retires at `retired`.
    fn backlog(&self, retired: u64) -> Backlog {
        Backlog {
            scheduler: u64::from(self.ports.entries().taken()),
            retirement: retired.saturating_sub(self.cycle),
            stores: self.store_buffer.last().saturating_sub(retired),
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

    /// µops in the instruction decode queue after rename has done its work in `cycle`.
    #[inline]
    pub fn idq_len(&mut self, cycle: u64) -> usize {
        while self.idq.front().is_some_and(|issue| *issue <= cycle) {
            self.idq.pop();
        }
        self.idq.len()
    }

    /// Cycle in which the queue has come down to `len` µops.
    #[inline]
    #[must_use]
    pub fn idq_down_to(&self, len: usize) -> Option<u64> {
        let must_go = self.idq.len().checked_sub(len)?.checked_sub(1)?;
        self.idq.get(self.idq.head() + must_go as u64).copied()
    }

    /// Opens an issue cycle for a µop that is in the queue from `delivered` on and may not issue
    /// before `at_least`.
    fn open_cycle(&mut self, delivered: u64, at_least: u64) {
        let width = self.rename.issue_width;
        let lost = u64::from(width - self.slots.min(width));
        let first = self.cycle + 1;
        let (rob, memory) = self.retirement.room_for(u64::from(width));
        let mut gate = first.max(rob);
        while self.cycle < gate {
            self.ports.step();
            self.cycle += 1;
        }
        let mut stall = Stall::Core;
        if rob > first && memory {
            stall = Stall::Memory;
        }
        while self.ports.entries().full(width) {
            self.ports.step();
            self.cycle += 1;
            gate += 1;
        }
        let target = gate.max(delivered + 1).max(at_least);
        while self.cycle < target {
            self.ports.step();
            self.cycle += 1;
        }
        self.moves.end_cycle(target - gate);
        // Slots left over in the old cycle go with the reason that closed it.
        let whole = |cycles: u64| cycles * u64::from(width);
        if gate > first {
            self.slot_count.lose(lost + whole(gate - first), stall);
            let more = whole(target - gate);
            self.slot_count.lose(
                more,
                if delivered + 1 >= target {
                    Stall::FrontEnd
                } else {
                    Stall::Other
                },
            );
        } else if target > gate {
            let why = if delivered + 1 >= target {
                Stall::FrontEnd
            } else {
                Stall::Other
            };
            self.slot_count.lose(lost + whole(target - gate), why);
        } else if delivered >= self.cycle - 1 {
            // It came just in time for the new cycle: the old one ended for lack of it.
            self.slot_count.lose(lost, Stall::FrontEnd);
        } else {
            self.slot_count.lose(lost, Stall::Other);
        }
        // What a cycle could not hold of the slots that an overflow takes is the next one's.
        self.slots = self.slots.saturating_sub(width);
        self.closed = false;
    }

    /// Makes room for `fused` µops in one cycle.
    #[inline]
    fn place(&mut self, fused: u32, delivered: u64, at_least: u64) {
        let at_least = at_least.max(self.blocked_until);
        let fits = !self.closed
            && self.slots + fused <= self.rename.issue_width
            && delivered < self.cycle
            && at_least <= self.cycle;
        if !fits {
            self.open_cycle(delivered, at_least);
        }
    }

    /// Takes over the stack engine's offset: by a µop, unless rename can add it.
    pub fn stack_sync<O: Observer>(
        &mut self,
        inst: &Inst,
        offset: i32,
        delivered: u64,
        observer: &mut O,
    ) {
        if self.add_stack_offset(offset) {
            return;
        }
        self.place(1, delivered, 0);
        self.idq.push(self.cycle);
        let input = self.ready[usize::from(RegId::RSP.0)];
        let (stamps, executed) = self.simple(self.alu_ports, input, UopStamps::SYNC, delivered);
        self.ready[usize::from(RegId::RSP.0)] = executed + 1;
        self.chase[usize::from(RegId::RSP.0)] = 0;
        self.added[usize::from(RegId::RSP.0)] = 0;
        if O::UOPS {
            observer.uop(inst, stamps);
        }
        self.slots += 1;
    }

    /// A one-cycle µop of the machine's own; returns its stamps and its dispatch.
    fn simple(
        &mut self,
        ports: PortSet,
        input: u64,
        name: u32,
        delivered: u64,
    ) -> (UopStamps, u64) {
        let port = self.ports.choose(ports, self.slots);
        let ready = ready_cycle(self.cycle, self.execute.issue_to_dispatch, input);
        let dispatched = self.ports.start(port, ready);
        let executed = dispatched + 2;
        let (retired, _) = self.retirement.retire(executed, false);
        let stamps = UopStamps {
            uop: name,
            delivered,
            issued: self.cycle,
            ready,
            dispatched,
            executed,
            retired,
            port,
            source: Delivery::Inserted,
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
        if self.slots > 0 {
            self.closed = true;
        }
        self.place(mask.count_ones(), delivered, 0);
        for reg in 0..4u8 {
            if mask & (1 << reg) != 0 {
                let input = self.ready[usize::from(reg)];
                let (stamps, at) =
                    self.simple(self.merge_ports, input, UopStamps::MERGE, delivered);
                self.ready[usize::from(reg)] = at + 1;
                self.chase[usize::from(reg)] = 0;
                self.moves.overwrite(RegId(reg));
                if O::UOPS {
                    observer.uop(inst, stamps);
                }
                self.slots += 1;
            }
        }
        self.closed = true;
    }

    /// Issues one laminated µop of `inst`; `accesses` are the instruction's.
    #[inline]
    pub fn laminated<O: Observer>(
        &mut self,
        program: &Program,
        inst: &Inst,
        instr: &Instr,
        delivered: Delivered,
        accesses: &[Access],
        observer: &mut O,
    ) {
        if instr.plain > 0 && self.high8_dirty == 0 && !O::UOPS {
            self.plain(program, inst, instr, delivered, accesses, observer);
        } else {
            self.any(program, inst, instr, delivered, accesses, observer);
        }
    }

    /// [`Backend::laminated`] for any instruction.
    #[inline(never)]
    fn any<O: Observer>(
        &mut self,
        program: &Program,
        inst: &Inst,
        instr: &Instr,
        delivered: Delivered,
        accesses: &[Access],
        observer: &mut O,
    ) {
        let first = delivered.number == 0;
        let last = delivered.number + 1 == instr.laminated_len;
        let place = instr.laminated as usize + usize::from(delivered.number);
        let Some(laminated) = program.laminated.get(place) else {
            return;
        };
        let range =
            laminated.uops as usize..laminated.uops as usize + usize::from(laminated.uops_len);
        let Some(uops) = program.uops.get(range) else {
            return;
        };
        let mut at_least = 0;
        if first
            && (instr.is(flag::SERIALIZING)
                || inst.stores > 0
                || self.high8_dirty & instr.wide_reads != 0)
        {
            at_least = self.before_issue(inst, instr, delivered.cycle, observer);
        }
        self.place(u32::from(laminated.fused), delivered.cycle, at_least);
        self.idq.push(self.cycle);

        let mut done = 0;
        let mut memory = false;
        let mut first_group = first;
        let mut held: Vec<(u32, Executed)> = Vec::new();
        for (n, uop) in uops.iter().enumerate() {
            let mut e = self.uop(program, inst, instr, uop, first && n == 0, accesses);
            if last && inst.extra_cycles > 0 && n + 1 == uops.len() {
                e.executed += u64::from(inst.extra_cycles);
                self.blocked_until = self.cycle + u64::from(inst.extra_cycles);
            }
            if e.executed >= done {
                done = e.executed;
                memory = e.memory;
            }
            if O::UOPS {
                held.push((laminated.uops + n as u32, e));
            }
            if uop.ends_fused {
                let (retired, slot) = self.retirement.retire(done, memory);
                if first_group {
                    self.first_retired = retired;
                }
                self.last_retired = (retired, slot);
                if O::UOPS {
                    for (uop, e) in held.drain(..) {
                        observer.uop(
                            inst,
                            UopStamps {
                                uop,
                                delivered: delivered.cycle,
                                issued: self.cycle,
                                ready: e.ready,
                                dispatched: e.dispatched,
                                executed: e.executed,
                                retired,
                                port: e.port,
                                source: delivered.from,
                            },
                        );
                    }
                }
                self.slots += 1;
                done = 0;
                memory = false;
                first_group = false;
            }
        }
        if last {
            self.end_instruction(program, instr);
            if inst.stores > 0 && self.store_buffer.is_modelled() {
                self.retire_stores(inst, accesses);
            }
            let (last, slot) = self.last_retired;
            if O::STATES {
                observer.backlog(inst, self.backlog(last));
            }
            observer.retired(
                inst,
                Retired {
                    first: self.first_retired,
                    last,
                    slot,
                },
            );
        }
    }

    /// Inserts the merges that an instruction needs; returns the first cycle in which it may
    /// issue.
    fn before_issue<O: Observer>(
        &mut self,
        inst: &Inst,
        instr: &Instr,
        delivered: u64,
        observer: &mut O,
    ) -> u64 {
        let mut at_least = 0;
        let mask = self.high8_dirty & instr.wide_reads;
        if self.rename.high8_renamed && mask != 0 {
            self.merge_high8(inst, mask, delivered, observer);
        }
        if instr.is(flag::SERIALIZING) && self.retirement.count() > 0 {
            at_least = self.retirement.last() + 1;
        }
        if inst.stores > 0 && self.store_buffer.is_modelled() {
            at_least = at_least.max(self.store_buffer.room_for(u64::from(inst.stores)));
        }
        at_least
    }

    /// An instruction's stores go to the store buffer as it retires.
    fn retire_stores(&mut self, inst: &Inst, accesses: &[Access]) {
        let stored = self.stores.count();
        for n in 0..usize::from(inst.stores) {
            if self.store_buffer.count() < stored {
                let access = accesses.get(usize::from(inst.loads) + n);
                self.store_buffer.retire(access, self.last_retired.0);
            }
        }
    }
}
