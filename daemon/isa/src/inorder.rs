//! Static instructions of an in-order core, in flat arrays.

use std::sync::Arc;

use crate::code::Flow;
use crate::llvm::sched;
use crate::machine::inorder::{USES, Use};
use crate::riscv::{self, image::Image};
use rustc_hash::FxHashMap;

/// Registers that the scoreboard has room for.
pub const REGISTERS: usize = 256;

/// Place of the scoreboard that is always ready, behind those of registers.
pub const READY: u16 = REGISTERS as u16;

/// Place that is written and never read.
pub const NOWHERE: u16 = READY + 1;

/// Places of the scoreboard.
pub const PLACES: usize = REGISTERS + 2;

/// Operands of an instruction that are kept beside it, most often all of them.
const NEAR_SOURCES: usize = 3;

/// The same of its results.
const NEAR_TARGETS: usize = 2;

/// A place that is read.
#[derive(Clone, Copy, Debug)]
pub struct Read {
    /// Which; [`READY`] where the instruction has no such operand.
    pub place: u16,
    /// What for.
    pub needed: Use,
}

/// A place that is written.
#[derive(Clone, Copy, Debug)]
pub struct Written {
    /// Which; [`NOWHERE`] where the instruction has no such result.
    pub place: u16,
    /// As in [`Target::latency`].
    pub latency: [u8; USES],
}

/// A register that is read.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// Which.
    pub register: u8,
    /// What for.
    pub needed: Use,
}

/// A register that is written.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Which.
    pub register: u8,
    /// Cycles from issue until it can be used, by [`Use`]; where the instruction executes late,
    /// the core's own figures stand instead.
    pub latency: [u8; USES],
}

/// How control leaves an instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Control {
    /// Not at all.
    #[default]
    None,
    /// A conditional branch.
    Conditional,
    /// A direct jump.
    Jump,
    /// A call.
    Call,
    /// A return.
    Return,
    /// A jump that is never predicted: fetch goes on when it has executed.
    Unpredicted,
}

/// A static instruction.
#[derive(Clone, Copy, Debug, Default)]
pub struct Static {
    /// Its class in the core's parameters.
    pub class: u8,
    /// Bytes.
    pub len: u8,
    /// How control leaves it.
    pub control: Control,
    /// It goes where a register or memory says.
    pub indirect: bool,
    /// Cycles to retirement where they depend on operands that are not known; 0: as its class says.
    pub cycles: u16,
    sources: u32,
    sources_len: u8,
    targets_len: u8,
    targets: u32,
    first_sources: [Read; NEAR_SOURCES],
    first_targets: [Written; NEAR_TARGETS],
}

impl Default for Read {
    fn default() -> Self {
        Self {
            place: READY,
            needed: Use::Operand,
        }
    }
}

impl Default for Written {
    fn default() -> Self {
        Self {
            place: NOWHERE,
            latency: [0; USES],
        }
    }
}

/// All static instructions of a session.
#[derive(Debug, Default)]
pub struct Code {
    /// The instructions.
    pub instrs: Vec<Static>,
    /// The same by the scheduling model of the CPU's table, where issue follows that.
    pub scheduled: sched::Code,
    sources: Vec<Source>,
    targets: Vec<Target>,
    /// What they compute, of RV32IMC code.
    computed: Vec<riscv::Inst>,
    /// What memory held at the start, as the files say whose code is executed.
    images: Vec<Arc<Image>>,
    /// Where instructions lie; for what is fetched and not executed.
    places: FxHashMap<u64, u32>,
}

impl Static {
    /// An instruction whose operands [`Code::push`] fills in.
    #[must_use]
    pub fn new(class: u8, len: u8, control: Control) -> Self {
        Self {
            class,
            len,
            control,
            ..Self::default()
        }
    }

    /// The same, which control leaves as `flow` says.
    #[must_use]
    pub fn leaving(class: u8, len: u8, flow: Flow) -> Self {
        let (control, indirect) = match flow {
            Flow::Next | Flow::System | Flow::Exception => (Control::None, false),
            Flow::Conditional(_) => (Control::Conditional, false),
            Flow::Call(target) => (Control::Call, target.is_none()),
            Flow::Jump(target) => (Control::Jump, target.is_none()),
            Flow::Return => (Control::Return, true),
        };
        Self {
            indirect,
            ..Self::new(class, len, control)
        }
    }

