//! Issue slots that were lost, by block and cause: top-down, taken apart by code.

use mcad_proto::word::BlockId;
use mcad_report::SlotStack;

use crate::pipeline::backend::topdown::{Loss, Stall, Unit, Wait};
use crate::pipeline::inorder::slots::Cause;

/// The slots of all blocks, and which block each instruction of the program belongs to.
#[derive(Clone, Debug, Default)]
pub(super) struct Stacks {
    block_of: Vec<u32>,
    lost: Vec<SlotStack>,
}

impl Stacks {
    /// The next instructions of the program are this block's.
    pub(super) fn define(&mut self, id: BlockId, instructions: usize) {
        let end = self.block_of.len() + instructions;
        self.block_of.resize(end, id.0);
        if self.lost.len() <= id.0 as usize {
            self.lost.resize(id.0 as usize + 1, SlotStack::default());
        }
    }

    /// Slots were lost. Without the lists, as while a core warms up, nothing is counted.
    #[inline]
    pub(super) fn add(&mut self, losses: &[Loss]) {
        for loss in losses {
            let block = self.block_of.get(loss.instr as usize);
            if let Some(sum) = block.and_then(|block| self.lost.get_mut(*block as usize)) {
                *place(sum, loss.why) += loss.slots;
            }
        }
    }

    /// Adds those of another core of the same program.
    pub(super) fn absorb(&mut self, other: &Self) {
        if self.lost.len() < other.lost.len() {
            self.lost.resize(other.lost.len(), SlotStack::default());
        }
        for (sum, lost) in self.lost.iter_mut().zip(&other.lost) {
            sum.add(lost);
        }
    }

    /// Those of a block, without those that it retired in.
    pub(super) fn report(&self, id: BlockId) -> SlotStack {
        self.lost.get(id.0 as usize).copied().unwrap_or_default()
    }
}

fn place(s: &mut SlotStack, why: Stall) -> &mut u64 {
    match why {
        Stall::BadSpeculation => &mut s.bad_speculation,
        Stall::FrontEnd => &mut s.frontend,
        Stall::Memory(Wait::First) => &mut s.l1,
        Stall::Memory(Wait::L2) => &mut s.l2,
        Stall::Memory(Wait::L3) => &mut s.l3,
        Stall::Memory(Wait::Dram) => &mut s.dram,
        Stall::Memory(Wait::Translation) => &mut s.translation,
        Stall::Memory(Wait::Stores) => &mut s.stores,
        Stall::Memory(Wait::Faults) => &mut s.faults,
        Stall::Core(Unit::Dependencies) => &mut s.dependencies,
        Stall::Core(Unit::Latency) => &mut s.latency,
        Stall::Core(Unit::Ports) => &mut s.ports,
        Stall::Core(Unit::Divider) => &mut s.divider,
        Stall::Other => &mut s.other,
        Stall::InOrder(cause) => in_order(s, cause),
    }
}

fn in_order(s: &mut SlotStack, cause: Cause) -> &mut u64 {
    match cause {
        Cause::Fetch => &mut s.frontend,
        Cause::InstructionCache => &mut s.icache,
        Cause::Misprediction => &mut s.bad_speculation,
        Cause::Dependency => &mut s.dependencies,
        Cause::Load => &mut s.load_use,
        Cause::SecondLevel => &mut s.l2,
        Cause::ThirdLevel => &mut s.l3,
        Cause::Memory => &mut s.dram,
        Cause::Translation => &mut s.translation,
        Cause::Unit => &mut s.ports,
        Cause::Pairing => &mut s.pairing,
        Cause::Serialization => &mut s.serialization,
        Cause::Division => &mut s.divider,
        Cause::StoreBuffer => &mut s.stores,
        Cause::WriteBack => &mut s.write_back,
    }
}
