//! One instruction of RV32IMC: operation, registers, immediate, length.

use super::compressed;

/// What an instruction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// `lui`.
    Lui,
    /// `auipc`.
    Auipc,
    /// `jal`: a direct jump or call.
    Jal,
    /// `jalr`: an indirect jump, call or return.
    Jalr,
    /// A conditional branch.
    Branch(Condition),
    /// A load.
    Load {
        /// Bytes.
        size: u8,
        /// The value keeps its sign.
        signed: bool,
    },
    /// A store of so many bytes.
    Store(u8),
    /// Arithmetic with the immediate as second operand.
    ArithmeticImmediate(Arithmetic),
    /// Arithmetic of two registers.
    Arithmetic(Arithmetic),
    /// A multiplication.
    Multiply(Multiply),
    /// A division or remainder.
    Divide {
        /// Signed operands.
        signed: bool,
        /// Gives the remainder.
        remainder: bool,
    },
    /// `fence` and `fence.i`.
    Fence,
    /// `ecall`, `ebreak`, returns from traps.
    System,
    /// Access to a control and status register.
    Csr,
}

/// When a branch is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Condition {
    Equal,
    NotEqual,
    Less,
    GreaterEqual,
    LessUnsigned,
    GreaterEqualUnsigned,
}

/// Operations of an arithmetic unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Arithmetic {
    Add,
    Subtract,
    ShiftLeft,
    SetLess,
    SetLessUnsigned,
    Xor,
    ShiftRight,
    ShiftRightArithmetic,
    Or,
    And,
}

/// Halves and signs of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Multiply {
    Low,
    High,
    HighSignedUnsigned,
    HighUnsigned,
}

/// A decoded instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Inst {
    /// What it does.
    pub op: Op,
    /// Register written; 0 when none.
    pub rd: u8,
    /// First register read; 0 when none.
    pub rs1: u8,
    /// Second register read; 0 when none.
    pub rs2: u8,
    /// Immediate: operand, displacement of an address, or distance to a target.
    pub imm: i32,
    /// Bytes: 2 or 4.
    pub len: u8,
}

/// Bits `high..=low` of `word`.
const fn bits(word: u32, high: u32, low: u32) -> u32 {
    (word >> low) & ((1 << (high - low + 1)) - 1)
}

/// Decodes an instruction; 16-bit forms are told by their lowest two bits, and what follows them
/// in `word` is ignored. `None` when it is none of RV32IMC.
#[must_use]
pub fn decode(word: u32) -> Option<Inst> {
    let inst = decode_word(self::word(word)?)?;
    let len = if word & 3 == 3 { 4 } else { 2 };
    Some(Inst { len, ..inst })
}

/// The 32-bit form of an instruction; `None` when it has 16 bits and is none of RV32C.
#[must_use]
pub fn word(word: u32) -> Option<u32> {
    match word & 3 {
        3 => Some(word),
        _ => compressed::expand(word as u16),
    }
}

fn decode_word(w: u32) -> Option<Inst> {
    let (rd, rs1, rs2) = (
        bits(w, 11, 7) as u8,
        bits(w, 19, 15) as u8,
        bits(w, 24, 20) as u8,
    );
    let (funct3, funct7) = (bits(w, 14, 12), bits(w, 31, 25));
    let i = (w as i32) >> 20;
    let s = ((w as i32) >> 25) << 5 | bits(w, 11, 7) as i32;
    let b = ((w as i32) >> 31) << 12
        | (bits(w, 7, 7) << 11 | bits(w, 30, 25) << 5 | bits(w, 11, 8) << 1) as i32;
    let j = ((w as i32) >> 31) << 20
        | (bits(w, 19, 12) << 12 | bits(w, 20, 20) << 11 | bits(w, 30, 21) << 1) as i32;
    let u = (w & 0xffff_f000) as i32;
    let (op, rd, rs1, rs2, imm) = match w & 0x7f {
        0x37 => (Op::Lui, rd, 0, 0, u),
        0x17 => (Op::Auipc, rd, 0, 0, u),
        0x6f => (Op::Jal, rd, 0, 0, j),
        0x67 if funct3 == 0 => (Op::Jalr, rd, rs1, 0, i),
        0x63 => {
            let condition = match funct3 {
                0 => Condition::Equal,
                1 => Condition::NotEqual,
                4 => Condition::Less,
                5 => Condition::GreaterEqual,
                6 => Condition::LessUnsigned,
                7 => Condition::GreaterEqualUnsigned,
                _ => return None,
            };
            (Op::Branch(condition), 0, rs1, rs2, b)
        }
        0x03 => {
            let (size, signed) = match funct3 {
                0 => (1, true),
                1 => (2, true),
                2 => (4, true),
                4 => (1, false),
                5 => (2, false),
                _ => return None,
            };
            (Op::Load { size, signed }, rd, rs1, 0, i)
        }
        0x23 if funct3 < 3 => (Op::Store(1 << funct3), 0, rs1, rs2, s),
        0x13 => {
            let operation = arithmetic(funct3, if funct3 == 5 { funct7 } else { 0 })?;
            if funct3 == 1 && funct7 != 0 {
                return None;
            }
            let imm = if matches!(funct3, 1 | 5) { i & 31 } else { i };
            (Op::ArithmeticImmediate(operation), rd, rs1, 0, imm)
        }
        0x33 if funct7 == 1 => {
            let op = match funct3 {
                0 => Op::Multiply(Multiply::Low),
                1 => Op::Multiply(Multiply::High),
                2 => Op::Multiply(Multiply::HighSignedUnsigned),
                3 => Op::Multiply(Multiply::HighUnsigned),
                n => Op::Divide {
                    signed: n & 1 == 0,
                    remainder: n & 2 != 0,
                },
            };
            (op, rd, rs1, rs2, 0)
        }
        0x33 => (Op::Arithmetic(arithmetic(funct3, funct7)?), rd, rs1, rs2, 0),
        0x0f if funct3 < 2 => (Op::Fence, 0, 0, 0, 0),
        0x73 if funct3 == 0 && rd == 0 => (Op::System, 0, 0, 0, 0),
        0x73 if funct3 & 3 != 0 => {
            let source = if funct3 & 4 == 0 { rs1 } else { 0 };
            (Op::Csr, rd, source, 0, i & 0xfff)
        }
        _ => return None,
    };
    Some(Inst {
        op,
        rd,
        rs1,
        rs2,
        imm,
        len: 4,
    })
}

fn arithmetic(funct3: u32, funct7: u32) -> Option<Arithmetic> {
    Some(match (funct3, funct7) {
        (0, 0) => Arithmetic::Add,
        (0, 0x20) => Arithmetic::Subtract,
        (1, 0) => Arithmetic::ShiftLeft,
        (2, 0) => Arithmetic::SetLess,
        (3, 0) => Arithmetic::SetLessUnsigned,
        (4, 0) => Arithmetic::Xor,
        (5, 0) => Arithmetic::ShiftRight,
        (5, 0x20) => Arithmetic::ShiftRightArithmetic,
        (6, 0) => Arithmetic::Or,
        (7, 0) => Arithmetic::And,
        _ => return None,
    })
}
