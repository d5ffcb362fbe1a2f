//! What rename and the scheduler know of registers: when each is there, what its last writer means
//! for who reads it, which share a physical one, and sums that rename has added.

use super::addresses::{Addresses, Made};
use super::moves::Moves;
use crate::lists::part;
use crate::pipeline::fold::Folding;
use crate::pipeline::functional::Warm;
use crate::pipeline::state::{Fingerprint, Moment, Part, Remember};
use mcad_isa::machine::params::{Execute, Rename};
use mcad_isa::program::{FIRST_INPUTS, Instr, Laminated, NO_REG, Output, Program, Uop, flag};
use mcad_isa::regs::RegId;
use mcad_isa::uop::UopKind;

/// What the last writer of a register means for its readers.
pub mod writer {
    use mcad_isa::program::result;

    /// A load whose result may be the address of the next one a cycle sooner.
    pub const POINTER_LOAD: u8 = result::POINTER_LOAD;
    /// Written without execution.
    pub const NO_UOPS: u8 = 2;
    /// Came here by an eliminated 32-bit move.
    pub const MOVE32: u8 = 4;
    /// A floating-point sum.
    pub const FP_ADD: u8 = result::FP_SUM;
    /// Flags that are late for who reads them in the same cycle.
    pub const LATE_FLAGS: u8 = result::LATE_FLAGS;
}

/// When a value is there, and whether a load brings it: the cycle times two, plus one if so, so
/// that the later of two stamps says both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp(u64);

impl Stamp {
    /// The result of a µop.
    #[inline(always)]
    #[must_use]
    pub fn new(cycle: u64, loaded: bool) -> Self {
        Self(cycle << 1 | u64::from(loaded))
    }

    /// The cycle in which it is there.
    #[inline(always)]
    #[must_use]
    pub fn cycle(self) -> u64 {
        self.0 >> 1
    }

    /// Whether a µop that issues in `cycle` waits for a load when this is its last input.
    #[inline(always)]
    #[must_use]
    pub fn keeps_waiting_for_a_load(self, cycle: u64) -> bool {
        self.0 & 1 != 0 && self.cycle() > cycle
    }

    /// So many cycles later.
    #[inline(always)]
    #[must_use]
    pub fn later(self, cycles: u64) -> Self {
        Self(self.0 + (cycles << 1))
    }

    /// So many cycles sooner; below 0: later.
    #[must_use]
    pub fn sooner(self, cycles: i64) -> Self {
        Self(self.0.saturating_add_signed(-(cycles << 1)))
    }
}

/// A value of a µop of one cycle: when it would have been there if the µop had not had to wait for
/// its port. It says so of that value only which is there at `ready`.
#[derive(Clone, Copy, Default, PartialEq)]
struct Awaited {
    ready: u64,
    sooner: u64,
}

/// Registers that rename keeps sums for.
const SUMS: usize = 16;

/// Whether rename did a µop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtRename {
    /// Nothing is left to execute.
    Done,
    /// It executes.
    No,
    /// It executes; a sum became too large, so all sums end, which takes so many issue slots away.
    Overflow(u32),
}

/// State of the registers.
pub struct Registers {
    p: Rename,
    fast_add_chains: bool,
    sum_to_shift: u64,
    ready: Stamps,
    /// See [`writer`]; of other instruction sets than x86-64 [`Output::kind`].
    writer: [u8; PLACES],
    /// Sums of immediates that rename has added to registers.
    sums: [i64; SUMS],
    /// Registers of which there may be more to say than when they are there, one bit each: whose sum is
    /// another than 0, that share a physical one, or of which addresses are made.
    watched: u64,
    /// Issue cycle of the last µop whose flags are late: one for carry and the others together,
    /// though they may come from different µops.
    late_flags: u64,
    /// High-8 registers that are renamed apart from their full register, one bit each.
    high8_apart: u8,
    /// Where µops may start in vain, what they start for.
    awaited: Box<[Awaited]>,
    /// What the current instruction writes when all of its µops have read.
    deferred: Vec<(RegId, Stamp, u8)>,
    moves: Moves,
    addresses: Addresses,
}

