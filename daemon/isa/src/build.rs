//! Static instructions of a block on a CPU, whatever its instruction set.

use crate::code::Code;
use crate::llvm::build::{self as llvm, Known};
use crate::machine::{CpuModel, Instructions};
use crate::program::Program;
use crate::x86::build::{Builder, Decoded};

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

/// Appends the instructions of one block to `program`; returns those whose figures are not their
/// own. What is not of the CPU's instruction set is left out: a session refuses it before.
pub fn append(model: &CpuModel, program: &mut Program, block: &[Code]) -> Vec<Doubt> {
    match &model.instructions {
        Instructions::X86(_) => {
            let decoded = block.iter().filter_map(|code| match code {
                Code::X86(decoded) => Some(decoded.clone()),
                Code::Llvm(_) => None,
            });
            x86(model, program, &decoded.collect::<Vec<_>>(), block)
        }
        Instructions::Llvm { cpu, units } => {
            let instructions = block.iter().filter_map(|code| match code {
                Code::Llvm(instruction) => Some(*instruction),
                Code::X86(_) => None,
            });
            let instructions: Vec<_> = instructions.collect();
            let known = llvm::append(program, &instructions, cpu, units, &model.core.ports);
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

fn x86(model: &CpuModel, program: &mut Program, decoded: &[Decoded], block: &[Code]) -> Vec<Doubt> {
    let described = Builder::new(model).append(program, decoded);
    let mut doubts = Vec::new();
    for (place, described) in described.iter().enumerate() {
        let borrowed_from = match described.form {
            _ if described.fused_previous => continue,
            Some(form) => match &form.approximated_from {
                Some(from) => Some(from.to_string()),
                None => continue,
            },
            None => None,
        };
        let name = match described.form {
            Some(form) => form.name.to_string(),
            None => block.get(place).map_or("", Code::name).to_owned(),
        };
        doubts.push(Doubt {
            place,
            name,
            borrowed_from,
        });
    }
    doubts
}
