//! What instructions have in common that differ in constants and addresses only: all that is found out
//! about one, but for what is computed with its constants, holds for the others.
//!
//! Of a displacement it matters whether it is one over which a load of a pointer can follow another
//! sooner; of an immediate, whether it is zero (a form of its own in the tables) and how much room it
//! needs in the µop cache.

use iced_x86::{ConstantOffsets, Instruction, OpKind};

use super::build::{Bytes, is_near};
use super::encoding::first_immediate;

/// The bytes without those of constants, with what matters of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Pattern(u128);

impl Pattern {
    /// Of an instruction whose constants lie there in its bytes.
    pub(super) fn of(
        instruction: &Instruction,
        bytes: &Bytes,
        constants: &ConstantOffsets,
    ) -> Self {
        let mut all = [0; Bytes::MOST + 1];
        all[..bytes.len()].copy_from_slice(bytes);
        let mut matters = bytes.len() as u8;
        let mut leave_out = |offset: usize, size: usize| {
            if let Some(constant) = all.get_mut(offset..offset + size) {
                constant.fill(0);
            }
        };
        if constants.has_displacement() {
            leave_out(
                constants.displacement_offset(),
                constants.displacement_size(),
            );
            matters |= u8::from(is_near(instruction.memory_displacement64() as i64)) << 4;
        }
        // By how much `enter` and `ret` move the stack pointer is in their immediates.
        let alike = branches(instruction) || !instruction.is_stack_instruction();
        if constants.has_immediate() && !constants.has_immediate2() && alike {
            leave_out(constants.immediate_offset(), constants.immediate_size());
            let class = match first_immediate(instruction) {
                None | Some(0) => 0,
                Some(i) if i16::try_from(i).is_ok() => 1,
                Some(i) if i32::try_from(i).is_ok() => 2,
                Some(_) => 3,
            };
            matters |= class << 5;
        }
        all[Bytes::MOST] = matters;
        Self(u128::from_le_bytes(all))
    }

    /// The pattern that these bytes have alone.
    pub(super) fn exact(bytes: &Bytes) -> Self {
        let mut all = [0; Bytes::MOST + 1];
        all[..bytes.len()].copy_from_slice(bytes);
        all[Bytes::MOST] = bytes.len() as u8 | 1 << 7;
        Self(u128::from_le_bytes(all))
    }
}

fn branches(instruction: &Instruction) -> bool {
    matches!(
        instruction.op0_kind(),
        OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64
    )
}

#[cfg(test)]
mod tests {
    use super::super::build::decode;
    use super::*;

    fn pattern(code: &[u8]) -> Pattern {
        let (decoded, bad) = decode(code, 0x1000);
        assert_eq!((decoded.len(), bad), (1, None));
        decoded[0].pattern
    }

    #[test]
    fn what_differs_in_constants_only_has_one_pattern() {
        for (one, other) in [
            // mov rax, [rcx + 8] and + 16; add rcx, 5 and 6; jne there and elsewhere
            (&[0x48, 0x8b, 0x41, 8][..], &[0x48, 0x8b, 0x41, 16][..]),
            (&[0x48, 0x83, 0xc1, 5], &[0x48, 0x83, 0xc1, 6]),
            (&[0x75, 0x10], &[0x75, 0xf0]),
            // mov dword [rsp + 8], 1 and [rsp + 4], 2; vaddps zmm0, zmm1, [rcx + 64] and + 128
            (
                &[0xc7, 0x44, 0x24, 8, 1, 0, 0, 0],
                &[0xc7, 0x44, 0x24, 4, 2, 0, 0, 0],
            ),
            (
                &[0x62, 0xf1, 0x74, 0x48, 0x58, 0x41, 1],
                &[0x62, 0xf1, 0x74, 0x48, 0x58, 0x41, 2],
            ),
        ] {
            assert_eq!(pattern(one), pattern(other), "{one:x?} {other:x?}");
        }
    }

    #[test]
    fn what_costs_something_else_has_another() {
        for (one, other) in [
            // Another register, opcode, size of displacement, sign of displacement.
            (&[0x48, 0x8b, 0x41, 8][..], &[0x48, 0x8b, 0x42, 8][..]),
            (&[0x48, 0x83, 0xc1, 5], &[0x48, 0x83, 0xe9, 5]),
            (&[0x48, 0x8b, 0x41, 8], &[0x48, 0x8b, 0x81, 8, 0, 0, 0]),
            (&[0x48, 0x8b, 0x41, 8], &[0x48, 0x8b, 0x41, 0xf8]),
            // An immediate of zero, one of more than 16 bits, one of more than 32.
            (&[0x48, 0x83, 0xc1, 5], &[0x48, 0x83, 0xc1, 0]),
            (&[0xb8, 5, 0, 0, 0], &[0xb8, 5, 0, 5, 0]),
            (
                &[0x48, 0xb8, 5, 0, 5, 0, 0, 0, 0, 0],
                &[0x48, 0xb8, 5, 0, 5, 0, 5, 0, 0, 0],
            ),
            // ret 8 and ret 16; enter.
            (&[0xc2, 8, 0], &[0xc2, 16, 0]),
            (&[0xc8, 8, 0, 0], &[0xc8, 8, 0, 1]),
        ] {
            assert_ne!(pattern(one), pattern(other), "{one:x?} {other:x?}");
        }
        let decoded = decode(&[0x90], 0).0[0];
        assert_ne!(decoded.pattern, Pattern::exact(&decoded.bytes));
    }
}
