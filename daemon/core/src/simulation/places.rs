//! Where blocks are in the static program of a CPU model.

use std::ops::Range;

use mcad_isa::build::{Doubt, append};
use mcad_isa::code::Code;
use mcad_isa::machine::CpuModel;
use mcad_isa::program::Program;
use mcad_proto::word::BlockId;

use crate::pipeline::frontend::plan::Plan;

/// Where the instructions of a block are in the static program.
#[derive(Clone, Debug, Default)]
pub(super) struct Place {
    pub(super) first: u32,
    pub(super) len: u32,
    /// Fused µops of one execution of the whole block.
    pub(super) fused: u32,
    /// For executions of the whole block.
    pub(super) plan: Option<Plan>,
    /// Instructions without figures of their own: place in the block, and in
    /// [`super::core::Core::unlisted`].
    pub(super) unlisted: Vec<(usize, usize)>,
}

/// Places of blocks. Whoever is told of the same blocks in the same order has the same.
#[derive(Default)]
pub(super) struct Places(Vec<Place>);

impl Places {
    /// Makes the static instructions of a block, and its plan; returns those without figures of
    /// their own.
    pub(super) fn define(
        &mut self,
        model: &CpuModel,
        program: &mut Program,
        id: BlockId,
        decoded: &[Code],
    ) -> (&mut Place, Vec<Doubt>) {
        let first = program.instrs.len() as u32;
        let doubts = append(model, program, decoded);
        let addresses: Vec<u64> = decoded.iter().map(Code::address).collect();
        let predecode_block = model.core.frontend.predecode_block_bytes;
        // An in-order core takes instructions one by one.
        let plan = match model.core.in_order {
            None => Plan::new(program, first, &addresses, id.0 + 1, predecode_block),
            Some(_) => None,
        };
        let added = program.instrs.get(first as usize..).unwrap_or(&[]);
        let at = id.0 as usize;
        if self.0.len() <= at {
            self.0.resize(at + 1, Place::default());
        }
        self.0[at] = Place {
            first,
            len: decoded.len() as u32,
            fused: added.iter().map(|i| u32::from(i.fused)).sum(),
            plan,
            unlisted: Vec::new(),
        };
        (&mut self.0[at], doubts)
    }

    /// A block's.
    #[inline]
    pub(super) fn get(&self, id: BlockId) -> Option<&Place> {
        self.0.get(id.0 as usize)
    }

    /// Where the instructions of a block are; empty for an unknown one.
    pub(super) fn range(&self, id: BlockId) -> Range<usize> {
        let (first, len) = self.get(id).map_or((0, 0), |p| (p.first, p.len));
        first as usize..(first + len) as usize
    }
}
