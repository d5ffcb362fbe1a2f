//! Ablations: a core with one part left out, to see what that part is worth.
//!
//! Abel & Reineke ("uiCA", ICS 2022, table 4) take the parts of their model away one by one. Each
//! [`Ablation`] does that to the parameters of any core; docs/ACCURACY.md has the figures.

use std::sync::Arc;

use super::CpuModel;
use super::params::{Core, PortChoice, Slots};

/// One part left out.
#[derive(Clone, Copy, Debug)]
pub struct Ablation {
    /// Short name, as an option takes it.
    pub name: &'static str,
    /// What is left out, for people.
    pub what: &'static str,
    change: fn(&mut Core),
}

impl Ablation {
    /// `model` without the part.
    #[must_use]
    pub fn of(&self, model: &CpuModel) -> Arc<CpuModel> {
        let mut core = model.core.clone();
        (self.change)(&mut core);
        Arc::new(CpuModel {
            name: model.name.clone(),
            full_name: format!("{}, {}", model.full_name, self.what),
            core,
            table: model.table,
        })
    }

    /// Whether leaving the part out changes anything on `core`.
    #[must_use]
    pub fn applies(&self, core: &Core) -> bool {
        let mut changed = core.clone();
        (self.change)(&mut changed);
        changed != *core
    }
}

/// All ablations, the published ones first and in their order.
#[must_use]
pub fn ablations() -> &'static [Ablation] {
    &[
        Ablation {
            name: "simple-front-end",
            what: "a front end without limits of its own",
            change: |core| core.frontend.ideal = true,
        },
        Ablation {
            name: "simple-port-choice",
            what: "ports chosen in turn",
            change: |core| core.execute.port_choice = PortChoice::RoundRobin,
        },
        Ablation {
            name: "no-micro-fusion",
            what: "no micro-fusion",
            change: |core| core.rename.micro_fusion = false,
        },
        Ablation {
            name: "no-macro-fusion",
            what: "no macro-fusion",
            change: |core| core.frontend.macro_fusion = false,
        },
        Ablation {
            name: "no-loop-unrolling",
            what: "no unrolling in the loop stream detector",
            change: |core| core.frontend.loop_stream_unroll.clear(),
        },
        Ablation {
            name: "no-move-elimination",
            what: "no move elimination",
            change: |core| {
                core.rename.move_elimination_gpr = Slots::Limited(0);
                core.rename.move_elimination_simd = Slots::Limited(0);
            },
        },
        Ablation {
            name: "no-loop-stream",
            what: "no loop stream detector",
            change: |core| core.frontend.loop_stream = false,
        },
        Ablation {
            name: "no-add-elimination",
            what: "no additions at rename",
            change: |core| core.rename.add_immediate_range = 0,
        },
        Ablation {
            name: "no-memory-renaming",
            what: "no renaming of loads to stores",
            change: |core| core.execute.memory_renaming = false,
        },
        Ablation {
            name: "no-banks",
            what: "no banks in the first-level cache",
            change: |core| core.execute.loads_per_bank = 0,
        },
        Ablation {
            name: "no-store-buffer",
            what: "no writing of stores in order",
            change: |core| core.execute.store_buffer = 0,
        },
        Ablation {
            name: "no-forwarding",
            what: "no dependencies from stores to loads",
            change: |core| core.execute.dependencies_through_memory = false,
        },
    ]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::block::{Block, Mode, Options};
    use crate::machine::cpu;

    fn cycles(model: &Arc<CpuModel>, mode: Mode, bytes: &[u8]) -> f64 {
        let options = Options {
            mode,
            ..Options::default()
        };
        Block::new(model, bytes).unwrap().predict(options).cycles
    }

    fn without(name: &str, cpu_name: &str, mode: Mode, bytes: &[u8]) -> (f64, f64) {
        let whole = cpu(cpu_name).unwrap();
        let ablation = ablations().iter().find(|a| a.name == name).unwrap();
        assert!(ablation.applies(&whole.core), "{name} on {cpu_name}");
        let part = ablation.of(&whole);
        (cycles(&whole, mode, bytes), cycles(&part, mode, bytes))
    }

    #[test]
    fn each_changes_what_it_names() {
        use Mode::{Loop, Unrolled};
        let jump = [0x48, 0xff, 0xc8, 0x75, 0xfb];
        let lcp = [0x66, 0x05, 0x34, 0x12];
        let store_nops = [0x48, 0x89, 6, 0x90, 0x90, 0x90];
        let moves = [0x48, 0x89, 0xd8, 0x48, 0x89, 0xc3];
        let cases: &[(&str, &str, Mode, &[u8])] = &[
            ("simple-front-end", "skl", Unrolled, &lcp),
            ("no-micro-fusion", "skl", Unrolled, &store_nops),
            ("no-move-elimination", "skl", Unrolled, &moves),
            (
                "no-add-elimination",
                "glc",
                Unrolled,
                &[0x48, 0x83, 0xc0, 1],
            ),
            ("no-banks", "glc", Unrolled, &[0x48, 0x8b, 0x06]),
            (
                "no-memory-renaming",
                "glc",
                Loop,
                &[0x48, 0x83, 0x06, 1, 0x48, 0xff, 0xc8, 0x75, 0xf7],
            ),
            ("no-forwarding", "skl", Unrolled, &[0x48, 0x83, 0x06, 1]),
            (
                "no-loop-unrolling",
                "hsw",
                Loop,
                &[0x90, 0x90, 0x90, 0x90, 0x48, 0xff, 0xc8, 0x75, 0xf7],
            ),
        ];
        for &(name, cpu_name, mode, bytes) in cases {
            let (whole, part) = without(name, cpu_name, mode, bytes);
            assert!(
                (whole - part).abs() > 0.05,
                "{name} on {cpu_name}: {whole} and {part}"
            );
        }
        let (whole, part) = without("no-macro-fusion", "skl", Loop, &jump);
        assert!(whole <= part, "{whole} and {part}");
    }
}
