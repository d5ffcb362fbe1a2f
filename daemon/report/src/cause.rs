//! What in-order cores lose issue slots for.

use serde::Serialize;

/// Why an issue slot of an in-order core stayed empty: what kept the oldest instruction from issuing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Instructions had not been fetched or cut out in time: taken branches, groups used in part.
    #[default]
    Fetch,
    /// The instruction cache missed.
    InstructionCache,
    /// Fetch had gone elsewhere.
    Misprediction,
    /// A value was not there.
    Dependency,
    /// A loaded value was not there.
    Load,
    /// A loaded value had to come from the second-level cache.
    SecondLevel,
    /// A loaded value had to come from the third-level cache.
    ThirdLevel,
    /// A loaded value had to come from memory.
    Memory,
    /// The address of a loaded value had to be translated.
    Translation,
    /// All units of a kind were busy.
    Unit,
    /// Instructions that do not issue together.
    Pairing,
    /// Something serialises: what follows or what precedes has to wait.
    Serialization,
    /// A division kept everything waiting.
    Division,
    /// The store buffer was full.
    StoreBuffer,
    /// Its result would have been written before an older one's.
    WriteBack,
}

impl Cause {
    /// All causes, in the order of their numbers.
    pub const ALL: [Self; 15] = [
        Self::Fetch,
        Self::InstructionCache,
        Self::Misprediction,
        Self::Dependency,
        Self::Load,
        Self::SecondLevel,
        Self::ThirdLevel,
        Self::Memory,
        Self::Translation,
        Self::Unit,
        Self::Pairing,
        Self::Serialization,
        Self::Division,
        Self::StoreBuffer,
        Self::WriteBack,
    ];

    /// For people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fetch => "fetch",
            Self::InstructionCache => "instruction cache",
            Self::Misprediction => "misprediction",
            Self::Dependency => "dependency",
            Self::Load => "load",
            Self::SecondLevel => "second-level cache",
            Self::ThirdLevel => "third-level cache",
            Self::Memory => "memory",
            Self::Translation => "translation",
            Self::Unit => "unit",
            Self::Pairing => "pairing",
            Self::Serialization => "serialization",
            Self::Division => "division",
            Self::StoreBuffer => "store buffer",
            Self::WriteBack => "write-back in order",
        }
    }
}
