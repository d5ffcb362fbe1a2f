//! What a program's accesses found: by level, and by function and line where they missed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most functions, and most lines, that are listed.
pub const LISTED: usize = 100;

/// What the loads, stores and fetches of a program found on one CPU model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryReport {
    /// Loads by the level that had their line; a line on its way counts for where it came from. Of
    /// a load over two lines both count.
    pub loads: LevelCounts,
    /// The same of stores.
    pub stores: LevelCounts,
    /// The same of lines of code that were fetched.
    pub fetches: LevelCounts,
    /// Loads and stores whose translation the first-level buffer had not.
    pub tlb_misses: u64,
    /// Page walks for them.
    pub walks: u64,
    /// Page walks for fetches.
    pub fetch_walks: u64,
    /// Lines that prefetchers brought.
    pub prefetches: u64,
    /// Those of them that were asked for before they went.
    pub useful_prefetches: u64,
    /// Pages touched for the first time.
    pub page_faults: u64,
    /// Functions by misses of the first level, most first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<CodeMisses>,
    /// Source lines by misses of the first level, most first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<CodeMisses>,
}

/// Accesses by level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LevelCounts {
    /// First level.
    pub l1: u64,
    /// Second level.
    pub l2: u64,
    /// Third level.
    pub l3: u64,
    /// Memory.
    pub dram: u64,
}

impl LevelCounts {
    /// All of them.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.l1.saturating_add(self.misses())
    }

    /// Those that the first level had not.
    #[must_use]
    pub fn misses(&self) -> u64 {
        // Also of reports that were made by hand.
        self.l2.saturating_add(self.l3).saturating_add(self.dram)
    }
}

/// Misses of loads and stores of a piece of code.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CodeMisses {
    /// The function's name, or `file:line`.
    pub name: String,
    /// File name of the module; empty for lines.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub module: String,
    /// Lines that the first level had not.
    pub l1: u64,
    /// Nor the second.
    pub l2: u64,
    /// Nor the third.
    pub l3: u64,
    /// Page walks.
    pub walks: u64,
}
