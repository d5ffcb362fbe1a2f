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
            instructions: model.instructions.clone(),
            qemu_cpu: model.qemu_cpu.clone(),
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
            change: |core| core.ports.choice = PortChoice::InTurn,
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
