//! Version-to-version comparison of two or more reports.
//!
//! The first version is the baseline; the last one is compared with it as a whole, and with more
//! than two versions each also with the one before it. What holds of every comparison: the deltas
//! of all listed functions and of `unattributed` add up to the total's delta exactly, and equal
//! versions have an empty comparison. Values that differ from run to run ([`Report::run`]) do not
//! count.
//!
//! *Differential throughput* is H(P2)/H(P1) as Hsu, Gens and Franz ("MCAD", PACT 2022) compare
//! versions. One run of the program is taken as the unit of work, since both versions are given
//! the same task, so that H(P) = 1 / cycles(P) and H(P2)/H(P1) = cycles(P1) / cycles(P2): above 1
//! when the later version is faster. It is not the ratio of the IPCs, which a version that
//! executes more instructions for the same work would win.

pub mod benchmark;
pub mod json;
pub mod markdown;
pub mod svg;
pub mod text;

mod causes;
mod compare;
mod functions;
mod lines;
mod matching;
mod options;
mod verdict;

use mcad_report::{Report, TopDown};
use serde::Serialize;

pub use compare::compare;
pub use verdict::Regression;

/// Layout of the JSON form; raised on incompatible change.
///
/// 2: what changed ([`CpuDiff::causes`]).
pub const DIFF_SCHEMA_VERSION: u32 = 2;

/// A report with the name that the comparison uses for it.
#[derive(Clone, Debug)]
pub struct Version {
    /// Name for people, for example the file's.
    pub label: String,
    /// What was predicted.
    pub report: Report,
}

/// Why versions cannot be compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiffError {
    /// One report or none.
    #[error("a comparison needs at least two reports")]
    TooFew,
    /// The reports share no CPU and analysis.
    #[error(
        "the reports have no CPU model and analysis in common: {0}; make them with the same \
         --cpu and --analysis"
    )]
    NothingInCommon(String),
    /// A function or region to watch is in no version.
    #[error("no function or region is called '{name}' on {cpu}; `mcad view` lists the functions")]
    NothingToWatch {
        /// As asked for.
        name: String,
        /// CPU model.
        cpu: String,
    },
}

/// The comparison of all versions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Diff {
    /// See [`DIFF_SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The versions, the baseline first.
    pub versions: Vec<VersionInfo>,
    /// What makes the comparison less telling than it looks.
    pub warnings: Vec<String>,
    /// Totals of every version.
    pub series: Vec<Series>,
    /// The last version against the first.
    pub overall: Comparison,
    /// Every version against the one before it; only with more than two versions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Comparison>,
}

/// What a version is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VersionInfo {
    /// Name for people.
    pub label: String,
    /// Its command line.
    pub command: Vec<String>,
    /// Whether its trace was complete.
    pub complete: bool,
}

/// One CPU model and analysis over all versions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    /// Short name.
    pub cpu: String,
    /// Analysis.
    pub analysis: String,
    /// One per version.
    pub totals: Vec<Figures>,
}

/// Totals of one version.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// Core cycles.
    pub cycles: u64,
    /// Instructions.
    pub instructions: u64,
    /// Fused µops.
    pub uops: u64,
    /// Instructions per cycle.
    pub ipc: f64,
    /// Issue slots.
    pub topdown: TopDown,
}

/// Two versions compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Label of the earlier version.
    pub from: String,
    /// Label of the later version.
    pub to: String,
    /// What the two were made with, where it differs and cycles depend on it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<OptionDelta>,
    /// Per CPU model and analysis that both have.
    pub cpus: Vec<CpuDiff>,
}

/// Something that two versions were not both made with.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OptionDelta {
    /// The CPU model whose own it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<String>,
    /// `memory`, `cores`, `interval`, `warm_up`, `table`, or the name of a parameter: `retire.width`.
    pub what: String,
    /// The option that says it.
    pub option: &'static str,
    /// In the earlier version; of a parameter as its report has it, null where it has none.
    pub before: serde_json::Value,
    /// In the later version.
    pub after: serde_json::Value,
}

/// Two versions on one CPU model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CpuDiff {
    /// Short name.
    pub cpu: String,
    /// Full name.
    pub name: String,
    /// Analysis.
    pub analysis: String,
    /// What both predictions take for granted.
    pub assumes: Vec<String>,
    /// Cycles.
    pub cycles: Delta,
    /// Instructions.
    pub instructions: Delta,
    /// Fused µops.
    pub uops: Delta,
    /// Instructions per cycle before and after.
    pub ipc: [f64; 2],
    /// H(P2)/H(P1) = cycles before / cycles after; none when a version has no cycles.
    pub differential_throughput: Option<f64>,
    /// Issue slots by what became of them; empty where the analysis knows none.
    pub topdown: Vec<SlotDelta>,
    /// The same cause by cause, of a core that issues in order: there each lost slot has one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub slots: Vec<SlotDelta>,
    /// Instructions, wrong predictions and misses by level; without those that neither version has.
    pub causes: Vec<CauseDelta>,
    /// Share of the cycles, before and after, that is in functions found in both versions; 0 to 1.
    pub matched: [f64; 2],
    /// Functions that changed, the largest change of cycles first. Those without a name that were
    /// not found in the other version are one entry for each module.
    pub functions: Vec<FunctionDelta>,
    /// Cycles of no function; with the functions it adds up to the total.
    pub unattributed: Delta,
    /// Source lines whose cycles changed, largest change first. Only of code with debug
    /// information, and of the hottest lines, so they need not add up to the total.
    pub lines: Vec<LineDelta>,
    /// Regions of interest that changed, in the order of the reports.
    pub regions: Vec<RegionDelta>,
}

