//! What the outside learns of the simulation as it goes.

use super::backend::topdown::{Loss, Stall};
use super::inorder::slots::Cause;
use super::inst::{Inst, Source};
use super::state::State;

/// When an instruction left the core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retired {
    /// Cycle of its first fused µop.
    pub first: u64,
    /// Cycle of its last fused µop.
    pub last: u64,
    /// Fused µops that retired before its last one in the same cycle.
    pub slot: u32,
}

/// How far the back end lags behind the issue of an instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// µops issued and not yet dispatched.
    pub scheduler: u64,
    /// Cycles from issue to retirement.
    pub retirement: u64,
    /// Cycles from retirement until all stores are written, where the store buffer is modelled.
    pub stores: u64,
}

/// The stamps of one µop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UopStamps {
    /// Place in [`mcad_isa::program::Program::uops`]; [`UopStamps::SYNC`] and
    /// [`UopStamps::MERGE`] for µops that belong to no instruction.
    pub uop: u32,
    /// Added to the instruction decode queue.
    pub delivered: u64,
    /// Renamed and allocated.
    pub issued: u64,
    /// All inputs there and the scheduler's delay over.
    pub ready: u64,
    /// Sent to its port.
    pub dispatched: u64,
    /// Done.
    pub executed: u64,
    /// Left the re-order buffer.
    pub retired: u64,
    /// Port, 0xff when none was needed, 0xfe where an in-order core executes on no unit of its own.
    pub port: u8,
    /// Where it was delivered from.
    pub source: Delivery,
    /// What made it late, if that is a miss or a redirect.
    pub late: Option<Stall>,
    /// What an in-order core waited for with it, where it waited.
    pub held: Option<Cause>,
}

/// Where a µop came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Delivery {
    /// As its instruction.
    Of(Source),
    /// Microcode sequencer.
    Microcode,
    /// Stack engine or register merge.
    Inserted,
}

impl UopStamps {
    /// A stack-pointer synchronisation µop.
    pub const SYNC: u32 = u32::MAX;
    /// A merge of a high-8 register into its full register.
    pub const MERGE: u32 = u32::MAX - 1;
}

/// Receives instructions as they are simulated, in program order.
pub trait Observer {
    /// Whether [`Observer::uop`] wants to be called; the pipeline skips the work otherwise.
    const UOPS: bool = false;

    /// Whether [`Observer::satisfied`] and [`Observer::wants_state`] are to be asked before each
    /// cycle of the front end, and [`Observer::backlog`] wants to be called.
    const STATES: bool = false;

    /// Whether the core's state is wanted now.
    fn wants_state(&mut self) -> bool {
        false
    }

    /// The state, when it was wanted and no instruction is under way.
    fn state(&mut self, state: State) {
        let _ = state;
    }

    /// Whether the simulation may end.
    fn satisfied(&self) -> bool {
        false
    }

    /// How far the back end lags behind an instruction, for who asks; called before
    /// [`Observer::retired`].
    fn backlog(&mut self, inst: &Inst, backlog: impl FnOnce() -> Backlog) {
        let _ = (inst, backlog);
    }

    /// An instruction (or a macro-fused pair, told by its first half) has all its stamps.
    fn retired(&mut self, inst: &Inst, retired: Retired);

    /// Issue slots were lost.
    fn lost(&mut self, losses: &[Loss]) {
        let _ = losses;
    }

    /// A µop has all its stamps; called before its instruction's [`Observer::retired`].
    fn uop(&mut self, inst: &Inst, stamps: UopStamps) {
        let _ = (inst, stamps);
    }
}

/// An observer that looks away.
pub struct Nobody;

impl Observer for Nobody {
    fn retired(&mut self, _: &Inst, _: Retired) {}
}
