//! Which CPU is at hand.

use std::arch::x86_64::{__cpuid, __cpuid_count, __get_cpuid_max};

/// The CPU at hand.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Host {
    /// As it calls itself.
    pub name: String,
    /// `GenuineIntel`, `AuthenticAMD`, …
    pub vendor: String,
    /// Display family (Intel SDM 2A, CPUID).
    pub family: u32,
    /// Display model.
    pub model: u32,
    /// Short name of the machine model of this core; none: there is none.
    pub core: Option<&'static str>,
}

/// Intel's models of family 6 with the names of their cores (Intel SDM 4, table 2-1). Where a CPU
/// has two kinds of cores, the large one.
const CORES: &[(&str, &[u32])] = &[
    ("snb", &[0x2a, 0x2d]),
    ("ivb", &[0x3a, 0x3e]),
    ("hsw", &[0x3c, 0x3f, 0x45, 0x46]),
    ("bdw", &[0x3d, 0x47, 0x4f, 0x56]),
    ("skl", &[0x4e, 0x5e, 0x8e, 0x9e, 0xa5, 0xa6]),
    ("icl", &[0x6a, 0x6c, 0x7d, 0x7e]),
    ("tgl", &[0x8c, 0x8d]),
    ("rkl", &[0xa7]),
    ("glc", &[0x8f, 0x97, 0x9a, 0xb7, 0xba, 0xbf, 0xcf]),
    ("rwc", &[0xaa, 0xac, 0xad, 0xae]),
];

/// AMX's products of half precision, which Granite Rapids brought: some hypervisors show an older model beside it.
const AMX_FP16: u32 = 1 << 21;

/// Skylake's server core; from [`CASCADE_LAKE`]'s stepping on it is Cascade Lake's.
const SKYLAKE_SERVER: u32 = 0x55;
const CASCADE_LAKE: u32 = 5;

impl Host {
    /// Asks the CPU.
    #[must_use]
    pub fn at_hand() -> Self {
        let leaf = |n: u32| {
            // The most that the kind of leaf has is asked for first.
            if __get_cpuid_max(n & 0x8000_0000).0 < n {
                [0; 4]
            } else {
                let r = __cpuid(n);
                [r.eax, r.ebx, r.ecx, r.edx]
            }
        };
        let [_, b, c, d] = leaf(0);
        let vendor = text(&[b, d, c]);
        let brand: Vec<u32> = (0x8000_0002..=0x8000_0004u32).flat_map(leaf).collect();
        let (family, model, stepping) = identity(leaf(1)[0]);
        // Structured extended features, second sub-leaf.
        let more = match __get_cpuid_max(0).0 {
            0..7 => 0,
            _ => __cpuid_count(7, 1).eax,
        };
        let by_features = (vendor == "GenuineIntel" && more & AMX_FP16 != 0).then_some("rwc");
        Self {
            name: text(&brand),
            core: by_features.or_else(|| core(&vendor, family, model, stepping)),
            vendor,
            family,
            model,
        }
    }
}

/// Family, model and stepping as they are displayed.
fn identity(eax: u32) -> (u32, u32, u32) {
    let bits = |from: u32, count: u32| eax >> from & ((1 << count) - 1);
    let (family, model) = (bits(8, 4), bits(4, 4));
    let extended = if family == 0xf { bits(20, 8) } else { 0 };
    let high = if matches!(family, 0x6 | 0xf) {
        bits(16, 4) << 4
    } else {
        0
    };
    (family + extended, high | model, bits(0, 4))
}

fn core(vendor: &str, family: u32, model: u32, stepping: u32) -> Option<&'static str> {
    match (vendor, family, model) {
        ("GenuineIntel", 6, SKYLAKE_SERVER) if stepping >= CASCADE_LAKE => Some("clx"),
        ("GenuineIntel", 6, SKYLAKE_SERVER) => Some("skx"),
        ("GenuineIntel", 6, _) => {
            let known = CORES.iter().find(|(_, models)| models.contains(&model));
            known.map(|(core, _)| *core)
        }
        ("AuthenticAMD", ..) => zen(family, model).filter(|core| has_model(core)),
        _ => None,
    }
}

/// The core of AMD's families 17h, 19h and 1Ah (their processor programming references; Linux,
/// `arch/x86/kernel/cpu/amd.c`).
fn zen(family: u32, model: u32) -> Option<&'static str> {
    match (family, model) {
        (0x17, 0x00..=0x2f | 0x50..=0x5f) => Some("zen1"),
        (0x17, 0x30..=0x4f | 0x60..=0x7f | 0x90..=0x91 | 0xa0..=0xaf) => Some("zen2"),
        (0x19, 0x00..=0x0f | 0x20..=0x5f) => Some("zen3"),
        (0x19, 0x10..=0x1f | 0x60..=0x7f | 0xa0..=0xaf) => Some("zen4"),
        (0x1a, 0x00..=0x4f | 0x60..=0x7f) => Some("zen5"),
        _ => None,
    }
}

/// Whether there is a built-in model of a core.
fn has_model(core: &str) -> bool {
    mcad_isa::machine::cpus().iter().any(|cpu| cpu.name == core)
}

/// The characters in registers, without what is not printable.
fn text(registers: &[u32]) -> String {
    let bytes = registers.iter().flat_map(|r| r.to_le_bytes());
    let shown = bytes.filter(|b| matches!(b, b' '..=b'~')).map(char::from);
    let text: String = shown.collect();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_told_by_family_and_model() {
        // Kaby Lake, Skylake-SP, Cascade Lake, Emerald Rapids, Granite Rapids, an old one.
        for (eax, expected) in [
            (0x000806ea, (6, 0x8e, Some("skl"))),
            (0x00050654, (6, 0x55, Some("skx"))),
            (0x00050657, (6, 0x55, Some("clx"))),
            (0x000c06f2, (6, 0xcf, Some("glc"))),
            (0x000a06d1, (6, 0xad, Some("rwc"))),
            (0x000006d8, (6, 0x0d, None)),
        ] {
            let (family, model, stepping) = identity(eax);
            let core = core("GenuineIntel", family, model, stepping);
            assert_eq!((family, model, core), expected, "{eax:x}");
        }
        let (family, model, _) = identity(0x00a1_0f11);
        assert_eq!((family, model), (0x19, 0x11));
        assert_eq!(zen(family, model), Some("zen4"));
        let (family, model, stepping) = identity(0x00b0_0f21);
        assert_eq!(core("AuthenticAMD", family, model, stepping), Some("zen5"));
        let (family, model, stepping) = identity(0x0080_0f12);
        assert_eq!((family, model), (0x17, 0x01));
        assert_eq!(core("AuthenticAMD", family, model, stepping), Some("zen1"));
        assert_eq!(core("AuthenticAMD", 0x15, 2, 0), None);
    }

    #[test]
    fn the_cpu_at_hand_has_a_name() {
        let host = Host::at_hand();
        assert!(!host.vendor.is_empty() && host.family > 0, "{host:?}");
    }
}
