//! Implicit operands in XED's order, by mnemonic.
//!
//! The rows of 2022 have no operand lists, so the order is kept here; it was read off the lists of
//! 2025 (`REGn` is numbered explicit operands first, then these, the flags last), and the
//! generator compares it with them on every run.

use iced_x86::{Code, OpCodeOperandKind as Kind, Register};

use super::spec::Spec;

/// An implicit operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Implicit {
    /// A general-purpose or vector register.
    Register(Register, Access),
    /// The instruction pointer.
    InstructionPointer(Access),
    /// The stack pointer as the stack engine sees it.
    Stack,
    /// Memory.
    Memory(Access),
    /// A register that the model does not track (time-stamp counter, MXCSR, XCR0, …).
    Untracked(Access),
}

/// How an operand is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    R,
    W,
    RW,
}

impl Access {
    pub fn read(self) -> bool {
        self != Self::W
    }
    pub fn written(self) -> bool {
        self != Self::R
    }
}

use Access::{R, RW, W};
use Implicit::{InstructionPointer as Rip, Memory as Mem, Register as Reg, Stack, Untracked};
use Register as Rg;

/// The accumulator or data register of a code's operand size.
fn sized(size: u32, names: [Register; 4]) -> Register {
    match size {
        8 => names[0],
        16 => names[1],
        64 => names[3],
        _ => names[2],
    }
}

fn ax(size: u32) -> Register {
    sized(size, [Rg::AL, Rg::AX, Rg::EAX, Rg::RAX])
}

fn dx(size: u32) -> Register {
    sized(size, [Rg::AH, Rg::DX, Rg::EDX, Rg::RDX])
}

/// Operand size of the first explicit operand.
fn operand_size(code: Code) -> u32 {
    match code.op_code().op_kinds().first() {
        Some(Kind::r8_or_mem | Kind::r8_reg | Kind::al) => 8,
        Some(Kind::r16_or_mem | Kind::r16_reg | Kind::ax) => 16,
        Some(Kind::r64_or_mem | Kind::r64_reg | Kind::rax) => 64,
        _ => 32,
    }
}

