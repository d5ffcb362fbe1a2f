//! What the code of a function looks like, for finding functions without names again in another
//! version of the program.
//!
//! A block's hash covers its mnemonics and the kinds of their operands; registers, constants and
//! addresses, which differ from build to build, do not enter. A function's fingerprint is the
//! hashes of the blocks in which it executed the most instructions.

use std::collections::BTreeMap;

use super::dictionary::TranslatedBlock;

/// Blocks in a fingerprint.
const BLOCKS: usize = 12;
/// Blocks that are shorter look like too many others, unless the function has no longer ones.
const TELLING: usize = 3;

/// A function by name and module.
type Function<'a> = (&'a str, &'a str);

#[derive(Clone, Copy, Debug)]
struct Print {
    telling: bool,
    instructions: u64,
    hash: u64,
}

/// Collects fingerprints.
#[derive(Default)]
pub(super) struct Fingerprints<'a> {
    functions: BTreeMap<Function<'a>, Vec<Print>>,
}

impl<'a> Fingerprints<'a> {
    /// Takes in a block of a function, which executed so many instructions.
    pub(super) fn add(
        &mut self,
        function: Function<'a>,
        block: &TranslatedBlock,
        instructions: u64,
    ) {
        self.functions.entry(function).or_default().push(Print {
            telling: block.len() >= TELLING,
            instructions,
            hash: hash(block),
        });
    }

    /// The fingerprints in the order of the functions.
    pub(super) fn finish(self) -> impl Iterator<Item = (Function<'a>, Vec<String>)> {
        self.functions.into_iter().map(|(function, mut prints)| {
            if prints.iter().any(|print| print.telling) {
                prints.retain(|print| print.telling);
            }
            prints.sort_by_key(|print| (std::cmp::Reverse(print.instructions), print.hash));
            prints.truncate(BLOCKS);
            let mut hashes: Vec<u64> = prints.into_iter().map(|print| print.hash).collect();
            hashes.sort_unstable();
            hashes.dedup();
            let texts = hashes.iter().map(|hash| format!("{hash:016x}")).collect();
            (function, texts)
        })
    }
}

/// FNV-1a, 64 bits: short, and the same on every machine.
struct Fnv(u64);

impl Fnv {
    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

fn hash(block: &TranslatedBlock) -> u64 {
    let mut fnv = Fnv(0xcbf2_9ce4_8422_2325);
    for code in &block.decode() {
        fnv.bytes(code.shape().as_bytes());
    }
    fnv.0
}

#[cfg(test)]
mod tests {
    use mcad_proto::event::BlockDef;
    use mcad_proto::word::{BlockId, GuestAddr};

    use super::super::dictionary::Dictionary;
    use super::*;

    fn of(address: u64, instructions: u16, bytes: &[u8]) -> Vec<String> {
        let mut dictionary = Dictionary::default();
        let id = BlockId(0);
        let address = GuestAddr(address);
        dictionary
            .define(&BlockDef {
                id,
                address,
                instructions,
                bytes,
            })
            .unwrap();
        let mut prints = Fingerprints::default();
        prints.add(("f", "m"), dictionary.get(id).unwrap(), 1);
        prints.finish().next().unwrap().1
    }

    #[test]
    fn registers_constants_and_addresses_do_not_enter() {
        // add rax,rbx; add rcx,1; jne
        let one = of(0x1000, 3, &[0x48, 1, 0xd8, 0x48, 0x83, 0xc1, 1, 0x75, 0x10]);
        // add rcx,rdx; add rsi,7; jne
        let same = of(0x7000, 3, &[0x48, 1, 0xd1, 0x48, 0x83, 0xc6, 7, 0x75, 0x40]);
        // add rax,[rbx]; add rcx,1; jne
        let memory = of(0x1000, 3, &[0x48, 3, 0x03, 0x48, 0x83, 0xc1, 1, 0x75, 0x10]);
        assert_eq!(one, same);
        assert_ne!(one, memory);
        assert_eq!(one.len(), 1);
    }
}
