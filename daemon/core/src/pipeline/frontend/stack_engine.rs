//! The stack engine: follows rsp through push, pop, call and ret in the front end and inserts a
//! synchronising µop when somebody else needs the register, on AMD's cores in a slot that such a one takes in any case.

use crate::pipeline::state::{Fingerprint, Moment, Part};
use mcad_isa::machine::params::Rename;
use mcad_isa::program::{Instr, flag};

/// Offset beyond which it synchronises by itself, in bytes.
const LIMIT: i32 = 192;

/// Offset between the architectural rsp and the one that the back end has, in bytes.
#[derive(Debug)]
pub struct StackEngine {
    /// As in [`Rename::stack_operand_slot`].
    operand_slot: bool,
    offset: i32,
    /// Something has moved it since it was synchronised, if only there and back.
    moved: bool,
}

/// A µop that the back end must insert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackSync {
    /// Takes over an offset.
    Adds(i32),
    /// Finds none, and takes a slot alone.
    Idles,
}

impl StackEngine {
    /// Without an offset.
    #[must_use]
    pub fn new(p: &Rename) -> Self {
        Self {
            operand_slot: p.stack_operand_slot,
            offset: 0,
            moved: false,
        }
    }

    /// An instruction passes; what must be inserted before it, if anything.
    #[inline(always)]
    pub fn pass(&mut self, instr: &Instr) -> Option<StackSync> {
        if self.operand_slot {
            return self.pass_operand(instr);
        }
        if self.offset == 0 && instr.rsp_change == 0 {
            return None;
        }
        let mut sync = None;
        if self.offset != 0 && instr.is(flag::READS_RSP) {
            sync = Some(std::mem::take(&mut self.offset));
        }
        self.offset += i32::from(instr.rsp_change);
        if self.offset > LIMIT {
            sync = Some(std::mem::take(&mut self.offset));
        }
        if instr.is(flag::WRITES_RSP) {
            self.offset = 0;
        }
        sync.map(StackSync::Adds)
    }

    /// Where whoever has rsp as an operand takes a slot.
    #[inline]
    fn pass_operand(&mut self, instr: &Instr) -> Option<StackSync> {
        let mut sync = None;
        if instr.is(flag::READS_RSP) {
            let offset = std::mem::take(&mut self.offset);
            sync = match std::mem::take(&mut self.moved) {
                true => Some(StackSync::Adds(offset)),
                false => Some(StackSync::Idles),
            };
        }
        self.offset += i32::from(instr.rsp_change);
        self.moved |= instr.rsp_change != 0;
        if instr.is(flag::WRITES_RSP) {
            (self.offset, self.moved) = (0, false);
        }
        sync
    }
}

impl Part for StackEngine {
    fn reset(&mut self, _: &Moment) {
        (self.offset, self.moved) = (0, false);
    }

    fn fingerprint(&self, _: &Moment, h: &mut Fingerprint) {
        let Self {
            operand_slot: _,
            offset,
            moved,
        } = self;
        h.add((*offset as u64) << 1 | u64::from(*moved));
    }
}
