//! Pages that only prefetches name: nothing maps them, since a prefetch does not fault, and then it walks the tables in vain
//! each time (61 cycles on Zen, where one whose page is there takes half a cycle).

use iced_x86::{Code, Encoder, Instruction, MemoryOperand, Mnemonic, Register};

/// Code that reads a byte at each address that these instructions prefetch, as the registers are at their start; empty without
/// prefetches. Addresses relative to the instruction pointer are left out: they are in the code.
pub(crate) fn touches(instructions: &[Instruction]) -> Vec<u8> {
    let mut encoder = Encoder::new(64);
    for instruction in instructions.iter().filter(|i| is_prefetch(i)) {
        let place = MemoryOperand::new(
            instruction.memory_base(),
            instruction.memory_index(),
            instruction.memory_index_scale(),
            instruction.memory_displacement64() as i64,
            instruction.memory_displ_size(),
            false,
            instruction.segment_prefix(),
        );
        if let Ok(read) = Instruction::with2(Code::Test_rm8_imm8, place, 0) {
            // What cannot be encoded is not touched, and measured as it is.
            let _ = encoder.encode(&read, 0);
        }
    }
    encoder.take_buffer()
}

fn is_prefetch(instruction: &Instruction) -> bool {
    matches!(
        instruction.mnemonic(),
        Mnemonic::Prefetch
            | Mnemonic::Prefetchit0
            | Mnemonic::Prefetchit1
            | Mnemonic::Prefetchnta
            | Mnemonic::Prefetcht0
            | Mnemonic::Prefetcht1
            | Mnemonic::Prefetcht2
            | Mnemonic::Prefetchw
            | Mnemonic::Prefetchwt1
    ) && instruction.memory_base() != Register::RIP
}

#[cfg(test)]
mod tests {
    use iced_x86::{Decoder, DecoderOptions};

    use super::*;

    #[test]
    fn what_is_prefetched_is_read_and_nothing_else() {
        let decoded = |bytes: &[u8]| -> Vec<Instruction> {
            Decoder::with_ip(64, bytes, 0, DecoderOptions::NONE)
                .iter()
                .collect()
        };
        // mov eax, [rdi]; prefetcht0 [rdi + 8 * rcx + 0x1000]; prefetchw [rbx]; prefetcht0 [rip]
        let block = decoded(&[
            0x8b, 0x07, 0x0f, 0x18, 0x8c, 0xcf, 0, 0x10, 0, 0, 0x0f, 0x0d, 0x0b, 0x0f, 0x18, 0x0d,
            0, 0, 0, 0,
        ]);
        let read: Vec<String> = decoded(&touches(&block))
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            read,
            ["test byte ptr [rdi+rcx*8+1000h],0", "test byte ptr [rbx],0"]
        );
        assert!(touches(&block[..1]).is_empty());
    }
}
