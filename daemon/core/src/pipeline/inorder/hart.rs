//! A core that executes RV32IMC code whose values are followed as far as they are known.
//!
//! Two things in time depend on values that a trace has not: how long a division takes, and where control
//! goes behind a mispredicted branch until that is called back. Most follow from immediates, from what was
//! stored before or is in the program's file, and from the addresses of accesses ([`Values`]).

use mcad_isa::inorder::Code;
use mcad_isa::machine::inorder::{Divider, InOrder};
use mcad_isa::riscv::divider::{self, Operand};
use mcad_isa::riscv::evaluate::{Registers, Values};
use mcad_isa::riscv::{Inst, Op};

use super::{Around, Core, Executed, Observer};

/// What is known of one thread's values.
#[derive(Debug)]
pub struct Hart {
    values: Values,
    divider: Option<Divider>,
    /// Divisions whose operands could not be known.
    pub unknown_divisions: u64,
    /// Divisions whose operands rest on memory that was never written being zero.
    pub assumed_divisions: u64,
}

impl Hart {
    /// Nothing is known yet.
    #[must_use]
    pub fn new(core: &InOrder) -> Self {
        Self {
            values: Values::default(),
            divider: core.divider.clone(),
            unknown_divisions: 0,
            assumed_divisions: 0,
        }
    }

    /// Has a core take the next instruction of the executed program.
    #[inline]
    pub fn push<O: Observer>(&mut self, core: &mut Core<O>, code: &Code, executed: Executed) {
        *core.upcoming() = executed;
        self.push_next(core, code, &mut ());
    }

    /// The same with the instruction in [`Core::upcoming`]; the world `around` it is asked where no values are
    /// followed.
    #[inline]
    pub fn push_next<O: Observer>(
        &mut self,
        core: &mut Core<O>,
        code: &Code,
        around: &mut impl Around,
    ) {
        let Some(&inst) = code.computes(core.upcoming().instr) else {
            core.push_next(code, around);
            return;
        };
        let executed = *core.upcoming();
        self.values.start_with(code.images());
        let registers = self.values.registers();
        let cycles = match (inst.op, &self.divider) {
            (Op::Divide { signed, remainder }, Some(p)) => {
                let (operands, assumed) = self.values.operands(&inst, executed.address as u32);
                let known = (operands.iter()).all(|o| matches!(o, Operand::Known(_)));
                self.unknown_divisions += u64::from(!known);
                self.assumed_divisions += u64::from(assumed);
                divider::likely_cycles(p, operands, signed, remainder)
            }
            _ => executed.cycles,
        };
        let mut ahead = Ahead {
            code,
            values: &self.values,
            registers,
        };
        core.upcoming().cycles = cycles;
        core.push_next(code, &mut ahead);
        let access = executed.access.map(|(address, _)| address as u32);
        self.values.execute(&inst, executed.address as u32, access);
    }
}

/// What would be executed behind a mispredicted branch, from the values that are known there.
struct Ahead<'a> {
    code: &'a Code,
    values: &'a Values,
    registers: Registers,
}

impl Around for Ahead<'_> {
    fn step(&mut self, instr: u32, address: u64) -> Option<u64> {
        let inst: &Inst = self.code.computes(instr)?;
        let next = self.registers.next(inst, address as u32);
        self.registers.execute(inst, address as u32, self.values);
        next.map(u64::from)
    }
}
