//! The cycles that llvm-mca gives for a block of AArch64 or RISC-V code.
//!
//! This is no model of a CPU: llvm-mca knows no front end, no addresses and no caches, has one
//! scheduler of whole instructions and takes calls for 100 cycles. It is here so that what mcad has
//! of LLVM's scheduling models (encodings, operands, classes, delays, units) can be held against
//! LLVM's own tool, to the cycle: `mcad block --rules llvm-mca`, `mcad eval --llvm-mca`. In-order
//! CPUs issue by the same code as in every other analysis ([`Scheduled`]); [`out_of_order`] has the
//! pipeline of the others.

mod memory;
mod out_of_order;

use mcad_isa::llvm::Instruction;
use mcad_isa::llvm::build::class_of;
use mcad_isa::llvm::sched::{Code, Machine, Notion};
use mcad_isa::llvm::table::CpuTable;

use crate::pipeline::inorder::Executed;
use crate::pipeline::inorder::scheduled::Scheduled;
use crate::pipeline::inorder::slots::Cause;

/// Why llvm-mca has no figure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The scheduling model lacks an instruction.
    #[error("{cpu}'s scheduling model lacks '{instruction}'")]
    Unsupported {
        /// CPU model.
        cpu: String,
        /// LLVM's name of the instruction.
        instruction: String,
    },
    /// An instruction of no µops that takes units all the same.
    #[error("{cpu}'s scheduling model books units for '{instruction}', which has no µops")]
    Inconsistent {
        /// CPU model.
        cpu: String,
        /// LLVM's name of the instruction.
        instruction: String,
    },
    /// The CPU cannot be modelled.
    #[error("{0}")]
    Machine(String),
    /// Nothing to do.
    #[error("the block is empty")]
    Empty,
    /// Nothing has happened for a long time.
    #[error("the block does not come to an end")]
    Endless,
}

/// Cycles of a block that is executed so many times, one after the other.
///
/// # Errors
/// [`Refused`] where llvm-mca has no figure, either.
pub fn cycles(cpu: &CpuTable, block: &[Instruction], iterations: u32) -> Result<u64, Refused> {
    if block.is_empty() {
        return Err(Refused::Empty);
    }
    let machine = Machine::new(cpu.cpu).map_err(Refused::Machine)?;
    let mut code = Code::default();
    for instruction in block {
        let class = class_of(instruction, cpu);
        let about = || (cpu.cpu.name.clone(), instruction.opcode().name.clone());
        if !code.push(&machine, cpu, instruction, class, Notion::LlvmMca) {
            let (cpu, instruction) = about();
            return Err(Refused::Unsupported { cpu, instruction });
        }
        let cost = code.instrs.last().map(|instr| code.cost(instr));
        if cost.is_some_and(|c| c.uops == 0 && (c.buffers != 0 || !c.taken.is_empty())) {
            let (cpu, instruction) = about();
            return Err(Refused::Inconsistent { cpu, instruction });
        }
    }
    if cpu.cpu.buffer >= 2 {
        return out_of_order::cycles(&machine, cpu.cpu, &code, iterations);
    }
    let mut issue = Scheduled::new(&machine, u32::from(cpu.cpu.issue_width));
    for _ in 0..iterations {
        for number in 0..code.instrs.len() {
            let executed = Executed {
                instr: number as u32,
                ..Executed::default()
            };
            issue.issue(&code, &executed, (1, Cause::Fetch), &mut ());
        }
    }
    Ok(issue.done())
}
