//! An in-order core in the place of the out-of-order one: takes its instructions, tells its
//! observers.

use mcad_isa::llvm::sched::Machine;
use mcad_isa::machine::inorder::InOrder;
use mcad_isa::program::Program;
use mcad_report::{MemorySlots, TopDown};

use super::behind::{Asked, Behind, Queue};
use super::hart::Hart;
use super::slots::{Cause, Slots};
use super::{Core, Executed, Observer as Retirements, Stamps};
use crate::memory::Memory;
use crate::pipeline::access::{Access, Address, Span};
use crate::pipeline::backend::topdown::{Loss, Stall};
use crate::pipeline::frontend::predict::stream::Counts;
use crate::pipeline::inst::{Inst, Source};
use crate::pipeline::observer::{Delivery, Observer, Retired, UopStamps};
use mcad_isa::machine::params::MAX_PORTS;

/// Of an instruction that executes on no unit of its own.
const ANY_PORT: u8 = 0xfe;

/// Instructions that lie behind each other and are executed once.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// The first one in the program, and how many there are.
    pub first: u32,
    /// See `first`.
    pub len: u16,
    /// Address of the first one.
    pub address: u64,
    /// Place of the one that has a tag.
    pub tagged: u16,
    /// See `tagged`.
    pub tag: u32,
    /// Accesses by instruction, in order.
    pub spans: &'a [Span],
    /// All accesses.
    pub accesses: &'a [Access],
}

/// Address and bytes of an access, as far as they are known.
#[inline]
fn known(access: &Access) -> Option<(u64, u32)> {
    match access.address {
        Address::Known(address) => Some((address, u32::from(access.size))),
        Address::Symbolic(_) => None,
    }
}

/// The last instruction with all its stamps, until it is told.
#[derive(Default)]
struct Last {
    is_new: bool,
    instr: u32,
    tag: u32,
    address: u64,
    stamps: Stamps,
}

impl Retirements for Last {
    const LOSSES: bool = true;

    #[inline(always)]
    fn retired(&mut self, executed: &Executed, stamps: &Stamps) {
        self.is_new = true;
        self.instr = executed.instr;
        self.tag = executed.tag;
        self.address = executed.address;
        self.stamps = *stamps;
    }
}

/// A core that executes a stream of instructions.
pub struct Stream {
    p: InOrder,
    core: Core<Last>,
    /// What is known of the program's values; nothing is of a block's.
    hart: Option<Hart>,
    /// Accesses on their way to memory, where that is modelled.
    queue: Option<Queue>,
    instructions: u64,
    /// Cycle of the last retirement, and instructions that retired in it.
    cycle: u64,
    in_cycle: u32,
    /// Cycle of the last issue: what follows is the next one to issue from then on.
    issued: u64,
    port_uops: [u64; MAX_PORTS],
    /// The instruction told last.
    before: u32,
}

impl Stream {
    /// A core at rest.
    #[must_use]
    pub fn new(p: &InOrder, machine: Option<&Machine>) -> Self {
        Self {
            p: p.clone(),
            core: Core::with_units(&p.of_blocks(), machine, Last::default()),
            hart: None,
            queue: None,
            instructions: 0,
            cycle: 0,
            in_cycle: 0,
            issued: 0,
            port_uops: [0; MAX_PORTS],
            before: 0,
        }
    }

    /// The same for a whole program, whose values are followed.
    #[must_use]
    pub fn of_program(p: &InOrder, machine: Option<&Machine>) -> Self {
        Self {
            core: Core::with_units(&p.of_programs(), machine, Last::default()),
            hart: Some(Hart::new(p)),
            queue: (p.memory.as_ref()).map(|memory| Queue::new(memory.cache.store_buffer)),
            p: p.of_programs(),
            ..Self::new(p, machine)
        }
    }

    /// Brings the core to rest again.
    pub fn reset(&mut self) {
        self.core.reset();
        self.core.observer = Last::default();
        if let Some(hart) = &mut self.hart {
            *hart = Hart::new(&self.p);
        }
        self.instructions = 0;
        self.cycle = 0;
        self.in_cycle = 0;
        self.issued = 0;
        self.port_uops.fill(0);
        self.before = 0;
    }