impl CpuDiff {
    /// Whether the versions are equal here.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.cycles.changed()
            && !self.instructions.changed()
            && !self.uops.changed()
            && self.topdown.iter().all(|slots| !slots.slots.changed())
            && self.causes.iter().all(|cause| !cause.counts.changed())
            && self.functions.is_empty()
            && self.lines.is_empty()
            && self.regions.is_empty()
    }
}

/// A count before and after.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Delta {
    /// In the earlier version.
    pub before: u64,
    /// In the later version.
    pub after: u64,
    /// After minus before.
    pub delta: i128,
    /// `delta` / `before`; none when there was nothing before.
    pub relative: Option<f64>,
}

impl Delta {
    /// The change from one count to another.
    #[must_use]
    pub fn new(before: u64, after: u64) -> Self {
        let delta = i128::from(after) - i128::from(before);
        Self {
            before,
            after,
            delta,
            relative: (before > 0).then(|| delta as f64 / before as f64),
        }
    }

    /// Whether the counts differ.
    #[must_use]
    pub fn changed(&self) -> bool {
        self.delta != 0
    }
}

/// Issue slots of one kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SlotDelta {
    /// `retiring`, `bad_speculation`, `frontend`, `backend_memory`, `backend_core` or `other`; cause by
    /// cause the name that people read, such as `load-use`.
    pub kind: &'static str,
    /// Slots.
    pub slots: Delta,
    /// Share of all slots before and after, 0 to 1.
    pub share: [f64; 2],
}

/// A count of what holds a program up.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CauseDelta {
    /// `instructions`, `mispredictions`, `branches_found_late`, `l1d_misses`, `l2_misses`,
    /// `l3_misses`, `store_misses`, `l1i_misses`, `page_walks` or `page_faults`.
    pub kind: &'static str,
    /// How many.
    pub counts: Delta,
}

/// What became of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// In both versions.
    Changed,
    /// Only in the later one.
    Added,
    /// Only in the earlier one.
    Removed,
}

/// How a function was found again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MatchedBy {
    /// Same name, in whatever module.
    Name,
    /// Same name but for the suffix of a compiler's clone (`.constprop.0`, `.llvm.123`).
    Clone,
    /// Same name but for the parameters of a C++ function.
    Overload,
    /// No name, but the same place in a module that did not change.
    Place,
    /// No name, but similar code.
    Code,
    /// No name, but the only one left after the same named function.
    Neighbour,
    /// No name, but called by, and calling, the same functions as no other.
    Calls,
    /// Not found again.
    Nothing,
}

/// One function.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FunctionDelta {
    /// Name in the later version, or in the earlier one if it was removed.
    pub name: String,
    /// Module to the name.
    pub module: String,
    /// Name in the earlier version, where it differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_name: Option<String>,
    /// For a function without a name: the nearest one before it that has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub near: Option<String>,
    /// What became of it.
    pub status: Status,
    /// How it was found again.
    pub matched_by: MatchedBy,
    /// Cycles in its own blocks.
    pub cycles: Delta,
    /// Instructions.
    pub instructions: Delta,
    /// Part of the total's change of cycles, in signed fractions that add up to 1 over all
    /// functions and `unattributed`; none when the total did not change.
    pub share: Option<f64>,
}

/// One source line.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LineDelta {
    /// `file:line` in the later version, or in the earlier one if it was removed.
    pub line: String,
    /// `file:line` in the earlier version, where it differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_line: Option<String>,
    /// Function in which most of its cycles fall.
    pub function: String,
    /// Cycles of its instructions.
    pub cycles: Delta,
}

/// One region of interest.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RegionDelta {
    /// Name as asked for.
    pub name: String,
    /// Occurrences.
    pub count: Delta,
    /// Cycles over all occurrences.
    pub cycles: Delta,
    /// Instructions over all occurrences.
    pub instructions: Delta,
    /// Fewest cycles of one occurrence.
    pub min: Delta,
    /// Median.
    pub median: Delta,
    /// Most.
    pub max: Delta,
    /// As [`CpuDiff::differential_throughput`].
    pub differential_throughput: Option<f64>,
}

impl Diff {
    /// Whether no version differs from another.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        std::iter::once(&self.overall)
            .chain(&self.steps)
            .flat_map(|comparison| &comparison.cpus)
            .all(CpuDiff::is_empty)
    }
}

#[cfg(test)]
mod tests;
