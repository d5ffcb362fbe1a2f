//! The text of an instruction, by capstone. Only the text: what is read and written is LLVM's word.

use std::collections::HashMap;

use capstone::arch::{BuildsCapstone, BuildsCapstoneExtraMode, arm64, riscv};
use capstone::{Capstone, CsResult};
use mcad_proto::event::Arch;

use super::Instruction;

/// Writes instructions; one disassembler an instruction set, made when first needed.
#[derive(Default)]
pub struct Printer {
    made: HashMap<Arch, Option<Capstone>>,
}

fn make(arch: Arch) -> CsResult<Capstone> {
    let riscv = |mode| {
        let builder = Capstone::new().riscv().mode(mode);
        builder
            .extra_mode([riscv::ArchExtraMode::RiscVC].into_iter())
            .build()
    };
    match arch {
        Arch::AArch64 => Capstone::new().arm64().mode(arm64::ArchMode::Arm).build(),
        Arch::RiscV32 => riscv(riscv::ArchMode::RiscV32),
        _ => riscv(riscv::ArchMode::RiscV64),
    }
}

impl Printer {
    /// The text of an instruction; LLVM's name and the word where capstone has none.
    pub fn text(&mut self, instruction: &Instruction) -> String {
        let disassembler = self.made.entry(instruction.arch);
        let disassembler = disassembler.or_insert_with(|| make(instruction.arch).ok());
        let bytes = instruction.encoded.to_le_bytes();
        let bytes = bytes.get(..instruction.len()).unwrap_or(&bytes);
        let found = disassembler
            .as_ref()
            .and_then(|capstone| capstone.disasm_count(bytes, instruction.address, 1).ok());
        let text = found.as_deref().and_then(|found| {
            let first = found.first()?;
            let operands = first.op_str().unwrap_or_default();
            Some(
                format!("{} {operands}", first.mnemonic()?)
                    .trim_end()
                    .to_owned(),
            )
        });
        text.unwrap_or_else(|| {
            format!(
                "{} ({:#x})",
                instruction.opcode().name.to_lowercase(),
                instruction.encoded
            )
        })
    }
}
