//! The finished result of a run: what every viewer, script and diff reads.
//!
//! Serialised as JSON it is the project's machine-readable contract. Everything outside
//! [`Report::run`] is a function of the trace and the options alone, byte for byte.
//! Cycles are core clock cycles; µops are counted in the fused domain unless said otherwise.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Version of the JSON layout; raised on incompatible change.
pub const SCHEMA_VERSION: u32 = 1;

/// Most source lines that a report lists.
pub const LINES: usize = 1000;

/// A complete report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// See [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The tool that made the report.
    pub tool: Tool,
    /// What was analysed.
    pub program: Program,
    /// What was received.
    pub trace: TraceStats,
    /// One result per CPU model and analysis, in the order asked for.
    pub cpus: Vec<CpuReport>,
    /// Instructions that a model had no figures for, over all CPUs.
    pub unknown_instructions: Unknown,
    /// Things worth knowing about this result, for people.
    pub notes: Vec<String>,
    /// Values that differ from run to run.
    pub run: RunInfo,
}

/// Lines of one source file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceFile {
    /// Path, as in `file:line`.
    pub path: String,
    /// Lines by number, from 1.
    pub lines: BTreeMap<u32, String>,
}

/// The tool that made a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// Always `mcad`.
    pub name: String,
    /// Version of the package.
    pub version: String,
}

/// What was analysed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Module {
    /// Path on the traced machine.
    pub path: String,
    /// First mapped address, hexadecimal with `0x`.
    pub start: String,
    /// One past the last mapped address.
    pub end: String,
}

/// What was received.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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

/// Result for one CPU model under one analysis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CpuReport {
    /// Short name: `skl`, `glc`, …
    pub cpu: String,
    /// Full name for people.
    pub name: String,
    /// `pipeline`, `block` or `inorder`.
    pub analysis: String,
    /// Instructions simulated.
    pub instructions: u64,
    /// µops issued, fused domain.
    pub uops: u64,
    /// Core cycles; with several threads the sum over threads.
    pub cycles: u64,
    /// Instructions per cycle.
    pub ipc: f64,
    /// Where issue slots went.
    pub topdown: TopDown,
    /// µops executed per port.
    pub ports: Vec<PortUse>,
    /// Per guest thread.
    pub threads: Vec<ThreadReport>,
    /// Functions by cycles, most first; all that executed.
    pub functions: Vec<FunctionReport>,
    /// Hottest blocks by cycles, most first.
    pub blocks: Vec<BlockReport>,
    /// Hottest source lines by cycles, most first, over all blocks; empty without debug
    /// information.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<LineReport>,
    /// Regions of interest, in the order asked for.
    pub regions: Vec<RegionReport>,
    /// Instructions that this model had no figures for.
    pub unknown_instructions: Unknown,
    /// The resolved parameters of the model.
    pub parameters: serde_json::Value,
}

/// Where issue slots went (Yasin, ISPASS 2014, without bad speculation, which is not modelled).
/// The five counts add up to `slots` = issue width × cycles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopDown {
    /// All slots.
    pub slots: u64,
    /// Slots that issued a µop.
    pub retiring: u64,
    /// Empty because the front end delivered no µop.
    pub frontend: u64,
    /// Empty because a load or store held up a full buffer.
    pub backend_memory: u64,
    /// Empty because a dependency, a port or the divider held up a full buffer.
    pub backend_core: u64,
    /// Empty for other reasons: serialisation, issue-group rules, drain at the end.
    pub other: u64,
}

/// µops executed on one port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortUse {
    /// Port name as Intel numbers it: `0` … `9`, `A`, `B`.
    pub port: String,
    /// Unfused µops executed there.
    pub uops: u64,
}

/// One guest thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadReport {
    /// Number in order of appearance.
    pub thread: u32,
    /// Instructions.
    pub instructions: u64,
    /// Cycles from its first to its last µop.
    pub cycles: u64,
}

/// One function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FunctionReport {
    /// Demangled name, or `0x…` range name when there is none.
    pub name: String,
    /// File name of the module, empty when unknown.
    pub module: String,
    /// Cycles spent in its own blocks.
    pub cycles: u64,
    /// Instructions executed in its own blocks.
    pub instructions: u64,
    /// Fused µops issued in its own blocks.
    pub uops: u64,
    /// For a function without a name: the nearest function before it in its module that has one,
    /// as an exported one often has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub near: Option<String>,
    /// What the code of a function without a name looks like, so that it is found again in
    /// another version: hashes of its most executed blocks, ascending. Addresses, registers and
    /// constants do not enter. Empty for functions that have a name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fingerprint: Vec<String>,
}

impl FunctionReport {
    /// Whether the name only says where the function is: `module+0x…`.
    #[must_use]
    pub fn is_unnamed(&self) -> bool {
        is_place(&self.name, &self.module)
    }
}

/// Whether a function's name is the place `module+0x…` that a function without a name gets.
#[must_use]
pub fn is_place(name: &str, module: &str) -> bool {
    name.strip_prefix(module)
        .is_some_and(|rest| rest.starts_with("+0x"))
}