    /// Whether it neither takes as long as its operands say nor stops fetch.
    #[inline]
    #[must_use]
    pub fn issues_plainly(&self) -> bool {
        self.cycles == 0 && self.control != Control::Unpredicted
    }

    /// Its first operands, with [`READY`] in the place of missing ones.
    #[inline]
    #[must_use]
    pub fn first_sources(&self) -> &[Read; NEAR_SOURCES] {
        &self.first_sources
    }

    /// Its first results, with [`NOWHERE`] in the place of missing ones.
    #[inline]
    #[must_use]
    pub fn first_targets(&self) -> &[Written; NEAR_TARGETS] {
        &self.first_targets
    }
}

impl Code {
    /// Appends an instruction.
    pub fn push(
        &mut self,
        instr: Static,
        sources: impl IntoIterator<Item = Source>,
        targets: impl IntoIterator<Item = Target>,
    ) {
        let most = usize::from(u8::MAX);
        let (first_source, first_target) = (self.sources.len(), self.targets.len());
        self.sources.extend(sources.into_iter().take(most));
        self.targets.extend(targets.into_iter().take(most));
        let (mut first_sources, mut first_targets) =
            <([Read; NEAR_SOURCES], [Written; NEAR_TARGETS])>::default();
        let sources = self.sources.get(first_source..).unwrap_or(&[]);
        for (near, source) in first_sources.iter_mut().zip(sources) {
            *near = Read {
                place: source.register.into(),
                needed: source.needed,
            };
        }
        let targets = self.targets.get(first_target..).unwrap_or(&[]);
        for (near, target) in first_targets.iter_mut().zip(targets) {
            *near = Written {
                place: target.register.into(),
                latency: target.latency,
            };
        }
        self.instrs.push(Static {
            first_sources,
            first_targets,
            sources: first_source as u32,
            sources_len: (self.sources.len() - first_source) as u8,
            targets: first_target as u32,
            targets_len: (self.targets.len() - first_target) as u8,
            ..instr
        });
    }

    /// The last instruction computes this. Of a session's instructions all are said to, or none.
    pub fn does(&mut self, inst: riscv::Inst) {
        self.computed.push(inst);
    }

    /// What an instruction computes, of RV32IMC code.
    #[inline]
    #[must_use]
    pub fn computes(&self, instr: u32) -> Option<&riscv::Inst> {
        self.computed.get(instr as usize)
    }

    /// Code of a file with this image is executed from now on.
    pub fn loads(&mut self, image: &Arc<Image>) {
        if !self.images.iter().any(|known| Arc::ptr_eq(known, image)) {
            self.images.push(Arc::clone(image));
        }
    }

    /// The images of all files so far whose code was executed.
    #[inline]
    #[must_use]
    pub fn images(&self) -> &[Arc<Image>] {
        &self.images
    }

    /// The last instruction lies at `address`.
    pub fn lies_at(&mut self, address: u64) {
        if let Some(last) = self.instrs.len().checked_sub(1) {
            self.places.insert(address, last as u32);
        }
    }

    /// The instruction that lies at an address, if it is known.
    #[must_use]
    pub fn at(&self, address: u64) -> Option<u32> {
        self.places.get(&address).copied()
    }

    /// What an instruction reads.
    #[inline]
    #[must_use]
    pub fn sources(&self, instr: &Static) -> &[Source] {
        let start = instr.sources as usize;
        let range = start..start + usize::from(instr.sources_len);
        self.sources.get(range).unwrap_or(&[])
    }

    /// What an instruction reads beside [`Static::first_sources`].
    #[inline]
    #[must_use]
    pub fn other_sources(&self, instr: &Static) -> &[Source] {
        match usize::from(instr.sources_len) {
            0..=NEAR_SOURCES => &[],
            _ => self.sources(instr).get(NEAR_SOURCES..).unwrap_or(&[]),
        }
    }

    /// What an instruction writes beside [`Static::first_targets`].
    #[inline]
    #[must_use]
    pub fn other_targets(&self, instr: &Static) -> &[Target] {
        match usize::from(instr.targets_len) {
            0..=NEAR_TARGETS => &[],
            _ => self.targets(instr).get(NEAR_TARGETS..).unwrap_or(&[]),
        }
    }

    /// What an instruction writes.
    #[inline]
    #[must_use]
    pub fn targets(&self, instr: &Static) -> &[Target] {
        let start = instr.targets as usize;
        let range = start..start + usize::from(instr.targets_len);
        self.targets.get(range).unwrap_or(&[])
    }
}