/// Places for registers: one for each number that a [`RegId`] may have, so that none need be cut off.
const PLACES: usize = 1 << u8::BITS;

/// A stamp for each.
pub type Stamps = [Stamp; PLACES];

#[inline(always)]
fn place(reg: RegId) -> usize {
    usize::from(reg.0)
}

impl Registers {
    /// All there.
    #[must_use]
    pub fn new(rename: &Rename, execute: &Execute) -> Self {
        Self {
            p: rename.clone(),
            fast_add_chains: execute.fast_add_chains,
            sum_to_shift: execute.sum_to_shift,
            ready: [Stamp::default(); PLACES],
            writer: [0; PLACES],
            sums: [0; SUMS],
            watched: 0,
            late_flags: 0,
            high8_apart: 0,
            awaited: if execute.vain_starts {
                [Awaited::default(); PLACES].into()
            } else {
                Box::default()
            },
            deferred: Vec::new(),
            moves: Moves::new(rename),
            addresses: Addresses::default(),
        }
    }

    /// When a register is there.
    #[inline(always)]
    #[must_use]
    pub fn ready(&self, reg: RegId) -> Stamp {
        self.ready[place(reg)]
    }

    /// When each register is there.
    #[inline]
    #[must_use]
    pub fn stamps(&self) -> &Stamps {
        &self.ready
    }

    /// When the inputs are there that a µop holds itself.
    #[inline(always)]
    #[must_use]
    pub fn inputs(&self, first: &[RegId; FIRST_INPUTS]) -> Stamp {
        let [a, b, c, d] = *first;
        let (a, b) = (self.ready(a), self.ready(b));
        a.max(b).max(self.ready(c).max(self.ready(d)))
    }

    /// When the inputs of a µop are there that it does not hold itself.
    #[must_use]
    pub fn other_inputs(&self, program: &Program, uop: &Uop) -> Stamp {
        let others = program.inputs_of(uop).get(FIRST_INPUTS..).unwrap_or(&[]);
        others
            .iter()
            .map(|r| self.ready(*r))
            .max()
            .unwrap_or_default()
    }

    /// When the inputs of a µop, those that it holds itself and others, would be there if those of one
    /// cycle had not had to wait for their ports.
    #[inline(always)]
    #[must_use]
    pub fn awaited_inputs(&self, (first, others): (&[RegId; FIRST_INPUTS], &[RegId])) -> u64 {
        let sooner = |input: RegId| {
            let ready = self.ready(input).cycle();
            match self.awaited.get(place(input)) {
                Some(awaited) if awaited.ready == ready => awaited.sooner,
                _ => ready,
            }
        };
        let [a, b, c, d] = first.map(sooner);
        let others = others.iter().map(|input| sooner(*input));
        others.fold(a.max(b).max(c.max(d)), u64::max)
    }

    /// A µop that was ready at `ready` has started at `dispatched` and written its outputs.
    pub fn awaited(&mut self, outputs: &[Output], ready: u64, dispatched: u64) {
        for output in outputs {
            self.awaited_output(output, ready, dispatched);
        }
    }

    /// The same of one of its outputs.
    #[inline(always)]
    fn awaited_output(&mut self, output: &Output, ready: u64, dispatched: u64) {
        if output.latency == 1
            && let Some(awaited) = self.awaited.get_mut(place(output.reg))
        {
            *awaited = Awaited {
                ready: dispatched + 1,
                sooner: ready + 1,
            };
        }
    }

