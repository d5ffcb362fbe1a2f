//! What is renamed: registers, two groups of flags, and values between the µops of one instruction.

use iced_x86::Register;

/// A renamed thing. 8-, 16- and 32-bit registers are their 64-bit register, xmm and ymm their zmm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegId(pub u8);

impl RegId {
    /// First vector register.
    pub const VECTOR: u8 = 16;
    /// First mask register.
    pub const MASK: u8 = 48;
    /// The carry flag.
    pub const CARRY: Self = Self(72);
    /// The flags other than carry.
    pub const SPAZO: Self = Self(73);
    /// The stack pointer.
    pub const RSP: Self = Self(4);
    /// The frame pointer.
    pub const RBP: Self = Self(5);
    /// Nothing: never written, always there.
    pub const NONE: Self = Self(103);
    /// First value between the µops of one instruction.
    pub const PSEUDO: u8 = 104;
    /// Ids below this are registers; each instruction set has its own numbers (`llvm::regs` those of
    /// AArch64 and RISC-V).
    pub const GENERAL: usize = 103;
    /// Number of ids.
    pub const COUNT: usize = 128;

    /// The id of a register; `None` for the instruction pointer and "no register".
    #[must_use]
    pub fn of(register: Register) -> Option<Self> {
        let full = register.full_register();
        let number = full.number() as u8;
        Some(Self(if full.is_gpr() {
            number & 15
        } else if full.is_vector_register() {
            Self::VECTOR + (number & 31)
        } else if full.is_k() {
            Self::MASK + (number & 7)
        } else if full.is_st() {
            56 + (number & 7)
        } else if full.is_mm() {
            64 + (number & 7)
        } else if full.is_segment_register() {
            74 + (number & 7)
        } else if full.is_cr() {
            82
        } else if full.is_dr() || full.is_tr() {
            83
        } else if full.is_bnd() {
            84 + (number & 3)
        } else {
            return None;
        }))
    }

    /// A value between µops. `None` when an instruction has more of them than are provided for.
    #[must_use]
    pub fn pseudo(index: usize) -> Option<Self> {
        (index < Self::COUNT - Self::PSEUDO as usize).then(|| Self(Self::PSEUDO + index as u8))
    }

    /// Whether it is a general-purpose register.
    #[must_use]
    pub fn is_gpr(self) -> bool {
        self.0 < 16
    }

    /// Whether it is a vector register.
    #[must_use]
    pub fn is_vector(self) -> bool {
        (Self::VECTOR..Self::MASK).contains(&self.0)
    }
}

/// Size of a register in bits as the tables count it.
#[must_use]
pub fn size_bits(register: Register) -> u16 {
    (register.size() * 8) as u16
}

/// `ah`, `bh`, `ch`, `dh`.
#[must_use]
pub fn is_high8(register: Register) -> bool {
    matches!(
        register,
        Register::AH | Register::BH | Register::CH | Register::DH
    )
}
