//! AArch64 and RISC-V: what LLVM's machine-code layer says of their instructions and of the CPUs
//! that execute them, as tables.
//!
//! [`wire`] is the embedded file and [`table`] where it is; [`decode`] finds the instruction of a
//! word, [`flow`] where control goes after it and [`kind`] what it computes; [`regs`] says which
//! registers there are; [`inorder`] is
//! for in-order cores that know kinds of instructions only; [`cost`] turns a scheduling class into µops, [`forwarding`] says
//! which results come sooner to which operands, [`build`] makes whole blocks, [`sched`] keeps instructions whole for in-order cores, and [`model`] gives a CPU's parameters as
//! far as LLVM knows them. docs/ISA.md says how the files are made and what proves them.

pub mod build;
pub mod cost;
pub mod decode;
pub mod flow;
pub mod forwarding;
pub mod inorder;
pub mod kind;
pub mod model;
mod printer;
pub mod regs;
pub mod sched;
pub mod table;
pub mod vector;
pub mod wire;

use mcad_proto::event::Arch;

use crate::code::Flow;
pub use printer::Printer;
use table::Table;
use vector::VectorType;
use wire::{Opcode, flag};

/// A decoded instruction.
#[derive(Clone, Copy, Debug)]
pub struct Instruction {
    /// Its instruction set.
    pub arch: Arch,
    /// Its address.
    pub address: u64,
    /// The word that the table knows it by: as it lies in memory, of two bytes the lower half; of RV32C
    /// the 32-bit instruction that it stands for.
    pub word: u32,
    /// As it lies in memory.
    pub encoded: u32,
    /// What RISC-V's vector instructions work on, where it is known.
    pub vector: Option<VectorType>,
    /// Its code is where shared objects are mapped.
    pub in_shared_object: bool,
    table: &'static Table,
    opcode: u16,
    size: u8,
}

impl Instruction {
    /// What the table has of it.
    #[must_use]
    pub fn opcode(&self) -> &'static Opcode {
        // `decode` found it there.
        &self.table.file.opcodes[usize::from(self.opcode)]
    }

    /// Bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        usize::from(self.size)
    }

    /// Whether it has no bytes, which no instruction has.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where control goes after it.
    #[must_use]
    pub fn flow(&self) -> Flow {
        flow::flow(self.arch, self.word, self.address)
    }

    /// Whether it accesses memory whenever it executes: not exclusive stores, which may fail, and
    /// not vectors, which may have no active element.
    #[must_use]
    pub fn always_accesses(&self) -> bool {
        let opcode = self.opcode();
        let plain = opcode.flags & (flag::LOAD | flag::STORE) != 0
            && opcode.flags & flag::SIDE_EFFECTS == 0
            && opcode.vector_forms.is_empty();
        plain
            && match self.arch {
                // Loads and stores of one or two registers (Arm ARM, C4.1): not the exclusive
                // ones, not SVE.
                Arch::AArch64 => {
                    let pair = self.word & 0x3a00_0000 == 0x2800_0000;
                    pair || self.word & 0x3a00_0000 == 0x3800_0000
                }
                _ => self.len() == 2 || matches!(self.word & 0x7f, 0x03 | 0x23),
            }
    }
}

/// What RV64's table knows an instruction of RV32IMC by: the 32-bit forms are the same there, the
/// 16-bit ones are not. The decoder is that of [`crate::riscv`], which is held against LLVM's.
fn rv32(encoded: u32) -> Option<u32> {
    crate::riscv::decode(encoded)?;
    crate::riscv::word(encoded)
}

/// Decodes code at `address`. Stops at the first bytes that are no instruction and returns their
/// offset with what came before.
#[must_use]
pub fn decode(arch: Arch, bytes: &[u8], address: u64) -> (Vec<Instruction>, Option<usize>) {
    let mut decoded = Vec::new();
    let mut at = 0;
    // A damaged table decodes nothing; models of the instruction set refuse to load with its error.
    let Some(Ok(table)) = table::of(arch) else {
        return (decoded, Some(0));
    };
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        let mut four = [0; 4];
        let got = rest.len().min(4);
        four[..got].copy_from_slice(&rest[..got]);
        let word = u32::from_le_bytes(four);
        let size = table.decoder.size(word);
        let encoded = if size == 2 { word & 0xffff } else { word };
        let known = match arch {
            Arch::RiscV32 => rv32(encoded),
            _ => Some(encoded),
        };
        let opcode = known.and_then(|word| Some((word, table.decoder.find(word)?)));
        let Some((word, opcode)) = opcode.filter(|_| size <= got) else {
            return (decoded, Some(at));
        };
        decoded.push(Instruction {
            arch,
            address: address.wrapping_add(at as u64),
            word,
            encoded,
            vector: None,
            in_shared_object: false,
            table,
            opcode,
            size: size as u8,
        });
        at += size;
    }
    if arch == Arch::RiscV64 {
        vector::assign(&mut decoded, None);
    }
    (decoded, None)
}
