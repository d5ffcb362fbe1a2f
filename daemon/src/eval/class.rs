//! Categories of blocks, by what most of their instructions do.
//!
//! The first of the rules in [`CATEGORIES`] that applies. BHive's categories, which cluster port
//! use, are in [`super::topics`].

use iced_x86::{Instruction, InstructionInfoFactory, OpAccess};

use super::Pair;

/// Names of the categories with their rules, in the order in which they are tried.
pub const CATEGORIES: &[(&str, &str)] = &[
    (
        "slow",
        "has a division, a square root or a repeated string instruction",
    ),
    (
        "load+store",
        "at least half of the instructions access memory, some read and some write",
    ),
    (
        "load",
        "at least half of the instructions access memory, all read",
    ),
    (
        "store",
        "at least half of the instructions access memory, all write",
    ),
    (
        "vector",
        "at least half of the instructions use vector registers",
    ),
    ("mixed", "some instructions use vector registers"),
    ("scalar", "everything else"),
];

/// The category of a block, a place in [`CATEGORIES`].
#[must_use]
pub fn category(block: &[Instruction], factory: &mut InstructionInfoFactory) -> usize {
    let (mut slow, mut memory, mut reads, mut writes, mut vectors) = (false, 0, false, false, 0);
    for instruction in block {
        let mnemonic = format!("{:?}", instruction.mnemonic());
        slow |= mnemonic.contains("div")
            || mnemonic.contains("Div")
            || mnemonic.contains("qrt")
            || instruction.has_rep_prefix() && instruction.is_string_instruction();
        let info = factory.info(instruction);
        let accessed = |a: OpAccess| a != OpAccess::None && a != OpAccess::NoMemAccess;
        memory += usize::from(info.used_memory().iter().any(|m| accessed(m.access())));
        for used in info.used_memory() {
            let (read, written) = match used.access() {
                OpAccess::Read | OpAccess::CondRead => (true, false),
                OpAccess::Write | OpAccess::CondWrite => (false, true),
                OpAccess::ReadWrite | OpAccess::ReadCondWrite => (true, true),
                OpAccess::None | OpAccess::NoMemAccess => (false, false),
            };
            reads |= read;
            writes |= written;
        }
        let vector = info
            .used_registers()
            .iter()
            .any(|r| r.register().is_vector_register() || r.register().is_mm());
        vectors += usize::from(vector);
    }
    let half = |n: usize| 2 * n >= block.len() && n > 0;
    match (slow, half(memory), reads, writes) {
        (true, ..) => 0,
        (_, true, true, true) => 1,
        (_, true, true, false) => 2,
        (_, true, false, true) => 3,
        _ if half(vectors) => 4,
        _ if vectors > 0 => 5,
        _ => 6,
    }
}

/// The category of each block, a place in [`CATEGORIES`].
#[must_use]
pub fn of(pairs: &[Pair]) -> Vec<usize> {
    let mut factory = InstructionInfoFactory::new();
    pairs
        .iter()
        .map(|p| category(&p.instructions(), &mut factory))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_apply_in_order() {
        let mut factory = InstructionInfoFactory::new();
        for (hex, name) in [
            ("4801d8", "scalar"),
            ("48f7f1", "slow"),
            ("488b07", "load"),
            ("488907", "store"),
            ("480107", "load+store"),
            ("c5f558c1", "vector"),
            ("c5f558c14801d84801d8", "mixed"),
            ("488d07", "scalar"),
        ] {
            let pair = Pair {
                hex: hex.into(),
                label: 1.0,
                prediction: None,
                reason: None,
            };
            let class = category(&pair.instructions(), &mut factory);
            assert_eq!(CATEGORIES[class].0, name, "{hex}");
        }
    }
}