    /// When the inputs of a µop that issues in `cycle` are there, which are there for others at
    /// `inputs`.
    #[must_use]
    pub fn late_inputs(
        &self,
        program: &Program,
        instr: &Instr,
        uop: &Uop,
        cycle: u64,
        inputs: Stamp,
    ) -> Stamp {
        if !instr.advances.is_empty() {
            return self.advanced_inputs(program, instr, uop);
        }
        let mut inputs = inputs;
        let mut late_flags = false;
        let late = instr.is(flag::BY_WRITER) && self.fast_add_chains;
        for input in program.inputs_of(uop) {
            let place = place(*input);
            let slow =
                late && uop.kind == UopKind::Compute && self.writer[place] & writer::FP_ADD == 0;
            let summed = instr.is(flag::SHIFT) && self.sums.get(place).is_some_and(|s| *s != 0);
            let add = if summed { self.sum_to_shift } else { 0 };
            inputs = inputs.max(self.ready[place].later(u64::from(slow) + add));
            late_flags |= self.writer[place] & writer::LATE_FLAGS != 0;
        }
        if late_flags && self.late_flags == cycle && instr.is(flag::CONDITIONAL) {
            inputs = inputs.later(1);
        }
        // Reading a high-8 register that was not renamed apart takes a cycle more.
        let whole = self.p.high8_renamed && instr.high8_reads & !self.high8_apart != 0;
        inputs.later(u64::from(whole))
    }

    /// The same of an instruction that can use some inputs sooner or later than others.
    fn advanced_inputs(&self, program: &Program, instr: &Instr, uop: &Uop) -> Stamp {
        let range = instr.advances.start as usize..instr.advances.end as usize;
        let advances = part(&program.advances, range);
        let inputs = program.inputs_of(uop).iter().map(|input| {
            let (ready, kind) = (self.ready(*input), self.writer[place(*input)]);
            let mut found = advances.iter();
            match found.find(|advance| advance.reg == *input && advance.kind == kind) {
                Some(advance) => ready.sooner(advance.cycles.into()),
                None => ready,
            }
        });
        inputs.max().unwrap_or_default()
    }

    /// Whether a load gets its address from one that it can follow a cycle sooner.
    #[must_use]
    pub fn follow_a_pointer(&self, uop: &Uop) -> bool {
        let flags = |reg: u8| self.writer.get(usize::from(reg)).copied().unwrap_or(0);
        let base = flags(uop.base);
        base & writer::POINTER_LOAD != 0
            && base & writer::MOVE32 == 0
            && (uop.index == NO_REG || flags(uop.index) & writer::NO_UOPS != 0)
    }

    /// Does at rename what can be done there of a µop that issues in `cycle`.
    pub fn at_rename(
        &mut self,
        program: &Program,
        instr: &Instr,
        uop: &Uop,
        cycle: u64,
    ) -> AtRename {
        if instr.is(flag::ELIMINABLE) && self.moves.eliminate(instr.move_from, instr.move_to) {
            let (from, to) = (usize::from(instr.move_from.0), usize::from(instr.move_to.0));
            self.ready[to] = self.ready[from];
            if let Some(&awaited) = self.awaited.get(from) {
                self.awaited[to] = awaited;
            }
            self.watched |= self.moves.shared();
            let sum = self.sums.get(from).copied().unwrap_or(0);
            self.set_sum(to, sum);
            let moved = if instr.is(flag::MOVE32) {
                writer::MOVE32
            } else {
                0
            };
            self.writer[to] = self.writer[from] & !writer::MOVE32 | moved;
            match instr.move_to {
                RegId::RSP => self.addresses.leave_stack(),
                to => self.addresses.overwrite(to),
            }
            return AtRename::Done;
        }
        if instr.is(flag::ADD_IMMEDIATE) {
            match self.add_immediate(program, instr, uop, cycle) {
                AtRename::No => {}
                done => return done,
            }
        }
        if uop.ports.is_empty() {
            if uop.outputs_len > 0 {
                // It only delays what it hands on.
                let inputs = self.inputs(&uop.first_inputs).cycle();
                self.write(program, instr, uop, cycle, inputs);
            }
            AtRename::Done
        } else {
            AtRename::No
        }
    }

