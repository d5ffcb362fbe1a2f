//! One µop from its inputs to its outputs.

use super::ports::Request;
use super::schedule::ready_cycle;
use super::{Backend, Executed, chase};
use crate::pipeline::inst::{Access, Inst};
use mcad_isa::program::{FIRST_INPUTS, Instr, Program, Uop, flag};
use mcad_isa::regs::RegId;
use mcad_isa::x86::uops::UopKind;

impl Backend {
    /// Renames, schedules and executes one µop.
    #[inline(always)]
    pub(super) fn uop(
        &mut self,
        program: &Program,
        inst: &Inst,
        instr: &Instr,
        uop: &Uop,
        is_first: bool,
        accesses: &[Access],
    ) -> Executed {
        let issued = self.cycle;
        if (uop.ports.is_empty() || instr.is(flag::ELIMINABLE | flag::ADD_IMMEDIATE))
            && self.done_at_rename(program, instr, uop)
        {
            return Executed {
                ready: issued,
                dispatched: issued,
                executed: issued,
                port: 0xff,
                memory: false,
            };
        }
        let mut inputs = self.inputs_ready(uop);
        if usize::from(uop.inputs_len) > FIRST_INPUTS {
            inputs = inputs.max(self.other_inputs(program, uop));
        }
        if instr.is(flag::FP_ADD | flag::SHIFT | flag::CONDITIONAL) || instr.high8_reads != 0 {
            inputs = self.late_inputs(program, instr, uop, inputs);
        }
        let mut ready = ready_cycle(issued, self.execute.issue_to_dispatch, inputs);
        match uop.kind {
            UopKind::Load(_) => ready = ready.max(self.constraints.load()),
            UopKind::StoreAddress(_) | UopKind::StoreData(_) => {
                ready = ready.max(self.constraints.store());
            }
            UopKind::Compute => {}
        }
        let spaced = is_first && instr.is(flag::SPACED);
        if spaced {
            ready = self.first_uop_ready(instr, issued.max(inputs), ready);
        }
        let port = self.ports.choose(uop.ports, self.slots);
        let only_port = uop.divider == 0
            && match uop.kind {
                UopKind::Load(_) => !self.ports.loads_conflict(),
                UopKind::StoreData(_) => !self.ports.stores_conflict(),
                UopKind::StoreAddress(_) | UopKind::Compute => true,
            };
        let dispatched = if only_port {
            self.ports.start(port, ready)
        } else {
            let request = self.request(inst, instr, uop, port, ready, accesses);
            self.ports.dispatch(request)
        };
        let mut executed = dispatched + 2;
        if spaced {
            executed = executed.max(dispatched + u64::from(instr.throughput));
        }
        if uop.kind == UopKind::Compute {
            executed = executed.max(self.write(program, instr, uop, dispatched, 0, 0));
        } else {
            executed = executed.max(self.access(
                program, inst, instr, uop, dispatched, inputs, executed, accesses,
            ));
        }
        if spaced && instr.is(flag::LOAD_FENCE | flag::STORE_FENCE) {
            self.constraints.fence_done(
                executed,
                instr.is(flag::LOAD_FENCE),
                instr.is(flag::STORE_FENCE),
            );
        }
        Executed {
            ready,
            dispatched,
            executed,
            port,
            memory: uop.kind != UopKind::Compute,
        }
    }

    /// Whether rename does all that a µop does.
    pub(super) fn done_at_rename(&mut self, program: &Program, instr: &Instr, uop: &Uop) -> bool {
        if instr.is(flag::ELIMINABLE) && self.moves.eliminate(instr.move_from, instr.move_to) {
            let (from, to) = (usize::from(instr.move_from.0), usize::from(instr.move_to.0));
            self.ready[to] = self.ready[from];
            let sum = self.added.get(from).copied().unwrap_or(0);
            if let Some(place) = self.added.get_mut(to) {
                *place = sum;
            }
            self.chase[to] = self.chase[from] & !chase::MOVE32
                | if instr.is(flag::MOVE32) {
                    chase::MOVE32
                } else {
                    0
                };
            return true;
        }
        if instr.is(flag::ADD_IMMEDIATE) && self.add_at_rename(program, instr, uop) {
            return true;
        }
        uop.ports.is_empty()
    }

