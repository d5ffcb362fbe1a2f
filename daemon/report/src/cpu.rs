//! One CPU model's result: its cycles, where its issue slots and µops went, and its parts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::branches::BranchReport;
use crate::calls::CallReport;
use crate::code::{BlockReport, FunctionReport, LineReport};
use crate::memory::MemoryReport;
use crate::stack::SlotStack;
use crate::unknown::Unknown;

/// Result for one CPU model under one analysis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CpuReport {
    /// Short name: `skl`, `glc`, …
    pub cpu: String,
    /// Full name for people.
    pub name: String,
    /// `pipeline` or `block`.
    pub analysis: String,
    /// The core issues in order: each lost slot has the one cause that kept the oldest instruction from
    /// issuing.
    #[serde(default, skip_serializing_if = "is_false")]
    pub in_order: bool,
    /// What the prediction takes for granted, for people; most important first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assumes: Vec<String>,
    /// What of that does not hold for this program, with the counts that say so. Then cycles are too
    /// few, and what bounds the program may be what is not modelled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<String>,
    /// Instructions simulated.
    pub instructions: u64,
    /// µops issued, fused domain.
    pub uops: u64,
    /// Core cycles; with several threads or processes the sum over all threads.
    pub cycles: u64,
    /// Instructions per cycle.
    pub ipc: f64,
    /// Where issue slots went.
    pub topdown: TopDown,
    /// The same in more detail, summed over its code; none of analyses and cores that do not know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots: Option<SlotStack>,
    /// µops executed per port.
    pub ports: Vec<PortUse>,
    /// Per guest thread.
    pub threads: Vec<ThreadReport>,
    /// Per process, where there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<ProcessCycles>,
    /// Functions by cycles, most first; all that executed.
    pub functions: Vec<FunctionReport>,
    /// The same by who called them, largest first; none where it was not asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<CallReport>,
    /// Hottest blocks by cycles, most first.
    pub blocks: Vec<BlockReport>,
    /// Hottest source lines by cycles, most first, over all blocks; empty without debug
    /// information.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<LineReport>,
    /// What its loads, stores and fetches found; none where caches are not modelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryReport>,
    /// What became of branches, where prediction is modelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branches: Option<BranchReport>,
    /// Regions of interest, in the order asked for.
    pub regions: Vec<RegionReport>,
    /// Instructions that this model had no figures for.
    pub unknown_instructions: Unknown,
    /// How the threads were cut, if they were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intervals: Option<IntervalReport>,
    /// The model's table of instructions; of one that a file changes with a digest of what that says.
    /// None in reports of versions before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// The resolved parameters of the model.
    pub parameters: serde_json::Value,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde hands it over so
fn is_false(value: &bool) -> bool {
    !value
}

/// Threads were cut into intervals that were simulated apart, each begun earlier to warm up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IntervalReport {
    /// Instructions in an interval.
    pub length: u64,
    /// Instructions before it that warmed it up.
    pub warm_up: u64,
    /// Intervals.
    pub count: u64,
    /// By how many cycles neighbours differ in the second halves of the warm-ups, which both
    /// simulate, summed over all.
    pub difference: u64,
    /// Cycles that the earlier of each two takes there, summed over all.
    #[serde(default)]
    pub compared: u64,
}

/// Where issue slots went (Yasin, ISPASS 2014). The six counts add up to `slots` = issue width × cycles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TopDown {
    /// All slots.
    pub slots: u64,
    /// Slots that issued a µop.
    pub retiring: u64,
    /// Empty from a wrongly predicted branch to the first µop of the right path.
    #[serde(default)]
    pub bad_speculation: u64,
    /// Empty because the front end delivered no µop.
    pub frontend: u64,
    /// Empty because a load or store held up a full buffer.
    pub backend_memory: u64,
    /// The same by what was waited for; they add up to `backend_memory`.
    #[serde(default)]
    pub memory_levels: MemorySlots,
    /// Empty because a dependency, a port or the divider held up a full buffer.
    pub backend_core: u64,
    /// Empty for other reasons: serialisation, issue-group rules, drain at the end.
    pub other: u64,
}

/// Issue slots that loads and stores left empty, by what these waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemorySlots {
    /// The first-level cache, or an older store.
    pub l1: u64,
    /// A line from the second level.
    pub l2: u64,
    /// A line from the third level.
    pub l3: u64,
    /// A line from memory.
    pub dram: u64,
    /// The translation of an address.
    pub translation: u64,
    /// The line that a store goes to.
    pub stores: u64,
    /// A page that was touched for the first time, which the kernel provides.
    #[serde(default)]
    pub faults: u64,
}

impl MemorySlots {
    /// Adds others.
    pub fn add(&mut self, other: &Self) {
        self.l1 += other.l1;
        self.l2 += other.l2;
        self.l3 += other.l3;
        self.dram += other.dram;
        self.translation += other.translation;
        self.stores += other.stores;
        self.faults += other.faults;
    }
}

/// µops executed on one port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PortUse {
    /// Port name as Intel numbers it: `0` … `9`, `A`, `B`.
    pub port: String,
    /// Unfused µops executed there.
    pub uops: u64,
}

/// One guest thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadReport {
    /// Number in order of appearance; with several processes, in the order of these.
    pub thread: u32,
    /// The process that it is of.
    #[serde(default, skip_serializing_if = "is_first")]
    pub process: u32,
    /// Instructions.
    pub instructions: u64,
    /// Cycles from its first to its last µop.
    pub cycles: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
fn is_first(process: &u32) -> bool {
    *process == 0
}

/// One of several traced processes, on one CPU model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessCycles {
    /// Number, as in [`crate::ProcessReport`].
    pub process: u32,
    /// Instructions.
    pub instructions: u64,
    /// Core cycles; with several threads the sum over threads.
    pub cycles: u64,
}

/// Aggregated occurrences of one region.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
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
