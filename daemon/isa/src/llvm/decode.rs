//! From instruction words to opcodes: bits that must agree, the encodings with more of them first.
//!
//! `cargo xtask tables-llvm --prove` compares all words with LLVM's own decoder.

use super::wire::{File, Opcode, Rule};

/// Words of one key.
type Bucket = Vec<Rule>;

/// Finds the opcode of an instruction word.
#[derive(Debug)]
pub struct Decoder {
    /// Bits of the key, from the lowest.
    key: Vec<u32>,
    buckets: Vec<Bucket>,
    /// Compressed instructions are told by their lowest two bits.
    compressed: bool,
}

impl Decoder {
    /// The decoder of a table. `compressed`: instructions whose lowest two bits are not both set
    /// have two bytes (RISC-V); else all have four.
    #[must_use]
    pub fn new(file: &File, compressed: bool) -> Self {
        // Where the encodings differ most.
        let key: Vec<u32> = match compressed {
            true => vec![0, 1, 2, 3, 4, 5, 6, 12, 13, 14],
            false => (21..32).collect(),
        };
        let mut buckets = vec![Bucket::new(); 1 << key.len()];
        for rule in &file.rules {
            let (mask, value) = (gather(rule.mask, &key), gather(rule.value, &key));
            for (place, bucket) in buckets.iter_mut().enumerate() {
                if place as u32 & mask == value {
                    bucket.push(*rule);
                }
            }
        }
        Self {
            key,
            buckets,
            compressed,
        }
    }

    /// Bytes of the instruction that begins with this word.
    #[inline]
    #[must_use]
    pub fn size(&self, word: u32) -> usize {
        match self.compressed && word & 3 != 3 {
            true => 2,
            false => 4,
        }
    }

    /// Place of the word's opcode in [`File::opcodes`]; bits beyond its size do not matter.
    #[must_use]
    pub fn find(&self, word: u32) -> Option<u16> {
        let word = match self.size(word) {
            2 => word & 0xffff,
            _ => word,
        };
        let bucket = self.buckets.get(gather(word, &self.key) as usize)?;
        let rule = bucket.iter().find(|rule| word & rule.mask == rule.value)?;
        Some(rule.opcode)
    }
}

/// The bits of a word at `places`, packed.
fn gather(word: u32, places: &[u32]) -> u32 {
    let bits = places.iter().enumerate();
    bits.fold(0, |sum, (n, place)| sum | (word >> place & 1) << n)
}

/// The form of an instruction word of `opcode`.
#[must_use]
pub fn form(opcode: &Opcode, word: u32) -> Option<u16> {
    let mut rules = opcode.forms.iter();
    let same = (word >> 5 ^ word >> 16) & 31 == 0;
    let found = rules.find(|rule| word & rule.mask == rule.value && (same || !rule.same_sources));
    found.or(opcode.forms.first()).map(|rule| rule.form)
}
