//! Where blocks are in the static program of a CPU model.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use mcad_isa::build::{Builder, Doubt};
use mcad_isa::code::Code;
use mcad_isa::llvm::vector::{self, Use, VectorType};
use mcad_isa::machine::CpuModel;
use mcad_isa::program::piece::Piece;
use mcad_isa::program::{Program, flag};
use mcad_proto::word::BlockId;
use rustc_hash::FxHashMap;

use crate::pipeline::frontend::plan::Plan;

/// Where the instructions of a block are in the static program.
#[derive(Clone, Debug, Default)]
pub(super) struct Place {
    pub(super) first: u32,
    pub(super) len: u32,
    /// Fused µops of one execution of the whole block.
    pub(super) fused: u32,
    /// For executions of the whole block; those who simulate a model together have one.
    pub(super) plan: Option<Arc<Plan>>,
    /// It has repeated string instructions.
    pub(super) repeats: bool,
    /// Instructions without figures of their own: place in the block, and in
    /// [`super::core::Core::unlisted`].
    pub(super) unlisted: Vec<(usize, usize)>,
    /// What it does with the vector type.
    pub(super) vector: Option<Use>,
}

/// What a block was made into.
pub(super) struct Made {
    piece: Piece,
    place: Place,
    doubts: Vec<Doubt>,
}

/// Where the first who makes a block leaves it for others that have the same places.
pub(super) type Shared = OnceLock<Made>;

/// Places of blocks. Whoever is told of the same blocks in the same order has the same.
pub(super) struct Places {
    builder: Builder,
    blocks: Vec<Place>,
    /// Blocks whose costs depend on the vector type, where that is known.
    by_type: FxHashMap<(BlockId, VectorType), Place>,
}

impl Places {
    /// None yet of a program on `model`.
    pub(super) fn new(model: &Arc<CpuModel>) -> Self {
        Self {
            builder: Builder::new(model),
            blocks: Vec::new(),
            by_type: FxHashMap::default(),
        }
    }

    /// Makes the static instructions of a block, and its plan, or takes them from `shared` if others
    /// have the same places; returns those without figures of their own.
    pub(super) fn define(
        &mut self,
        program: &mut Program,
        id: BlockId,
        decoded: &[Code],
        shared: Option<&Shared>,
    ) -> (&mut Place, Vec<Doubt>) {
        // Where costs depend on vector types, who has met which says what else is in the program.
        let in_order = self.builder.model().core.in_order.is_some();
        let shared = shared.filter(|_| !in_order && self.by_type.is_empty());
        let (place, doubts) = match shared {
            Some(shared) => Self::share(&mut self.builder, program, id, decoded, shared),
            None => Self::made(&mut self.builder, program, id, decoded),
        };
        let at = id.0 as usize;
        if self.blocks.len() <= at {
            self.blocks.resize(at + 1, Place::default());
        }
        self.blocks[at] = place;
        (&mut self.blocks[at], doubts)
    }

    /// The same of a block that begins with this vector type, which its code has been told.
    pub(super) fn define_by_type(
        &mut self,
        program: &mut Program,
        (id, vector): (BlockId, VectorType),
        decoded: &[Code],
    ) -> (&mut Place, Vec<Doubt>) {
        let (made, doubts) = Self::made(&mut self.builder, program, id, decoded);
        let place = self.by_type.entry((id, vector)).or_default();
        *place = made;
        (place, doubts)
    }

    /// Takes a block as it was made elsewhere, or makes it for all.
    fn share(
        builder: &mut Builder,
        program: &mut Program,
        id: BlockId,
        decoded: &[Code],
        shared: &Shared,
    ) -> (Place, Vec<Doubt>) {
        let mut own = None;
        let made = shared.get_or_init(|| {
            let before = program.extent();
            let (place, doubts) = Self::made(builder, program, id, decoded);
            own = Some((place.clone(), doubts.clone()));
            Made {
                piece: program.since(before),
                place,
                doubts,
            }
        });
        match own {
            Some(own) => own,
            None if program.append(&made.piece) => (made.place.clone(), made.doubts.clone()),
            None => Self::made(builder, program, id, decoded),
        }
    }

    fn made(
        builder: &mut Builder,
        program: &mut Program,
        id: BlockId,
        decoded: &[Code],
    ) -> (Place, Vec<Doubt>) {
        let first = program.instrs.len() as u32;
        let doubts = builder.append(program, decoded);
        for (instr, code) in program.instrs.iter_mut().skip(first as usize).zip(decoded) {
            instr.in_shared_object = code.in_shared_object();
        }
        let core = &builder.model().core;
        let addresses: Vec<u64> = decoded.iter().map(Code::address).collect();
        let predecode_block = core.frontend.predecode_block_bytes;
        // An in-order core takes instructions one by one.
        let plan = match core.in_order {
            None => Plan::new(program, first, &addresses, id.0 + 1, predecode_block),
            Some(_) => None,
        };
        let added = program.instrs.get(first as usize..).unwrap_or(&[]);
        let place = Place {
            first,
            len: decoded.len() as u32,
            fused: added.iter().map(|i| u32::from(i.fused)).sum(),
            plan: plan.map(Arc::new),
            repeats: added.iter().any(|i| i.is(flag::REP)),
            unlisted: Vec::new(),
            vector: vector::used(decoded),
        };
        (place, doubts)
    }

    /// A block's.
    #[inline]
    pub(super) fn get(&self, id: BlockId) -> Option<&Place> {
        self.blocks.get(id.0 as usize)
    }

    /// A block's that begins with this vector type.
    pub(super) fn get_by_type(&self, id: BlockId, vector: VectorType) -> Option<&Place> {
        self.by_type.get(&(id, vector))
    }

    /// Instructions of blocks in the static program, each with the same of the block by vector type.
    pub(super) fn by_type(&self) -> impl Iterator<Item = (u32, u32)> {
        let all = self.by_type.iter();
        let all = all.filter_map(|((id, _), place)| Some((self.get(*id)?.first, place)));
        all.flat_map(|(first, by_type)| {
            (0..by_type.len).map(move |n| (first + n, by_type.first + n))
        })
    }

    /// Ids of all blocks.
    pub(super) fn ids(&self) -> impl Iterator<Item = BlockId> + use<> {
        (0..self.blocks.len() as u32).map(BlockId)
    }

    /// Where the instructions of a block are; empty for an unknown one.
    pub(super) fn range(&self, id: BlockId) -> Range<usize> {
        let (first, len) = self.get(id).map_or((0, 0), |p| (p.first, p.len));
        first as usize..(first + len) as usize
    }
}
