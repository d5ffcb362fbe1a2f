//! The stepwise core over a profile's code: what the models are held against.

use mcad_core::pipeline::inorder::code::{Code, Control, Source, Static, Target};
use mcad_core::pipeline::inorder::slots::Cause;
use mcad_core::pipeline::inorder::{Core, Executed, Observer, Stamps};
use mcad_isa::machine::inorder::{USES, Use};

use crate::collect::Order;
use crate::events::{Cost, Costs, Event};
use crate::kind::{KINDS, Kind};
use crate::machine::Machine;
use crate::profile::Inst;

/// Cycles of issue: of the last instruction, and of one before it.
#[derive(Clone, Copy, Debug, Default)]
struct Issues {
    /// Instructions until the one whose cycle is kept.
    until: u64,
    kept: u64,
    last: u64,
}

impl Observer for Issues {
    #[inline]
    fn retired(&mut self, _: &Executed, stamps: &Stamps) {
        self.last = stamps.issued;
        if self.until > 0 {
            self.until -= 1;
            self.kept = stamps.issued;
        }
    }
}

/// The code of a profile on one machine, each block's instructions behind each other.
#[derive(Debug, Default)]
pub struct StaticCode {
    code: Code,
    /// First instruction of each block, and how many it has.
    blocks: Vec<(u32, u32)>,
}

impl StaticCode {
    /// Puts blocks into the core's form.
    #[must_use]
    pub fn new(machine: &Machine, blocks: &[Vec<Inst>]) -> Self {
        let mut this = Self::default();
        for block in blocks {
            this.push(machine, block);
        }
        this
    }

    /// Appends a block; gives its number.
    pub fn push(&mut self, machine: &Machine, block: &[Inst]) -> u32 {
        let first = self.code.instrs.len() as u32;
        let latencies = machine.latencies();
        for inst in block {
            let needed = used_as(inst.kind);
            let source = |&register: &u8| Source { register, needed };
            let latency = by_use(&latencies[inst.kind as usize], inst.kind);
            let target = |&register: &u8| Target { register, latency };
            let instr = Static::new(inst.kind as u8, 4, Control::None);
            let (sources, targets) = (inst.reads.iter(), inst.writes.iter());
            (self.code).push(instr, sources.map(source), targets.map(target));
        }
        let number = self.blocks.len() as u32;
        self.blocks.push((first, block.len() as u32));
        number
    }
}

/// What the core is told that a kind needs its operands for, so that it can tell kinds apart. Nothing
/// executes late here, so that use stands for branches.
fn used_as(kind: Kind) -> Use {
    match kind {
        Kind::Alu | Kind::FpAdd => Use::Operand,
        Kind::Load => Use::Address,
        Kind::Store => Use::StoreData,
        Kind::Branch => Use::Late,
        Kind::Multiply | Kind::FpMultiply => Use::Multiply,
        Kind::Divide | Kind::FpDivide => Use::Divide,
    }
}

/// When results of a kind can be used, of its latencies by kind. Where two kinds use them as the same,
/// the one that has registers of its sort counts.
fn by_use(latencies: &[u8; KINDS], from: Kind) -> [u8; USES] {
    let floating = matches!(from, Kind::FpAdd | Kind::FpMultiply | Kind::FpDivide);
    let mut by_use = [0; USES];
    for (kind, latency) in Kind::ALL.into_iter().zip(latencies) {
        let of_other = match kind {
            Kind::Alu | Kind::Multiply | Kind::Divide => floating,
            Kind::FpAdd | Kind::FpMultiply | Kind::FpDivide => !floating,
            Kind::Load | Kind::Store | Kind::Branch => false,
        };
        if !of_other {
            by_use[used_as(kind) as usize] = *latency;
        }
    }
    by_use
}

/// Cycles from issue to the use of a result, by its kind and the kind that uses it, as the core has them.
pub(crate) fn latencies_by_kind(machine: &Machine) -> [[u8; KINDS]; KINDS] {
    let latencies = machine.latencies();
    Kind::ALL.map(|from| {
        let by_use = by_use(&latencies[from as usize], from);
        Kind::ALL.map(|to| by_use[used_as(to) as usize])
    })
}

/// A machine that executes block after block.
pub struct Stepper {
    core: Core<Issues>,
    address: u64,
    costs: Costs,
    /// Cycles without issue before the next instruction, and their cause.
    gap: Option<(u32, Cause)>,
}

impl Stepper {
    /// A machine at rest.
    #[must_use]
    pub fn new(machine: &Machine) -> Self {
        Self {
            core: Core::new(&machine.stepwise(), Issues::default()),
            address: 0,
            costs: Costs::new(machine),
            gap: None,
        }
    }

