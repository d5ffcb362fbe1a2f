//! µops as an instruction set's builder describes them, before they are in a
//! [`Program`](crate::program::Program).

use crate::machine::params::PortSet;
use crate::regs::RegId;

/// What a µop does in the memory pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UopKind {
    /// Computes.
    Compute,
    /// The n-th load; the last access stands for those beyond the recorded ones.
    Load(u8),
    /// Computes the address of the n-th store.
    StoreAddress(u8),
    /// Delivers the data of the store whose address µop came before it.
    StoreData(u8),
}

/// One µop of the unfused domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UopSpec {
    /// Ports that can execute it; empty: none is needed.
    pub ports: PortSet,
    /// What it waits for.
    pub inputs: Vec<RegId>,
    /// What it writes, with the cycles from dispatch.
    pub outputs: Vec<(RegId, u16)>,
    /// Cycles that it keeps the divider.
    pub divider: u16,
    /// Its part in memory accesses.
    pub kind: UopKind,
}

/// µops issued in one slot.
pub type FusedSpec = Vec<UopSpec>;

/// Fused µops delivered as one by the decoders and the µop cache.
pub type LaminatedSpec = Vec<FusedSpec>;