    /// Adds an immediate without executing anything, as long as the sum for the register is small.
    fn add_immediate(
        &mut self,
        program: &Program,
        instr: &Instr,
        uop: &Uop,
        cycle: u64,
    ) -> AtRename {
        let (from, to) = (usize::from(instr.move_from.0), usize::from(instr.move_to.0));
        let range = self.p.add_immediate_range;
        let (Some(&before), Some(&ready)) = (self.sums.get(from), self.ready.get(from)) else {
            return AtRename::No;
        };
        let sum = before.saturating_add(instr.step);
        if range == 0 {
            return AtRename::No;
        }
        if sum < -range || sum >= range {
            // It was seen with steps of one byte; larger ones lose fewer slots.
            self.sums = [0; SUMS];
            let small = i8::try_from(instr.step.abs()).is_ok();
            let lost = if small { self.p.add_overflow_slots } else { 0 };
            return AtRename::Overflow(lost);
        }
        self.set_sum(to, sum);
        self.ready[to] = ready;
        self.writer[to] = 0;
        self.moves.overwrite(instr.move_to);
        self.addresses.overwrite(instr.move_to);
        for output in program.outputs_of(uop) {
            let place = place(output.reg);
            if place != to {
                // Who needs the flags waits for the addition.
                self.ready[place] = Stamp::new(ready.cycle().max(cycle) + 1, false);
                self.writer[place] = 0;
            }
        }
        AtRename::Done
    }

    /// Adds the stack engine's offset to rsp, as long as the sum is small.
    pub fn add_stack_offset(&mut self, offset: i32) -> bool {
        let range = self.p.add_immediate_range;
        let rsp = usize::from(RegId::RSP.0);
        let sum = self.sums[rsp].saturating_add(i64::from(offset));
        let small = range != 0 && -range <= sum && sum < range;
        if small {
            self.set_sum(rsp, sum);
        }
        small
    }

    /// rsp gets its value from a µop that takes over the stack engine's offset.
    pub fn synchronise_stack(&mut self, at: u64) {
        let rsp = place(RegId::RSP);
        self.ready[rsp] = Stamp::new(at, false);
        self.writer[rsp] = 0;
        self.set_sum(rsp, 0);
    }

    /// High-8 registers that are renamed apart.
    #[inline]
    #[must_use]
    pub fn high8_apart(&self) -> u8 {
        self.high8_apart
    }

    /// A register gets its value from the µop that merges its high-8 part.
    pub fn merge(&mut self, reg: RegId, at: u64) {
        self.ready[place(reg)] = Stamp::new(at, false);
        self.writer[place(reg)] = 0;
        self.moves.overwrite(reg);
    }

    /// Writes the outputs of a µop that issued in `cycle` and was dispatched at `dispatched`, each
    /// its latency later; returns the cycle in which the last one is there.
    #[inline(always)]
    pub fn write(
        &mut self,
        program: &Program,
        instr: &Instr,
        uop: &Uop,
        cycle: u64,
        dispatched: u64,
    ) -> u64 {
        let at = |latency: u64| Stamp::new(dispatched + latency, false);
        self.write_all(program, instr, uop, cycle, dispatched, at)
    }

    /// [`Registers::write`] for a simple µop, which may have been woken in vain if it was ready at
    /// `unbound`.
    #[inline(always)]
    pub fn write_simple(
        &mut self,
        uop: &Laminated,
        cycle: u64,
        dispatched: u64,
        unbound: Option<u64>,
    ) -> u64 {
        if uop.late_flags {
            self.late_flags = cycle;
        }
        for output in uop.outputs() {
            let at = Stamp::new(dispatched + u64::from(output.latency), false);
            self.ready[place(output.reg)] = at;
            self.writer[place(output.reg)] = output.kind;
            if let Some(ready) = unbound {
                self.awaited_output(output, ready, dispatched);
            }
        }
        if self.watched & uop.written != 0 {
            self.end_sharing_of(uop);
        }
        dispatched + u64::from(uop.latency)
    }