    /// Executes a block.
    #[inline]
    pub fn execute(&mut self, code: &StaticCode, block: u32) {
        let (first, len) = code.blocks.get(block as usize).copied().unwrap_or_default();
        for instr in first..first + len {
            let gap = std::mem::take(&mut self.gap);
            self.push(code, instr, 0, gap);
        }
    }

    #[inline]
    fn push(&mut self, code: &StaticCode, instr: u32, missed: u32, gap: Option<(u32, Cause)>) {
        self.core.push(
            &code.code,
            Executed {
                instr,
                address: self.address,
                missed,
                gap,
                ..Executed::default()
            },
        );
        self.address += 4;
    }

    /// Executes a block whose instructions something befalls: events of this execution. Most often that is a
    /// branch at its end alone, or what costs nothing on this machine.
    fn execute_with(&mut self, code: &StaticCode, block: u32, events: &[Event]) {
        let len = code.blocks.get(block as usize).map_or(0, |b| b.1);
        let at_end = |e: &&Event| e.instruction + 1 == len && e.data == 0 && e.fetch == 0;
        let branch = events.last().filter(at_end);
        let before = events.len() - usize::from(branch.is_some());
        let others = events.get(..before).unwrap_or(&[]);
        match others.iter().any(|e| self.costs.of(e) != Cost::default()) {
            true => self.execute_each(code, block, others),
            false => self.execute(code, block),
        }
        if let Some(branch) = branch {
            let cost = self.costs.of(branch);
            self.go_on_behind(&cost);
        }
    }

    /// What follows an instruction waits as long as its costs say.
    fn go_on_behind(&mut self, cost: &Cost) {
        if let Some(cycles) = cost.behind {
            let cause = match cost.mispredicted {
                true => Cause::Misprediction,
                false => Cause::Fetch,
            };
            self.gap = Some((cycles, cause));
        }
    }

    /// Executes a block, looking for the events of each instruction.
    fn execute_each(&mut self, code: &StaticCode, block: u32, events: &[Event]) {
        let (first, len) = code.blocks.get(block as usize).copied().unwrap_or_default();
        for n in 0..len {
            let mut gap = std::mem::take(&mut self.gap);
            let (mut missed, mut before) = (0, 0);
            for event in events.iter().filter(|e| e.instruction == n) {
                let cost = self.costs.of(event);
                missed = cost.load.max(missed);
                before += cost.before;
                self.go_on_behind(&cost);
            }
            if before > 0 {
                let waited = gap.map_or(0, |g| g.0);
                gap = Some((waited + before, Cause::InstructionCache));
            }
            self.push(code, first + n, missed, gap);
        }
    }

    /// Executes a program.
    pub fn run(&mut self, code: &StaticCode, order: &Order) {
        let mut events = order.events.as_slice();
        for (execution, &block) in order.pieces.iter().enumerate() {
            let of_this = events
                .iter()
                .take_while(|e| e.execution as usize == execution)
                .count();
            let (these, rest) = events.split_at(of_this);
            events = rest;
            if these.is_empty() {
                self.execute(code, block);
            } else {
                self.execute_with(code, block, these);
            }
        }
    }

    /// Ends: the cycle of the last issue.
    #[must_use]
    pub fn finish(mut self, code: &StaticCode) -> u64 {
        self.core.flush(&code.code);
        self.core.observer.last
    }

    /// Executes pieces of code from rest, whatever befell them left out; the cycle of the last issue.
    pub fn without_events(&mut self, code: &StaticCode, order: &Order) -> u64 {
        self.begin();
        for &block in &order.pieces {
            self.execute(code, block);
        }
        self.core.flush(&code.code);
        self.core.observer.last
    }

    /// The same with what befell them.
    pub fn with_events(&mut self, code: &StaticCode, order: &Order) -> u64 {
        self.begin();
        self.run(code, order);
        self.core.flush(&code.code);
        self.core.observer.last
    }

    /// Comes to rest.
    fn begin(&mut self) {
        self.core.reset();
        self.core.observer = Issues::default();
        self.address = 0;
        self.gap = None;
    }

    /// Executes blocks from rest; the cycles from the last issue before the last of them to the
    /// last issue.
    pub fn last_of(&mut self, code: &StaticCode, blocks: &[u32]) -> u64 {
        self.begin();
        let len = |&block: &u32| {
            code.blocks
                .get(block as usize)
                .map_or(0, |b| u64::from(b.1))
        };
        let context = blocks.split_last().map_or(&[][..], |(_, context)| context);
        self.core.observer = Issues {
            until: context.iter().map(len).sum(),
            ..Issues::default()
        };
        for &block in blocks {
            self.execute(code, block);
        }
        self.core.flush(&code.code);
        let issues = &self.core.observer;
        issues.last - issues.kept.min(issues.last)
    }
}
