//! Issue of an in-order core that is known by LLVM's scheduling model: as many µops a cycle as it is
//! wide, when operands are there and units free, and so that results are written in order.
//!
//! The rules are those of llvm-mca's in-order pipeline (`lib/MCA/Stages/InOrderIssueStage.cpp`) as
//! time stamps: each condition, once it holds, goes on holding until the instruction issues, so the
//! cycle of issue is the first in which all hold. µops beyond the width issue in the cycles that
//! follow, when nothing else does.
//!
//! What lies behind the core is asked as by every other in-order core ([`Around`]): a store issues when there
//! is room for it, and what a load misses comes that much later. Results that are written in order are so as if
//! loads hit: a line that comes later is written when it comes, past what follows.

use mcad_isa::inorder::REGISTERS;
use mcad_isa::llvm::sched::{Code, Machine, Read, Static};

use super::issue::{Issued, Wait};
use super::slots::{Cause, Ledger};
use super::{Around, Executed, Missed};
use crate::pipeline::units::Units;

/// Who writes a register last.
#[derive(Clone, Copy, Debug)]
struct Register {
    /// Cycle of issue; 0 is none.
    issued: u64,
    latency: u32,
    kind: u16,
    /// When all results of that instruction are there.
    done: u64,
    /// What who waits for it waits for.
    cause: Cause,
}

/// Its value has always been there.
const FREE: Register = Register {
    issued: 0,
    latency: 0,
    kind: 0,
    done: 0,
    cause: Cause::Dependency,
};

/// State of issue.
#[derive(Clone, Debug)]
pub struct Scheduled {
    width: u32,
    units: Units,
    registers: Box<[Register; REGISTERS]>,
    /// The cycle of the last issue, µops that may still issue in it, and whether any has.
    cycle: u64,
    left: u32,
    begun: bool,
    /// An instruction has ended the group of this cycle.
    closed: bool,
    /// The last result so far is written then.
    written: u64,
    /// What follows waits for this cycle, and for what.
    not_before: (u64, Cause),
    retired: u64,
    started: bool,
    /// Slots so far.
    pub ledger: Ledger,
}

impl Scheduled {
    /// Nothing has issued.
    #[must_use]
    pub fn new(machine: &Machine, width: u32) -> Self {
        Self {
            width,
            units: Units::new(machine),
            registers: Box::new([FREE; REGISTERS]),
            cycle: 0,
            left: width,
            begun: false,
            closed: false,
            written: 0,
            not_before: (0, Cause::Load),
            retired: 0,
            started: false,
            ledger: Ledger::default(),
        }
    }

    /// Nothing has issued any more.
    pub fn reset(&mut self) {
        self.units.reset();
        self.registers.fill(FREE);
        self.cycle = 0;
        self.left = self.width;
        self.begun = false;
        self.closed = false;
        self.written = 0;
        self.not_before = (0, Cause::Load);
        self.retired = 0;
        self.started = false;
        self.ledger = Ledger::default();
    }

    /// The cycle from which on an operand can be read in `now`, and what is waited for until then.
    #[inline]
    fn operand(&self, code: &Code, read: &Read, now: u64) -> (u64, Cause) {
        let register = &self.registers[usize::from(read.register.0)];
        if register.issued == 0 {
            return (0, Cause::Dependency);
        }
        let advance = i64::from(code.advance(read, register.kind));
        // A result that comes late to this operand counts from when the whole instruction is done.
        let base = match advance < 0 && now >= register.done {
            true => register.done,
            false => register.issued + u64::from(register.latency),
        };
        (base.saturating_add_signed(-advance), register.cause)
    }

