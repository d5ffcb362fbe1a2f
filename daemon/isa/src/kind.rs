//! Kinds of instructions, as far as an in-order core's time depends on them: what the mechanistic
//! models tell apart.

use serde::{Deserialize, Serialize};

use crate::x86::inorder::Class;

/// A kind of instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Integer arithmetic, moves, stores' addresses: a cycle.
    Alu,
    /// Loads, alone or with an operation.
    Load,
    /// Stores.
    Store,
    /// Jumps, calls, returns.
    Branch,
    /// Integer multiplications.
    Multiply,
    /// Integer divisions.
    Divide,
    /// Floating-point additions, conversions.
    FpAdd,
    /// Floating-point multiplications.
    FpMultiply,
    /// Floating-point divisions.
    FpDivide,
}

/// Number of kinds.
pub const KINDS: usize = 9;

impl Kind {
    /// All kinds, in order.
    pub const ALL: [Self; KINDS] = [
        Self::Alu,
        Self::Load,
        Self::Store,
        Self::Branch,
        Self::Multiply,
        Self::Divide,
        Self::FpAdd,
        Self::FpMultiply,
        Self::FpDivide,
    ];

    /// Name in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Alu => "alu",
            Self::Load => "load",
            Self::Store => "store",
            Self::Branch => "branch",
            Self::Multiply => "multiply",
            Self::Divide => "divide",
            Self::FpAdd => "fp_add",
            Self::FpMultiply => "fp_multiply",
            Self::FpDivide => "fp_divide",
        }
    }

    /// The kind of an x86 instruction, which only loads when it has no kind of its own.
    #[must_use]
    pub fn of(class: Class, loads: bool) -> Self {
        match class {
            Class::Load => Self::Load,
            Class::Store => Self::Store,
            Class::Branch | Class::Call => Self::Branch,
            Class::Multiply | Class::MultiplyWide | Class::VectorMultiply => Self::Multiply,
            Class::Divide | Class::DivideWide => Self::Divide,
            Class::FpAdd | Class::Convert | Class::X87 => Self::FpAdd,
            Class::FpMultiply => Self::FpMultiply,
            Class::FpDivide => Self::FpDivide,
            Class::Alu
            | Class::AluMemory
            | Class::Shift
            | Class::Lea
            | Class::Vector
            | Class::Shuffle
            | Class::Microcode => {
                if loads {
                    Self::Load
                } else {
                    Self::Alu
                }
            }
        }
    }
}
