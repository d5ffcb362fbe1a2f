//! Helpers that carry a value through memory: a store that the next load takes it from.
//!
//! Only the way there and back can be measured, so store and load are each taken to be half of it,
//! as uops.info publishes them: upper bounds. Helpers have their address in the instruction: Zen 2
//! and later hand a value on without memory where store and load have theirs from registers (Fog,
//! *The microarchitecture of Intel, AMD and VIA CPUs*), which would be another latency.

use std::fmt;

use iced_x86::{Code, Instruction, MemoryOperand, Register};

use super::link::{Helper, Link, PASSING, general, vector};
use super::shape::{Class, offset};
use crate::init::FILL;

/// Number of the vector register that only links use.
const PASSING_VECTOR: u8 = 15;

/// Registers of a kind that values of so many bytes go through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Carrier {
    class: Class,
    bytes: usize,
}

/// All of them.
pub(crate) const CARRIERS: [Carrier; 9] = [
    general_carrier(1),
    general_carrier(2),
    general_carrier(4),
    general_carrier(8),
    vector_carrier(4),
    vector_carrier(8),
    vector_carrier(16),
    vector_carrier(32),
    vector_carrier(64),
];

const fn general_carrier(bytes: usize) -> Carrier {
    Carrier {
        class: Class::General,
        bytes,
    }
}

const fn vector_carrier(bytes: usize) -> Carrier {
    Carrier {
        class: Class::Vector,
        bytes,
    }
}

impl fmt::Display for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let class = match self.class {
            Class::Vector => "v",
            _ => "r",
        };
        write!(f, "{class}{}", 8 * self.bytes)
    }
}

impl Carrier {
    /// The one for memory operands of a size whose values are in registers of a class at the
    /// other end; none where this CPU has none.
    pub(crate) fn of(bytes: usize, class: Option<Class>) -> Option<Self> {
        let vector = bytes > 8 || class == Some(Class::Vector) && bytes >= 4;
        let carrier = if vector {
            vector_carrier(bytes)
        } else {
            general_carrier(bytes)
        };
        CARRIERS
            .contains(&carrier)
            .then_some(carrier)
            .filter(|c| c.there())
    }

    /// One that takes a part of the same value, for loads behind stores by a register: what is
    /// handed on without memory has 32 or 64 bits.
    pub(crate) fn narrow(self) -> Self {
        match self.class {
            Class::General => general_carrier(self.bytes.min(2)),
            _ => self,
        }
    }

    fn there(self) -> bool {
        match (self.class, self.bytes) {
            (Class::Vector, 32) => is_x86_feature_detected!("avx"),
            (Class::Vector, 64) => is_x86_feature_detected!("avx512f"),
            _ => true,
        }
    }

    /// The register that [`Carrier::load`] leaves the value in.
    pub(crate) fn register(self) -> (Class, u8) {
        match self.class {
            Class::Vector => (self.class, PASSING_VECTOR),
            _ => (self.class, PASSING),
        }
    }

    /// From memory to [`Carrier::register`].
    pub(crate) fn load(self) -> Option<Link> {
        let (_, number) = self.register();
        let general32 = offset(Register::EAX, number);
        let (code, register) = match (self.class, self.bytes) {
            (Class::Vector, 4) => (either(Code::VEX_Vmovd_xmm_rm32, Code::Movd_xmm_rm32), None),
            (Class::Vector, 8) => (
                either(Code::VEX_Vmovq_xmm_xmmm64, Code::Movq_xmm_xmmm64),
                None,
            ),
            (Class::Vector, 16) => (
                either(Code::VEX_Vmovups_xmm_xmmm128, Code::Movups_xmm_xmmm128),
                None,
            ),
            (Class::Vector, 32) => (
                Code::VEX_Vmovups_ymm_ymmm256,
                Some(offset(Register::YMM0, number)),
            ),
            (Class::Vector, _) => (
                Code::EVEX_Vmovups_zmm_k1z_zmmm512,
                Some(offset(Register::ZMM0, number)),
            ),
            (_, 1) => (Code::Movzx_r32_rm8, Some(general32)),
            (_, 2) => (Code::Movzx_r32_rm16, Some(general32)),
            (_, 4) => (Code::Mov_r32_rm32, Some(general32)),
            _ => (Code::Mov_r64_rm64, Some(general(number))),
        };
        let register = register.unwrap_or_else(|| vector(number));
        let mut link = Link::default();
        let load = Instruction::with2(code, register, memory());
        link.add(load, (Helper::Memory(self), 0.5))?;
        Some(link)
    }

