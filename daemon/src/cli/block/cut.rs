//! Cuts a function at its branches and at their targets, into pieces that execute from the first
//! instruction to the last. The same for all instruction sets.

use std::collections::BTreeSet;

use mcad_assemble::Region;
use mcad_isa::code::{Flow, decode};
use mcad_proto::event::Arch;

/// The pieces of a region, called `name+0x12`; a region without branches but at its end stays as it is,
/// and so does one that is no code, of which whoever decodes it tells.
pub(super) fn by_control_flow(region: &Region, arch: Arch) -> Vec<Region> {
    let code = &region.bytes;
    let (decoded, bad) = decode(arch, code, region.address);
    if bad.is_some() {
        return vec![region.clone()];
    }
    let offset = |address: u64| address.wrapping_sub(region.address) as usize;
    let boundaries: BTreeSet<usize> = decoded.iter().map(|c| offset(c.address())).collect();
    let mut starts: BTreeSet<usize> = [0].into();
    for instruction in &decoded {
        let flow = instruction.flow();
        if flow != Flow::Next {
            starts.insert(offset(instruction.address()) + instruction.len());
        }
        if let Flow::Jump(Some(target)) | Flow::Conditional(Some(target)) = flow {
            // Jumps between instructions, or out of the region, begin no piece.
            starts.extend(Some(offset(target)).filter(|at| boundaries.contains(at)));
        }
    }
    starts.retain(|at| *at < code.len());
    if starts.len() == 1 {
        return vec![region.clone()];
    }
    let next = starts.iter().copied().skip(1).chain([code.len()]);
    let pieces = starts.iter().copied().zip(next).map(|(from, to)| Region {
        name: match from {
            0 => region.name.clone(),
            _ => format!("{}+{from:#x}", region.name),
        },
        address: region.address.wrapping_add(from as u64),
        linked: region.linked,
        bytes: code.get(from..to).unwrap_or_default().to_vec(),
    });
    pieces.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(name: &str, bytes: &[u8]) -> Region {
        Region {
            name: name.into(),
            address: 0x1000,
            linked: true,
            bytes: bytes.to_vec(),
        }
    }

    fn cut(arch: Arch, code: &[u8]) -> Vec<String> {
        let pieces = by_control_flow(&region("f", code), arch);
        let all: Vec<u8> = pieces.iter().flat_map(|p| p.bytes.clone()).collect();
        assert_eq!(all, code, "nothing is lost");
        pieces.into_iter().map(|p| p.name).collect()
    }

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn a_function_is_cut_where_branches_leave_and_arrive() {
        // nop; L: dec rcx; jne L; test rax,rax; je M; nop; M: ret
        let x86 = [
            0x90, 0x48, 0xff, 0xc9, 0x75, 0xfb, 0x48, 0x85, 0xc0, 0x74, 0x01, 0x90, 0xc3,
        ];
        let names = ["f", "f+0x1", "f+0x6", "f+0xb", "f+0xc"];
        assert_eq!(cut(Arch::X86_64, &x86), names);
        // nop; L: subs x1,x1,#1; b.ne L; cbz x0,M; nop; M: ret
        let a64 = words(&[
            0xd503_201f,
            0xf100_0421,
            0x54ff_ffe1,
            0xb400_0040,
            0xd503_201f,
            0xd65f_03c0,
        ]);
        let names = ["f", "f+0x4", "f+0xc", "f+0x10", "f+0x14"];
        assert_eq!(cut(Arch::AArch64, &a64), names);
        // c.nop; L: addi a1,a1,-1; bnez a1,L; c.beqz a0,M; c.nop; M: ret
        let rv64 = [
            0x01, 0x00, 0x93, 0x85, 0xf5, 0xff, 0xe3, 0x9e, 0x05, 0xfe, 0x11, 0xc1, 0x01, 0x00,
            0x82, 0x80,
        ];
        let names = ["f", "f+0x2", "f+0xa", "f+0xc", "f+0xe"];
        assert_eq!(cut(Arch::RiscV64, &rv64), names);
    }

    #[test]
    fn loops_straight_code_and_what_is_no_code_stay_whole() {
        for code in [
            &[0x48, 0xff, 0xc9, 0x75, 0xfb][..],
            &[0x90, 0x90],
            &[0x90, 0x06],
        ] {
            assert_eq!(cut(Arch::X86_64, code), ["f"]);
        }
    }
}
