//! Which [`RegId`] the registers of an instruction set have.

use crate::regs::RegId;

/// Consecutive registers of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bank {
    /// Id of its register 0.
    pub first: u8,
    /// How many there are.
    pub count: u8,
    /// Number of the register that reads as zero where the operand allows one.
    pub zero: Option<i16>,
}

/// Bank of an instruction set by the name that the dump uses.
const BANKS: &[(&str, &str, Bank)] = &[
    // x31 is the stack pointer.
    ("aarch64", "x", bank(0, 32, Some(31))),
    ("aarch64", "sp", bank(0, 32, None)),
    ("aarch64", "v", bank(32, 32, None)),
    ("aarch64", "p", bank(64, 16, None)),
    ("aarch64", "nzcv", bank(80, 1, None)),
    ("aarch64", "ffr", bank(81, 1, None)),
    ("aarch64", "fpcr", bank(82, 1, None)),
    ("aarch64", "fpsr", bank(83, 1, None)),
    ("riscv", "x", bank(0, 32, Some(0))),
    ("riscv", "f", bank(32, 32, None)),
    ("riscv", "v", bank(64, 32, None)),
    ("riscv", "VL", bank(96, 1, None)),
    ("riscv", "VTYPE", bank(96, 1, None)),
    ("riscv", "VXSAT", bank(97, 1, None)),
    ("riscv", "VXRM", bank(98, 1, None)),
    ("riscv", "FRM", bank(99, 1, None)),
    ("riscv", "FFLAGS", bank(100, 1, None)),
];

const fn bank(first: u8, count: u8, zero: Option<i16>) -> Bank {
    Bank { first, count, zero }
}

impl Bank {
    /// The bank of this name.
    #[must_use]
    pub fn of(arch: &str, name: &str) -> Option<Self> {
        let found = BANKS.iter().find(|(a, n, _)| *a == arch && *n == name);
        found.map(|(_, _, bank)| *bank)
    }

    /// Its register of this number.
    #[must_use]
    pub fn register(self, number: i16) -> Option<RegId> {
        let number = u8::try_from(number).ok().filter(|n| *n < self.count)?;
        Some(RegId(self.first + number))
    }
}

/// The name of a register by its bank and number.
#[must_use]
pub fn name(arch: &str, reg: RegId) -> String {
    let banks = BANKS.iter().filter(|(a, ..)| *a == arch);
    let has = |bank: &Bank| (bank.first..bank.first + bank.count).contains(&reg.0);
    let found = banks
        .map(|(_, name, bank)| (name, bank))
        .find(|(_, bank)| has(bank));
    match found {
        Some((name, bank)) if bank.count > 1 => format!("{name}{}", reg.0 - bank.first),
        Some((name, _)) => name.to_lowercase(),
        None => "register".to_owned(),
    }
}