    /// The registers that a simple µop writes get physical ones for themselves.
    #[inline(never)]
    fn end_sharing_of(&mut self, uop: &Laminated) {
        for output in uop.outputs() {
            self.end_sharing_if(output.reg);
        }
    }

    /// Writes the outputs of a load, which has its data `sooner` or `later` than from the first
    /// level of cache, but not before `not_before`; returns the cycle in which it is done.
    #[allow(clippy::too_many_arguments)]
    #[inline(always)]
    pub fn write_loaded(
        &mut self,
        program: &Program,
        instr: &Instr,
        uop: &Uop,
        cycle: u64,
        dispatched: u64,
        not_before: u64,
        sooner: u64,
        later: u64,
    ) -> u64 {
        let at = |latency: u64| {
            let latency = (latency + later).saturating_sub(sooner);
            Stamp::new((dispatched + latency).max(not_before), true)
        };
        self.write_all(program, instr, uop, cycle, dispatched, at)
    }

    /// Writes the outputs of a µop, which are there as `at` says of their latencies; returns the
    /// cycle in which the last one is there, at least `done`.
    #[inline(always)]
    fn write_all(
        &mut self,
        program: &Program,
        instr: &Instr,
        uop: &Uop,
        cycle: u64,
        mut done: u64,
        at: impl Fn(u64) -> Stamp,
    ) -> u64 {
        let deferred = instr.is(flag::DEFERRED_WRITES);
        if uop.late_flags {
            self.late_flags = cycle;
        }
        for output in program.outputs_of(uop) {
            let at = at(output.latency.into());
            done = done.max(at.cycle());
            if deferred && output.reg.0 < RegId::PSEUDO {
                self.deferred.push((output.reg, at, output.kind));
            } else {
                self.set_now(output.reg, at, output.kind);
            }
        }
        done
    }

    /// Gives the outputs of a µop the register that another value is in, there at `source`.
    pub fn rename_to(
        &mut self,
        program: &Program,
        instr: &Instr,
        uop: &Uop,
        cycle: u64,
        source: u64,
    ) {
        let at = Stamp::new(source.max(cycle), false);
        self.write_all(program, instr, uop, cycle, 0, |_| at);
    }

    /// A register gets a new value, there at `at`.
    #[inline(always)]
    fn set_now(&mut self, reg: RegId, at: Stamp, flags: u8) {
        let place = place(reg);
        self.ready[place] = at;
        self.writer[place] = flags;
        self.end_sharing_if(reg);
    }

    /// A register is written, of which there may be more to say.
    #[inline(always)]
    fn end_sharing_if(&mut self, reg: RegId) {
        if reg.0 < RegId::MASK && self.watched >> reg.0 & 1 != 0 {
            self.end_sharing(reg);
        }
    }

    /// What the address of a load or store is made of, with these inputs; without any it is the stack
    /// pointer's if `stack` says so.
    #[must_use]
    pub fn made_of(&self, inputs: &[RegId; FIRST_INPUTS], stack: bool) -> Made {
        self.addresses.made_of(inputs, stack)
    }

    /// Follows the values that a store's address is made of.
    pub fn follow(&mut self, inputs: &[RegId; FIRST_INPUTS]) {
        self.addresses.follow(inputs);
        self.watched |= self.addresses.followed();
    }

    /// The stack pointer has a new value that rename does not follow.
    pub fn leave_stack(&mut self) {
        self.addresses.leave_stack();
    }

    /// A register gets a physical one for itself, with nothing to add to it.
    fn end_sharing(&mut self, reg: RegId) {
        self.watched &= !(1 << reg.0);
        self.addresses.overwrite(reg);
        self.moves.overwrite(reg);
        self.set_sum(place(reg), 0);
    }

    /// Rename adds `sum` to what is in a register.
    fn set_sum(&mut self, place: usize, sum: i64) {
        if let Some(slot) = self.sums.get_mut(place) {
            *slot = sum;
            self.watched |= u64::from(sum != 0) << place;
        }
    }