    /// Takes the next instruction.
    pub fn push<O: Observer>(
        &mut self,
        program: &Program,
        inst: &Inst,
        accesses: &[Access],
        memory: Option<&mut Memory>,
        observer: &mut O,
    ) {
        let asked = (self.queue.as_mut())
            .map_or_else(Asked::default, |q| q.ask(accesses, inst.loads, inst.stores));
        let executed = Executed {
            asked,
            instr: inst.instr,
            address: inst.address,
            access: accesses.first().and_then(known),
            cycles: match inst.extra_cycles {
                0 => 0,
                extra => extra.saturating_add(self.p.retire),
            },
            tag: inst.tag,
            ..Executed::default()
        };
        *self.core.upcoming() = executed;
        self.take(program, memory, observer);
    }

    /// Takes instructions that lie behind each other, none of which is repeated.
    pub fn push_run<O: Observer>(
        &mut self,
        program: &Program,
        run: &Run<'_>,
        mut memory: Option<&mut Memory>,
        observer: &mut O,
    ) {
        let mut spans = run.spans.iter();
        let mut next = spans.next();
        let mut address = run.address;
        for (index, instr) in (0u16..run.len).zip(run.first..) {
            let executed = self.core.upcoming();
            executed.instr = instr;
            executed.address = address;
            executed.tag = if index == run.tagged { run.tag } else { 0 };
            executed.access = None;
            executed.cycles = 0;
            executed.asked = Asked::default();
            if let Some(span) = next
                && span.index == index
            {
                let first = span.start as usize;
                let count = usize::from(span.loads) + usize::from(span.stores);
                let accesses = run.accesses.get(first..first + count).unwrap_or(&[]);
                executed.access = accesses.first().and_then(known);
                if let Some(queue) = &mut self.queue {
                    executed.asked = queue.ask(accesses, span.loads, span.stores);
                }
                next = spans.next();
            }
            let len = program
                .in_order
                .instrs
                .get(instr as usize)
                .map_or(0, |i| i.len);
            address = address.wrapping_add(len.into());
            self.take(program, memory.as_deref_mut(), observer);
        }
    }

    /// Takes what the core has next.
    #[inline(always)]
    fn take<O: Observer>(
        &mut self,
        program: &Program,
        memory: Option<&mut Memory>,
        observer: &mut O,
    ) {
        let (core, code) = (&mut self.core, &program.in_order);
        match (&mut self.hart, &mut self.queue, memory) {
            (Some(hart), Some(queue), Some(memory)) => {
                hart.push_next(core, code, &mut Behind { memory, queue });
            }
            (Some(hart), ..) => hart.push_next(core, code, &mut ()),
            (None, ..) => core.push_next(code, &mut ()),
        }
        self.tell(program, observer);
    }

    /// Ends the program.
    pub fn flush<O: Observer>(
        &mut self,
        program: &Program,
        memory: Option<&mut Memory>,
        observer: &mut O,
    ) {
        let (core, code) = (&mut self.core, &program.in_order);
        match (&mut self.queue, memory) {
            (Some(queue), Some(memory)) => {
                core.flush_with(code, &mut Behind { memory, queue });
            }
            _ => core.flush(code),
        }
        self.tell(program, observer);
    }

