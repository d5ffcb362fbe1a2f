//! What was analysed and what was received of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The tool that made a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tool {
    /// Always `mcad`.
    pub name: String,
    /// Version of the package.
    pub version: String,
}

/// What was analysed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TracedProgram {
    /// Command line; empty for assembly input.
    pub command: Vec<String>,
    /// Guest instruction set, for example `x86_64`.
    pub arch: String,
    /// How the run ended: `exited 0`, `signal 9`, `truncated: …`.
    pub end: String,
    /// Whether the trace is complete.
    pub complete: bool,
    /// Mapped files.
    pub modules: Vec<Module>,
}

/// A mapped file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Module {
    /// Path on the traced machine.
    pub path: String,
    /// First mapped address, hexadecimal with `0x`.
    pub start: String,
    /// One past the last mapped address.
    pub end: String,
}

/// One of several traced processes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessReport {
    /// Number by descent: 0 is the first process, 1 its first child, then that one's children, and
    /// so on; how quick each was does not matter.
    pub process: u32,
    /// The process that made it; none of the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<u32>,
    /// Command line of the last program that it ran.
    pub command: Vec<String>,
    /// How it ended, as in [`TracedProgram::end`].
    pub end: String,
    /// Instructions executed.
    pub instructions: u64,
    /// Threads traced.
    pub threads: u32,
}

/// What was received.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TraceStats {
    /// Instructions executed; a `rep` string instruction counts once.
    pub instructions: u64,
    /// Block executions.
    pub blocks_executed: u64,
    /// Memory accesses, after merging split ones.
    pub memory_accesses: u64,
    /// Record words received.
    pub records: u64,
    /// Distinct blocks seen.
    pub distinct_blocks: u64,
    /// Threads traced.
    pub threads: u64,
    /// Records known to be missing.
    pub lost_records: u64,
    /// Why, when `lost_records` is not 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost_reasons: Vec<String>,
    /// Blocks that a fault or signal left early (counted up to the fault).
    pub partial_blocks: u64,
}

impl TraceStats {
    /// Why records were lost; of one reason without its count, which is that of all.
    #[must_use]
    pub fn why_lost(&self) -> Vec<&str> {
        match self.lost_reasons.as_slice() {
            [one] => vec![one.rsplit_once(" (").map_or(one.as_str(), |(why, count)| {
                let counts = count.ends_with("records)") || count.ends_with("record)");
                if counts { why } else { one }
            })],
            all => all.iter().map(String::as_str).collect(),
        }
    }
}
