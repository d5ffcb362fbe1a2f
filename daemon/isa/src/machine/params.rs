//! The parameters of a core, one documented field each, one file for each section of a CPU's file.
//!
//! Names follow Abel & Reineke, "uiCA" (ICS 2022), and Intel's optimisation manual. *Issue* is
//! rename and allocation, in order; *dispatch* is the scheduler sending a µop to a port. Widths
//! are per cycle, sizes in entries, delays in core cycles.
//!
//! A new section is a file here, a field of [`Core`] and a line in [`Core::check`]. One that only
//! some CPUs have, or only whole programs need, is an `Option` that is left out when absent: then
//! nothing of it is modelled.

pub mod branch;
pub mod check;
mod execute;
mod frontend;
mod ports;
mod rename;
mod retire;

use serde::{Deserialize, Serialize};

use super::hierarchy::{Caches, Dram, Prefetch, Tlbs};
use super::inorder::Predictor;
use check::{Bounds, Checked, Wrong};

pub use execute::{
    CrossingLoads, Disambiguation, Execute, Locked, MIN_BANK_BYTES, PartialStores, StoresTogether,
};
pub use frontend::{Frontend, LinePairing, UopCacheHolds};
pub use ports::{
    MAX_DEALT, MAX_HOLD, MAX_PORTS, MAX_SCHEDULERS, PortChoice, PortLayout, PortSet, Role,
    Scheduler,
};
pub use rename::{Rename, Slots, Unlimited};
pub use retire::Retire;

/// An out-of-order core, part by part in program order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Core {
    /// Fetch, predecode, decode, µop cache, loop stream detector.
    pub frontend: Frontend,
    /// Rename and allocation.
    pub rename: Rename,
    /// Execution ports, what they are for and how they are chosen.
    pub ports: PortLayout,
    /// Schedulers and the memory pipeline.
    pub execute: Execute,
    /// Re-order buffer and retirement.
    pub retire: Retire,
    /// Caches; without them every access hits the first level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<Caches>,
    /// Memory behind the caches, without which they make no sense.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dram: Option<Dram>,
    /// Translation of addresses; without it, it takes no time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tlb: Option<Tlbs>,
    /// Prefetchers.
    #[serde(default)]
    pub prefetch: Prefetch,
    /// An in-order core in place of all others: then only what decodes instructions is taken from
    /// the rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_order: Option<super::inorder::InOrder>,
    /// Branch prediction of whole programs; absent: every branch is predicted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<branch::Branch>,
}

impl Core {
    /// Checks what the types cannot say.
    ///
    /// # Errors
    /// The parameter that makes no sense, and its bounds.
    pub fn check(&self) -> Checked {
        self.frontend.check()?;
        self.rename.check()?;
        self.ports.check()?;
        self.execute.check()?;
        self.retire.check()?;
        let merges = !self.rename.high8_renamed || !self.ports.merge.is_empty();
        Bounds("ports").holds("merge", merges, || {
            "no port does this, which rename.high8_renamed needs".into()
        })?;
        self.check_whole_programs().map_err(Wrong::named)
    }

    fn check_whole_programs(&self) -> Result<(), String> {
        match (&self.cache, &self.dram) {
            (Some(cache), Some(dram)) => {
                cache.check()?;
                dram.check(cache)?;
            }
            (None, None) => {}
            (Some(_), None) => return Err("cache: [cache] without [dram]".into()),
            (None, Some(_)) => return Err("dram: [dram] without [cache]".into()),
        }
        if let Some(tlb) = &self.tlb {
            tlb.check()?;
        }
        if let Some(branch) = &self.branch {
            branch.check()?;
            let fetch = self.frontend.loop_stream_taken_branches;
            if let Some(loops) = branch.streamed_loops
                && self.frontend.loop_stream
                && loops.taken_branches != fetch
            {
                return Err(format!(
                    "branch.streamed_loops.taken_branches = {} is not frontend.loop_stream_taken_branches = {fetch}: fetch \
                     and predictors see the same loops",
                    loops.taken_branches
                ));
            }
        }
        if let Some(core) = &self.in_order {
            core.check()?;
        }
        self.prefetch.check()
    }

    /// The same, without the parts of a base that an in-order core has none of or its own in place of.
    pub(super) fn without_replaced_parts(mut self) -> Self {
        let Some(in_order) = &mut self.in_order else {
            return self;
        };
        let perfect = |predictor: &mut Predictor| *predictor == Predictor::Perfect;
        in_order.predictor.take_if(perfect);
        let own = in_order.memory.clone();
        let prefetch = own
            .as_ref()
            .map_or_else(Prefetch::default, |own| own.prefetch);
        Self {
            cache: own.as_ref().map(|own| own.cache),
            dram: own.as_ref().map(|own| own.dram),
            tlb: own.and_then(|own| own.tlb),
            branch: None,
            prefetch,
            ..self
        }
    }

    /// Names of what views call ports: the ports, or the units of an in-order core.
    #[must_use]
    pub fn port_names(&self) -> Vec<String> {
        match &self.in_order {
            Some(core) if !core.scheduled => core.ports(),
            _ => self.ports.names.clone(),
        }
    }
}

fn yes() -> bool {
    true
}

fn two() -> u32 {
    2
}

fn is_two(number: &u32) -> bool {
    *number == two()
}

fn is_yes(yes: &bool) -> bool {
    *yes
}

/// Whether a mechanism that few cores have is off: reports leave it out.
pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_that_make_no_sense_are_refused_by_name() {
        type Change = fn(&mut Core);
        let wrong: [(&str, Change); 8] = [
            ("execute.bank_bytes", |c| c.execute.bank_bytes = 2),
            ("execute.bank_bytes", |c| c.execute.bank_bytes = 24),
            ("ports.schedulers", |c| {
                c.ports.schedulers[0].hold = MAX_HOLD + 1;
            }),
            ("rename.add_overflow_slots", |c| {
                c.rename.add_overflow_slots = c.rename.issue_width + 1;
            }),
            ("frontend.predecode_block_bytes", |c| {
                c.frontend.predecode_block_bytes = 20;
            }),
            ("frontend.loop_stream_unroll", |c| {
                c.frontend.loop_stream_unroll = vec![(3, 2), (2, 1)];
            }),
            ("ports.alu", |c| c.ports.alu = PortSet(1 << 20)),
            ("ports.overtaken", |c| {
                (c.ports.unbound, c.ports.overtaken) = (c.ports.load, c.ports.load);
            }),
        ];
        for (name, change) in wrong {
            let mut core = crate::machine::cpu("glc").unwrap().core.clone();
            assert_eq!(core.check(), Ok(()));
            change(&mut core);
            assert_eq!(core.check().unwrap_err().key, name);
        }
    }
}
