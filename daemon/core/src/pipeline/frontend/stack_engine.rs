//! The stack engine: follows rsp through push, pop, call and ret in the front end and inserts a
//! synchronising µop when somebody else needs the register.

use crate::pipeline::state::{Fingerprint, Moment, Part};
use mcad_isa::program::{Instr, flag};

/// Offset beyond which it synchronises by itself, in bytes.
const LIMIT: i32 = 192;

/// Offset between the architectural rsp and the one that the back end has, in bytes.
#[derive(Debug, Default)]
pub struct StackEngine {
    offset: i32,
}

impl StackEngine {
    /// An instruction passes; the offset that the back end must take over before it, if any.
    #[inline(always)]
    pub fn pass(&mut self, instr: &Instr) -> Option<i32> {
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
        sync
    }
}

impl Part for StackEngine {
    fn reset(&mut self, _: &Moment) {
        *self = Self::default();
    }

    fn fingerprint(&self, _: &Moment, h: &mut Fingerprint) {
        let Self { offset } = self;
        h.add(*offset as u64);
    }
}
