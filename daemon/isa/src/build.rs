//! Static instructions of a block on a CPU, whatever its instruction set.

use std::sync::Arc;

use mcad_proto::event::Arch;

use crate::code::Code;
use crate::inorder::{self, Static};
use crate::llvm::Instruction;
use crate::llvm::build::{self as llvm, Known};
use crate::llvm::inorder::ByKind;
use crate::llvm::sched::{Machine, Notion};
use crate::llvm::table::CpuTable;
use crate::machine::inorder::InOrder;
use crate::machine::{CpuModel, Instructions};
use crate::program::Program;
use crate::riscv::{self, inorder::Riscv};
use crate::x86::build as x86;
use crate::x86::inorder::Translator;

/// An instruction whose figures are not its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// Its place in the block.
    pub place: usize,
    /// The form, or the instruction where the table has no form.
    pub name: String,
    /// Whose figures it has; `None`: the table has nothing like it.
    pub borrowed_from: Option<String>,
}

/// Makes static instructions for one CPU.
pub struct Builder {
    model: Arc<CpuModel>,
    x86: x86::Builder,
}

impl Builder {
    /// A builder for `model`.
    #[must_use]
    pub fn new(model: &Arc<CpuModel>) -> Self {
        Self {
            model: Arc::clone(model),
            x86: x86::Builder::new(model),
        }
    }

    /// The CPU.
    #[must_use]
    pub fn model(&self) -> &Arc<CpuModel> {
        &self.model
    }

    /// The one for x86-64.
    pub fn x86(&mut self) -> &mut x86::Builder {
        &mut self.x86
    }

    /// Appends the instructions of one block to `program`; returns those whose figures are not their
    /// own. What is not of the CPU's instruction set is left out: a session refuses it before.
    pub fn append(&mut self, program: &mut Program, block: &[Code]) -> Vec<Doubt> {
        match &self.model.instructions {
            Instructions::X86(_) => doubts_of_x86(&mut self.x86, program, block),
            Instructions::Llvm { .. } => append_llvm(&self.model, program, block),
        }
    }
}

/// [`Builder::append`] for AArch64 and RISC-V.
fn append_llvm(model: &CpuModel, program: &mut Program, block: &[Code]) -> Vec<Doubt> {
    match &model.instructions {
        Instructions::X86(_) => Vec::new(),
        Instructions::Llvm {
            cpu,
            units,
            forwarding,
            machine,
        } => {
            let instructions = block.iter().filter_map(|code| match code {
                Code::Llvm(instruction) => Some(*instruction),
                Code::X86(_) => None,
            });
            let instructions: Vec<_> = instructions.collect();
            let costs = llvm::Costs {
                cpu,
                units,
                forwarding,
                ports: &model.core.ports,
            };
            let known = costs.append(program, &instructions);
            if let Some(core) = &model.core.in_order {
                let code = &mut program.in_order;
                if core.scheduled {
                    scheduled(code, machine, cpu, &instructions);
                } else {
                    by_class(code, core, cpu.arch, &instructions);
                    // Every class has figures; the table's are not used.
                    return Vec::new();
                }
            }
            let doubts = known
                .iter()
                .enumerate()
                .filter(|(_, known)| **known != Known::Exactly);
            doubts
                .map(|(place, known)| Doubt {
                    place,
                    name: block.get(place).map_or("", Code::name).to_owned(),
                    borrowed_from: match known {
                        Known::As(other) => Some((*other).to_owned()),
                        Known::Exactly | Known::Not => None,
                    },
                })
                .collect()
        }
    }
}

/// Static instructions of an in-order core that issues by its table's scheduling model.
fn scheduled(
    code: &mut inorder::Code,
    machine: &Machine,
    cpu: &CpuTable,
    instructions: &[Instruction],
) {
    for instruction in instructions {
        let class = llvm::class_of(instruction, cpu);
        let notion = Notion::Program;
        (code.scheduled).push(machine, cpu, instruction, class, notion);
        let instr = Static::leaving(0, instruction.len() as u8, instruction.flow());
        code.push(instr, [], []);
    }
}

/// Those of one with classes of its own: of RV32IMC those of [`Riscv`], of others kinds. A core that
/// lacks one has not been loaded.
fn by_class(code: &mut inorder::Code, core: &InOrder, arch: Arch, instructions: &[Instruction]) {
    if arch == Arch::RiscV32 {
        if let Ok(riscv) = Riscv::new(core) {
            for instruction in instructions {
                if let Some(inst) = riscv::decode(instruction.encoded) {
                    riscv.append(code, &inst);
                    code.lies_at(instruction.address);
                }
            }
        }
    } else if let Ok(kinds) = ByKind::new(core) {
        for instruction in instructions {
            kinds.append(code, instruction);
            code.lies_at(instruction.address);
        }
    }
}

/// Whether an in-order core with classes of its own has all that its instructions ask for.
///
/// # Errors
/// The class that it lacks.
pub fn knows_classes(core: &InOrder, instructions: &Instructions) -> Result<(), String> {
    match instructions {
        Instructions::X86(_) => Translator::new(core).map(drop),
        Instructions::Llvm { cpu, .. } if cpu.arch == Arch::RiscV32 => Riscv::new(core).map(drop),
        Instructions::Llvm { .. } => ByKind::new(core).map(drop),
    }
}

fn doubts_of_x86(builder: &mut x86::Builder, program: &mut Program, block: &[Code]) -> Vec<Doubt> {
    let decoded = block.iter().filter_map(|code| match code {
        Code::X86(decoded) => Some(*decoded),
        Code::Llvm(_) => None,
    });
    let (mut doubts, mut place) = (Vec::new(), 0);
    builder.append_each(program, &decoded.collect::<Vec<_>>(), |_, _, described| {
        let own = described.form.map(|form| form.approximated_from.as_ref());
        if own != Some(None) && !described.fused_previous {
            let name = match described.form {
                Some(form) => form.name.to_string(),
                None => block.get(place).map_or("", Code::name).to_owned(),
            };
            let borrowed_from = own.flatten().map(ToString::to_string);
            doubts.push(Doubt {
                place,
                name,
                borrowed_from,
            });
        }
        place += 1;
    });
    doubts
}
