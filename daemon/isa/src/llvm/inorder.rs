//! A64 and RV64 instructions as an in-order core sees them that tells kinds apart and no more: what a
//! published table of latencies gives, without a scheduling model.
//!
//! Its classes are named as kinds are ([`Kind::name`]).

use crate::inorder::{Code, Source, Static, Target};
use crate::kind::{KINDS, Kind};
use crate::machine::inorder::{InOrder, USES, Use};
use crate::regs::RegId;

use super::Instruction;
use super::build::{Sources, named, writes_back};
use super::kind::kind;

/// A core that executes instructions by kind.
#[derive(Debug)]
pub struct ByKind {
    /// Class and latencies.
    classes: [(u8, [u8; USES]); KINDS],
}

impl ByKind {
    /// Finds the class of each kind.
    ///
    /// # Errors
    /// The name of one that the core lacks.
    pub fn new(core: &InOrder) -> Result<Self, String> {
        let mut classes = [(0, [0; USES]); KINDS];
        for (class, kind) in classes.iter_mut().zip(Kind::ALL) {
            let place = core.classes.iter().position(|c| c.name == kind.name());
            let place = place.ok_or_else(|| format!("there is no class \"{}\"", kind.name()))?;
            let latency = core.classes.get(place).and_then(|c| c.latency);
            *class = (place as u8, latency.map_or([1; USES], |l| l.by_use()));
        }
        Ok(Self { classes })
    }

    /// Appends an instruction to the static code. Registers that an access writes back come from the
    /// integer pipe.
    pub fn append(&self, code: &mut Code, instruction: &Instruction) {
        let kind = kind(instruction);
        let (class, latency) = self.class(kind);
        let (_, of_sums) = self.class(Kind::Alu);
        let mut addresses: Vec<RegId> = Vec::new();
        let mut sources: Vec<Source> = Vec::new();
        for read in named(instruction, false, Sources::Executed) {
            let needed = match kind {
                _ if read.address => Use::Address,
                Kind::Store => Use::StoreData,
                Kind::Multiply | Kind::FpMultiply => Use::Multiply,
                Kind::Divide | Kind::FpDivide => Use::Divide,
                _ => Use::Operand,
            };
            if read.address {
                addresses.push(read.reg);
            }
            sources.push(Source {
                register: read.reg.0,
                needed,
            });
        }
        let target = |reg: RegId| Target {
            register: reg.0,
            latency: match addresses.contains(&reg) && writes_back(instruction) {
                true => of_sums,
                false => latency,
            },
        };
        let written = named(instruction, true, Sources::Executed);
        let instr = Static::leaving(class, instruction.len() as u8, instruction.flow());
        code.push(instr, sources, written.into_iter().map(|w| target(w.reg)));
    }

    /// Class and latencies of a kind.
    fn class(&self, kind: Kind) -> (u8, [u8; USES]) {
        self.classes
            .get(kind as usize)
            .copied()
            .unwrap_or((0, [1; USES]))
    }
}
