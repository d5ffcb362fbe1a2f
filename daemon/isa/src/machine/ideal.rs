//! What it would gain if a part of a core never held a program up: the core with that part perfect.
//!
//! Each [`Ideal`] changes the parameters of any core, so that it is simulated beside the core as it
//! is, in the same pass.

use std::sync::Arc;

use super::CpuModel;
use super::hierarchy::PageCache;
use super::params::Core;

/// A part that is perfect.
#[derive(Clone, Copy, Debug)]
pub struct Ideal {
    /// Short name, as an option takes it.
    pub name: &'static str,
    /// What is perfect, for people.
    pub what: &'static str,
    change: fn(&mut Core),
}

impl Ideal {
    /// `model` with the part perfect; its name says so.
    #[must_use]
    pub fn of(&self, model: &CpuModel) -> Arc<CpuModel> {
        let mut core = model.core.clone();
        (self.change)(&mut core);
        Arc::new(CpuModel {
            name: format!("{}+{}", model.name, self.name),
            full_name: format!("{}, {}", model.full_name, self.what),
            core,
            instructions: model.instructions.clone(),
            qemu_cpu: model.qemu_cpu.clone(),
        })
    }
}

/// All parts.
#[must_use]
pub fn ideals() -> &'static [Ideal] {
    &[
        Ideal {
            name: "branches",
            what: "no branch predicted wrongly or found late",
            change: |core| {
                if let Some(branch) = &mut core.branch {
                    branch.ideal = true;
                }
                if let Some(in_order) = &mut core.in_order {
                    in_order.predictor = None;
                }
            },
        },
        Ideal {
            name: "l1i",
            what: "all code in the first level",
            change: |core| {
                if let Some(cache) = &mut core.cache {
                    cache.perfect_l1i = true;
                }
            },
        },
        Ideal {
            name: "l1d",
            what: "all data in the first level",
            change: |core| {
                if let Some(cache) = &mut core.cache {
                    cache.perfect_l1d = true;
                }
            },
        },
        Ideal {
            name: "l2",
            what: "everything in the second level",
            change: |core| {
                if let Some(cache) = &mut core.cache {
                    cache.perfect_l2 = true;
                }
            },
        },
        Ideal {
            name: "tlb",
            what: "translation without a miss",
            change: |core| core.tlb = None,
        },
        Ideal {
            name: "faults",
            what: "page faults and system calls that take the program nothing",
            change: |core| {
                if let Some(tlb) = &mut core.tlb {
                    tlb.fault = 0;
                    (tlb.fault_code_lines, tlb.fault_data_lines) = (0, 0);
                    (tlb.call_code_lines, tlb.call_data_lines) = (0, 0);
                }
                core.frontend.uop_cache_refill = 0;
            },
        },
        Ideal {
            name: "files",
            what: "files' pages in the last level of cache",
            change: |core| {
                if let Some(cache) = &mut core.cache {
                    cache.page_cache = PageCache::LastLevel;
                }
            },
        },
        Ideal {
            name: "indirect",
            what: "an indirect predictor of eight tables of 1 024 entries at least",
            change: |core| {
                if let Some(branch) = &mut core.branch {
                    let indirect = &mut branch.indirect;
                    if indirect.array.take().is_none() && indirect.histories.is_empty() {
                        indirect.tables = indirect.tables.max(8);
                    } else {
                        // A path register has 194 branches.
                        indirect.histories = vec![4, 8, 16, 32, 64, 96, 128, 192];
                        indirect.tables = 8;
                    }
                    indirect.table_entries = indirect.table_entries.max(1024);
                }
            },
        },
        Ideal {
            name: "calls",
            what: "calls and returns predicted without bubbles",
            change: |core| {
                if let Some(branch) = &mut core.branch {
                    (branch.call_bubbles, branch.return_bubbles) = (0, 0);
                    (branch.indirect_bubbles, branch.changed_return_bubbles) = (0, 0);
                    (branch.chosen_bubbles, branch.far_bubbles) = (0, 0);
                }
            },
        },
    ]
}

/// The part of that name.
#[must_use]
pub fn ideal(name: &str) -> Option<&'static Ideal> {
    ideals().iter().find(|part| part.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_changes_what_it_names_and_stays_a_valid_core() {
        for cpu in crate::machine::cpus() {
            let cpu = cpu.name;
            let model = crate::machine::cpu(cpu).unwrap();
            for part in ideals() {
                let changed = part.of(&model);
                assert_eq!(changed.name, format!("{cpu}+{}", part.name));
                assert_eq!(changed.core.check(), Ok(()), "{cpu} {}", part.name);
                if !["glc", "zen5"].contains(&cpu) {
                    continue;
                }
                // What was found by probes on a Zen 5 is there in its model alone.
                let found = ["faults", "files", "indirect", "calls"].contains(&part.name);
                if cpu == "zen5" || !found {
                    assert!(changed.core != model.core, "{cpu} {}", part.name);
                }
            }
        }
        assert!(ideal("l1d").is_some() && ideal("l4").is_none());
    }
}
