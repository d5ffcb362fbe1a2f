//! What addresses are made of: two that are made of the same values of the same registers are known to be equal
//! at rename, long before either is computed.
//!
//! A value has a number, which its register's next writer ends. Only values that the address of a store was
//! made of are followed. The stack pointer keeps its value through pushes, pops, calls, returns and additions of
//! immediates, which rename follows; a move to it and `leave` give it a new one. Found on Zen 5
//! (docs/ZEN5.md, "Memory renaming").

use crate::pipeline::state::{Fingerprint, Moment, Part};
use mcad_isa::program::FIRST_INPUTS;
use mcad_isa::regs::RegId;

/// Registers that addresses are made of.
const REGISTERS: usize = 16;

/// What an address is made of: up to two registers' values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made(u64);

impl Made {
    /// Of constants alone, or of more than is followed: like no other.
    pub const UNKNOWN: Self = Self(0);

    /// A constant that is not told from the instruction's own address.
    pub const ABSOLUTE: Self = Self(u64::MAX);

    /// Whether two addresses that are equal are known to be.
    #[inline]
    #[must_use]
    pub fn is_known_as(self, other: Self) -> bool {
        self != Self::UNKNOWN && self == other && !self.can_not_be_learnt(other)
    }

    /// Whether it is the stack pointer's value alone.
    #[inline]
    #[must_use]
    pub fn is_of_stack(self) -> bool {
        self.0 >> Addresses::BITS == u64::from(RegId::RSP.0) + 1
    }

    /// Whether two addresses that are equal are never known to be: both are constants.
    #[inline]
    #[must_use]
    pub fn can_not_be_learnt(self, other: Self) -> bool {
        self == Self::ABSOLUTE && other == Self::ABSOLUTE
    }
}

/// The values that registers have.
#[derive(Default)]
pub struct Addresses {
    /// Number of each register's value, of [`Addresses::BITS`] bits.
    values: [u32; REGISTERS],
    /// Registers whose values the addresses of stores were made of, one bit each.
    followed: u64,
}

impl Addresses {
    const BITS: u32 = 24;

    /// Registers whose next writer is of interest, one bit each.
    #[inline(always)]
    #[must_use]
    pub fn followed(&self) -> u64 {
        self.followed
    }

    /// A register has a new value.
    #[inline]
    pub fn overwrite(&mut self, reg: RegId) {
        if reg != RegId::RSP && self.followed >> (reg.0 & 63) & 1 != 0 {
            self.followed &= !(1 << reg.0);
            self.end(reg);
        }
    }

    /// The stack pointer has a new value that rename does not follow.
    pub fn leave_stack(&mut self) {
        self.end(RegId::RSP);
    }

    fn end(&mut self, reg: RegId) {
        if let Some(value) = self.values.get_mut(usize::from(reg.0)) {
            *value = (*value + 1) & ((1 << Self::BITS) - 1);
        }
    }

    /// What the address of a load or store is made of, with these inputs; without any it is the stack
    /// pointer's if `stack` says so.
    #[must_use]
    pub fn made_of(&self, inputs: &[RegId; FIRST_INPUTS], stack: bool) -> Made {
        let rsp = [RegId::RSP];
        let registers = inputs.iter().filter(|reg| **reg != RegId::NONE);
        let registers = registers.chain(rsp.iter().filter(|_| stack && inputs[0] == RegId::NONE));
        let mut made = 0u64;
        for reg in registers {
            let Some(value) = self.values.get(usize::from(reg.0)) else {
                return Made::UNKNOWN;
            };
            if made >> 32 != 0 {
                return Made::UNKNOWN;
            }
            made = made << 32 | u64::from(u32::from(reg.0) + 1) << Self::BITS | u64::from(*value);
        }
        Made(made)
    }

    /// Follows the values that a store's address is made of.
    #[inline]
    pub fn follow(&mut self, inputs: &[RegId; FIRST_INPUTS]) {
        for reg in inputs {
            if usize::from(reg.0) < REGISTERS && *reg != RegId::RSP {
                self.followed |= 1 << reg.0;
            }
        }
    }
}

impl Part for Addresses {
    fn reset(&mut self, _: &Moment) {
        *self = Self::default();
    }

    /// States are compared where code lies alike, and has written the same registers between.
    fn fingerprint(&self, _: &Moment, _: &mut Fingerprint) {
        let Self {
            values: _,
            followed: _,
        } = self;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RBX: RegId = RegId(3);
    const RDI: RegId = RegId(7);

    fn inputs(registers: &[RegId]) -> [RegId; FIRST_INPUTS] {
        std::array::from_fn(|n| registers.get(n).copied().unwrap_or(RegId::NONE))
    }

    #[test]
    fn an_address_is_known_until_a_register_of_it_is_written() {
        let mut addresses = Addresses::default();
        let of = inputs(&[RDI, RBX]);
        addresses.follow(&of);
        let store = addresses.made_of(&of, false);
        assert!(addresses.made_of(&of, false).is_known_as(store));
        assert!(!(addresses.made_of(&inputs(&[RDI]), false)).is_known_as(store));
        addresses.overwrite(RBX);
        assert!(!addresses.made_of(&of, false).is_known_as(store));
    }

    #[test]
    fn constants_are_like_nothing_and_the_stack_is_like_itself() {
        let mut addresses = Addresses::default();
        let none = inputs(&[]);
        let constant = addresses.made_of(&none, false);
        assert!(!constant.is_known_as(constant));
        let pushed = addresses.made_of(&none, true);
        assert!((addresses.made_of(&inputs(&[RegId::RSP]), false)).is_known_as(pushed));
        addresses.overwrite(RegId::RSP);
        assert!(addresses.made_of(&none, true).is_known_as(pushed));
        addresses.leave_stack();
        assert!(!addresses.made_of(&none, true).is_known_as(pushed));
    }
}