/// The implicit operands of a row on a code.
pub fn operands(spec: &Spec, code: Code, repeated: bool) -> Vec<Implicit> {
    let size = operand_size(code);
    if spec.string_instruction {
        return string(spec, code, repeated);
    }
    if spec.mnemonic.starts_with('J') && spec.mnemonic != "JMP" {
        let count = match spec.mnemonic.as_str() {
            "JRCXZ" => Some(Rg::RCX),
            "JECXZ" => Some(Rg::ECX),
            _ => None,
        };
        return count
            .map(|r| Reg(r, R))
            .into_iter()
            .chain([Rip(RW)])
            .collect();
    }
    match spec.mnemonic.as_str() {
        "XLATB" => vec![Mem(R), Reg(Rg::AL, W)],
        "LEAVE" => vec![Reg(Rg::RBP, RW), Reg(Rg::RSP, RW), Mem(R)],
        "ENTER" => vec![Reg(Rg::RBP, RW), Reg(Rg::RSP, RW), Mem(W)],
        "CALL" => vec![Stack, Rip(RW), Mem(W)],
        "RET" => vec![Stack, Rip(W), Mem(R)],
        "JMP" => vec![Rip(if spec.operands.iter().any(|o| o.starts_with("Rel")) {
            RW
        } else {
            W
        })],
        "LOOP" | "LOOPE" | "LOOPNE" => vec![Reg(Rg::RCX, RW), Rip(RW)],
        "PUSH" | "PUSHF" | "PUSHFQ" => vec![Stack, Mem(W)],
        "POP" | "POPF" | "POPFQ" => vec![Stack, Mem(R)],
        "MUL" | "IMUL" if spec.operands.len() == 1 => match size {
            8 => vec![Reg(Rg::AL, R), Reg(Rg::AX, W)],
            _ => vec![Reg(ax(size), RW), Reg(dx(size), W)],
        },
        "DIV" | "IDIV" => match size {
            8 => vec![Reg(Rg::AX, RW)],
            _ => vec![Reg(ax(size), RW), Reg(dx(size), RW)],
        },
        "CBW" => vec![Reg(Rg::AX, W), Reg(Rg::AL, R)],
        "CWDE" => vec![Reg(Rg::EAX, W), Reg(Rg::AX, R)],
        "CDQE" => vec![Reg(Rg::RAX, W), Reg(Rg::EAX, R)],
        "CWD" => vec![Reg(Rg::DX, W), Reg(Rg::AX, R)],
        "CDQ" => vec![Reg(Rg::EDX, W), Reg(Rg::EAX, R)],
        "CQO" => vec![Reg(Rg::RDX, W), Reg(Rg::RAX, R)],
        "CMPXCHG" => vec![Reg(ax(size), RW)],
        "CMPXCHG8B" => vec![
            Reg(Rg::EDX, RW),
            Reg(Rg::EAX, RW),
            Reg(Rg::ECX, R),
            Reg(Rg::EBX, R),
        ],
        "CMPXCHG16B" => vec![
            Reg(Rg::RDX, RW),
            Reg(Rg::RAX, RW),
            Reg(Rg::RCX, R),
            Reg(Rg::RBX, R),
        ],
        "CPUID" => vec![
            Reg(Rg::EAX, RW),
            Reg(Rg::EBX, W),
            Reg(Rg::ECX, RW),
            Reg(Rg::EDX, W),
        ],
        "RDTSC" => vec![Reg(Rg::EAX, W), Reg(Rg::EDX, W), Untracked(R)],
        "RDTSCP" => vec![
            Reg(Rg::EAX, W),
            Reg(Rg::EDX, W),
            Reg(Rg::ECX, W),
            Untracked(R),
            Untracked(R),
        ],
        "RDMSR" | "RDPMC" => vec![
            Reg(Rg::EAX, W),
            Reg(Rg::EDX, W),
            Reg(Rg::ECX, R),
            Untracked(R),
        ],
        "WRMSR" => vec![
            Reg(Rg::EAX, R),
            Reg(Rg::EDX, R),
            Reg(Rg::ECX, R),
            Untracked(W),
        ],
        "RDPKRU" => vec![Reg(Rg::EAX, W), Reg(Rg::EDX, W), Untracked(R)],
        "WRPKRU" => vec![Reg(Rg::EDX, R), Reg(Rg::EAX, R), Reg(Rg::ECX, R)],
        "XGETBV" => vec![
            Reg(Rg::ECX, R),
            Reg(Rg::EDX, W),
            Reg(Rg::EAX, W),
            Untracked(R),
        ],
        "XSETBV" => vec![
            Reg(Rg::ECX, R),
            Reg(Rg::EDX, R),
            Reg(Rg::EAX, R),
            Untracked(W),
        ],
        "XSAVE" | "XSAVE64" | "XSAVEC" | "XSAVEC64" | "XSAVEOPT" | "XSAVEOPT64" | "XSAVES"
        | "XSAVES64" | "XRSTOR" | "XRSTOR64" => {
            vec![Reg(Rg::EDX, R), Reg(Rg::EAX, R), Untracked(R)]
        }
        "SAHF" => vec![Reg(Rg::AH, R)],
        "LAHF" => vec![Reg(Rg::AH, W)],
        "PCMPESTRI" | "VPCMPESTRI" => {
            vec![Reg(Rg::EAX, R), Reg(Rg::EDX, R), Reg(Rg::ECX, W)]
        }
        "PCMPESTRI64" | "VPCMPESTRI64" => {
            vec![Reg(Rg::RAX, R), Reg(Rg::RDX, R), Reg(Rg::ECX, W)]
        }
        "PCMPESTRM" | "VPCMPESTRM" => {
            vec![Reg(Rg::EAX, R), Reg(Rg::EDX, R), Reg(Rg::XMM0, W)]
        }
        "PCMPESTRM64" | "VPCMPESTRM64" => {
            vec![Reg(Rg::RAX, R), Reg(Rg::RDX, R), Reg(Rg::XMM0, W)]
        }
        "PCMPISTRI" | "VPCMPISTRI" => vec![Reg(Rg::ECX, W)],
        "PCMPISTRM" | "VPCMPISTRM" => vec![Reg(Rg::XMM0, W)],
        "BLENDVPD" | "BLENDVPS" | "PBLENDVB" | "SHA256RNDS2" => vec![Reg(Rg::XMM0, R)],
        "MULX" => vec![Reg(dx(size), R)],
        "MASKMOVDQU" | "MASKMOVQ" | "VMASKMOVDQU" | "MOVDIR64B" => vec![Mem(W)],
        "STMXCSR" | "VSTMXCSR" | "FXSAVE" | "FXSAVE64" | "SGDT" | "SIDT" | "SLDT" | "SMSW"
        | "STR" | "RDFSBASE" | "RDGSBASE" | "RDPID" => vec![Untracked(R)],
        "LDMXCSR" | "VLDMXCSR" | "LGDT" | "LIDT" | "LLDT" | "LMSW" | "WRFSBASE" | "WRGSBASE" => {
            vec![Untracked(W)]
        }
        _ => Vec::new(),
    }
}

/// String instructions: memory operands and the accumulator, `rcx` if repeated.
fn string(spec: &Spec, code: Code, repeated: bool) -> Vec<Implicit> {
    let name = spec.mnemonic.as_str();
    let (stem, size) = name.split_at(name.len() - 1);
    let size = match size {
        "B" => 8,
        "W" => 16,
        "D" => 32,
        _ => 64,
    };
    debug_assert!(code.op_code().op_count() > 0);
    let mut list = match stem {
        "MOVS" => vec![Mem(W), Mem(R)],
        "CMPS" => vec![Mem(R), Mem(R)],
        "STOS" => vec![Mem(W), Reg(ax(size), R)],
        "LODS" => vec![Reg(ax(size), W), Mem(R)],
        "SCAS" => vec![Reg(ax(size), R), Mem(R)],
        "INS" => vec![Mem(W), Reg(Rg::DX, R)],
        _ => vec![Reg(Rg::DX, R), Mem(R)],
    };
    if repeated {
        list.push(Reg(Rg::RCX, RW));
    }
    list
}

/// The address registers that a string instruction moves. XED counts them as part of the memory
/// operands, so no published latency names them; they follow all named operands.
pub fn moved_pointers(spec: &Spec) -> &'static [Register] {
    if !spec.string_instruction {
        return &[];
    }
    match &spec.mnemonic[..spec.mnemonic.len() - 1] {
        "MOVS" | "CMPS" => &[Rg::RSI, Rg::RDI],
        "STOS" | "SCAS" | "INS" => &[Rg::RDI],
        _ => &[Rg::RSI],
    }
}
