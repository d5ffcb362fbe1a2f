//! Issue slots of a function or a block: top-down, taken apart by code.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where the issue slots of a piece of code went in this run. The slots of all code add up to those
/// of [`crate::TopDown`], but for µops that the core inserted and its drain at the end. Lost slots
/// go to the code that is to blame: the branch that was predicted wrongly, the instruction that was
/// delivered late, or the oldest one that kept buffers full. An in-order core has no buffers that fill:
/// there they go to the instruction that could not issue, and each has one cause. Causes without slots
/// are left out of the JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SlotStack {
    /// They issued a µop.
    #[serde(skip_serializing_if = "is_zero")]
    pub retiring: u64,
    /// Fetch came back from a wrong path, behind a branch of this code.
    #[serde(skip_serializing_if = "is_zero")]
    pub bad_speculation: u64,
    /// An instruction of this code was delivered late.
    #[serde(skip_serializing_if = "is_zero")]
    pub frontend: u64,
    /// Buffers were full behind a load of this code that the first level served, a store, or what
    /// waited for one.
    #[serde(skip_serializing_if = "is_zero")]
    pub l1: u64,
    /// Behind a line from the second level.
    #[serde(skip_serializing_if = "is_zero")]
    pub l2: u64,
    /// Behind a line from the third level.
    #[serde(skip_serializing_if = "is_zero")]
    pub l3: u64,
    /// Behind a line from memory.
    #[serde(skip_serializing_if = "is_zero")]
    pub dram: u64,
    /// Behind the translation of an address.
    #[serde(skip_serializing_if = "is_zero")]
    pub translation: u64,
    /// A store buffer was full; out of order, behind the line of a store.
    #[serde(skip_serializing_if = "is_zero")]
    pub stores: u64,
    /// The kernel was to provide a page that this code touched for the first time.
    #[serde(skip_serializing_if = "is_zero")]
    pub faults: u64,
    /// Buffers were full behind an instruction that waited for the result of another one.
    #[serde(skip_serializing_if = "is_zero")]
    pub dependencies: u64,
    /// Behind one that took its time.
    #[serde(skip_serializing_if = "is_zero")]
    pub latency: u64,
    /// Behind one that waited for its port.
    #[serde(skip_serializing_if = "is_zero")]
    pub ports: u64,
    /// Behind one that waited for a unit that is not pipelined.
    #[serde(skip_serializing_if = "is_zero")]
    pub divider: u64,
    /// In order: a loaded value was not there.
    #[serde(skip_serializing_if = "is_zero")]
    pub load_use: u64,
    /// In order: the line of an instruction of this code was missing.
    #[serde(skip_serializing_if = "is_zero")]
    pub icache: u64,
    /// In order: an instruction does not issue with what is before it.
    #[serde(skip_serializing_if = "is_zero")]
    pub pairing: u64,
    /// In order: something serialises.
    #[serde(skip_serializing_if = "is_zero")]
    pub serialization: u64,
    /// In order: a result would have been written before an older one's.
    #[serde(skip_serializing_if = "is_zero")]
    pub write_back: u64,
    /// Serialisation, and rules of issue.
    #[serde(skip_serializing_if = "is_zero")]
    pub other: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde hands it over so
pub(crate) fn is_zero(cycles: &u64) -> bool {
    *cycles == 0
}

impl SlotStack {
    /// Every cause by its name for people, with its slots.
    #[must_use]
    pub fn causes(&self) -> [(&'static str, u64); 20] {
        [
            ("retiring", self.retiring),
            ("bad speculation", self.bad_speculation),
            ("front end", self.frontend),
            ("L1", self.l1),
            ("L2", self.l2),
            ("L3", self.l3),
            ("DRAM", self.dram),
            ("translation", self.translation),
            ("stores", self.stores),
            ("page faults", self.faults),
            ("dependencies", self.dependencies),
            ("latency", self.latency),
            ("ports", self.ports),
            ("divider", self.divider),
            ("load-use", self.load_use),
            ("instruction cache", self.icache),
            ("pairing", self.pairing),
            ("serialization", self.serialization),
            ("write-back in order", self.write_back),
            ("other", self.other),
        ]
    }

    /// Causes with slots, most first.
    #[must_use]
    pub fn ranked(&self) -> Vec<(&'static str, u64)> {
        let mut causes: Vec<_> = self.causes().into_iter().filter(|c| c.1 > 0).collect();
        causes.sort_by_key(|(_, slots)| std::cmp::Reverse(*slots));
        causes
    }

    /// All slots.
    #[must_use]
    pub fn sum(&self) -> u64 {
        let causes = self.causes().into_iter();
        causes.fold(0, |sum, (_, slots)| sum.saturating_add(slots))
    }

    /// Adds those of other code.
    pub fn add(&mut self, other: &Self) {
        let Self {
            retiring,
            bad_speculation,
            frontend,
            l1,
            l2,
            l3,
            dram,
            translation,
            stores,
            faults,
            dependencies,
            latency,
            ports,
            divider,
            load_use,
            icache,
            pairing,
            serialization,
            write_back,
            other: rest,
        } = self;
        *retiring = retiring.saturating_add(other.retiring);
        *bad_speculation = bad_speculation.saturating_add(other.bad_speculation);
        *frontend = frontend.saturating_add(other.frontend);
        *l1 = l1.saturating_add(other.l1);
        *l2 = l2.saturating_add(other.l2);
        *l3 = l3.saturating_add(other.l3);
        *dram = dram.saturating_add(other.dram);
        *translation = translation.saturating_add(other.translation);
        *stores = stores.saturating_add(other.stores);
        *faults = faults.saturating_add(other.faults);
        *dependencies = dependencies.saturating_add(other.dependencies);
        *latency = latency.saturating_add(other.latency);
        *ports = ports.saturating_add(other.ports);
        *divider = divider.saturating_add(other.divider);
        *load_use = load_use.saturating_add(other.load_use);
        *icache = icache.saturating_add(other.icache);
        *pairing = pairing.saturating_add(other.pairing);
        *serialization = serialization.saturating_add(other.serialization);
        *write_back = write_back.saturating_add(other.write_back);
        *rest = rest.saturating_add(other.other);
    }
}