    /// From a register of any class to memory.
    pub(crate) fn store(self, from: (Class, u8)) -> Option<Link> {
        let (mut link, number) = if from.0 == self.class {
            (Link::default(), from.1)
        } else {
            let way = Link::between(from, self.register())?;
            (way, self.register().1)
        };
        let (code, first) = match (self.class, self.bytes) {
            (Class::Vector, 4) => (
                either(Code::VEX_Vmovd_rm32_xmm, Code::Movd_rm32_xmm),
                Register::XMM0,
            ),
            (Class::Vector, 8) => (
                either(Code::VEX_Vmovq_xmmm64_xmm, Code::Movq_xmmm64_xmm),
                Register::XMM0,
            ),
            (Class::Vector, 16) => (
                either(Code::VEX_Vmovups_xmmm128_xmm, Code::Movups_xmmm128_xmm),
                Register::XMM0,
            ),
            (Class::Vector, 32) => (Code::VEX_Vmovups_ymmm256_ymm, Register::YMM0),
            (Class::Vector, _) => (Code::EVEX_Vmovups_zmmm512_k1z_zmm, Register::ZMM0),
            (_, 1) if number >= 8 => (Code::Mov_rm8_r8, Register::AL),
            (_, 2) => (Code::Mov_rm16_r16, Register::AX),
            (_, 4) => (Code::Mov_rm32_r32, Register::EAX),
            (_, 8) => (Code::Mov_rm64_r64, Register::RAX),
            // al, cl, dl, bl; what comes next are the upper halves.
            _ if number < 4 => (Code::Mov_rm8_r8, Register::AL),
            _ => return None,
        };
        let register = match (code, number) {
            (Code::Mov_rm8_r8, 8..) => offset(Register::R8L, number - 8),
            _ => offset(first, number),
        };
        let store = Instruction::with2(code, memory(), register);
        link.add(store, (Helper::Memory(self), 0.5))?;
        Some(link)
    }

    /// Store and load; none where this CPU has no such registers.
    pub(crate) fn round_trip(self) -> Option<Vec<u8>> {
        let mut link = self.there().then(|| self.store(self.register()))??;
        link.append(self.load()?);
        Some(link.bytes)
    }
}

fn either(vex: Code, legacy: Code) -> Code {
    if is_x86_feature_detected!("avx") {
        vex
    } else {
        legacy
    }
}

/// What the base of a form's address holds.
fn memory() -> MemoryOperand {
    MemoryOperand::with_displ(FILL, 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_goes_there_and_back() {
        for carrier in CARRIERS.into_iter().filter(|c| c.there()) {
            assert!(carrier.round_trip().is_some(), "{carrier}");
            for from in [(Class::General, 8), (Class::Vector, 3), (Class::Flags, 0)] {
                assert!(carrier.store(from).is_some(), "{carrier} {from:?}");
            }
        }
        let text: Vec<String> = CARRIERS.iter().map(ToString::to_string).collect();
        assert_eq!((text[0].as_str(), text[8].as_str()), ("r8", "v512"));
    }

    #[test]
    fn values_go_through_registers_of_their_own_kind() {
        let of = |bytes, class| Carrier::of(bytes, Some(class)).map(|c| c.to_string());
        assert_eq!(of(8, Class::Vector).unwrap(), "v64");
        assert_eq!(of(8, Class::Flags).unwrap(), "r64");
        assert_eq!(of(2, Class::Vector).unwrap(), "r16");
        assert_eq!(of(16, Class::General).unwrap(), "v128");
        assert_eq!(of(10, Class::General), None);
    }
}