    /// Issues an instruction that may issue from `ready` on, by what `waited_for` says.
    pub fn issue(
        &mut self,
        code: &Code,
        executed: &Executed,
        (ready, waited_for): (u64, Cause),
        around: &mut impl Around,
    ) -> Issued {
        let none = Static::default();
        let instr = code.instrs.get(executed.instr as usize).unwrap_or(&none);
        if code.instrs.is_empty() {
            return Issued::at(self.cycle, waited_for);
        }
        let cost = code.cost(instr);
        let reads = code.reads(instr);
        if !self.started {
            self.started = true;
            self.cycle = ready.max(1);
        }
        let mut wait = Wait::new(
            self.cycle,
            u64::from(self.width - self.left),
            u64::from(self.width),
        );
        self.ledger.begin();
        let slots = &mut self.ledger;
        let room = if self.closed { 0 } else { self.left };
        let fits = cost.uops <= room || cost.uops > self.width;
        if !fits || cost.begins_group && self.begun {
            wait.until(self.cycle + 1, Cause::Pairing, slots);
        }
        wait.until(ready, waited_for, slots);
        let (until, held_by) = self.not_before;
        wait.until(until, held_by, slots);
        let room = around.room(executed);
        loop {
            let now = wait.cycle;
            for read in reads {
                let (at, cause) = self.operand(code, read, wait.cycle);
                wait.until(at, cause, &mut self.ledger);
            }
            let free = self.units.when(cost, wait.cycle);
            wait.until(free, Cause::Unit, &mut self.ledger);
            wait.until(room, Cause::StoreBuffer, &mut self.ledger);
            if !cost.out_of_order {
                let in_order = self.written.saturating_sub(u64::from(instr.first_result));
                wait.until(in_order, Cause::WriteBack, &mut self.ledger);
            }
            if wait.cycle == now {
                break;
            }
        }
        let missed = around.access(executed, wait.cycle);
        if missed.held > 0 {
            self.not_before = (wait.cycle + u64::from(missed.held), missed.cause);
        }
        self.take(code, instr, &wait, missed)
    }

    /// Issues in the cycle that was waited for.
    fn take(&mut self, code: &Code, instr: &Static, wait: &Wait, missed: Missed) -> Issued {
        let cost = code.cost(instr);
        let cycle = wait.cycle;
        if cycle > self.cycle {
            self.cycle = cycle;
            self.left = self.width;
            self.begun = false;
            self.closed = false;
        }
        let port = self.units.take(cost, cycle);
        let mut done = cycle + u64::from(instr.latency);
        self.ledger.slots.used += u64::from(cost.uops);
        let room = if self.closed { 0 } else { self.left };
        if cost.uops > room {
            // The rest issues in the next cycles, and ends one that may have room for others.
            let rest = cost.uops - room;
            let (cycles, last) = (rest.div_ceil(self.width), (rest - 1) % self.width + 1);
            if self.closed {
                self.ledger.lose(Cause::Pairing, u64::from(self.left));
            }
            self.cycle += u64::from(cycles);
            self.left = self.width - last;
            self.begun = false;
            self.closed = cost.ends_group;
            done = done.max(self.cycle);
        } else {
            self.left -= cost.uops;
            self.begun |= cost.uops > 0;
            self.closed |= cost.ends_group;
        }
        let in_order = done;
        if instr.load {
            done += u64::from(missed.late);
        }
        for write in code.writes(instr) {
            let (latency, cause) = match write.loaded {
                true if missed.late > 0 => (write.latency + missed.late, missed.cause),
                true => (write.latency, Cause::Load),
                false => (write.latency, Cause::Dependency),
            };
            let register = &mut self.registers[usize::from(write.register.0)];
            // Of several results of one instruction in one register the slowest counts.
            if register.issued == cycle && register.done == done && register.latency > latency {
                continue;
            }
            *register = Register {
                issued: cycle,
                latency,
                kind: write.kind,
                done,
                cause,
            };
        }
        if !cost.out_of_order && (instr.latency > 0 || in_order > cycle) {
            self.written = cycle + u64::from(instr.latency);
        }
        self.retired = self.retired.max(done);
        Issued {
            cycle,
            retired: self.retired,
            late: false,
            cause: wait.cause,
            done,
            port,
        }
    }

    /// Cycle in which the last instruction was done.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.retired
    }
}
