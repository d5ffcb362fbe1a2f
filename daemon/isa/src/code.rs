//! Decoded instructions of any instruction set, as far as whoever follows a program must know
//! them. What they cost on a CPU is [`crate::build`]'s.

use iced_x86::{
    FlowControl, Formatter, Instruction, InstructionInfoFactory, IntelFormatter, Mnemonic,
    OpAccess, OpKind, Register,
};
use mcad_proto::event::Arch;

use crate::llvm;
use crate::program::BranchKind;
use crate::x86::build::{self as x86, Decoded};

/// A decoded instruction.
#[derive(Clone, Debug)]
pub enum Code {
    /// Of x86-64.
    X86(Decoded),
    /// Of an instruction set whose tables are LLVM's.
    Llvm(llvm::Instruction),
}

/// Where control goes after an instruction; targets where they are fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// To the next one.
    Next,
    /// There.
    Jump(Option<u64>),
    /// There or to the next one.
    Conditional(Option<u64>),
    /// There, and later to the next one.
    Call(Option<u64>),
    /// To the caller.
    Return,
    /// Into the kernel, and to the next one or elsewhere.
    System,
    /// Elsewhere.
    Exception,
}

/// Decodes code at `address`. Stops at the first bytes that are no instruction and returns their
/// offset with what came before.
#[must_use]
pub fn decode(arch: Arch, bytes: &[u8], address: u64) -> (Vec<Code>, Option<usize>) {
    if arch == Arch::X86_64 {
        let (decoded, bad) = x86::decode(bytes, address);
        return (decoded.into_iter().map(Code::X86).collect(), bad);
    }
    let (decoded, bad) = llvm::decode(arch, bytes, address);
    (decoded.into_iter().map(Code::Llvm).collect(), bad)
}

impl Code {
    /// Its bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::X86(decoded) => decoded.bytes.len(),
            Self::Llvm(instruction) => instruction.len(),
        }
    }

    /// Whether it has none, which no instruction has.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its address.
    #[must_use]
    pub fn address(&self) -> u64 {
        match self {
            Self::X86(decoded) => decoded.instruction.ip(),
            Self::Llvm(instruction) => instruction.address,
        }
    }

    /// Where control goes after it.
    #[must_use]
    pub fn flow(&self) -> Flow {
        match self {
            Self::X86(decoded) => flow(&decoded.instruction),
            Self::Llvm(instruction) => instruction.flow(),
        }
    }

    /// What kind of branch it is, if it is one, and how far it is from its address to that of the
    /// target in its code; 0: it has none.
    #[must_use]
    pub fn branch(&self) -> Option<(BranchKind, i32)> {
        match self {
            Self::X86(decoded) => x86::branch(&decoded.instruction),
            Self::Llvm(instruction) => llvm::build::branch(instruction),
        }
    }

    /// Whether its code is where shared objects are mapped.
    #[must_use]
    pub fn in_shared_object(&self) -> bool {
        match self {
            Self::X86(decoded) => decoded.in_shared_object,
            Self::Llvm(instruction) => instruction.in_shared_object,
        }
    }

    /// Its code is where shared objects are mapped.
    pub fn put_in_shared_object(&mut self) {
        match self {
            Self::X86(decoded) => decoded.in_shared_object = true,
            Self::Llvm(instruction) => instruction.in_shared_object = true,
        }
    }

    /// A string instruction with a repeat prefix: it is executed again for each iteration.
    #[must_use]
    pub fn repeats(&self) -> bool {
        match self {
            Self::X86(decoded) => repeats(&decoded.instruction),
            Self::Llvm(_) => false,
        }
    }

    /// Whether it accesses memory whenever it executes.
    #[must_use]
    pub fn always_accesses(&self) -> bool {
        match self {
            Self::X86(decoded) => always_accesses(&decoded.instruction),
            Self::Llvm(instruction) => instruction.always_accesses(),
        }
    }

    /// What stays when registers, constants and addresses change: mnemonic and operand kinds.
    #[must_use]
    pub fn shape(&self) -> String {
        match self {
            Self::X86(decoded) => shape(&decoded.instruction),
            Self::Llvm(instruction) => format!("{};", instruction.opcode().name),
        }
    }

    /// What to call it where no table has a name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::X86(decoded) => decoded.instruction.op_code().instruction_string(),
            Self::Llvm(instruction) => &instruction.opcode().name,
        }
    }
}

/// Writes instructions as people read them.
pub struct Printer {
    intel: IntelFormatter,
    others: llvm::Printer,
}

impl Printer {
    /// Intel's syntax for x86, the usual one for others.
    #[must_use]
    pub fn new() -> Self {
        Self {
            intel: IntelFormatter::new(),
            others: llvm::Printer::default(),
        }
    }

    /// The text of an instruction.
    pub fn text(&mut self, code: &Code) -> String {
        let mut text = String::new();
        match code {
            Code::X86(decoded) => self.intel.format(&decoded.instruction, &mut text),
            Code::Llvm(instruction) => text = self.others.text(instruction),
        }
        text
    }
}

impl Default for Printer {
    fn default() -> Self {
        Self::new()
    }
}

fn flow(instruction: &Instruction) -> Flow {
    let target = || Some(instruction.near_branch_target());
    match instruction.flow_control() {
        FlowControl::Next => Flow::Next,
        FlowControl::UnconditionalBranch => Flow::Jump(target()),
        FlowControl::ConditionalBranch => Flow::Conditional(target()),
        FlowControl::Call if instruction.mnemonic() == Mnemonic::Syscall => Flow::System,
        FlowControl::Call => Flow::Call(target()),
        FlowControl::IndirectBranch => Flow::Jump(None),
        FlowControl::IndirectCall => Flow::Call(None),
        FlowControl::Return => Flow::Return,
        FlowControl::Interrupt | FlowControl::XbeginXabortXend | FlowControl::Exception => {
            Flow::Exception
        }
    }
}

fn repeats(instruction: &Instruction) -> bool {
    instruction.is_string_instruction()
        && (instruction.has_rep_prefix() || instruction.has_repne_prefix())
}

fn always_accesses(instruction: &Instruction) -> bool {
    let mut factory = InstructionInfoFactory::new();
    factory.info(instruction).used_memory().iter().any(|m| {
        matches!(
            m.access(),
            OpAccess::Read | OpAccess::Write | OpAccess::ReadWrite | OpAccess::ReadCondWrite
        )
    }) && !repeats(instruction)
        && instruction.op_mask() == Register::None
}

fn shape(instruction: &Instruction) -> String {
    // The text, since the numbers of mnemonics change with the decoder's version.
    let mut shape = format!("{:?}", instruction.mnemonic());
    for operand in 0..instruction.op_count() {
        shape.push(match instruction.op_kind(operand) {
            OpKind::Register => 'r',
            OpKind::Memory => 'm',
            OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64 => 'b',
            _ => 'i',
        });
    }
    shape.push(';');
    shape
}
