//! What an instruction computes, as far as values can be followed: moves, additions, addresses and
//! bitwise operations on general-purpose registers. Of any other there is no effect to follow.
//!
//! Semantics are those of Intel's Software Developer's Manual, volume 2.

use iced_x86::{Instruction, Mnemonic, OpKind, Register};

use super::build::Decoded;
use super::encoding::is_immediate;
use crate::regs::{RegId, is_high8, size_bits};

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The low bits of a register.
    Register {
        /// Which.
        id: RegId,
        /// How many bits.
        bits: u16,
    },
    /// The memory operand.
    Memory {
        /// Its size in bits.
        bits: u16,
    },
    /// An immediate, sign-extended.
    Number(i64),
}

/// What is computed. Binary operations take the target's old value first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The source, zero-extended.
    Copy(Source),
    /// The source, sign-extended.
    SignExtend(Source),
    /// Sum.
    Add(Source, Source),
    /// Difference.
    Subtract(Source, Source),
    /// Bitwise and.
    And(Source, Source),
    /// Bitwise or.
    Or(Source, Source),
    /// Bitwise exclusive or.
    Xor(Source, Source),
    /// To the left, by the second modulo the width.
    ShiftLeft(Source, Source),
    /// To the right without sign, by the second modulo the width.
    ShiftRight(Source, Source),
    /// An address: registers times scales, and a displacement.
    Address {
        /// Base, with scale 1, and index.
        terms: [Option<(RegId, i64)>; 2],
        /// Added to them.
        displacement: i64,
    },
}

/// An operation whose result goes to a general-purpose register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effect {
    /// The register.
    pub target: RegId,
    /// Bits of it that are written; 32 clear the upper half, fewer leave the rest.
    pub bits: u16,
    /// What is computed.
    pub operation: Operation,
}

impl Decoded {
    /// What it writes to its first operand, where that can be followed.
    #[must_use]
    pub fn effect(&self) -> Option<Effect> {
        let instruction = &self.instruction;
        let register = instruction.op0_register();
        let named = instruction.op_count() > 0 && instruction.op_kind(0) == OpKind::Register;
        if !named || !register.is_gpr() || is_high8(register) {
            return None;
        }
        let bits = size_bits(register);
        let source = |operand| source(instruction, operand);
        let both = || Some((source(0)?, source(1)?));
        let cleared = instruction.op_count() > 1
            && instruction.op_kind(1) == OpKind::Register
            && instruction.op1_register() == register;
        let operation = match instruction.mnemonic() {
            Mnemonic::Mov | Mnemonic::Movzx => Operation::Copy(source(1)?),
            Mnemonic::Movsx | Mnemonic::Movsxd => Operation::SignExtend(source(1)?),
            Mnemonic::Add => both().map(|(a, b)| Operation::Add(a, b))?,
            Mnemonic::Sub => both().map(|(a, b)| Operation::Subtract(a, b))?,
            Mnemonic::Inc => Operation::Add(source(0)?, Source::Number(1)),
            Mnemonic::Dec => Operation::Add(source(0)?, Source::Number(-1)),
            Mnemonic::Xor if cleared => Operation::Copy(Source::Number(0)),
            Mnemonic::And => both().map(|(a, b)| Operation::And(a, b))?,
            Mnemonic::Or => both().map(|(a, b)| Operation::Or(a, b))?,
            Mnemonic::Xor => both().map(|(a, b)| Operation::Xor(a, b))?,
            Mnemonic::Shl if bits >= 32 => both().map(|(a, b)| Operation::ShiftLeft(a, b))?,
            Mnemonic::Shr if bits >= 32 => both().map(|(a, b)| Operation::ShiftRight(a, b))?,
            Mnemonic::Lea => address(instruction)?,
            _ => return None,
        };
        Some(Effect {
            target: RegId::of(register)?,
            bits,
            operation,
        })
    }

    /// What it stores, if it does nothing but that.
    #[must_use]
    pub fn stored(&self) -> Option<Source> {
        let operand = match self.instruction.mnemonic() {
            Mnemonic::Mov => 1,
            Mnemonic::Push => 0,
            _ => return None,
        };
        source(&self.instruction, operand).filter(|s| !matches!(s, Source::Memory { .. }))
    }

    /// What it adds to the stack pointer without naming it, in bytes.
    #[must_use]
    pub fn stack_step(&self) -> i64 {
        i64::from(self.instruction.stack_pointer_increment())
    }

