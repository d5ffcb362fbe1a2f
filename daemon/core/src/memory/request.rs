//! What is asked of memory, and what it answers.

/// Where an access found its data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// First-level cache.
    #[default]
    L1 = 0,
    /// Second level.
    L2 = 1,
    /// Third level.
    L3 = 2,
    /// Memory.
    Dram = 3,
}

impl Level {
    /// All of them, nearest first.
    pub const ALL: [Self; 4] = [Self::L1, Self::L2, Self::L3, Self::Dram];
}

/// What an access took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Cycles that it is served later than a first-level hit.
    pub late: u64,
    /// Where it found its data, or found it coming from.
    pub from: Level,
    /// Of `late`, what translation took.
    pub translation: u64,
    /// The page was touched first: the kernel came in between.
    pub fault: bool,
}

impl Answer {
    /// Of two accesses that are one: the later one, and what either says.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            late: self.late.max(other.late),
            from: self.from.max(other.from),
            translation: self.translation.max(other.translation),
            fault: self.fault || other.fault,
        }
    }
}

/// How many cycles later than at once code is there: one behind the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CodeLate {
    /// The translation of its address.
    pub translation: u64,
    /// Its line.
    pub line: u64,
}

/// A data access.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Place of the instruction in the static program.
    pub instr: u32,
    /// Its address.
    pub pc: u64,
    /// First byte.
    pub address: u64,
    /// Bytes.
    pub size: u16,
    /// Cycle in which it starts.
    pub at: u64,
}
