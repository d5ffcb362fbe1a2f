//! What RISC-V's vector instructions work on is not in their words but in `vtype`, which `vsetvli` and
//! its siblings set: here it is followed through code.
//!
//! Costs depend on the length of register groups (LMUL) and the width of elements (SEW); LLVM's
//! models take the vector length for the longest of these. Source: RISC-V "V" extension 1.0,
//! sections 3.4 and 6.

use super::Instruction;
use super::wire::Opcode;
use crate::code::Code;
use mcad_proto::event::Arch;

/// LMUL and SEW.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VectorType {
    /// Binary logarithm of LMUL, plus 3: 1/8 to 8.
    lmul: u8,
    /// Binary logarithm of SEW in bytes: 8 to 64 bits.
    sew: u8,
}

impl VectorType {
    /// What the lower bits of `vtype` say; `None` where that is reserved.
    #[must_use]
    pub fn of(vtype: u32) -> Option<Self> {
        let (lmul, sew) = (vtype & 7, vtype >> 3 & 7);
        (lmul != 4 && sew < 4).then_some(Self {
            lmul: ((lmul + 3) & 7) as u8,
            sew: sew as u8,
        })
    }

    /// The form of an instruction at this type, where that matters.
    #[must_use]
    pub fn form(self, opcode: &Opcode) -> Option<u16> {
        let place = usize::from(self.lmul) * 4 + usize::from(self.sew);
        opcode.vector_forms.get(place).copied()
    }
}

/// What an instruction does to `vtype`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leaves {
    /// Nothing.
    #[default]
    Same,
    /// It sets it, to something that is known or not.
    Type(Option<VectorType>),
}

impl Leaves {
    /// What holds behind it.
    #[must_use]
    pub fn after(self, before: Option<VectorType>) -> Option<VectorType> {
        match self {
            Self::Same => before,
            Self::Type(set) => set,
        }
    }
}

/// What code does with `vtype`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// Costs depend on what it is before.
    pub needs: bool,
    /// What it is behind.
    pub leaves: Leaves,
}

fn leaves(instruction: &Instruction) -> Leaves {
    let word = instruction.word;
    if instruction.arch == Arch::AArch64 || word & 0x707f != 0x7057 {
        return Leaves::Same;
    }
    match word >> 30 {
        // vsetvli
        0 | 1 => Leaves::Type(VectorType::of(word >> 20 & 0x7ff)),
        // vsetivli
        3 => Leaves::Type(VectorType::of(word >> 20 & 0x3ff)),
        // vsetvl, from a register
        _ => Leaves::Type(None),
    }
}

/// Tells the instructions of a piece of code what they work on, where it is `before` at its begin.
pub fn assign<'c>(code: impl IntoIterator<Item = &'c mut Instruction>, before: Option<VectorType>) {
    let mut at = before;
    for instruction in code {
        instruction.vector = at;
        at = leaves(instruction).after(at);
    }
}

/// The same of decoded code of any instruction set.
pub fn assign_to(code: &mut [Code], before: VectorType) {
    let instructions = code.iter_mut().filter_map(|code| match code {
        Code::Llvm(instruction) => Some(instruction),
        Code::X86(_) => None,
    });
    assign(instructions, Some(before));
}

/// What code does with `vtype`; `None` where it does nothing with it.
#[must_use]
pub fn used(code: &[Code]) -> Option<Use> {
    let mut found = Use::default();
    for code in code {
        let Code::Llvm(instruction) = code else {
            return None;
        };
        let unset = found.leaves == Leaves::Same;
        found.needs |= unset && !instruction.opcode().vector_forms.is_empty();
        match leaves(instruction) {
            Leaves::Same => {}
            set => found.leaves = set,
        }
    }
    (found != Use::default()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::decode;

    fn code(words: &[u32]) -> Vec<Code> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let (code, bad) = decode(Arch::RiscV64, &bytes, 0);
        assert_eq!(bad, None);
        code
    }

    /// vadd.vv v8, v8, v16
    const ADD: u32 = 0x0288_0457;

    #[test]
    fn the_last_setting_holds() {
        // vsetvli a0, a1, e32, m2; vsetivli a0, 4, e8, mf2; vsetvl a0, a1, a2
        let (m2, half, register) = (0x0115_f557, 0xc072_7557, 0x80c5_f557);
        assert_eq!(used(&code(&[0x13])), None);
        let use_of = |words: &[u32]| used(&code(words)).unwrap();
        let wanted = VectorType { lmul: 4, sew: 2 };
        assert_eq!(
            use_of(&[ADD]),
            Use {
                needs: true,
                leaves: Leaves::Same
            }
        );
        let set = Leaves::Type(Some(wanted));
        assert_eq!(
            use_of(&[m2, ADD]),
            Use {
                needs: false,
                leaves: set
            }
        );
        assert_eq!(
            use_of(&[ADD, m2]),
            Use {
                needs: true,
                leaves: set
            }
        );
        let unknown = Leaves::Type(None);
        assert_eq!(
            use_of(&[m2, register]),
            Use {
                needs: false,
                leaves: unknown
            }
        );
        let Leaves::Type(Some(half)) = use_of(&[half]).leaves else {
            unreachable!("it sets");
        };
        assert_eq!((half.lmul, half.sew), (2, 0));
        let Code::Llvm(add) = &code(&[m2, ADD])[1] else {
            unreachable!("it is of RISC-V");
        };
        assert_eq!(add.vector, Some(wanted));
        // 1/8 to 8.
        let lmuls = [5, 6, 7, 0, 1, 2, 3].map(|v| VectorType::of(v).unwrap().lmul);
        assert_eq!(lmuls, [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!((VectorType::of(4), VectorType::of(4 << 3)), (None, None));
    }
}