    /// Registers that its operands name, those of addresses too.
    pub fn named(&self) -> impl Iterator<Item = RegId> {
        let instruction = &self.instruction;
        let operands = (0..instruction.op_count()).map(|n| instruction.op_register(n));
        let address = [instruction.memory_base(), instruction.memory_index()];
        operands.chain(address).filter_map(RegId::of)
    }
}

fn source(instruction: &Instruction, operand: u32) -> Option<Source> {
    if operand >= instruction.op_count() {
        return None;
    }
    match instruction.op_kind(operand) {
        OpKind::Register => {
            let register = instruction.op_register(operand);
            let whole = register.is_gpr() && !is_high8(register);
            let id = RegId::of(register).filter(|_| whole)?;
            let bits = size_bits(register);
            Some(Source::Register { id, bits })
        }
        OpKind::Memory => Some(Source::Memory {
            bits: (instruction.memory_size().size() * 8) as u16,
        }),
        kind if is_immediate(kind) => Some(Source::Number(instruction.immediate(operand) as i64)),
        _ => None,
    }
}

fn address(instruction: &Instruction) -> Option<Operation> {
    let scale = i64::from(instruction.memory_index_scale());
    let mut terms = [
        (instruction.memory_base(), 1),
        (instruction.memory_index(), scale),
    ]
    .map(|(register, scale)| match register {
        Register::None => Some(None),
        register if register.is_ip() => Some(None),
        register => RegId::of(register).map(|id| Some((id, scale))),
    });
    Some(Operation::Address {
        terms: [terms[0].take()?, terms[1].take()?],
        displacement: instruction.memory_displacement64() as i64,
    })
}

#[cfg(test)]
mod tests {
    use super::super::build::decode;
    use super::*;

    fn only(bytes: &[u8]) -> Decoded {
        let (mut decoded, bad) = decode(bytes, 0x1000);
        assert_eq!((decoded.len(), bad), (1, None));
        decoded.remove(0)
    }

    const RAX: RegId = RegId(0);
    const RCX: RegId = RegId(1);

    #[test]
    fn effects_are_what_the_manual_says() {
        let register = |id, bits| Source::Register { id, bits };
        for (bytes, bits, operation) in [
            // mov eax, ecx; movsx rax, cl; dec rax; xor eax, eax; shr eax, 3
            (&[0x89, 0xc8][..], 32, Operation::Copy(register(RCX, 32))),
            (
                &[0x48, 0x0f, 0xbe, 0xc1],
                64,
                Operation::SignExtend(register(RCX, 8)),
            ),
            (
                &[0x48, 0xff, 0xc8],
                64,
                Operation::Add(register(RAX, 64), Source::Number(-1)),
            ),
            (&[0x31, 0xc0], 32, Operation::Copy(Source::Number(0))),
            (
                &[0xc1, 0xe8, 0x03],
                32,
                Operation::ShiftRight(register(RAX, 32), Source::Number(3)),
            ),
            // lea rax, [rcx + rax*4 - 8]
            (
                &[0x48, 0x8d, 0x44, 0x81, 0xf8],
                64,
                Operation::Address {
                    terms: [Some((RCX, 1)), Some((RAX, 4))],
                    displacement: -8,
                },
            ),
        ] {
            let expected = Effect {
                target: RAX,
                bits,
                operation,
            };
            assert_eq!(only(bytes).effect(), Some(expected), "{bytes:02x?}");
        }
    }

    #[test]
    fn others_have_none() {
        // imul rax, rcx; mov ah, cl; mov [rcx], rax; shl al, 1; addps xmm0, xmm1
        for bytes in [
            &[0x48, 0x0f, 0xaf, 0xc1][..],
            &[0x88, 0xcc],
            &[0x48, 0x89, 0x01],
            &[0xd0, 0xe0],
            &[0x0f, 0x58, 0xc1],
        ] {
            assert_eq!(only(bytes).effect(), None, "{bytes:02x?}");
        }
    }

    #[test]
    fn stores_store_registers_and_numbers() {
        // mov [rcx], eax; mov dword [rcx], -1; push rcx; add [rcx], rax
        let register = |id, bits| Source::Register { id, bits };
        let stored = |bytes: &[u8]| only(bytes).stored();
        assert_eq!(stored(&[0x89, 0x01]), Some(register(RAX, 32)));
        let number = stored(&[0xc7, 0x01, 0xff, 0xff, 0xff, 0xff]);
        assert!(matches!(number, Some(Source::Number(n)) if n as u32 == u32::MAX));
        assert_eq!(stored(&[0x51]), Some(register(RCX, 64)));
        assert_eq!(only(&[0x51]).stack_step(), -8);
        assert_eq!(stored(&[0x48, 0x01, 0x01]), None);
    }
}
