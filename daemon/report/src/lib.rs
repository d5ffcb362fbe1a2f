//! The finished result of a run: what every viewer, script and diff reads.
//!
//! Serialised as JSON it is the project's machine-readable contract. Everything outside
//! [`Report::run`] is a function of the trace and the options alone, byte for byte.
//! Cycles are core clock cycles; µops are counted in the fused domain unless said otherwise.

pub mod block;
pub mod branches;
mod calls;
mod cause;
mod code;
mod cpu;
pub mod memory;
mod options;
pub mod probes;
mod program;
mod run;
pub mod schema;
mod stack;
mod unknown;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use calls::{CallReport, with_callees};
pub use cause::Cause;
pub use code::{BlockBound, BlockReport, FunctionReport, InstructionReport, LineReport, is_place};
pub use cpu::{
    CpuReport, IntervalReport, MemorySlots, PortUse, ProcessCycles, RegionReport, ThreadReport,
    TopDown,
};
pub use options::{AnalysisOptions, CoreUse};
pub use program::{Module, ProcessReport, Tool, TraceStats, TracedProgram};
pub use run::{Interval, Load, Measured, RunInfo, SourceFile};
pub use stack::SlotStack;
pub use unknown::{Unknown, UnknownForm};

/// Version of the JSON layout, and of what is in it. Reports of an older one are read: what they
/// lack is optional.
///
/// 2: issue slots by function and block, page faults apart from other memory slots, places of
/// branches.
pub const SCHEMA_VERSION: u32 = 2;

/// Most source lines that a report lists.
pub const LINES: usize = 1000;

/// A complete report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// See [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The tool that made the report.
    pub tool: Tool,
    /// What was analysed.
    pub program: TracedProgram,
    /// The traced processes, where there are several, the first one first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<ProcessReport>,
    /// What was received.
    pub trace: TraceStats,
    /// What the analysis was asked for; none in reports of versions before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<AnalysisOptions>,
    /// One result per CPU model and analysis, in the order asked for.
    pub cpus: Vec<CpuReport>,
    /// Instructions that a model had no figures for, over all CPUs.
    pub unknown_instructions: Unknown,
    /// Things worth knowing about this result, for people.
    pub notes: Vec<String>,
    /// Values that differ from run to run.
    pub run: RunInfo,
}
