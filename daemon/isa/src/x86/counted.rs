//! Blocks as loops that count themselves.

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Register,
};

/// Registers for counting, the ones that are named least first.
const COUNTERS: [Register; 15] = [
    Register::R15,
    Register::R14,
    Register::R13,
    Register::R12,
    Register::R11,
    Register::R10,
    Register::R9,
    Register::R8,
    Register::RBX,
    Register::RSI,
    Register::RDI,
    Register::RBP,
    Register::RCX,
    Register::RDX,
    Register::RAX,
];

/// A register that no instruction names, for counting a loop.
#[must_use]
pub fn free_register(instructions: &[Instruction]) -> Option<Register> {
    let mut factory = InstructionInfoFactory::new();
    let mut used = Vec::new();
    for instruction in instructions {
        let info = factory.info(instruction);
        let registers = info.used_registers().iter();
        used.extend(registers.map(|u| u.register().full_register()));
    }
    COUNTERS.into_iter().find(|r| !used.contains(r))
}

/// A block of 64-bit code with `dec r64; jnz` to its start behind it, as it is measured in a loop; `None` where it has a branch, is
/// no code, or leaves no register to count with.
#[must_use]
pub fn counted(bytes: &[u8]) -> Option<Vec<u8>> {
    let instructions: Vec<_> = Decoder::new(64, bytes, DecoderOptions::NONE)
        .into_iter()
        .collect();
    let straight = |i: &Instruction| !i.is_invalid() && i.flow_control() == FlowControl::Next;
    if instructions.is_empty() || !instructions.iter().all(straight) {
        return None;
    }
    let number = free_register(&instructions)?.number() as u8;
    let mut counted = bytes.to_vec();
    counted.extend([0x48 | number >> 3, 0xff, 0xc8 | number & 7]);
    match i8::try_from(-(counted.len() as i64 + 2)) {
        Ok(back) => counted.extend([0x75, back as u8]),
        Err(_) => {
            let back = i32::try_from(-(counted.len() as i64 + 6)).ok()?;
            counted.extend([0x0f, 0x85]);
            counted.extend(back.to_le_bytes());
        }
    }
    Some(counted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_counts_with_a_register_of_its_own() {
        // add rax, rbx
        let add = [0x48, 0x01, 0xd8];
        let looped = [0x48, 0x01, 0xd8, 0x49, 0xff, 0xcf, 0x75, 0xf8];
        assert_eq!(counted(&add).as_deref(), Some(&looped[..]));
        // add r15, r14
        let other = counted(&[0x4d, 0x01, 0xf7]).unwrap();
        assert_eq!(other[3..6], [0x49, 0xff, 0xcd]);
        let long = counted(&add.repeat(50)).unwrap();
        assert_eq!(long[153..155], [0x0f, 0x85]);
        assert_eq!(long[155..], (-159i32).to_le_bytes());
    }

    #[test]
    fn loops_and_what_is_no_code_are_left() {
        for bytes in [&[0x75, 0xfe][..], &[0x48, 0x01], &[], &[0x06]] {
            assert_eq!(counted(bytes), None, "{bytes:x?}");
        }
    }
}