    /// All µops of an instruction have read and written.
    #[inline]
    pub fn end_instruction(&mut self, program: &Program, instr: &Instr) {
        if !self.deferred.is_empty() {
            let mut deferred = std::mem::take(&mut self.deferred);
            for (reg, at, flags) in deferred.drain(..) {
                self.set_now(reg, at, flags);
            }
            self.deferred = deferred;
        }
        self.set_to_zero(program, instr);
        if instr.wide_uses != 0 || instr.high8_writes != 0 {
            self.high8_apart &= !instr.wide_uses;
            self.high8_apart |= instr.high8_writes & !instr.wide_uses;
        }
    }

    /// Registers that a zero idiom sets at rename.
    #[inline]
    pub fn set_to_zero(&mut self, program: &Program, instr: &Instr) {
        if !instr.zeroed.is_empty() {
            let range = instr.zeroed.start as usize..instr.zeroed.end as usize;
            for &reg in part(&program.zeroed, range) {
                self.set_now(reg, Stamp::default(), writer::NO_UOPS);
            }
        }
    }

    /// Ends rename's current active cycle and lets `idle` more pass.
    #[inline]
    pub fn end_cycle(&mut self, idle: u64) {
        self.moves.end_cycle(idle);
    }
}

impl Remember for Registers {
    /// Who shares a physical register may do so for as long as nobody writes to it.
    fn resume(&mut self, warm: &mut Warm) {
        if let Some(moves) = warm.moves.take() {
            self.moves = moves;
            self.watched |= self.moves.shared();
        }
    }
}

impl Part for Registers {
    fn fold(&mut self, folding: &mut Folding) {
        folding.table(&mut self.awaited, Awaited::default());
    }

    fn reset(&mut self, end: &Moment) {
        let Self {
            p: _,
            fast_add_chains: _,
            sum_to_shift: _,
            ready,
            writer,
            sums,
            watched,
            late_flags,
            high8_apart,
            awaited,
            deferred,
            moves,
            addresses,
        } = self;
        *ready = [Stamp::default(); PLACES];
        *writer = [0; PLACES];
        *sums = [0; SUMS];
        *watched = 0;
        *late_flags = 0;
        *high8_apart = 0;
        awaited.fill(Awaited::default());
        deferred.clear();
        moves.reset(end);
        addresses.reset(end);
    }

    /// Whether a value comes from a load matters to nothing but where lost slots are booked.
    fn fingerprint(&self, at: &Moment, h: &mut Fingerprint) {
        let Self {
            p,
            fast_add_chains: _,
            sum_to_shift: _,
            ready,
            writer,
            sums,
            watched: _,
            late_flags,
            high8_apart,
            awaited,
            // Between instructions there is nothing.
            deferred: _,
            moves,
            addresses,
        } = self;
        h.add(u64::from(*late_flags == at.issue) << 8 | u64::from(*high8_apart));
        for (n, ready) in ready.iter().enumerate().take(RegId::COUNT) {
            if ready.cycle() > at.issue {
                h.add((ready.cycle() - at.issue) << 8 | n as u64);
            }
        }
        for (n, awaited) in awaited.iter().enumerate().take(RegId::COUNT) {
            // What is there already is awaited by nobody.
            if awaited.ready > at.issue && awaited.sooner < awaited.ready {
                h.add((awaited.ready - at.issue) << 8 | n as u64);
                h.add(awaited.ready - awaited.sooner);
            }
        }
        let (eights, _) = writer.as_chunks();
        for eight in eights.iter().take(RegId::COUNT / 8) {
            h.add(u64::from_le_bytes(*eight));
        }
        if p.add_immediate_range > 0 {
            for sum in sums {
                h.add(*sum as u64);
            }
        }
        moves.fingerprint(at, h);
        addresses.fingerprint(at, h);
    }
}
