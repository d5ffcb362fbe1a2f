//! What the front end reads off an instruction's encoding.

use iced_x86::{Instruction, OpKind};

/// Encoding facts of one instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Encoding {
    /// Offset of the nominal opcode byte, as XED's `POS_NOMINAL_OPCODE`.
    pub nominal_opcode: u8,
    /// A length-changing prefix: 66h before an instruction with a 16-bit immediate.
    pub lcp: bool,
    /// The immediate, sign-extended; `None` when there is none.
    pub immediate: Option<i64>,
}

/// Reads the facts of `bytes`, which decode to `instruction`.
#[must_use]
pub fn encoding(instruction: &Instruction, bytes: &[u8]) -> Encoding {
    let mut at = 0;
    let mut prefix66 = false;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            0x66 => prefix66 = true,
            0xf0 | 0xf2 | 0xf3 | 0x2e | 0x36 | 0x3e | 0x26 | 0x64 | 0x65 | 0x67 => {}
            _ => break,
        }
        at += 1;
    }
    if bytes.get(at).is_some_and(|b| b & 0xf0 == 0x40) {
        at += 1;
    }
    let nominal = match (bytes.get(at), instruction.encoding()) {
        (Some(0xc5), iced_x86::EncodingKind::VEX) => at + 2,
        (Some(0xc4), iced_x86::EncodingKind::VEX) | (Some(0x8f), iced_x86::EncodingKind::XOP) => {
            at + 3
        }
        (Some(0x62), iced_x86::EncodingKind::EVEX) => at + 4,
        (Some(0x0f), _) => match bytes.get(at + 1) {
            Some(0x38 | 0x3a) => at + 2,
            _ => at + 1,
        },
        _ => at,
    };
    let immediates = (0..instruction.op_count()).map(|n| instruction.op_kind(n));
    let immediate16 = immediates
        .into_iter()
        .any(|kind| kind == OpKind::Immediate16);
    Encoding {
        nominal_opcode: nominal.min(15) as u8,
        lcp: prefix66 && immediate16,
        immediate: first_immediate(instruction),
    }
}

/// The first immediate of an instruction, sign-extended.
#[must_use]
pub fn first_immediate(instruction: &Instruction) -> Option<i64> {
    let n = (0..instruction.op_count()).find(|n| is_immediate(instruction.op_kind(*n)))?;
    let value = instruction.immediate(n);
    Some(match instruction.op_kind(n) {
        OpKind::Immediate8 => i64::from(value as u8 as i8),
        OpKind::Immediate16 => i64::from(value as u16 as i16),
        OpKind::Immediate32 => i64::from(value as u32 as i32),
        _ => value as i64,
    })
}

/// Whether an operand is the instruction's (first) immediate.
pub(crate) fn is_immediate(kind: OpKind) -> bool {
    matches!(
        kind,
        OpKind::Immediate8
            | OpKind::Immediate16
            | OpKind::Immediate32
            | OpKind::Immediate64
            | OpKind::Immediate8to16
            | OpKind::Immediate8to32
            | OpKind::Immediate8to64
            | OpKind::Immediate32to64
    )
}
