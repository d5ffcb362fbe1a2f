//! Drops the phantom last instruction of QEMU 7.2.
//!
//! When an instruction crosses a page end and is not the first of its block, QEMU 7.2 gives up
//! decoding it there, ends the block before it and starts the next block with it; but its plugin
//! interface has already counted it, with the bytes that were read so far. No instruction's
//! encoding is the beginning of another's, so a whole instruction never looks cut off. Bytes that
//! are no instruction at all may; they raise a fault and never retire, so dropping them is right
//! too.

use iced_x86::{Decoder, DecoderError, DecoderOptions, Instruction};

/// Whether the last instruction of a block, given by its bytes, is cut off.
#[must_use]
pub fn is_phantom(address: u64, bytes: &[u8]) -> bool {
    let mut decoder = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    decoder.decode_out(&mut instruction);
    decoder.last_error() == DecoderError::NoMoreBytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_cut_instructions_are_phantoms() {
        let whole: [&[u8]; 5] = [
            &[0x90],
            &[0x48, 0x8b, 0x05, 1, 2, 3, 4],
            &[0x0f, 0x05],
            &[0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8],
            &[0xc4, 0xe2, 0x7d, 0x18, 0x05, 1, 2, 3, 4],
        ];
        for bytes in whole {
            assert!(!is_phantom(0x1000, bytes));
            for cut in 1..bytes.len() {
                assert!(is_phantom(0x1000, &bytes[..cut]), "{bytes:x?} cut at {cut}");
            }
        }
        // ud2 is an instruction.
        assert!(!is_phantom(0, &[0x0f, 0x0b]));
    }
}