    /// When the inputs of a µop are there that it does not hold itself.
    pub(super) fn other_inputs(&self, program: &Program, uop: &Uop) -> u64 {
        let others = program.inputs_of(uop).get(FIRST_INPUTS..).unwrap_or(&[]);
        let ready = |r: &RegId| self.ready[usize::from(r.0) & (RegId::COUNT - 1)];
        others.iter().map(ready).max().unwrap_or(0)
    }

    /// When the inputs of a µop are there that are there for others at `inputs`.
    pub(super) fn late_inputs(
        &self,
        program: &Program,
        instr: &Instr,
        uop: &Uop,
        inputs: u64,
    ) -> u64 {
        let mut inputs = inputs;
        let mut late_flags = false;
        let late = instr.is(flag::FP_ADD) && self.execute.fast_add_chains;
        for input in program.inputs_of(uop) {
            let place = usize::from(input.0) & (RegId::COUNT - 1);
            let slow =
                late && uop.kind == UopKind::Compute && self.chase[place] & chase::FP_ADD == 0;
            let summed =
                instr.is(flag::SHIFT) && self.added.get(place).is_some_and(|sum| *sum != 0);
            let add = if summed { self.execute.sum_to_shift } else { 0 };
            inputs = inputs.max(self.ready[place] + u64::from(slow) + add);
            late_flags |= self.chase[place] & chase::LATE_FLAGS != 0;
        }
        if late_flags && self.late_flags == self.cycle && instr.is(flag::CONDITIONAL) {
            inputs += 1;
        }
        // Reading a high-8 register that was not renamed apart takes a cycle more.
        let whole = self.rename.high8_renamed && instr.high8_reads & !self.high8_dirty != 0;
        inputs + u64::from(whole)
    }

    /// The part of a load or store µop that comes after its dispatch; returns when it is done.
    #[allow(clippy::too_many_arguments)]
    #[inline(always)]
    pub(super) fn access(
        &mut self,
        program: &Program,
        inst: &Inst,
        instr: &Instr,
        uop: &Uop,
        dispatched: u64,
        inputs: u64,
        at_least: u64,
        accesses: &[Access],
    ) -> u64 {
        match uop.kind {
            UopKind::Compute => at_least,
            UopKind::Load(n) => {
                let done = self.load(program, inst, instr, uop, n, dispatched, accesses);
                let executed = at_least.max(done);
                self.constraints.load_done(executed);
                executed
            }
            UopKind::StoreAddress(n) => {
                let at = dispatched + self.execute.store_address_latency;
                let access = (inst.stores > 0)
                    .then(|| {
                        accesses.get(usize::from(inst.loads) + usize::from(n.min(inst.stores - 1)))
                    })
                    .flatten();
                self.stores.address(access.copied(), at);
                let executed = at_least.max(at);
                self.constraints.store_done(executed);
                executed
            }
            UopKind::StoreData(_) => {
                let at = dispatched + self.execute.store_data_latency;
                let renamed = self.execute.memory_renaming && instr.is(flag::RENAMED_STORE);
                self.stores.data(at, renamed.then_some(inputs));
                let executed = at_least.max(at);
                self.constraints.store_done(executed);
                executed
            }
        }
    }

    /// What the calendar must know of a µop that more than its port may hold up.
    pub(super) fn request(
        &self,
        inst: &Inst,
        instr: &Instr,
        uop: &Uop,
        port: u8,
        ready: u64,
        accesses: &[Access],
    ) -> Request {
        let store_line = match uop.kind {
            UopKind::StoreData(_) if !self.store_buffer.is_modelled() => self.stores.line(),
            _ => None,
        };
        let in_line = match uop.kind {
            UopKind::Load(n) if inst.loads > 0 => accesses
                .get(usize::from(n.min(inst.loads - 1)))
                .map(|a| (a.in_line, a.size)),
            _ => None,
        };
        Request {
            port,
            ready,
            divider: uop.divider,
            load: matches!(uop.kind, UopKind::Load(_)),
            wide: instr.is(flag::WIDE_ACCESS),
            store_line,
            in_line,
        }
    }

