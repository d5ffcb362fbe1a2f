//! Helper instructions that carry a value from where one instruction leaves it to where the next
//! takes it, each of a latency that is measured on the spot.
//!
//! Between two kinds of registers only the way there and back can be measured; each way is taken
//! to be half of it, which is how uops.info publishes such latencies as upper bounds.

use std::fmt;

use iced_x86::{Code, IcedError, Instruction, Register};

use super::forward::Carrier;
use super::shape::{BASE, Class, encode, offset};

/// A helper whose latency is measured by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Helper {
    /// `movsxd r64, r32`.
    Move,
    /// `pshufd` without change.
    Shuffle,
    /// `pshufw` without change.
    ShuffleMmx,
    /// `kandw`.
    And,
    /// `xor r64, r64`.
    Xor,
    /// `test` and `cmov`, there and back.
    Flags,
    /// `movq`, general to vector and back.
    Vector,
    /// `movq`, general to MMX and back.
    Mmx,
    /// `kmovd`, general to mask and back.
    Mask,
    /// A store and the load of the same.
    Memory(Carrier),
}

/// All but those through memory.
const REGISTER_HELPERS: [Helper; 9] = [
    Helper::Move,
    Helper::Shuffle,
    Helper::ShuffleMmx,
    Helper::And,
    Helper::Xor,
    Helper::Flags,
    Helper::Vector,
    Helper::Mmx,
    Helper::Mask,
];

/// All of them.
pub(crate) fn helpers() -> impl Iterator<Item = Helper> {
    let memory = super::forward::CARRIERS.into_iter().map(Helper::Memory);
    REGISTER_HELPERS.into_iter().chain(memory)
}

/// General-purpose registers that only links use: for values in passing, and a constant.
pub(crate) const PASSING: u8 = 13;
pub(crate) const CONSTANT: u8 = 14;

/// The carry flag's number among the flags.
pub(crate) const CARRY: u8 = 1;

pub(crate) fn general(number: u8) -> Register {
    offset(Register::RAX, number)
}

fn general32(number: u8) -> Register {
    offset(Register::EAX, number)
}

pub(crate) fn vector(number: u8) -> Register {
    offset(Register::XMM0, number)
}

/// Code with the helpers in it, each as often as its latency counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Link {
    pub(crate) bytes: Vec<u8>,
    /// Helper, and how many of its ways are taken: one of a round trip is a half.
    pub(crate) taken: Vec<(Helper, f64)>,
}

impl Link {
    pub(crate) fn add(
        &mut self,
        instruction: Result<Instruction, IcedError>,
        cost: (Helper, f64),
    ) -> Option<()> {
        self.bytes.extend(encode(&instruction.ok()?)?);
        self.taken.push(cost);
        Some(())
    }

    /// From register `from` of a class to register `to` of another; flags are [`CARRY`] or another
    /// number for the rest.
    pub(crate) fn between(from: (Class, u8), to: (Class, u8)) -> Option<Self> {
        use Class as C;
        let mut link = Self::default();
        match (from, to) {
            ((C::General, a), (C::General, b)) => link.add(
                Instruction::with2(Code::Movsxd_r64_rm32, general(b), general32(a)),
                (Helper::Move, 1.0),
            )?,
            ((C::Vector, a), (C::Vector, b)) => link.add(shuffle(b, a), (Helper::Shuffle, 1.0))?,
            ((C::Mmx, a), (C::Mmx, b)) => link.add(
                Instruction::with3(
                    Code::Pshufw_mm_mmm64_imm8,
                    offset(Register::MM0, b),
                    offset(Register::MM0, a),
                    0xe4,
                ),
                (Helper::ShuffleMmx, 1.0),
            )?,
            ((C::Mask, a), (C::Mask, b)) => {
                let (a, b) = (offset(Register::K0, a), offset(Register::K0, b));
                let and = Instruction::with3(Code::VEX_Kandw_kr_kr_kr, b, a, a);
                link.add(and, (Helper::And, 1.0))?;
            }
            ((C::General, a), (C::Flags, _)) => link.add(
                Instruction::with2(Code::Test_rm64_r64, general(a), general(a)),
                (Helper::Flags, 0.5),
            )?,
            ((C::Flags, group), (C::General, b)) => {
                // `b` is an input, too; it is not on the critical way.
                let code = match group {
                    CARRY => Code::Cmovb_r64_rm64,
                    _ => Code::Cmovne_r64_rm64,
                };
                let select = Instruction::with2(code, general(b), general(CONSTANT));
                link.add(select, (Helper::Flags, 0.5))?;
            }
            ((C::General, a), (C::Vector, b)) => link.add(
                Instruction::with2(to_vector(), vector(b), general(a)),
                (Helper::Vector, 0.5),
            )?,
            ((C::Vector, a), (C::General, b)) => link.add(
                Instruction::with2(from_vector(), general(b), vector(a)),
                (Helper::Vector, 0.5),
            )?,
            ((C::General, a), (C::Mmx, b)) => link.add(
                Instruction::with2(Code::Movq_mm_rm64, offset(Register::MM0, b), general(a)),
                (Helper::Mmx, 0.5),
            )?,
            ((C::Mmx, a), (C::General, b)) => link.add(
                Instruction::with2(Code::Movq_rm64_mm, general(b), offset(Register::MM0, a)),
                (Helper::Mmx, 0.5),
            )?,
            ((C::General, a), (C::Mask, b)) => link.add(
                Instruction::with2(
                    Code::VEX_Kmovd_kr_r32,
                    offset(Register::K0, b),
                    general32(a),
                ),
                (Helper::Mask, 0.5),
            )?,
            ((C::Mask, a), (C::General, b)) => link.add(
                Instruction::with2(
                    Code::VEX_Kmovd_r32_kr,
                    general32(b),
                    offset(Register::K0, a),
                ),
                (Helper::Mask, 0.5),
            )?,
            ((C::X87, _), _) | (_, (C::X87, _)) => return None,
            // By way of a general-purpose register.
            (from, to) => {
                link = Self::between(from, (C::General, PASSING))?;
                link.append(Self::between((C::General, PASSING), to)?);
            }
        }
        Some(link)
    }

