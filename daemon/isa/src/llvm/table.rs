//! The embedded files: decoded once, when first asked for.

use std::sync::OnceLock;

use mcad_proto::event::Arch;

use super::decode::Decoder;
use super::wire::{Cpu, File, decode};

/// An instruction set: its encodings, and the CPUs that execute it.
#[derive(Debug)]
pub struct Table {
    /// The file's content.
    pub file: File,
    /// Finds opcodes.
    pub decoder: Decoder,
}

/// A CPU of a table.
#[derive(Clone, Copy, Debug)]
pub struct CpuTable {
    /// Its instruction set.
    pub arch: Arch,
    /// Where its instructions are.
    pub table: &'static Table,
    /// Its costs.
    pub cpu: &'static Cpu,
}

struct Embedded {
    name: &'static str,
    /// The CPUs in it: whoever asks for another need not decode it.
    cpus: &'static [&'static str],
    compressed: bool,
    bytes: &'static [u8],
    table: OnceLock<Result<Table, String>>,
}

macro_rules! embedded {
    ($name:literal, $compressed:literal, $($cpu:literal)*) => {
        Embedded {
            name: $name,
            cpus: &[$($cpu),*],
            compressed: $compressed,
            bytes: include_bytes!(concat!("../../data/", $name, ".isa")),
            table: OnceLock::new(),
        }
    };
}

static AARCH64: Embedded = embedded!(
    "aarch64", false,
    "cortex-a35" "cortex-a53" "cortex-a55" "cortex-a57" "cortex-a72" "cortex-a76" "cortex-a78"
    "cortex-a320" "cortex-a510" "cortex-x4" "neoverse-n1" "neoverse-n2" "neoverse-n3"
    "neoverse-v1" "neoverse-v2" "neoverse-v3" "a64fx" "apple-m1" "ampere1" "ampere1b" "exynos-m3"
    "exynos-m4" "exynos-m5" "falkor" "kryo" "oryon-1" "olympus" "thunderx" "thunderx2t99"
    "thunderx3t110" "tsv110"
);
static RISCV: Embedded = embedded!(
    "riscv", true,
    "sifive-u74" "sifive-x280" "sifive-x390" "sifive-p450" "sifive-p550" "sifive-p670"
    "sifive-p870" "rocket-rv64" "syntacore-scr3-rv64" "syntacore-scr4-rv64" "syntacore-scr5-rv64"
    "syntacore-scr7" "spacemit-x60" "xiangshan-nanhu" "andes-ax45" "mips-p8700" "tt-ascalon-d8"
);

/// Instruction sets that have a table, and where it is.
const SETS: [(Arch, &Embedded); 3] = [
    (Arch::AArch64, &AARCH64),
    (Arch::RiscV64, &RISCV),
    (Arch::RiscV32, &RISCV),
];

/// CPUs of RV32 whose scheduling model LLVM shares with one of RV64, and that one.
const SHARED: [(&str, &str); 1] = [("rocket-rv32", "rocket-rv64")];

impl Embedded {
    fn get(&'static self) -> Result<&'static Table, String> {
        let result = self.table.get_or_init(|| {
            let file = decode(self.bytes)?;
            let decoder = Decoder::new(&file, self.compressed);
            Ok(Table { file, decoder })
        });
        result.as_ref().map_err(|what| {
            format!(
                "the embedded table of {} is damaged ({what}); `cargo xtask tables-llvm` makes it \
                 anew",
                self.name
            )
        })
    }
}

/// The table of an instruction set; `None` when it has none of this kind.
///
/// # Errors
/// A text when the embedded file is damaged.
pub fn of(arch: Arch) -> Option<Result<&'static Table, String>> {
    let (_, embedded) = SETS.iter().find(|(a, _)| *a == arch)?;
    Some(embedded.get())
}

/// The CPU of this name (LLVM's: `neoverse-n1`); `None` when there is none.
///
/// # Errors
/// A text when an embedded file is damaged.
pub fn cpu(name: &str) -> Result<Option<CpuTable>, String> {
    for (arch, embedded) in SETS {
        let name = match (arch, SHARED.iter().find(|(of_rv32, _)| *of_rv32 == name)) {
            (Arch::RiscV32, Some((_, of_rv64))) => of_rv64,
            _ => name,
        };
        if !embedded.cpus.contains(&name) {
            continue;
        }
        let table = embedded.get()?;
        if let Some(cpu) = table.file.cpus.iter().find(|cpu| cpu.name == name) {
            return Ok(Some(CpuTable { arch, table, cpu }));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embedded_files_are_whole() {
        for (arch, embedded) in SETS {
            let table = embedded.get().unwrap();
            let file = &table.file;
            assert!(of(arch).unwrap().is_ok());
            for rule in &file.rules {
                let opcode = &file.opcodes[usize::from(rule.opcode)];
                assert!(!opcode.forms.is_empty(), "{}", opcode.name);
                for form in &opcode.forms {
                    assert!(form.form < file.forms, "{}", opcode.name);
                }
                // An encoding decodes to its own instruction, or to one with more fixed bits.
                let found = table.decoder.find(rule.value).unwrap();
                let other = file.rules.iter().find(|r| r.opcode == found).unwrap();
                assert!(
                    other.mask.count_ones() >= rule.mask.count_ones(),
                    "{}",
                    opcode.name
                );
            }
            let names: Vec<&str> = file.cpus.iter().map(|cpu| cpu.name.as_str()).collect();
            assert_eq!(names, embedded.cpus);
            for cpu in &file.cpus {
                assert_eq!(cpu.class_of.len(), usize::from(file.forms), "{}", cpu.name);
                let classes = cpu.classes.len();
                assert!(
                    cpu.class_of
                        .iter()
                        .all(|class| usize::from(*class) <= classes)
                );
                for class in &cpu.classes {
                    for (resource, ..) in &class.resources {
                        assert!(usize::from(*resource) < cpu.resources.len(), "{}", cpu.name);
                    }
                }
                assert!(super::cpu(&cpu.name).unwrap().is_some());
            }
        }
        assert!(cpu("skl").unwrap().is_none());
        let rv32 = cpu("rocket-rv32").unwrap().unwrap();
        assert_eq!(rv32.arch, Arch::RiscV32);
        assert_eq!(cpu("rocket-rv64").unwrap().unwrap().arch, Arch::RiscV64);
    }
}
