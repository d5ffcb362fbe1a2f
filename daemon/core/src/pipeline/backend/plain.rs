//! The short way through the back end, for plain instructions ([`Instr::plain`]): the same as the
//! long one does, without all that cannot happen.

use super::schedule::ready_cycle;
use super::{Backend, Delivered};
use crate::pipeline::inst::{Access, Inst};
use crate::pipeline::observer::{Observer, Retired};
use mcad_isa::program::{Instr, Program, Uop, flag};
use mcad_isa::regs::RegId;
use mcad_isa::x86::uops::UopKind;

impl Backend {
    /// [`Backend::laminated`] for a plain instruction: the same as [`Backend::any`] does, without
    /// all that cannot happen.
    #[inline(always)]
    pub(super) fn plain<O: Observer>(
        &mut self,
        program: &Program,
        inst: &Inst,
        instr: &Instr,
        delivered: Delivered,
        accesses: &[Access],
        observer: &mut O,
    ) {
        const UNUSUAL: u32 =
            flag::ELIMINABLE | flag::ADD_IMMEDIATE | flag::FP_ADD | flag::SHIFT | flag::CONDITIONAL;
        let buffered = inst.stores > 0 && self.store_buffer.is_modelled();
        let at_least = if buffered {
            self.store_buffer.room_for(u64::from(inst.stores))
        } else {
            0
        };
        self.place(u32::from(instr.fused), delivered.cycle, at_least);
        self.idq.push(self.cycle);
        let (mut done, mut memory) = (0, false);
        let mut group = 0;
        let mut ends = Retired::default();
        let first = instr.uops as usize;
        let uops = program.uops.get(first..first + usize::from(instr.plain));
        for uop in uops.unwrap_or(&[]) {
            let executed = if uop.kind != UopKind::Compute {
                self.plain_access(program, inst, instr, uop, accesses)
            } else if uop.ports.is_empty() || instr.is(UNUSUAL) {
                self.plain_unusual(program, instr, uop)
            } else {
                let inputs = self.inputs_ready(uop);
                self.compute(program, instr, uop, inputs)
            };
            if executed >= done {
                done = executed;
                memory = uop.kind != UopKind::Compute;
            }
            if uop.ends_fused {
                let (retired, slot) = self.retirement.retire(done, memory);
                if group == 0 {
                    ends.first = retired;
                }
                (ends.last, ends.slot) = (retired, slot);
                group += 1;
                (done, memory) = (0, false);
                self.slots += 1;
            }
        }
        if !instr.zeroed.is_empty() {
            self.end_instruction(program, instr);
        }
        if buffered {
            self.last_retired = (ends.last, ends.slot);
            self.retire_stores(inst, accesses);
        }
        if O::STATES {
            observer.backlog(inst, self.backlog(ends.last));
        }
        observer.retired(inst, ends);
    }

    /// Executes a µop that accesses no memory and has its inputs at `inputs`; returns when it is
    /// done.
    #[inline(always)]
    pub(super) fn compute(
        &mut self,
        program: &Program,
        instr: &Instr,
        uop: &Uop,
        inputs: u64,
    ) -> u64 {
        let port = self.ports.choose(uop.ports, self.slots);
        let ready = ready_cycle(self.cycle, self.execute.issue_to_dispatch, inputs);
        let dispatched = self.ports.start(port, ready);
        let written = self.write(program, instr, uop, dispatched, 0, 0);
        written.max(dispatched + 2)
    }

    /// A µop of a plain instruction that may be done at rename, or waits longer for some inputs;
    /// returns when it is done.
    #[inline(never)]
    pub(super) fn plain_unusual(&mut self, program: &Program, instr: &Instr, uop: &Uop) -> u64 {
        if self.done_at_rename(program, instr, uop) {
            return self.cycle;
        }
        let inputs = self.late_inputs(program, instr, uop, self.inputs_ready(uop));
        self.compute(program, instr, uop, inputs)
    }

    /// A memory µop of a plain instruction; returns when it is done.
    #[inline(never)]
    pub(super) fn plain_access(
        &mut self,
        program: &Program,
        inst: &Inst,
        instr: &Instr,
        uop: &Uop,
        accesses: &[Access],
    ) -> u64 {
        let inputs = self.inputs_ready(uop);
        let ready = ready_cycle(self.cycle, self.execute.issue_to_dispatch, inputs);
        let (not_before, conflicts) = match uop.kind {
            UopKind::Load(_) => (self.constraints.load(), self.ports.loads_conflict()),
            UopKind::StoreData(_) => (self.constraints.store(), self.ports.stores_conflict()),
            _ => (self.constraints.store(), false),
        };
        let ready = ready.max(not_before);
        let port = self.ports.choose(uop.ports, self.slots);
        let dispatched = if conflicts {
            let request = self.request(inst, instr, uop, port, ready, accesses);
            self.ports.dispatch(request)
        } else {
            self.ports.start(port, ready)
        };
        let least = dispatched + 2;
        self.access(
            program, inst, instr, uop, dispatched, inputs, least, accesses,
        )
    }

    /// When the inputs are there that a µop holds itself.
    #[inline(always)]
    pub(super) fn inputs_ready(&self, uop: &Uop) -> u64 {
        let ready = |r: RegId| self.ready[usize::from(r.0) & (RegId::COUNT - 1)];
        let [a, b, c, d] = uop.first_inputs;
        ready(a).max(ready(b)).max(ready(c).max(ready(d)))
    }
}
