//! What differs from run to run: times, memory, sources, measurements.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Values that differ from run to run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
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

/// Lines of one source file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SourceFile {
    /// Path, as in `file:line`.
    pub path: String,
    /// Lines by number, from 1.
    pub lines: BTreeMap<u32, String>,
}

/// A program run by itself, without emulator, on a CPU at hand. User cycles; kernel time excluded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    /// Where the cycles are, and how certainly; none in reports of versions before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Interval>,
    /// What else ran; none where the system does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<Load>,
    /// Why what the program is charged with before it begins is in the cycles; none where it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_from_exec: Option<String>,
    /// Core clock in megahertz.
    pub core_mhz: f64,
}

/// Where measured cycles are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// Lower end.
    pub low: u64,
    /// Upper end.
    pub high: u64,
    /// Probability in per cent that the truth is inside.
    pub percent: f64,
    /// What makes most of its width: `runs`, `ticks` or `clock`.
    pub mostly: String,
    /// Half its width, over the cycles, that a measurement on a quiet machine is to reach, in per
    /// cent.
    pub asked_percent: f64,
}

/// What else ran while a program was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Load {
    /// CPUs that others kept busy, the mean.
    pub others: f64,
    /// CPUs of the machine.
    pub cpus: u64,
    /// Whether that is enough to doubt the figures.
    pub busy: bool,
}
