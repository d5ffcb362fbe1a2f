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
    /// What repeated string instructions go by: the count, the destination and the source.
    pub const STRING: [Self; 3] = [Self(1), Self(7), Self(6)];
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

    /// The name of an x86-64 register, as wide as 64-bit code has it; `xmm3` for all widths of it.
    #[must_use]
    pub fn x86_name(self) -> String {
        const GPRS: [&str; 16] = [
            "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11",
            "r12", "r13", "r14", "r15",
        ];
        const SEGMENTS: [&str; 6] = ["es", "cs", "ss", "ds", "fs", "gs"];
        let n = self.0;
        let known = |names: &[&str], first: u8| {
            let name = names.get(usize::from(n - first));
            (*name.unwrap_or(&"register")).to_owned()
        };
        match n {
            0..Self::VECTOR => known(&GPRS, 0),
            Self::VECTOR..Self::MASK => format!("xmm{}", n - Self::VECTOR),
            Self::MASK..56 => format!("k{}", n - Self::MASK),
            56..64 => format!("st{}", n - 56),
            64..72 => format!("mm{}", n - 64),
            72 => "carry".to_owned(),
            73 => "flags".to_owned(),
            74..82 => known(&SEGMENTS, 74),
            _ => "register".to_owned(),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_decoders() {
        for register in Register::values() {
            let Some(id) = RegId::of(register) else {
                continue;
            };
            if register == register.full_register() && (register.is_gpr() || register.is_k()) {
                assert_eq!(id.x86_name(), format!("{register:?}").to_lowercase());
            }
            if register.is_xmm() || register.is_segment_register() {
                assert_eq!(id.x86_name(), format!("{register:?}").to_lowercase());
            }
        }
    }
}
