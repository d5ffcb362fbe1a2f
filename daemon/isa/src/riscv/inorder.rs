//! RISC-V instructions as an in-order core sees them.

use crate::inorder::{Code, Control, Source, Static, Target};
use crate::machine::inorder::{Divider, InOrder, USES, Use};

use super::divider::typical;
use super::{Inst, Op};

/// The link register: `jalr` to it from nowhere else is a return.
const RA: u8 = 1;

/// The classes that RV32IMC asks for, in the order of [`Riscv`]'s numbers.
const CLASSES: [&str; 10] = [
    "arithmetic",
    "branch",
    "unpredicted_jump",
    "load",
    "store",
    "multiply",
    "divide",
    "csr",
    "csr_write",
    "serializing",
];

#[derive(Clone, Copy)]
enum Kind {
    Arithmetic,
    Branch,
    UnpredictedJump,
    Load,
    Store,
    Multiply,
    Divide,
    Csr,
    CsrWrite,
    Serializing,
}

/// A core that executes RV32IMC.
#[derive(Debug)]
pub struct Riscv {
    classes: [(u8, [u8; USES]); CLASSES.len()],
    distance_bits: u32,
    divider: Option<Divider>,
}

impl Riscv {
    /// Finds the classes that the instruction set needs.
    ///
    /// # Errors
    /// The name of one that the model lacks.
    pub fn new(core: &InOrder) -> Result<Self, String> {
        let mut classes = [(0, [0; USES]); CLASSES.len()];
        for (class, name) in classes.iter_mut().zip(CLASSES) {
            let place = core.classes.iter().position(|c| c.name == name);
            let place = place.ok_or_else(|| format!("there is no class \"{name}\""))?;
            let latency = core.classes.get(place).and_then(|c| c.latency);
            *class = (place as u8, latency.map_or([0; USES], |l| l.by_use()));
        }
        Ok(Self {
            classes,
            distance_bits: core.branch.distance_bits,
            divider: core.divider.clone(),
        })
    }

    /// Appends an instruction to the static code.
    pub fn append(&self, code: &mut Code, inst: &Inst) {
        let (kind, control, first, second) = match inst.op {
            Op::Lui | Op::Auipc | Op::ArithmeticImmediate(_) | Op::Arithmetic(_) => {
                (Kind::Arithmetic, Control::None, Use::Operand, Use::Operand)
            }
            Op::Branch(_) => (
                Kind::Branch,
                Control::Conditional,
                Use::Operand,
                Use::Operand,
            ),
            Op::Jal | Op::Jalr => {
                let control = self.control(inst);
                let kind = match control {
                    Control::Unpredicted => Kind::UnpredictedJump,
                    _ => Kind::Branch,
                };
                (kind, control, Use::Operand, Use::Operand)
            }
            Op::Load { .. } => (Kind::Load, Control::None, Use::Address, Use::Address),
            Op::Store(_) => (Kind::Store, Control::None, Use::Address, Use::StoreData),
            Op::Multiply(_) => (Kind::Multiply, Control::None, Use::Multiply, Use::Multiply),
            Op::Divide { .. } => (Kind::Divide, Control::None, Use::Divide, Use::Divide),
            Op::Csr if inst.rd == 0 => (Kind::CsrWrite, Control::None, Use::Operand, Use::Operand),
            Op::Csr => (Kind::Csr, Control::None, Use::Operand, Use::Operand),
            Op::Fence | Op::System => {
                (Kind::Serializing, Control::None, Use::Operand, Use::Operand)
            }
        };
        let (class, latency) = self.classes[kind as usize];
        let sources = [(inst.rs1, first), (inst.rs2, second)];
        let sources = sources
            .into_iter()
            .filter(|s| s.0 != 0)
            .map(|(register, needed)| Source { register, needed });
        let target = Target {
            register: inst.rd,
            latency,
        };
        let targets = (inst.rd != 0).then_some(target);
        let cycles = match (inst.op, &self.divider) {
            (Op::Divide { remainder, .. }, Some(divider)) => typical(divider, remainder),
            _ => 0,
        };
        let mut instr = Static::new(class, inst.len, control);
        instr.cycles = cycles.min(u32::from(u16::MAX)) as u16;
        code.push(instr, sources, targets);
        code.does(*inst);
    }

    fn control(&self, inst: &Inst) -> Control {
        let limit = 1i64 << (self.distance_bits - 1);
        match inst.op {
            Op::Jal if !(-limit..limit).contains(&i64::from(inst.imm)) => Control::Unpredicted,
            Op::Jal if inst.rd == 0 => Control::Jump,
            Op::Jal => Control::Call,
            _ if inst.rd == 0 && inst.rs1 == RA => Control::Return,
            _ => Control::Unpredicted,
        }
    }
}
