//! Cuts code at its branches, as an emulator does.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction};

use crate::{AssembleError, Region};

/// Most instructions in a block, as in QEMU.
const MAX_INSTRUCTIONS: u16 = 512;

/// Instructions that execute one after the other, of which only the last may branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BasicBlock {
    /// Place in the region, in bytes.
    pub offset: usize,
    /// Number of instructions.
    pub instructions: u16,
    /// Length in bytes.
    pub length: usize,
}

/// Cuts a region into blocks, in order and without gaps.
///
/// # Errors
/// [`AssembleError::Undecodable`].
pub fn basic_blocks(region: &Region) -> Result<Vec<BasicBlock>, AssembleError> {
    let code = &region.bytes;
    let mut decoder = Decoder::with_ip(64, code, region.address, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    let mut blocks = Vec::new();
    let mut start = 0;
    let mut count = 0;
    while decoder.can_decode() {
        let at = decoder.position();
        decoder.decode_out(&mut instruction);
        if instruction.is_invalid() {
            let bytes: Vec<String> = code[at..]
                .iter()
                .take(15)
                .map(|b| format!("{b:02x}"))
                .collect();
            return Err(AssembleError::Undecodable {
                region: match &*region.name {
                    "" => "the code".to_owned(),
                    name => name.to_owned(),
                },
                offset: at,
                length: code.len(),
                bytes: bytes.join(" "),
            });
        }
        count += 1;
        let branches = instruction.flow_control() != FlowControl::Next;
        let end = decoder.position();
        if branches || count == MAX_INSTRUCTIONS || end == code.len() {
            blocks.push(BasicBlock {
                offset: start,
                instructions: count,
                length: end - start,
            });
            start = end;
            count = 0;
        }
    }
    Ok(blocks)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(bytes: &[u8]) -> Result<Vec<(usize, u16, usize)>, AssembleError> {
        let region = Region {
            name: String::new(),
            address: 0,
            linked: false,
            bytes: bytes.to_vec(),
        };
        let blocks = basic_blocks(&region)?;
        Ok(blocks
            .iter()
            .map(|b| (b.offset, b.instructions, b.length))
            .collect())
    }

    #[test]
    fn branches_and_lengths_end_blocks() {
        // nop; jne -3; nop; call 0; ret; nop
        let code = [0x90, 0x75, 0xfd, 0x90, 0xe8, 0, 0, 0, 0, 0xc3, 0x90];
        assert_eq!(
            cut(&code).unwrap(),
            [(0, 2, 3), (3, 2, 6), (9, 1, 1), (10, 1, 1)]
        );
        let long = cut(&[0x90; 1025]).unwrap();
        assert_eq!(long, [(0, 512, 512), (512, 512, 512), (1024, 1, 1)]);
    }

    #[test]
    fn what_is_no_instruction_is_placed() {
        let error = cut(&[0x90, 0x06]).unwrap_err().to_string();
        assert_eq!(error, "the code: no instruction at byte 1 of 2: 06");
        assert!(cut(&[0x90, 0x48]).is_err());
    }
}
