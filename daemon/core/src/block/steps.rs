//! What the instructions of a repeated block have to do with addresses, as it is in every iteration.

use std::ops::Range;

use super::Block;
use super::live::Live;
use crate::lists::part;
use mcad_isa::regs::RegId;
use mcad_isa::x86::effect::{Effect, Source};
use mcad_isa::x86::operands::{MemoryRef, Value};

/// An instruction.
#[derive(Clone)]
pub(super) struct Step {
    /// Its accesses among those of an iteration: loads, then stores.
    pub(super) accesses: Range<usize>,
    pub(super) loads: u8,
    pub(super) stores: u8,
    /// What it adds to the stack pointer.
    pub(super) moved: i64,
    /// It does so without naming it.
    pub(super) moves_stack: bool,
    /// Something that it writes matters for addresses.
    pub(super) executed: bool,
    /// The instruction before it does what it does.
    pub(super) fused: bool,
    /// What it computes and what it stores, where that can be followed.
    pub(super) effect: Option<Effect>,
    pub(super) stored: Option<Source>,
    inputs: Range<usize>,
    outputs: Range<usize>,
}

impl Step {
    /// Whether it accesses memory, or changes what is known of registers.
    #[inline]
    pub(super) fn matters(&self) -> bool {
        self.loads | self.stores != 0 || self.executed || self.moved != 0
    }
}

/// Where an access goes.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) memory: MemoryRef,
    /// What is added: what push and call store lies below the stack pointer.
    pub(super) below: i64,
}

/// Those of a block.
#[derive(Clone, Default)]
pub(super) struct Steps {
    steps: Vec<Step>,
    places: Vec<Place>,
    /// Registers and flags that instructions read, and then write.
    registers: Vec<RegId>,
    /// Values that matter.
    pub(super) live: Live,
}

impl Steps {
    /// Takes those of a block.
    pub(super) fn take(&mut self, block: &Block) {
        self.live = Live::of(block);
        self.steps.clear();
        self.places.clear();
        self.registers.clear();
        for (d, decoded) in block.described.iter().zip(&block.decoded) {
            let o = &d.operands;
            let moved = decoded.stack_step();
            let first = self.places.len();
            let few = |values: &[Value]| values.len().min(255);
            let (loads, stores) = (few(&o.in_mems), few(&o.out_mems));
            let loaded = o.in_mems.iter().take(loads).filter_map(|v| d.memory(v));
            self.places
                .extend(loaded.map(|memory| Place { memory, below: 0 }));
            let stored = o.out_mems.iter().take(stores).filter_map(|v| d.memory(v));
            self.places.extend(stored.map(|memory| {
                let implicit = memory.base == Some(RegId::RSP)
                    && memory.index.is_none()
                    && memory.displacement == 0;
                let below = if implicit { moved.min(0) } else { 0 };
                Place { memory, below }
            }));
            let from = self.registers.len();
            let read = o.in_regs.iter().chain(&o.in_flags);
            self.registers.extend(read.filter_map(|v| v.id));
            let between = self.registers.len();
            let written = o.out_regs.iter().chain(&o.out_flags);
            self.registers.extend(written.filter_map(|v| v.id));
            let named = o.out_regs.iter().any(|v| v.id == Some(RegId::RSP));
            self.steps.push(Step {
                accesses: first..self.places.len(),
                loads: loads as u8,
                stores: stores as u8,
                moved,
                moves_stack: moved != 0 && !named,
                executed: self.live.needs(d),
                fused: d.fused_previous,
                effect: decoded.effect(),
                stored: decoded.stored(),
                inputs: from..between,
                outputs: between..self.registers.len(),
            });
        }
    }

    /// That of instruction `n`.
    #[inline]
    pub(super) fn get(&self, n: usize) -> Option<&Step> {
        self.steps.get(n)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.steps.len()
    }

    /// Where the accesses of an instruction go: its loads, then its stores.
    #[inline]
    pub(super) fn places(&self, of: &Step) -> &[Place] {
        part(&self.places, of.accesses.clone())
    }

    /// What an instruction reads.
    #[inline]
    pub(super) fn inputs(&self, of: &Step) -> &[RegId] {
        part(&self.registers, of.inputs.clone())
    }

    /// What an instruction writes.
    #[inline]
    pub(super) fn outputs(&self, of: &Step) -> &[RegId] {
        part(&self.registers, of.outputs.clone())
    }
}