/// One block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BlockReport {
    /// Address in the guest, hexadecimal.
    pub address: String,
    /// `function+0x12`, empty when unknown.
    pub symbol: String,
    /// File name of the module.
    pub module: String,
    /// `file:line` where debug information exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
    /// Times executed.
    pub executions: u64,
    /// Instructions in one execution.
    pub instructions: u32,
    /// Cycles attributed to it.
    pub cycles: u64,
    /// Its instructions, Intel syntax, one per line.
    pub code: Vec<String>,
    /// What became of each of them, in the order of `code`; empty under analyses that do not
    /// follow instructions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub listing: Vec<InstructionReport>,
    /// What bounds it, for the very hottest ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<BlockBound>,
}

/// One instruction of a listed block.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InstructionReport {
    /// Address in the guest, hexadecimal.
    pub address: String,
    /// `file:line` where debug information exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
    /// Cycles from the retirement of the instruction before to its own, over all executions: what
    /// it waits for is often what an instruction before it does. They add up to the block's.
    pub cycles: u64,
    /// Fused µops that an execution issues; 0 for the second half of a macro-fused pair, which
    /// the first one speaks for.
    pub uops: u16,
    /// Where its unfused µops may execute, as uops.info writes it: `1*p06+1*p23`.
    pub ports: String,
    /// µops that an execution takes on each port when the block runs again and again by itself;
    /// for blocks that have a [`BlockReport::bound`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub port_uops: Vec<f64>,
}

/// One source line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineReport {
    /// `file:line`.
    pub line: String,
    /// Function in which most of its cycles fall.
    pub function: String,
    /// Cycles of its instructions, as in [`InstructionReport::cycles`].
    pub cycles: u64,
}

/// What bounds a block that runs again and again by itself, as `mcad block` finds it. A block that
/// takes much longer in the program waits for something outside it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BlockBound {
    /// Cycles per execution then.
    pub cycles: f64,
    /// Parts of the core whose own bound is that: `ports`, `dependencies`, …
    pub parts: Vec<String>,
    /// Whether their bounds explain the cycles; otherwise the nearest part is named, and several
    /// get into each other's way.
    pub explained: bool,
    /// Where the bound comes from, one text per part.
    pub evidence: Vec<String>,
    /// Instructions of the block, from 0, that make the bound up; empty when it is all of them.
    pub instructions: Vec<u32>,
    /// The next bound: cycles per execution at least if these parts were no limit.
    pub next: f64,
}

/// Aggregated occurrences of one region.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RegionReport {
    /// Name as asked for.
    pub name: String,
    /// Completed occurrences.
    pub count: u64,
    /// Cycles over all occurrences.
    pub cycles: u64,
    /// Instructions over all occurrences.
    pub instructions: u64,
    /// Fewest cycles of one occurrence.
    pub min: u64,
    /// Median cycles (within 0.1 %).
    pub median: u64,
    /// Most cycles of one occurrence.
    pub max: u64,
}

/// Instructions without figures.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unknown {
    /// Executed instructions without figures.
    pub count: u64,
    /// Executed instructions whose figures are approximated from a similar form.
    pub approximated: u64,
    /// The most frequent forms, most first.
    pub forms: Vec<UnknownForm>,
}

/// One instruction form without figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnknownForm {
    /// Form, for example `vpdpbusd xmm, xmm, xmm`.
    pub form: String,
    /// How it was treated: `unknown`, or `approximated as …`.
    pub treatment: String,
    /// CPU model that lacks it.
    pub cpu: String,
    /// Times executed.
    pub count: u64,
}

/// Values that differ from run to run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunInfo {
    /// Wall-clock seconds of the run.
    pub seconds: f64,
    /// Simulated instructions per second of wall clock.
    pub instructions_per_second: f64,
    /// Peak resident memory of the analysing process in bytes.
    pub peak_memory_bytes: u64,
    /// Where the records came from: `qemu`, `replay FILE`, …
    pub source: String,
    /// Text of the source lines that the report names and of their neighbours, as the files had
    /// them when the report was made; what could not be read is missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<SourceFile>,
    /// What the program took on a CPU at hand, when that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<Measured>,
}

/// A program run by itself, without emulator, on a CPU at hand. User cycles; kernel time excluded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The CPU as it calls itself.
    pub host: String,
    /// Short name of the model of that CPU; none when it is not modelled.
    pub model: Option<String>,
    /// Where cycles come from.
    pub source: String,
    /// Runs that count.
    pub runs: u64,
    /// Runs that were rejected: the clock was uncertain, or they are far from all others.
    pub rejected: u64,
    /// Median of the cycles.
    pub cycles: u64,
    /// Lower quartile.
    pub low: u64,
    /// Upper quartile.
    pub high: u64,
    /// Fewest.
    pub min: u64,
    /// Core clock in megahertz.
    pub core_mhz: f64,
}
