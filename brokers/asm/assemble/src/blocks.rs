//! Cuts code at its branches, as an emulator does.

use std::collections::BTreeSet;

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

/// Cuts a region at its branches and at their targets, into pieces that execute from the first
/// instruction to the last; a region without either stays as it is. Pieces are called
/// `name+0x12`.
///
/// # Errors
/// [`AssembleError::Undecodable`].
pub fn by_control_flow(region: &Region) -> Result<Vec<Region>, AssembleError> {
    let end = region.bytes.len();
    let mut starts: BTreeSet<usize> = [0].into();
    let ends = basic_blocks(region)?
        .into_iter()
        .map(|b| b.offset + b.length);
    let code = &region.bytes;
    let mut decoder = Decoder::with_ip(64, code, region.address, DecoderOptions::NONE);
    let (mut boundaries, mut targets) = (BTreeSet::new(), Vec::new());
    for instruction in &mut decoder {
        boundaries.insert(instruction.ip());
        if matches!(
            instruction.flow_control(),
            FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch
        ) {
            targets.push(instruction.near_branch_target());
        }
    }
    // Jumps between instructions, or out of the region, begin none.
    let inside = targets.into_iter().filter(|at| boundaries.contains(at));
    starts.extend(inside.map(|at| at.wrapping_sub(region.address) as usize));
    starts.extend(ends.filter(|at| *at < end));
    if starts.len() == 1 {
        return Ok(vec![region.clone()]);
    }
    let next = starts.iter().copied().skip(1).chain([end]);
    let pieces = starts.iter().copied().zip(next).map(|(from, to)| Region {
        name: match from {
            0 => region.name.clone(),
            _ => format!("{}+{from:#x}", region.name),
        },
        address: region.address.wrapping_add(from as u64),
        linked: region.linked,
        bytes: code.get(from..to).unwrap_or_default().to_vec(),
    });
    Ok(pieces.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_cut_where_branches_leave_and_arrive() {
        // nop; L: dec rcx; jne L; test rax,rax; je M; nop; M: ret
        let code = [
            0x90, 0x48, 0xff, 0xc9, 0x75, 0xfb, 0x48, 0x85, 0xc0, 0x74, 0x01, 0x90, 0xc3,
        ];
        let region = |name: &str, bytes: &[u8]| Region {
            name: name.into(),
            address: 0x1000,
            linked: true,
            bytes: bytes.to_vec(),
        };
        let pieces = by_control_flow(&region("f", &code)).unwrap();
        let names: Vec<&str> = pieces.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names, ["f", "f+0x1", "f+0x6", "f+0xb", "f+0xc"]);
        let all: Vec<u8> = pieces.iter().flat_map(|p| p.bytes.clone()).collect();
        assert_eq!(all, code);
        assert_eq!(pieces[1].address, 0x1001);
        // A loop is one piece, and so is straight code.
        for bytes in [&code[1..6], &code[..4]] {
            assert_eq!(by_control_flow(&region("g", bytes)).unwrap().len(), 1);
        }
    }

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
