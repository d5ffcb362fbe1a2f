//! Additions of immediates at rename: a register is another one plus a sum that rename keeps.

use super::Backend;
use super::topdown::Stall;
use mcad_isa::program::{Instr, Program, Uop};
use mcad_isa::regs::RegId;

impl Backend {
    /// Adds the stack engine's offset to rsp, as long as the sum is small.
    pub(super) fn add_stack_offset(&mut self, offset: i32) -> bool {
        let range = self.rename.add_immediate_range;
        let Some(added) = self.added.get_mut(usize::from(RegId::RSP.0)) else {
            return false;
        };
        let sum = added.saturating_add(i64::from(offset));
        let small = range != 0 && -range <= sum && sum < range;
        if small {
            *added = sum;
        }
        small
    }

    /// Adds an immediate without executing anything, as long as the sum for the register is small.
    #[inline]
    pub(super) fn add_at_rename(&mut self, program: &Program, instr: &Instr, uop: &Uop) -> bool {
        let (from, to) = (usize::from(instr.move_from.0), usize::from(instr.move_to.0));
        let range = self.rename.add_immediate_range;
        let (Some(&before), Some(&ready)) = (self.added.get(from), self.ready.get(from)) else {
            return false;
        };
        let sum = before.saturating_add(instr.step);
        if range == 0 {
            return false;
        }
        if sum < -range || sum >= range {
            self.start_sums_anew(instr.step);
            return false;
        }
        if let Some(added) = self.added.get_mut(to) {
            *added = sum;
        }
        self.ready[to] = ready;
        self.chase[to] = 0;
        self.moves.overwrite(instr.move_to);
        for output in program.outputs_of(uop) {
            let place = usize::from(output.reg.0) & (RegId::COUNT - 1);
            if place != to {
                // Who needs the flags waits for the addition.
                self.ready[place] = ready.max(self.cycle) + 1;
                self.chase[place] = 0;
            }
        }
        true
    }

    /// A sum became too large: all of them end, which takes issue slots away. It was seen with
    /// steps of one byte; larger ones lose fewer.
    #[cold]
    fn start_sums_anew(&mut self, step: i64) {
        self.added = [0; 16];
        if i8::try_from(step.abs()).is_ok() {
            let lost = self.rename.add_overflow_slots;
            self.slots += lost;
            self.slot_count.lose(u64::from(lost), Stall::Other);
        }
    }
}
