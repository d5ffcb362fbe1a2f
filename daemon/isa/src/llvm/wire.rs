//! The format of the embedded files of an instruction set: bincode behind zstd, made only by
//! `cargo xtask tables-llvm` from what LLVM's machine-code layer says.
//!
//! Registers are [`RegId`](crate::regs::RegId) numbers already. Nothing that comes from a user or
//! a peer is ever decoded here.

use bincode::{Decode, Encode};

use crate::embedded;

/// Version of the layout.
pub const VERSION: u32 = 3;

/// A whole file: one instruction set and the CPUs that execute it.
#[derive(Clone, Debug, Default, PartialEq, Encode, Decode)]
pub struct File {
    /// [`VERSION`].
    pub version: u32,
    /// LLVM's version.
    pub llvm: String,
    /// Instructions.
    pub opcodes: Vec<Opcode>,
    /// Encodings, the ones with more fixed bits first.
    pub rules: Vec<Rule>,
    /// Number of forms: instructions, told apart as far as any CPU's costs differ.
    pub forms: u16,
    /// CPUs.
    pub cpus: Vec<Cpu>,
}

/// An instruction.
#[derive(Clone, Debug, Default, PartialEq, Encode, Decode)]
pub struct Opcode {
    /// LLVM's name.
    pub name: String,
    /// Bytes.
    pub size: u8,
    /// See [`flag`].
    pub flags: u16,
    /// Registers named in the instruction word.
    pub operands: Vec<Operand>,
    /// Registers read without being named; the n-th has use index `explicit_uses` + n.
    pub uses: Vec<u8>,
    /// Registers written without being named; the n-th has definition index `explicit_defs` + n.
    pub defs: Vec<u8>,
    /// Number of explicit uses, registers or not.
    pub explicit_uses: u8,
    /// Number of explicit definitions.
    pub explicit_defs: u8,
    /// Forms by the bits that decide; the first whose bits agree.
    pub forms: Vec<FormRule>,
    /// Forms by LMUL (1/8 to 8) and SEW (8 to 64), four SEW an LMUL; empty where they do not
    /// matter.
    pub vector_forms: Vec<u16>,
}

/// Facts of an instruction, one bit each.
pub mod flag {
    /// May load.
    pub const LOAD: u16 = 1;
    /// May store.
    pub const STORE: u16 = 1 << 1;
    /// May change the program counter.
    pub const BRANCH: u16 = 1 << 2;
    /// Calls.
    pub const CALL: u16 = 1 << 3;
    /// Returns.
    pub const RETURN: u16 = 1 << 4;
    /// Branches on a condition.
    pub const CONDITIONAL: u16 = 1 << 5;
    /// Branches to an address in a register.
    pub const INDIRECT: u16 = 1 << 6;
    /// Has effects that its operands do not show.
    pub const SIDE_EFFECTS: u16 = 1 << 7;
}

/// Bits that agree with an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Rule {
    /// Bits looked at.
    pub mask: u32,
    /// Their values.
    pub value: u32,
    /// In [`File::opcodes`].
    pub opcode: u16,
}

/// Bits that decide on a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct FormRule {
    /// Bits looked at.
    pub mask: u32,
    /// Their values.
    pub value: u32,
    /// Only where bits 5 to 9 and 16 to 20 are the same: both sources of A64 in one register.
    pub same_sources: bool,
    /// Its number, below [`File::forms`].
    pub form: u16,
}

/// A register operand: registers `base + stride * field ..`, `count` of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode)]
pub struct Operand {
    /// Written; else read.
    pub def: bool,
    /// Index among definitions or uses, as LLVM counts.
    pub index: u8,
    /// First bit of the field in the instruction word.
    pub pos: u8,
    /// Bits of the field; 0: the register is `base`.
    pub len: u8,
    /// Register that a field of 0 names.
    pub base: i16,
    /// Registers from one value of the field to the next.
    pub stride: u8,
    /// Consecutive registers.
    pub count: u8,
    /// The first register of the bank, and how many there are: lists wrap round.
    pub bank: (u8, u8),
    /// A register of this number is none: it reads as zero.
    pub zero: Option<u8>,
    /// Not there when this bit is set.
    pub unless: Option<u8>,
}

/// What a CPU's scheduling model says.
#[derive(Clone, Debug, Default, PartialEq, Encode, Decode)]
pub struct Cpu {
    /// LLVM's name.
    pub name: String,
    /// µops issued in a cycle.
    pub issue_width: u16,
    /// µops in flight; 0: in order, 1: in order with interlocks.
    pub buffer: i32,
    /// Cycles of a mispredicted branch, LLVM's hint.
    pub mispredict: u16,
    /// Re-order buffer and µops retired in a cycle, where the model has them.
    pub retire: Option<(u16, u16)>,
    /// Units and groups of units.
    pub resources: Vec<Resource>,
    /// Costs.
    pub classes: Vec<Class>,
    /// By form: place in [`Cpu::classes`] plus 1; 0: the model says nothing.
    pub class_of: Vec<u16>,
}

/// A unit, several alike, or a group of others.
#[derive(Clone, Debug, Default, PartialEq, Encode, Decode)]
pub struct Resource {
    /// LLVM's name.
    pub name: String,
    /// Units.
    pub units: u16,
    /// What it is part of.
    pub part_of: u16,
    /// Entries of its scheduler: -1: none of its own; 0: it issues in order.
    pub buffer: i16,
    /// Members of a group.
    pub members: Vec<u16>,
}

/// What an instruction costs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Encode, Decode)]
pub struct Class {
    /// µops.
    pub uops: u16,
    /// Must begin, end a group of instructions issued together.
    pub group: (bool, bool),
    /// Its results may be written before those of older instructions (LLVM's RetireOOO).
    pub out_of_order: bool,
    /// Resource, cycle of release, cycle of acquisition.
    pub resources: Vec<(u16, u16, u16)>,
    /// By definition: cycles, and the kind of result for `advances`.
    pub latencies: Vec<(i16, u16)>,
    /// By use: index, kind of result (0: any), cycles that the value may come later.
    pub advances: Vec<(u16, u16, i16)>,
}

/// Decodes a file.
///
/// # Errors
/// A text that says what is wrong.
pub fn decode(bytes: &[u8]) -> Result<File, String> {
    let file: File = embedded::decode(bytes)?;
    if file.version != VERSION {
        return Err(format!(
            "layout version {} instead of {VERSION}",
            file.version
        ));
    }
    Ok(file)
}

/// Encodes a file.
///
/// # Errors
/// A text that says what is wrong.
pub fn encode(file: &File) -> Result<Vec<u8>, String> {
    embedded::encode(file)
}
