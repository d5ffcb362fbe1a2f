//! Which published files make which table, and from whom a table borrows.

/// A CPU that gets a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// Short name, also the file's.
    pub name: &'static str,
    /// Published file.
    pub source: &'static str,
    /// Port layout.
    pub layout: Layout,
    /// Has AVX-512.
    pub avx512: bool,
    /// Others to borrow missing forms from, nearest first.
    pub relatives: &'static [&'static str],
}

/// How execution ports are numbered and used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Sandy Bridge: ALUs 0, 1, 5; loads and store addresses 2, 3; store data 4.
    SandyBridge,
    /// Haswell: adds ALU and branches 6, store addresses 7.
    Haswell,
    /// Ice Lake: store addresses 7, 8; store data 4, 9.
    IceLake,
    /// Golden and Redwood Cove: adds ALU B and loads A.
    GoldenCove,
    /// Zen and Zen+: ALUs 0 to 3, addresses 6 and 7, vectors A to D, store data G; 256 bits in two halves.
    Zen1,
    /// Zen 2: as Zen, stores' addresses 8.
    Zen2,
    /// Zen 3: adds branches 4, stores and moves of vectors E, F, store data H.
    Zen3,
    /// Zen 4: as Zen 3; 512 bits in two halves.
    Zen4,
    /// Zen 5: ALUs 0 to 5, addresses 6 to 9.
    Zen5,
}

impl Layout {
    /// One of AMD's before Zen 3.
    pub const fn is_first_zen(self) -> bool {
        matches!(self, Self::Zen1 | Self::Zen2)
    }

    /// One of AMD's.
    pub const fn is_zen(self) -> bool {
        self.is_first_zen() || matches!(self, Self::Zen3 | Self::Zen4 | Self::Zen5)
    }
}

const fn cpu(
    name: &'static str,
    source: &'static str,
    layout: Layout,
    avx512: bool,
    relatives: &'static [&'static str],
) -> Cpu {
    Cpu {
        name,
        source,
        layout,
        avx512,
        relatives,
    }
}

/// All CPUs with a table.
pub const CPUS: [Cpu; 17] = {
    use Layout::{GoldenCove, Haswell, IceLake, SandyBridge, Zen1, Zen2, Zen3, Zen4, Zen5};
    [
        cpu(
            "snb",
            "SNB",
            SandyBridge,
            false,
            &["ivb", "hsw", "bdw", "skl", "icl", "glc"],
        ),
        cpu(
            "ivb",
            "IVB",
            SandyBridge,
            false,
            &["snb", "hsw", "bdw", "skl", "icl", "glc"],
        ),
        cpu("hsw", "HSW", Haswell, false, &["bdw", "skl", "icl", "glc"]),
        cpu("bdw", "BDW", Haswell, false, &["hsw", "skl", "icl", "glc"]),
        cpu("skl", "SKL", Haswell, false, &["skx", "bdw", "icl", "glc"]),
        cpu(
            "skx",
            "SKX",
            Haswell,
            true,
            &["clx", "skl", "bdw", "icl", "rkl", "glc"],
        ),
        cpu(
            "clx",
            "CLX",
            Haswell,
            true,
            &["skx", "skl", "bdw", "icl", "rkl", "glc"],
        ),
        cpu(
            "icl",
            "ICL",
            IceLake,
            true,
            &["tgl", "rkl", "clx", "skl", "glc"],
        ),
        cpu(
            "tgl",
            "TGL",
            IceLake,
            true,
            &["rkl", "icl", "clx", "skl", "glc"],
        ),
        cpu(
            "rkl",
            "RKL",
            IceLake,
            true,
            &["icl", "tgl", "clx", "skl", "glc"],
        ),
        cpu(
            "glc",
            "MTL-P",
            GoldenCove,
            true,
            &["rkl", "tgl", "icl", "clx", "skl"],
        ),
        cpu(
            "rwc",
            "MTL-P",
            GoldenCove,
            true,
            &["rkl", "tgl", "icl", "clx", "skl"],
        ),
        cpu("zen1", "ZEN+", Zen1, false, &["zen2", "glc", "skl"]),
        cpu("zen2", "ZEN2", Zen2, false, &["zen3", "glc", "skl"]),
        cpu("zen3", "ZEN3", Zen3, false, &["zen2", "glc", "skl"]),
        cpu("zen4", "ZEN3", Zen4, true, &["zen2", "glc", "rkl", "clx"]),
        cpu("zen5", "ZEN3", Zen5, true, &["zen2", "glc", "rkl", "clx"]),
    ]
};

/// Files of 2025, whose operand lists are used for all CPUs.
pub const OPERAND_LISTS: [&str; 5] = ["MTL-P", "ARL-P", "ADL-E", "ZEN3", "ZEN2"];

/// The CPUs that `daemon/isa/data/measured/CPU.csv.xz` are of: these figures go before published ones.
pub const MEASURED: [&str; 4] = ["zen1", "zen3", "zen4", "zen5"];

/// Looks a CPU up.
pub fn find(name: &str) -> Option<&'static Cpu> {
    CPUS.iter().find(|c| c.name == name)
}
