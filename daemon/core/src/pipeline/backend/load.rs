//! Loads: from the cache, from older stores, or renamed to what a store stores.

use super::memory::Forward;
use super::{Backend, chase};
use crate::pipeline::inst::{Access, Inst, Source};
use mcad_isa::program::{Instr, NO_REG, Program, Uop, flag};

impl Backend {
    /// Executes a load; returns the cycle in which its value is there.
    #[inline]
    #[allow(clippy::too_many_arguments)]
    pub(super) fn load(
        &mut self,
        program: &Program,
        inst: &Inst,
        instr: &Instr,
        uop: &Uop,
        number: u8,
        dispatched: u64,
        accesses: &[Access],
    ) -> u64 {
        let mut not_before = 0;
        if inst.loads > 0
            && self.execute.dependencies_through_memory
            && let Some(access) = accesses.get(usize::from(number.min(inst.loads - 1)))
        {
            not_before = match self.stores.find(access) {
                Forward::Cache => 0,
                Forward::From {
                    source: Some(source),
                    ..
                } if instr.is(flag::RENAMED_LOAD)
                    && (inst.stores == 0 || self.execute.memory_renaming_updates)
                    && self.renamings_are_sparse(inst) =>
                {
                    return self.write_renamed(program, instr, uop, dispatched, source);
                }
                Forward::From { ready, source } => {
                    let miss = match source {
                        Some(_) if !instr.is(flag::RENAMED_LOAD) => {
                            self.execute.memory_renaming_miss
                        }
                        _ => 0,
                    };
                    ready + self.execute.store_forward + miss
                }
                Forward::Blocked { ready, store } => {
                    let forwarded = ready + self.execute.store_forward;
                    forwarded.max(self.store_buffer.written(store))
                        + self.execute.store_forward_blocked
                }
            };
        }
        let chased = self.execute.fast_pointer_chasing && uop.near && self.chases(uop);
        let sooner = u64::from(chased);
        self.write(program, instr, uop, dispatched, not_before, sooner)
    }

    /// Whether a load of code from the decoders lies far enough from the last two that could be
    /// renamed.
    fn renamings_are_sparse(&mut self, inst: &Inst) -> bool {
        let spacing = self.execute.memory_renaming_spacing;
        if spacing == 0 || inst.source != Source::Decoders {
            return true;
        }
        let before = self.renamed_at[1];
        self.renamed_at = [inst.address, self.renamed_at[0]];
        inst.address.wrapping_sub(before) >= 2 * spacing
    }

    /// Gives a load's outputs the register that a store's data comes from; the load is executed
    /// all the same, to check.
    fn write_renamed(
        &mut self,
        program: &Program,
        instr: &Instr,
        uop: &Uop,
        dispatched: u64,
        source: u64,
    ) -> u64 {
        let at = source.max(self.cycle);
        for output in program.outputs_of(uop) {
            self.set(instr, output.reg, at);
        }
        dispatched + self.execute.load_latency
    }

    fn chases(&self, uop: &Uop) -> bool {
        let flags = |reg: u8| self.chase.get(usize::from(reg)).copied().unwrap_or(0);
        let base = flags(uop.base);
        base & chase::POINTER_LOAD != 0
            && base & chase::MOVE32 == 0
            && (uop.index == NO_REG || flags(uop.index) & chase::NO_UOPS != 0)
    }
}
