//! What became of a program's branches: how they were predicted, and whose the wrong ones were.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Branches of a program on one CPU model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BranchReport {
    /// Branches executed.
    pub executed: u64,
    /// Of them, taken.
    pub taken: u64,
    /// Conditional branches predicted the wrong way.
    pub wrong_directions: u64,
    /// Indirect jumps and calls predicted to a wrong target.
    pub wrong_targets: u64,
    /// Returns predicted to a wrong target.
    pub wrong_returns: u64,
    /// Taken branches by the level of branch target buffer that had them.
    pub btb: Vec<u64>,
    /// Taken branches that the decoders found.
    pub decoded: u64,
    /// Conditional branches that a quick predictor had wrong and a slower one right, on CPUs that have two: fetch began
    /// anew some cycles later.
    #[serde(default, skip_serializing_if = "crate::stack::is_zero")]
    pub overridden: u64,
    /// Functions by wrong predictions, most first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<CodeBranches>,
    /// Source lines by wrong predictions, most first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<CodeBranches>,
    /// Branches by wrong predictions, most first; named by address.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub branches: Vec<CodeBranches>,
}

impl BranchReport {
    /// All wrong predictions.
    #[must_use]
    pub fn wrong(&self) -> u64 {
        let wrong = self.wrong_directions.saturating_add(self.wrong_targets);
        wrong.saturating_add(self.wrong_returns)
    }
}

/// Predictions of the branches of a piece of code.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CodeBranches {
    /// The function's name, `file:line`, or the branch's address.
    pub name: String,
    /// File name of the module; empty for lines.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub module: String,
    /// Of a branch: `function+0x12`, where its function is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// Of a branch: `file:line`, where debug information exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
    /// Wrong predictions.
    pub wrong: u64,
    /// Taken branches that the decoders found.
    pub decoded: u64,
}
