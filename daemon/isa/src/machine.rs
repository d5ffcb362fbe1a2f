//! CPU models as data: parameters of the core ([`params`]), its instruction table ([`table`]), and
//! the format in which both are written down ([`file`]).
//!
//! No stage of the simulation knows a CPU's name. A built-in CPU is a file in `models/` and its
//! name in [`BUILT_IN`]; anyone's own is a file in the same format.

pub mod ablation;
pub mod conditions;
mod explain;
pub mod file;
pub mod hierarchy;
pub mod ideal;
pub mod inorder;
pub mod measured;
pub mod params;
pub mod table;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::llvm::cost::Units;
use crate::llvm::forwarding::Forwarding;
use crate::llvm::sched::Machine;
use crate::llvm::table::CpuTable;
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
    pub instructions: Instructions,
    /// QEMU's name of the CPU that comes nearest, by which a program's libraries choose their code.
    pub qemu_cpu: Option<String>,
}

/// Where the figures of a CPU's instructions come from.
#[derive(Clone, Debug)]
pub enum Instructions {
    /// x86-64: a table by instruction form.
    X86(&'static FormTable),
    /// AArch64 and RISC-V: LLVM's scheduling model.
    Llvm {
        /// Costs and encodings.
        cpu: CpuTable,
        /// Its units as ports.
        units: Units,
        /// Results that some operands can take sooner.
        forwarding: Forwarding,
        /// Its units as LLVM's schedulers take them.
        machine: Machine,
    },
}

impl Instructions {
    /// The table's name; of one that a file changes also how often, and a digest of that.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::X86(table) => &table.name,
            Self::Llvm { cpu, .. } => &cpu.cpu.name,
        }
    }
}

impl CpuModel {
    /// Instruction set that it executes.
    #[must_use]
    pub const fn arch(&self) -> Arch {
        match &self.instructions {
            Instructions::X86(_) => Arch::X86_64,
            Instructions::Llvm { cpu, .. } => cpu.arch,
        }
    }

    /// The units of an in-order core that issues by its table's scheduling model.
    #[must_use]
    pub fn scheduled(&self) -> Option<&Machine> {
        match &self.instructions {
            Instructions::Llvm { machine, .. } => {
                let core = self.core.in_order.as_ref();
                core.is_some_and(|core| core.scheduled).then_some(machine)
            }
            Instructions::X86(_) => None,
        }
    }

    /// The table by instruction form, which x86-64 has.
    #[must_use]
    pub const fn forms(&self) -> Option<&'static FormTable> {
        match &self.instructions {
            Instructions::X86(table) => Some(table),
            Instructions::Llvm { .. } => None,
        }
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
    /// Instruction set that it executes.
    pub arch: Arch,
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
    arch: Arch,
    text: &'static str,
}

macro_rules! built_in {
    ($($arch:ident: $($name:literal)*;)*) => {
        &[$($(BuiltIn {
            name: $name,
            arch: Arch::$arch,
            text: include_str!(concat!("machine/models/", $name, ".toml")),
        }),*),*]
    };
}

/// In the order in which lists show them.
const BUILT_IN: &[BuiltIn] = built_in![
    X86_64: "snb" "ivb" "hsw" "bdw" "skl" "skx" "clx" "icl" "tgl" "rkl" "glc"
        "rwc" "zen1" "zen2" "zen3" "zen4" "zen5" "atom";
    AArch64: "cortex-a8" "cortex-a35" "cortex-a53" "cortex-a55" "cortex-a57" "cortex-a72" "cortex-a76"
        "cortex-a78" "cortex-a320" "cortex-a510" "cortex-x4" "neoverse-n1" "neoverse-n2"
        "neoverse-n3" "neoverse-v1" "neoverse-v2" "neoverse-v3" "a64fx" "apple-m1" "ampere1"
        "ampere1b" "olympus" "thunderx" "thunderx2t99" "thunderx3t110" "tsv110" "kryo" "falkor"
        "exynos-m3" "exynos-m4" "exynos-m5";
    RiscV64: "rocket" "sifive-u74" "sifive-x280" "sifive-x390" "sifive-p450" "sifive-p550"
        "sifive-p670" "sifive-p870" "spacemit-x60" "syntacore-scr3" "syntacore-scr4"
        "syntacore-scr5" "syntacore-scr7" "xiangshan-nanhu" "andes-ax45" "mips-p8700"
        "tt-ascalon-d8";
    RiscV32: "eh1";
];

/// The model that is meant when none is named, of each instruction set.
#[must_use]
pub const fn default_cpu(arch: Arch) -> &'static str {
    match arch {
        Arch::X86_64 => "skl",
        Arch::AArch64 => "neoverse-n1",
        Arch::RiscV32 => "eh1",
        _ => "sifive-p670",
    }
}

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
                arch: cpu.arch,
            })
        });
        infos.collect()
    })
}

/// The models of an instruction set.
pub fn cpus_of(arch: Arch) -> impl Iterator<Item = &'static CpuInfo> {
    cpus().iter().filter(move |cpu| cpu.arch == arch)
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

/// A built-in model by short name or alias, in any case of letters. It is made once and lives as long as the program, which
/// figures of its own do in any case.
///
/// # Errors
/// [`MachineError`] when the name is unknown or the model's data is broken.
pub fn cpu(name: &str) -> Result<Arc<CpuModel>, MachineError> {
    static MADE: Mutex<BTreeMap<&str, Arc<CpuModel>>> = Mutex::new(BTreeMap::new());
    let cpu = built_in(name).ok_or_else(|| MachineError::UnknownCpu(name.to_owned()))?;
    let made = || MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(model) = made().get(cpu.name) {
        return Ok(Arc::clone(model));
    }
    let model = model_from(cpu.name, cpu.text, &|name| {
        Err(format!("{name} is no part of this program"))
    })?;
    Ok(Arc::clone(made().entry(cpu.name).or_insert(model)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_cpu_is_whole_and_found_by_all_its_names() {
        assert_eq!(cpus().len(), BUILT_IN.len());
        for arch in Arch::ALL {
            assert_eq!(cpu(default_cpu(arch)).unwrap().arch(), arch);
        }
        for info in cpus() {
            let model = cpu(info.name).unwrap();
            assert_eq!(model.name, info.name);
            assert_eq!(model.full_name, info.full_name);
            assert_eq!(model.arch(), info.arch);
            assert!(!info.full_name.is_empty());
            // Each is there once, however often it is asked for.
            for alias in &info.aliases {
                assert!(Arc::ptr_eq(&cpu(&alias.to_uppercase()).unwrap(), &model));
            }
        }
    }
}
