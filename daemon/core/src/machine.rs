//! CPU models as data.

pub mod table;

use std::sync::Arc;

/// A CPU model with all parameters resolved.
#[derive(Debug)]
pub struct CpuModel {
    /// Short name.
    pub name: String,
    /// Full name for people.
    pub full_name: String,
}

/// A model that can be asked for by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuInfo {
    /// Short name: `skl`.
    pub name: &'static str,
    /// Other accepted spellings (LLVM's).
    pub aliases: &'static [&'static str],
    /// Full name for people.
    pub full_name: &'static str,
}

/// Why a CPU model cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MachineError {
    /// The name is unknown.
    #[error("unknown CPU '{0}'; `mcad cpus` lists the names")]
    UnknownCpu(String),
    /// A parameter file is wrong.
    #[error("CPU model {name}: {what}")]
    BadModel {
        /// Model.
        name: String,
        /// What is wrong.
        what: String,
    },
}

const MODELS: &[CpuInfo] = &[
    CpuInfo {
        name: "skl",
        aliases: &["skylake"],
        full_name: "Intel Skylake (client)",
    },
    CpuInfo {
        name: "glc",
        aliases: &["alderlake", "sapphirerapids", "emeraldrapids"],
        full_name: "Intel Golden Cove",
    },
];

/// All models.
#[must_use]
pub fn cpus() -> &'static [CpuInfo] {
    MODELS
}

/// Loads a model by name or alias (`native`: the host's).
///
/// # Errors
/// [`MachineError`] when the name is unknown or the model's data is broken.
pub fn cpu(name: &str) -> Result<Arc<CpuModel>, MachineError> {
    let info = MODELS
        .iter()
        .find(|m| m.name == name || m.aliases.contains(&name))
        .ok_or_else(|| MachineError::UnknownCpu(name.to_owned()))?;
    Ok(Arc::new(CpuModel {
        name: info.name.into(),
        full_name: info.full_name.into(),
    }))
}