    #[cold]
    pub(super) fn first_uop_ready(&mut self, instr: &Instr, known: u64, ready: u64) -> u64 {
        let mut ready = ready;
        if instr.is(flag::LOAD_FENCE | flag::STORE_FENCE) {
            ready = ready.max(
                self.constraints
                    .fence_ready(instr.is(flag::LOAD_FENCE), instr.is(flag::STORE_FENCE)),
            );
        }
        if instr.throughput > 0 {
            let from = known.max(ready.saturating_sub(self.execute.issue_to_dispatch));
            ready = ready.max(self.constraints.throttle(
                instr.form,
                u64::from(instr.throughput),
                from,
            ));
        }
        ready
    }

    /// Writes a µop's outputs, `sooner` cycles sooner than usual but not before `not_before`;
    /// returns the cycle in which the last one is there.
    #[inline(always)]
    pub(super) fn write(
        &mut self,
        program: &Program,
        instr: &Instr,
        uop: &Uop,
        dispatched: u64,
        not_before: u64,
        sooner: u64,
    ) -> u64 {
        let mut done = dispatched;
        for output in program.outputs_of(uop) {
            let latency = u64::from(output.latency).saturating_sub(sooner);
            let at = (dispatched + latency).max(not_before);
            done = done.max(at);
            self.set(instr, output.reg, at);
        }
        done
    }

    #[inline(always)]
    pub(super) fn set(&mut self, instr: &Instr, reg: RegId, at: u64) {
        const MARKED: u32 =
            flag::POINTER_LOAD | flag::FP_ADD | flag::LATE_FLAGS | flag::DEFERRED_WRITES;
        if instr.is(MARKED) {
            self.set_marked(instr, reg, at);
        } else {
            self.set_now(reg, at, 0);
        }
    }

    pub(super) fn set_marked(&mut self, instr: &Instr, reg: RegId, at: u64) {
        let flags = if instr.is(flag::POINTER_LOAD) {
            chase::POINTER_LOAD
        } else if instr.is(flag::FP_ADD) {
            chase::FP_ADD
        } else if instr.is(flag::LATE_FLAGS) && matches!(reg, RegId::CARRY | RegId::SPAZO) {
            self.late_flags = self.cycle;
            chase::LATE_FLAGS
        } else {
            0
        };
        if instr.is(flag::DEFERRED_WRITES) && reg.0 < RegId::PSEUDO {
            self.deferred.push((reg, at, flags));
        } else {
            self.set_now(reg, at, flags);
        }
    }

    /// A register gets a new value, there at `at`.
    #[inline(always)]
    pub(super) fn set_now(&mut self, reg: RegId, at: u64, flags: u8) {
        let place = usize::from(reg.0) & (RegId::COUNT - 1);
        self.ready[place] = at;
        self.chase[place] = flags;
        self.moves.overwrite(reg);
        if let Some(added) = self.added.get_mut(place) {
            *added = 0;
        }
    }

    #[inline]
    pub(super) fn end_instruction(&mut self, program: &Program, instr: &Instr) {
        if !self.deferred.is_empty() {
            let mut deferred = std::mem::take(&mut self.deferred);
            for (reg, at, flags) in deferred.drain(..) {
                self.set_now(reg, at, flags);
            }
            self.deferred = deferred;
        }
        if !instr.zeroed.is_empty() {
            let range = instr.zeroed.start as usize..instr.zeroed.end as usize;
            for &reg in program.zeroed.get(range).unwrap_or(&[]) {
                self.set_now(reg, 0, chase::NO_UOPS);
            }
        }
        if instr.wide_uses != 0 || instr.high8_writes != 0 {
            self.high8_dirty &= !instr.wide_uses;
            self.high8_dirty |= instr.high8_writes & !instr.wide_uses;
        }
    }
}
