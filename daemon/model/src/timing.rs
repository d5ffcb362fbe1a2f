//! What single instructions of a profile cost on a CPU that issues by its own scheduling model.
//!
//! A machine says what kinds cost. CPUs tell more apart: on a Cortex-A55 a sum reaches another one after a
//! cycle and a conditional select, by the flags, after three; a pair of loads is two µops.

use std::sync::Arc;

use mcad_isa::build::Builder;
use mcad_isa::code;
use mcad_isa::llvm::sched::Code;
use mcad_isa::machine::CpuModel;
use mcad_isa::program::Program;
use mcad_proto::event::Arch;

use crate::profile::Profile;

/// The instructions of a profile as one CPU has them.
#[derive(Debug)]
pub struct Timing {
    code: Code,
    /// First instruction of each block; [`NONE`] where its bytes are not what they were decoded as.
    first: Vec<u32>,
}

/// What an instruction costs by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cost {
    /// Issue slots.
    pub slots: u8,
    /// Cycles for which it keeps its unit.
    pub busy: u8,
    /// Cycles until its first and its last result is written; none: no other waits for that.
    pub written: Option<(u8, u8)>,
}

/// No instruction.
const NONE: u32 = u32::MAX;

/// An instruction of a profile, by its place in [`Timing`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instr(u32);

impl Timing {
    /// A profile's on a CPU; none where the CPU has no scheduling model, or another instruction set.
    #[must_use]
    pub fn of(model: &Arc<CpuModel>, profile: &Profile) -> Option<Self> {
        model.scheduled()?;
        let arch = profile.arch.as_deref().and_then(Arch::of);
        let arch = arch.filter(|arch| *arch == model.arch())?;
        let mut program = Program::default();
        let mut builder = Builder::new(model);
        let mut first = Vec::with_capacity(profile.blocks.len());
        for (insts, bytes) in profile.blocks.iter().zip(&profile.code) {
            let (decoded, _) = code::decode(arch, &bytes.0, 0);
            let begin = program.in_order.scheduled.instrs.len();
            builder.append(&mut program, &decoded);
            let made = program.in_order.scheduled.instrs.len() - begin;
            first.push(if made == insts.len() {
                begin as u32
            } else {
                NONE
            });
        }
        Some(Self {
            code: program.in_order.scheduled,
            first,
        })
    }

    /// Instruction `n` of a block.
    #[must_use]
    pub fn instr(&self, block: u32, n: usize) -> Option<Instr> {
        let first = self.first.get(block as usize).filter(|f| **f != NONE)?;
        Some(Instr(first + n as u32))
    }

    /// What an instruction costs.
    #[must_use]
    pub fn cost(&self, of: Instr) -> Option<Cost> {
        let instr = self.code.instrs.get(of.0 as usize)?;
        let cost = self.code.cost(instr);
        let short = |cycles: u32| cycles.min(u32::from(u8::MAX)) as u8;
        Some(Cost {
            slots: short(cost.uops),
            busy: short(cost.taken.iter().map(|t| t.cycles).max().unwrap_or(0)),
            written: match cost.out_of_order {
                true => None,
                false => Some((short(instr.first_result), short(instr.latency))),
            },
        })
    }

    /// Cycles from the issue of one instruction to the earliest of another that reads what it writes to a
    /// register; none where it does not.
    #[must_use]
    pub fn latency(&self, from: Instr, to: Instr, register: u8) -> Option<u32> {
        let (from, to) = (
            self.code.instrs.get(from.0 as usize)?,
            self.code.instrs.get(to.0 as usize)?,
        );
        let reads = self.code.reads(to).iter();
        let reads = reads.filter(|read| read.register.0 == register);
        let writes = self.code.writes(from).iter();
        let slowest = writes
            .filter(|write| write.register.0 == register)
            .max_by_key(|write| write.latency)?;
        let needed = reads.map(|read| {
            let sooner = i64::from(self.code.advance(read, slowest.kind));
            (i64::from(slowest.latency) - sooner).clamp(0, i64::from(u8::MAX)) as u32
        });
        needed.max()
    }
}
