//! CPU models as data: parameters of the core ([`params`]), its instruction table ([`table`]), and
//! the format in which both are written down ([`file`]).
//!
//! No stage of the simulation knows a CPU's name. A built-in CPU is a file in `models/` and its
//! name in [`BUILT_IN`]; anyone's own is a file in the same format.

pub mod ablation;
pub mod file;
pub mod hierarchy;
pub mod ideal;
pub mod inorder;
pub mod measured;
pub mod params;
pub mod table;

use std::sync::{Arc, OnceLock};

use mcad_proto::event::Arch;
use params::Core;
use table::FormTable;

pub use file::model_from;

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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuInfo {
    /// Short name: `skl`.
    pub name: &'static str,
    /// Other accepted spellings (LLVM's and GCC's).
    pub aliases: Vec<String>,
    /// Full name for people.
    pub full_name: String,
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
    /// The file of a CPU is wrong.
    #[error("{place}:{line}: {what}")]
    BadFile {
        /// The file, or the name of a built-in CPU.
        place: String,
        /// Line in it, from 1.
        line: usize,
        /// What is wrong, and what would be right.
        what: String,
    },
}

/// The text of a built-in CPU.
#[derive(Debug)]
struct BuiltIn {
    name: &'static str,
    text: &'static str,
}

macro_rules! built_in {
    ($($name:literal),* $(,)?) => {
        &[$(BuiltIn {
            name: $name,
            text: include_str!(concat!("machine/models/", $name, ".toml")),
        }),*]
    };
}

/// In the order in which lists show them.
const BUILT_IN: &[BuiltIn] = built_in![
    "snb", "ivb", "hsw", "bdw", "skl", "skx", "clx", "icl", "tgl", "rkl", "glc", "zen5", "atom",
];

/// All built-in models.
#[must_use]
pub fn cpus() -> &'static [CpuInfo] {
    static CPUS: OnceLock<Vec<CpuInfo>> = OnceLock::new();
    CPUS.get_or_init(|| {
        let infos = BUILT_IN.iter().filter_map(|cpu| {
            let header = file::header(cpu.name, cpu.text).ok()?;
            Some(CpuInfo {
                name: cpu.name,
                aliases: header.aliases,
                full_name: header.full_name.unwrap_or_default(),
            })
        });
        infos.collect()
    })
}

/// The built-in CPU of a short name or alias, in any case of letters.
fn built_in(name: &str) -> Option<&'static BuiltIn> {
    let wanted = name.to_ascii_lowercase();
    let by_name = |wanted: &str| BUILT_IN.iter().find(|cpu| cpu.name == wanted);
    by_name(&wanted).or_else(|| {
        let info = cpus().iter().find(|cpu| cpu.aliases.contains(&wanted))?;
        by_name(info.name)
    })
}

/// Loads a built-in model by short name or alias, in any case of letters.
///
/// # Errors
/// [`MachineError`] when the name is unknown or the model's data is broken.
pub fn cpu(name: &str) -> Result<Arc<CpuModel>, MachineError> {
    let cpu = built_in(name).ok_or_else(|| MachineError::UnknownCpu(name.to_owned()))?;
    model_from(cpu.name, cpu.text, &|name| {
        Err(format!("{name} is no part of this program"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_cpu_is_whole_and_found_by_all_its_names() {
        assert_eq!(cpus().len(), BUILT_IN.len());
        for info in cpus() {
            let model = cpu(info.name).unwrap();
            assert_eq!(model.name, info.name);
            assert_eq!(model.full_name, info.full_name);
            assert!(!info.full_name.is_empty());
            for alias in &info.aliases {
                assert_eq!(cpu(&alias.to_uppercase()).unwrap().name, info.name);
            }
        }
    }
}
