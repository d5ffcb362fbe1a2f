//! Function starts of files that tell nothing of their functions: neither symbols nor `.eh_frame`
//! (a program built with `-fno-asynchronous-unwind-tables` and stripped has both no more).
//!
//! What direct calls go to is a function, and so is what an aligned pointer in writable or
//! relocated data points to, if control does not fall into it from above. A function that is only
//! ever jumped to is taken for a part of the one before it.

use std::ops::Range;

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, OpKind};
use object::{Object, ObjectSection, ReadRef, RelocationTarget, SectionKind};

use super::image;

/// Compilers align functions to this, at least where they optimise for speed.
const ALIGNMENT: u64 = 16;

/// What one section's code says.
#[derive(Default)]
struct Sweep {
    /// Targets of direct calls.
    called: Vec<u64>,
    /// Places that control does not fall into, in order.
    fresh: Vec<u64>,
}

/// The ELF addresses of all starts in the file's code sections, in order.
pub(super) fn starts<'d, R: ReadRef<'d>>(file: &object::File<'d, R>) -> Vec<u64> {
    let mut code: Vec<Range<u64>> = Vec::new();
    let mut sweep = Sweep::default();
    for section in file.sections() {
        // The stubs of the linker's table are no functions of the file.
        let stubs = section.name().is_ok_and(|name| name.starts_with(".plt"));
        if section.kind() == SectionKind::Text
            && !stubs
            && let Some(bytes) = image::content(&section)
            && let Some(end) = section.address().checked_add(bytes.len() as u64)
        {
            code.push(section.address()..end);
            sweep.add(&bytes, section.address());
        }
    }
    sweep.fresh.sort_unstable();
    let aligned = pointers(file).into_iter().filter(|to| to % ALIGNMENT == 0);
    let pointed = aligned.filter(|to| sweep.fresh.binary_search(to).is_ok());
    let mut starts: Vec<u64> = sweep.called.iter().copied().chain(pointed).collect();
    starts.retain(|start| code.iter().any(|range| range.contains(start)));
    starts.sort_unstable();
    starts.dedup();
    starts
}

impl Sweep {
    /// Decodes a section from its first byte to its last. Data among the code may garble some
    /// instructions; decoding is in step again soon after.
    fn add(&mut self, bytes: &[u8], address: u64) {
        let mut decoder = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE);
        let mut instruction = Instruction::default();
        let mut ended = true;
        while decoder.can_decode() {
            decoder.decode_out(&mut instruction);
            let padding = matches!(
                instruction.code(),
                Code::Nopw | Code::Nopd | Code::Nopq | Code::Nop_rm16 | Code::Nop_rm32 | Code::Int3
            );
            if ended && !padding {
                self.fresh.push(instruction.ip());
                ended = false;
            }
            match instruction.flow_control() {
                FlowControl::Call if instruction.op0_kind() == OpKind::NearBranch64 => {
                    self.called.push(instruction.near_branch_target());
                }
                FlowControl::Return
                | FlowControl::UnconditionalBranch
                | FlowControl::IndirectBranch
                | FlowControl::Exception => ended = true,
                _ => {}
            }
        }
    }
}

/// Values of the words in data that may be pointers, and what the loader writes there.
fn pointers<'d, R: ReadRef<'d>>(file: &object::File<'d, R>) -> Vec<u64> {
    let mut pointers = Vec::new();
    for section in file.sections() {
        if section.kind() == SectionKind::Data
            && let Some(bytes) = image::content(&section)
        {
            let (words, _) = bytes.as_chunks::<8>();
            pointers.extend(words.iter().map(|word| u64::from_le_bytes(*word)));
        }
    }
    for (_, relocation) in file.dynamic_relocations().into_iter().flatten() {
        if relocation.target() == RelocationTarget::Absolute {
            pointers.push(relocation.addend() as u64);
        }
    }
    pointers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_and_ends_say_where_functions_start() {
        #[rustfmt::skip]
        let code = [
            0xe8, 0x0b, 0, 0, 0,                                // 1000: call 1010
            0xc3,                                               // ret
            0x66, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0, 0x90,        // nopw, nop
            0x85, 0xff,                                         // 1010: test edi, edi
            0x74, 0xec,                                         // je
            0xff, 0xe0,                                         // jmp rax
            0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, // int3
            0x31, 0xc0,                                         // 1020: xor eax, eax
            0xc3,                                               // ret
        ];
        let mut sweep = Sweep::default();
        sweep.add(&code, 0x1000);
        assert_eq!(sweep.called, [0x1010]);
        assert_eq!(sweep.fresh, [0x1000, 0x1010, 0x1020]);
    }
}
