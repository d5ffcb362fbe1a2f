//! CPU models as data: parameters of the core ([`params`]) and its instruction table ([`table`]).
//!
//! No stage of the simulation knows a CPU's name; a new CPU is a TOML file in `models/`, a table
//! and a line in [`MODELS`].

pub mod ablation;
pub mod hierarchy;
pub mod measured;
pub mod params;
pub mod table;

use std::sync::Arc;

use mcad_proto::event::Arch;
use params::Core;
use table::FormTable;

/// A CPU model with all parameters resolved.
#[derive(Debug)]
pub struct CpuModel {
    /// Short name.
    pub name: String,
    /// Full name for people.
    pub full_name: String,
    /// Parameters of the core.
    pub core: Core,
    /// Figures of its instructions.
    pub table: &'static FormTable,
}

impl CpuModel {
    /// Instruction set that it executes.
    #[must_use]
    pub const fn arch(&self) -> Arch {
        Arch::X86_64
    }
}

/// A model that can be asked for by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuInfo {
    /// Short name: `skl`.
    pub name: &'static str,
    /// Other accepted spellings (LLVM's and GCC's).
    pub aliases: &'static [&'static str],
    /// Full name for people.
    pub full_name: &'static str,
    parameters: &'static str,
}

/// Why a CPU model cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MachineError {
    /// The name is unknown.
    #[error("unknown CPU '{0}'; `mcad cpus` lists the names")]
    UnknownCpu(String),
    /// The host's CPU has no model.
    #[error(
        "no model for this host's CPU ({0}); choose one with --cpu, `mcad cpus` lists the names"
    )]
    NoNative(String),
    /// A parameter file or table is wrong.
    #[error("CPU model {name}: {what}")]
    BadModel {
        /// Model.
        name: String,
        /// What is wrong.
        what: String,
    },
}

macro_rules! model {
    ($name:literal, $full:literal, [$($alias:literal),*]) => {
        CpuInfo {
            name: $name,
            aliases: &[$($alias),*],
            full_name: $full,
            parameters: include_str!(concat!("machine/models/", $name, ".toml")),
        }
    };
}

const MODELS: &[CpuInfo] = &[
    model!("snb", "Intel Sandy Bridge", ["sandybridge", "corei7-avx"]),
    model!("ivb", "Intel Ivy Bridge", ["ivybridge", "core-avx-i"]),
    model!("hsw", "Intel Haswell", ["haswell", "core-avx2"]),
    model!("bdw", "Intel Broadwell", ["broadwell"]),
    model!("skl", "Intel Skylake (client)", ["skylake", "kbl", "cfl"]),
    model!("skx", "Intel Skylake (server)", ["skylake-avx512"]),
    model!("clx", "Intel Cascade Lake", ["cascadelake"]),
    model!(
        "icl",
        "Intel Ice Lake",
        ["icelake-client", "icelake-server"]
    ),
    model!("tgl", "Intel Tiger Lake", ["tigerlake"]),
    model!("rkl", "Intel Rocket Lake", ["rocketlake"]),
    model!(
        "glc",
        "Intel Golden Cove (Alder Lake P, Sapphire Rapids, Emerald Rapids)",
        ["alderlake", "sapphirerapids", "emeraldrapids", "goldencove"]
    ),
];

/// All models.
#[must_use]
pub fn cpus() -> &'static [CpuInfo] {
    MODELS
}

/// Loads a model by short name or alias, in any case of letters.
///
/// # Errors
/// [`MachineError`] when the name is unknown or the model's data is broken.
pub fn cpu(name: &str) -> Result<Arc<CpuModel>, MachineError> {
    let wanted = name.to_ascii_lowercase();
    let info = MODELS
        .iter()
        .find(|m| m.name == wanted || m.aliases.contains(&wanted.as_str()))
        .ok_or_else(|| MachineError::UnknownCpu(name.to_owned()))?;
    model_from(info.name, info.full_name, info.parameters)
}

/// Builds a model from a parameter file; the instruction table is the one of `table_of`.
///
/// # Errors
/// [`MachineError::BadModel`] names the unknown or missing parameter.
pub fn model_from(
    table_of: &str,
    full_name: &str,
    parameters: &str,
) -> Result<Arc<CpuModel>, MachineError> {
    let bad = |what: String| MachineError::BadModel {
        name: table_of.to_owned(),
        what,
    };
    let core: Core = toml::from_str(parameters).map_err(|e| bad(e.to_string()))?;
    core.check().map_err(bad)?;
    let table = FormTable::for_cpu(table_of).map_err(|e| bad(e.to_string()))?;
    Ok(Arc::new(CpuModel {
        name: table_of.to_owned(),
        full_name: full_name.to_owned(),
        core,
        table,
    }))
}
