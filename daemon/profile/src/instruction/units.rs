//! Which vector units a form keeps busy: what it takes from instructions that are known to keep
//! half of them busy each.
//!
//! With as many instances of the form as of the reference, (TP(both) − max) / min is 1 where both need
//! the same units, 0 where they need different ones, and a third where two of two units are shared
//! by one: the measure of asmbench (Hammer, Hager and Wellein, PMBS 2018), read as uops.info's
//! blocking instructions are (Abel and Reineke, ASPLOS 2019, section 5.1). The references are AVX, so
//! that they need no merge with what was in a register before.

use iced_x86::{Code, Instruction, Register};

use super::shape::{Class, Shape, encode, offset};

/// An instruction that others are measured beside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// What it stands for.
    pub name: &'static str,
    code: Code,
}

/// All of them: multiplication, addition and shuffling, which AMD's cores since Zen do on three
/// different pairs of units.
pub const REFERENCES: [Reference; 3] = [
    Reference {
        name: "multiply",
        code: Code::VEX_Vmulps_xmm_xmm_xmmm128,
    },
    Reference {
        name: "add",
        code: Code::VEX_Vaddps_xmm_xmm_xmmm128,
    },
    Reference {
        name: "shuffle",
        code: Code::VEX_Vpshufb_xmm_xmm_xmmm128,
    },
];

/// Both sources of a reference: a register that instances rarely write.
const SOURCE: u8 = 15;

impl Reference {
    /// So many independent ones.
    pub(crate) fn code(self, count: u32) -> Option<Vec<u8>> {
        let source = offset(Register::XMM0, SOURCE);
        let mut bytes = Vec::new();
        for n in 0..count {
            let target = offset(Register::XMM0, (n % u32::from(SOURCE)) as u8);
            let instruction = Instruction::with3(self.code, target, source, source).ok()?;
            bytes.extend(encode(&instruction)?);
        }
        Some(bytes)
    }
}

/// Whether a form has a vector register, so that the question makes sense, and this CPU the
/// references.
pub(crate) fn applies(shape: &Shape<'_>) -> bool {
    let places = shape
        .form
        .operands
        .iter()
        .filter_map(|o| shape.place(o.name));
    let vector = |place| {
        matches!(
            place,
            super::shape::Place::Free(_, Class::Vector | Class::Mask)
        )
    };
    is_x86_feature_detected!("avx") && places.into_iter().any(vector)
}
