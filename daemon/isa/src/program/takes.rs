//! What the µops of a laminated µop take until it retires.

use crate::regs::RegId;
use crate::uop::UopKind;

/// What the µops of a laminated µop take until it retires, besides places in the re-order buffer: up to three each of integer and
/// vector registers, of flags without a register, and of entries of the load queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Takes(u8);

impl Takes {
    /// Nothing.
    pub const NONE: Self = Self(0);
    const BITS: u32 = 2;
    const INTEGER: u32 = 0;
    const VECTOR: u32 = 1;
    const FLAGS: u32 = 2;
    const LOADS: u32 = 3;

    /// What a µop of this kind takes besides that writes these registers, where rename does not do its work.
    #[must_use]
    pub fn with_uop(self, kind: UopKind, outputs: &[(RegId, u16)]) -> Self {
        let writes = |of: fn(RegId) -> bool| outputs.iter().any(|(reg, _)| of(*reg));
        let vector = writes(|reg| (RegId::VECTOR..RegId::MASK).contains(&reg.0));
        let integer = writes(|reg| reg.0 < RegId::VECTOR || reg.0 >= RegId::PSEUDO);
        let flags = !integer && writes(|reg| matches!(reg, RegId::CARRY | RegId::SPAZO));
        self.with(Self::INTEGER, integer)
            .with(Self::VECTOR, vector)
            .with(Self::FLAGS, flags)
            .with(Self::LOADS, matches!(kind, UopKind::Load(_)))
    }

    fn with(self, what: u32, one: bool) -> Self {
        let most = self.number(what) == (1 << Self::BITS) - 1;
        Self(self.0 + (u8::from(one && !most) << (what * Self::BITS)))
    }

    /// As one number.
    #[inline(always)]
    #[must_use]
    pub fn bits(self) -> u8 {
        self.0
    }

    /// Of such a number.
    #[must_use]
    pub fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    #[inline(always)]
    fn number(self, what: u32) -> u8 {
        self.0 >> (what * Self::BITS) & ((1 << Self::BITS) - 1)
    }

    /// Integer registers.
    #[inline(always)]
    #[must_use]
    pub fn integer(self) -> u8 {
        self.number(Self::INTEGER)
    }

    /// Vector registers.
    #[inline(always)]
    #[must_use]
    pub fn vector(self) -> u8 {
        self.number(Self::VECTOR)
    }

    /// Flags of µops that write no integer register.
    #[inline(always)]
    #[must_use]
    pub fn flags(self) -> u8 {
        self.number(Self::FLAGS)
    }

    /// Entries of the load queue.
    #[inline(always)]
    #[must_use]
    pub fn loads(self) -> u8 {
        self.number(Self::LOADS)
    }
}