    #[inline]
    fn tell<O: Observer>(&mut self, program: &Program, observer: &mut O) {
        if !std::mem::take(&mut self.core.observer.is_new) {
            return;
        }
        let last = &self.core.observer;
        let (instr, stamps) = (last.instr, &last.stamps);
        self.instructions += 1;
        // What is done before an older instruction leaves with it.
        let retired = stamps.retired.max(self.cycle);
        if retired > self.cycle {
            self.cycle = retired;
            self.in_cycle = 0;
        }
        let slot = self.in_cycle;
        self.in_cycle += 1;
        let inst = Inst {
            tag: last.tag,
            ..Inst::new(instr, last.address)
        };
        let port = stamps.port.unwrap_or(ANY_PORT);
        if let Some(uops) = self.port_uops.get_mut(usize::from(port)) {
            *uops += 1;
        }
        // From the issue of the one before on it could have issued, had it been fetched and nothing
        // else held it up.
        let next = std::mem::replace(&mut self.issued, stamps.issued);
        let oldest = stamps.ready.max(next);
        if O::UOPS
            && let Some(instr) = program.instrs.get(instr as usize)
            && (instr.uops as usize) < program.uops.len()
        {
            let ahead = u64::from(self.p.fetch.align_to_issue);
            // Where no slot was lost until then, all of the cycle before were taken.
            let lost = !self.core.ledger().last().is_empty();
            let waited = stamps.issued > next.max(1) && lost;
            let for_unit = waited && stamps.cause == Cause::Unit;
            let oldest = if waited { oldest } else { stamps.issued };
            observer.uop(
                &inst,
                UopStamps {
                    uop: instr.uops,
                    delivered: stamps.ready.saturating_sub(ahead).max(next).min(oldest),
                    issued: oldest,
                    ready: if for_unit { oldest } else { stamps.issued },
                    dispatched: stamps.issued,
                    executed: stamps.done.clamp(stamps.issued, retired),
                    retired,
                    port,
                    source: Delivery::Of(Source::Decoders),
                    late: None,
                    held: Some(stamps.cause).filter(|_| waited),
                },
            );
        }
        for &(cause, slots) in self.core.ledger().last() {
            // For its sake, or behind the branch before it where fetch had gone elsewhere.
            let behind = cause == Cause::Misprediction;
            observer.lost(&[Loss {
                instr: if behind { self.before } else { instr },
                slots,
                why: Stall::InOrder(cause),
            }]);
        }
        self.before = instr;
        observer.retired(
            &inst,
            Retired {
                first: retired,
                last: retired,
                slot,
            },
        );
    }

    /// What became of its branches, where they are predicted one by one.
    #[must_use]
    pub fn branches(&self) -> Option<&Counts> {
        self.core.branches()
    }

    /// Counts branches from here on.
    pub fn forget_branches(&mut self) {
        self.core.forget_branches();
    }

    /// Cycle of the last retirement so far.
    #[must_use]
    pub fn cycles(&self) -> u64 {
        self.core.cycles()
    }

    /// Instructions that retired.
    #[must_use]
    pub fn instructions(&self) -> u64 {
        self.instructions
    }

    /// Instructions that took each unit.
    #[must_use]
    pub fn port_uops(&self) -> [u64; MAX_PORTS] {
        self.port_uops
    }

    /// Where issue slots went until the last retirement. What is before the first issue and after
    /// the last is `other`.
    #[must_use]
    pub fn topdown(&self) -> TopDown {
        let slots = self.core.slots();
        let sum = |causes: &[Cause]| causes.iter().map(|&c| slots.of(c)).sum::<u64>();
        let all = (self.cycles() * u64::from(self.p.width)).max(slots.total());
        TopDown {
            slots: all,
            retiring: slots.used,
            bad_speculation: slots.of(Cause::Misprediction),
            frontend: sum(&[Cause::Fetch, Cause::InstructionCache]),
            backend_memory: sum(&[
                Cause::Load,
                Cause::SecondLevel,
                Cause::ThirdLevel,
                Cause::Memory,
                Cause::Translation,
                Cause::StoreBuffer,
            ]),
            memory_levels: MemorySlots {
                l1: slots.of(Cause::Load),
                l2: slots.of(Cause::SecondLevel),
                l3: slots.of(Cause::ThirdLevel),
                dram: slots.of(Cause::Memory),
                translation: slots.of(Cause::Translation),
                stores: slots.of(Cause::StoreBuffer),
                ..MemorySlots::default()
            },
            backend_core: sum(&[
                Cause::Dependency,
                Cause::Unit,
                Cause::Pairing,
                Cause::Division,
                Cause::Serialization,
                Cause::WriteBack,
            ]),
            other: all - slots.total(),
        }
    }

    /// The same, cause by cause.
    #[must_use]
    pub fn slots(&self) -> Slots {
        self.core.slots()
    }
}