    /// From a register to one of an address, whose value stays: it is changed by the register and
    /// changed back.
    pub(crate) fn to_address(from: (Class, u8), of_address: u8) -> Option<Self> {
        let (mut link, register) = match from {
            (Class::General, register) => (Self::default(), register),
            other => (Self::between(other, (Class::General, PASSING))?, PASSING),
        };
        for _ in 0..2 {
            let (changed, by) = (general(of_address), general(register));
            let change = Instruction::with2(Code::Xor_rm64_r64, changed, by);
            link.add(change, (Helper::Xor, 1.0))?;
        }
        Some(link)
    }

    pub(crate) fn append(&mut self, other: Self) {
        self.bytes.extend(other.bytes);
        self.taken.extend(other.taken);
    }
}

impl fmt::Display for Helper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(carrier) => write!(f, "memory {carrier}"),
            register => f.write_str(&format!("{register:?}").to_lowercase()),
        }
    }
}

impl Helper {
    /// A chain of this helper alone, and how many latencies it has; none where the CPU lacks it.
    pub(crate) fn chain(self) -> Option<(Vec<u8>, f64)> {
        use Class as C;
        let (x, y) = (2, 3);
        let (there, back) = match self {
            Self::Move => ((C::General, 8), (C::General, 9)),
            Self::Shuffle => ((C::Vector, x), (C::Vector, y)),
            Self::ShuffleMmx => ((C::Mmx, x), (C::Mmx, y)),
            Self::And if is_x86_feature_detected!("avx512f") => ((C::Mask, x), (C::Mask, y)),
            Self::Xor => {
                return Some((Link::to_address((C::General, CONSTANT), BASE)?.bytes, 2.0));
            }
            Self::Memory(carrier) => return Some((carrier.round_trip()?, 1.0)),
            Self::Flags => ((C::General, 8), (C::Flags, 0)),
            Self::Vector => ((C::General, 8), (C::Vector, x)),
            Self::Mmx => ((C::General, 8), (C::Mmx, x)),
            Self::Mask if is_x86_feature_detected!("avx512bw") => ((C::General, 8), (C::Mask, x)),
            Self::And | Self::Mask => return None,
        };
        let mut link = Link::between(there, back)?;
        link.append(Link::between(back, there)?);
        let latencies = link.taken.iter().map(|(_, ways)| ways).sum();
        Some((link.bytes, latencies))
    }
}

fn shuffle(to: u8, from: u8) -> Result<Instruction, IcedError> {
    let code = if is_x86_feature_detected!("avx") {
        Code::VEX_Vpshufd_xmm_xmmm128_imm8
    } else {
        Code::Pshufd_xmm_xmmm128_imm8
    };
    Instruction::with3(code, vector(to), vector(from), 0xe4)
}

fn to_vector() -> Code {
    if is_x86_feature_detected!("avx") {
        Code::VEX_Vmovq_xmm_rm64
    } else {
        Code::Movq_xmm_rm64
    }
}

fn from_vector() -> Code {
    if is_x86_feature_detected!("avx") {
        Code::VEX_Vmovq_rm64_xmm
    } else {
        Code::Movq_rm64_xmm
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_reaches_every_other() {
        let classes = [
            Class::General,
            Class::Vector,
            Class::Mmx,
            Class::Mask,
            Class::Flags,
        ];
        for from in classes {
            for to in classes {
                let link = Link::between((from, 2), (to, 3));
                assert!(link.is_some_and(|l| !l.bytes.is_empty()), "{from:?} {to:?}");
            }
            assert!(Link::to_address((from, 2), BASE).is_some());
        }
        assert!(Link::between((Class::X87, 0), (Class::General, 0)).is_none());
    }

    #[test]
    fn a_helper_measures_only_itself() {
        for helper in helpers() {
            let Some((bytes, latencies)) = helper.chain() else {
                continue;
            };
            assert!(latencies == 1.0 || latencies == 2.0, "{helper:?}");
            assert!(!bytes.is_empty());
        }
    }
}
