//! Which registers share a physical one since a move, followed without timing.
//!
//! A slot of move elimination is taken until the last register is overwritten that has had the moved
//! value ([`Moves`]): one that nobody writes any more takes a slot for millions of instructions, and
//! every move behind it has one less to be eliminated with. So it is followed through the whole program
//! which moves find a slot and who is overwritten, as if each had come long after the one before.
//! Where slots are not counted there is nothing to follow.

use crate::lists::part;
use crate::pipeline::backend::moves::Moves;
use mcad_isa::machine::params::{Rename, Slots};
use mcad_isa::program::{Instr, Program, flag};
use mcad_isa::regs::RegId;

/// What instructions do to who shares what, in program order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// These registers, one bit each, get values of their own.
    Write(u64),
    /// A move that rename does where it can.
    Move(RegId, RegId),
}

/// Who shares what.
pub struct Sharing(Moves);

impl Sharing {
    /// Nobody shares anything yet; `None` where that does not matter.
    #[must_use]
    pub fn new(p: &Rename) -> Option<Self> {
        let counted = |slots| matches!(slots, Slots::Limited(1..));
        (counted(p.move_elimination_gpr) || counted(p.move_elimination_simd))
            .then(|| Self(Moves::new(p)))
    }

    /// Instructions pass.
    #[inline]
    pub fn pass(&mut self, steps: &[Step]) {
        for step in steps {
            match *step {
                Step::Write(registers) => {
                    let shared = self.0.shared() & registers;
                    if shared != 0 {
                        self.0.overwrite_all(shared);
                    }
                }
                Step::Move(from, to) => {
                    self.0.settle();
                    if !self.0.eliminate(from, to) {
                        self.0.overwrite(to);
                    }
                }
            }
        }
    }

    /// What a core begins with here.
    #[must_use]
    pub fn snapshot(&mut self) -> Moves {
        self.0.settle();
        self.0.clone()
    }
}

/// What instructions do, which are next to each other in the program.
#[must_use]
pub fn steps(program: &Program, instrs: &[Instr]) -> Box<[Step]> {
    let mut steps = Vec::new();
    let mut written = 0;
    for instr in instrs {
        if instr.is(flag::ELIMINABLE) {
            if written != 0 {
                steps.push(Step::Write(std::mem::take(&mut written)));
            }
            steps.push(Step::Move(instr.move_from, instr.move_to));
        } else {
            written |= writes(program, instr);
        }
    }
    if written != 0 {
        steps.push(Step::Write(written));
    }
    steps.into()
}

/// Registers that an instruction writes, of those that can be moved.
fn writes(program: &Program, instr: &Instr) -> u64 {
    let first = instr.laminated as usize;
    let laminated = first..first + usize::from(instr.laminated_len);
    let uops = part(&program.laminated, laminated)
        .iter()
        .flat_map(|group| {
            let first = group.uops as usize;
            part(&program.uops, first..first + usize::from(group.uops_len))
        });
    let outputs = uops.flat_map(|uop| program.outputs_of(uop)).map(|o| o.reg);
    let zeroed = instr.zeroed.start as usize..instr.zeroed.end as usize;
    let zeroed = part(&program.zeroed, zeroed).iter().copied();
    (outputs.chain(zeroed))
        .filter(|reg| reg.is_gpr() || reg.is_vector())
        .fold(0, |all, reg| all | 1 << reg.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of so many slots, each of which is taken until the last register is overwritten.
    fn sharing(slots: u32) -> Result<Sharing, String> {
        let mut p = (mcad_isa::machine::cpu("skl").map_err(|e| e.to_string())?)
            .core
            .rename
            .clone();
        p.move_elimination_gpr = Slots::Limited(slots);
        Sharing::new(&p).ok_or_else(|| "slots are counted".to_owned())
    }

    #[test]
    fn a_slot_is_taken_until_nobody_has_the_value() -> Result<(), String> {
        let mut sharing = sharing(1)?;
        let [a, b, c, d] = [0, 1, 2, 3].map(RegId);
        sharing.pass(&[Step::Move(a, b), Step::Write(0b01)]);
        assert_eq!(sharing.snapshot().shared(), 0b10);
        // There is no slot for another one.
        sharing.pass(&[Step::Move(c, d)]);
        assert_eq!(sharing.snapshot().shared(), 0b10);
        sharing.pass(&[Step::Write(0b10), Step::Move(c, d)]);
        assert_eq!(sharing.snapshot().shared(), 0b1100);
        // A move that is not done by rename writes its register.
        sharing.pass(&[Step::Move(a, d)]);
        assert_eq!(sharing.snapshot().shared(), 0b0100);
        Ok(())
    }

    #[test]
    fn nothing_is_followed_where_slots_are_not_counted() -> Result<(), String> {
        for cpu in ["icl", "glc", "zen5"] {
            let model = mcad_isa::machine::cpu(cpu).map_err(|e| e.to_string())?;
            assert!(Sharing::new(&model.core.rename).is_none(), "{cpu}");
        }
        Ok(())
    }
}
