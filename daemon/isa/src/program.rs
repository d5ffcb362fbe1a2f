//! All static instructions of a session on one CPU, in flat arrays that the pipeline indexes.
//!
//! An [`Instr`] is one instruction at one place in a block, with everything that does not change
//! from execution to execution. µop inputs and outputs lie in shared pools.

mod accesses;
pub mod piece;
mod takes;

use std::ops::Range;

pub use accesses::{PointerLoad, Stored};
use rustc_hash::FxHashMap;
pub use takes::Takes;

use crate::machine::params::PortSet;
use crate::regs::RegId;
use crate::uop::{LaminatedSpec, UopKind};

/// Facts of an instruction, one bit each.
pub mod flag {
    /// Writes the instruction pointer.
    pub const BRANCH: u32 = 1;
    /// Needs the complex decoder.
    pub const COMPLEX: u32 = 1 << 1;
    /// Could macro-fuse with some jump.
    pub const FUSIBLE: u32 = 1 << 2;
    /// Is the second half of a macro-fused pair: no µops of its own.
    pub const FUSED_PREVIOUS: u32 = 1 << 3;
    /// Is the first half of a macro-fused pair.
    pub const FUSED_NEXT: u32 = 1 << 4;
    /// Length-changing prefix.
    pub const LCP: u32 = 1 << 5;
    /// Immediate that takes an extra slot in the µop cache.
    pub const EXTRA_SLOT: u32 = 1 << 6;
    /// Waits for an empty re-order buffer.
    pub const SERIALIZING: u32 = 1 << 7;
    /// Loads wait for it and it waits for loads.
    pub const LOAD_FENCE: u32 = 1 << 8;
    /// Stores wait for it and it waits for stores.
    pub const STORE_FENCE: u32 = 1 << 9;
    /// A move that rename may eliminate.
    pub const ELIMINABLE: u32 = 1 << 10;
    /// The move is 32 bits wide.
    pub const MOVE32: u32 = 1 << 11;
    /// Needs no execution at all: zero idiom, nop.
    pub const NO_UOPS: u32 = 1 << 12;
    /// A load of a pointer: the next load, from it, can start a cycle sooner.
    pub const POINTER_LOAD: u32 = 1 << 13;
    /// Uses rsp other than through the stack engine.
    pub const READS_RSP: u32 = 1 << 14;
    /// Writes rsp other than through the stack engine.
    pub const WRITES_RSP: u32 = 1 << 15;
    /// May be replayed by the loop stream detector.
    pub const LOOP_STREAM: u32 = 1 << 16;
    /// Has no figures on this CPU.
    pub const UNKNOWN: u32 = 1 << 17;
    /// Has figures of a similar form.
    pub const APPROXIMATED: u32 = 1 << 18;
    /// A µop reads a register that an earlier µop of the same instruction writes.
    pub const DEFERRED_WRITES: u32 = 1 << 19;
    /// Accesses 256 bits or more of memory.
    pub const WIDE_ACCESS: u32 = 1 << 20;
    /// String instruction with a repeat prefix.
    pub const REP: u32 = 1 << 21;
    /// Repeats by comparing (`scas`, `cmps`): no fast string moves.
    pub const REP_COMPARE: u32 = 1 << 22;
    /// Adds [`super::Instr::step`] to a 64-bit register, on a core where rename may do that.
    pub const ADD_IMMEDIATE: u32 = 1 << 23;
    /// Its load can be renamed to the source of a store.
    pub const RENAMED_LOAD: u32 = 1 << 24;
    /// Loads can be renamed to its store's source.
    pub const RENAMED_STORE: u32 = 1 << 25;
    /// When it can use an input depends on what wrote that: sums of floating-point numbers, and
    /// operands with an [`Advance`](super::Advance).
    pub const BY_WRITER: u32 = 1 << 26;
    /// Shifts or rotates a general-purpose register, on a core where a sum of rename's delays that.
    pub const SHIFT: u32 = 1 << 27;
    /// It can start only some time after the one before of its form, or is a fence.
    pub const SPACED: u32 = 1 << 28;
    /// Its flags are late for a conditional move or set that issues in the same cycle.
    pub const LATE_FLAGS: u32 = 1 << 29;
    /// Moves or sets on a condition.
    pub const CONDITIONAL: u32 = 1 << 30;
    /// The operation or no-operation behind it is part of it, which has the µops of both.
    pub const TAKES_NEXT: u32 = 1 << 31;
}

/// One µop.
#[derive(Clone, Copy, Debug)]
pub struct Uop {
    /// Ports that can execute it; none: rename does all of it.
    pub ports: PortSet,
    /// Its part in memory accesses.
    pub kind: UopKind,
    /// The first inputs; [`RegId::NONE`] where there are fewer.
    pub first_inputs: [RegId; FIRST_INPUTS],
    /// First input in [`Program::inputs`].
    pub inputs: u32,
    /// Number of inputs.
    pub inputs_len: u8,
    /// Number of outputs.
    pub outputs_len: u8,
    /// Cycles that it keeps the divider.
    pub divider: u16,
    /// First output in [`Program::outputs`].
    pub outputs: u32,
    /// Base register of its address, [`NO_REG`] when none; for fast pointer chasing.
    pub base: u8,
    /// Index register, [`NO_REG`] when none.
    pub index: u8,
    /// The displacement allows fast pointer chasing.
    pub near: bool,
    /// More cycles of a load that takes its data from a store; of a store's data, those until loads can
    /// take it, [`NOT_FORWARDED`] when not before it is written.
    pub forwarded_later: u8,
    /// More cycles of a load from a cache, and until a store's data is done with, in whole programs.
    pub vector_later: u8,
    /// More cycles of a load over the end of what is read at a time ([`Execute::crossing_loads`](crate::machine::params::Execute)).
    pub crossing_later: u8,
    /// Neither a register nor the instruction's own address is in the address.
    pub absolute: bool,
    /// Last µop of its fused group.
    pub ends_fused: bool,
    /// Some of its outputs are [`result::LATE_FLAGS`].
    pub late_flags: bool,
}

/// Inputs that a [`Uop`] itself holds.
pub const FIRST_INPUTS: usize = 4;

/// "Not before it is written" in [`Uop::forwarded_later`].
pub const NOT_FORWARDED: u8 = 0xff;

/// "No register" in [`Uop::base`] and [`Uop::index`].
pub const NO_REG: u8 = 0xff;

/// One register written, with the cycles from dispatch.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    /// What is written.
    pub reg: RegId,
    /// Kind of result, as far as readers tell kinds apart ([`Forwarded`]); 0: the usual.
    pub kind: u8,
    /// Cycles from dispatch to the value being there.
    pub latency: u16,
}

impl Output {
    /// Nothing is written.
    pub const NONE: Self = Self {
        reg: RegId::NONE,
        kind: 0,
        latency: 0,
    };
}

/// [`Output::kind`] on x86-64; other instruction sets number their kinds.
pub mod result {
    /// Of a load whose result may be the address of the next one a cycle sooner.
    pub const POINTER_LOAD: u8 = 1;
    /// A floating-point sum.
    pub const FP_SUM: u8 = 8;
    /// Flags that are late for who reads them in the same cycle.
    pub const LATE_FLAGS: u8 = 16;
}

/// An input that can be used at another time than results of its latency usually can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advance {
    /// The register.
    pub reg: RegId,
    /// What kind of result it must be.
    pub kind: u8,
    /// Cycles by which it is sooner; below 0: later.
    pub cycles: i8,
}

/// What an instruction says of results that come to some operands sooner than to others.
#[derive(Clone, Copy, Debug, Default)]
pub struct Forwarded<'a> {
    /// Kind of all that it writes.
    pub all: u8,
    /// Kinds of single registers; those it does not name have that of all.
    pub kinds: &'a [(RegId, u8)],
    /// What it reads at another time.
    pub advances: &'a [Advance],
    /// How loads take what it stores.
    pub stored: Stored,
}

/// What kind of branch an instruction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BranchKind {
    /// Taken or not, to a target in its code.
    Conditional,
    /// A jump to a target in its code.
    Jump,
    /// A call of a target in its code.
    Call,
    /// A jump to a target from a register or memory.
    IndirectJump,
    /// A call of such a target.
    IndirectCall,
    /// A return.
    Return,
}

/// One instruction of the static program.
#[derive(Clone, Debug)]
pub struct Instr {
    /// Neither it nor one of the next few instructions of its block writes a register of its address
    /// ([`crate::machine::params::Execute::memory_renaming_kept`]).
    pub address_kept: bool,
    /// See [`flag`].
    pub flags: u32,
    /// First µop in [`Program::uops`].
    pub uops: u32,
    /// First laminated µop in [`Program::laminated`].
    pub laminated: u32,
    /// Laminated µops.
    pub laminated_len: u16,
    /// Laminated µops that come from the decoders or the µop cache; the others are microcode.
    pub laminated_mite: u16,
    /// Simple decoders that may work beside it.
    pub simple_decoders: u8,
    /// µops from the decoders or the µop cache, as the table counts them.
    pub uops_mite: u8,
    /// Whether the microcode sequencer takes part.
    pub microcoded: bool,
    /// Bytes.
    pub len: u8,
    /// Offset of the nominal opcode byte.
    pub nominal_opcode: u8,
    /// Change of rsp by the stack engine.
    pub rsp_change: i8,
    /// rax, rcx, rdx, rbx (bits 0 to 3) read with more than 8 bits.
    pub wide_reads: u8,
    /// The same, read or written.
    pub wide_uses: u8,
    /// High-8 registers read.
    pub high8_reads: u8,
    /// High-8 registers written.
    pub high8_writes: u8,
    /// For eliminable moves: source and destination.
    pub move_from: RegId,
    /// Destination of an eliminable move.
    pub move_to: RegId,
    /// Has a lock prefix, or locks without one (`xchg` with memory).
    pub locked: bool,
    /// Least cycles between two executions of this form; 0: ports explain it.
    pub throughput: u32,
    /// Number of the form in its program ([`Program::number_of_form`]), for [`Instr::throughput`]
    /// and statistics.
    pub form: u32,
    /// Registers set at rename by a zero idiom.
    pub zeroed: Range<u32>,
    /// Fused µops over all.
    pub fused: u16,
    /// Displacement, immediate, which is two where it has more than 32 bits, and target of a jump.
    pub constants: u8,
    /// What it takes of what a cycle of issue counts beside slots: constants or instructions.
    pub counted: u8,
    /// Slots that must follow each of its µops that accesses memory in the cycle of its issue.
    pub slots_behind_memory: u8,
    /// Ports of which each is given one of its µops in the cycle of their issue.
    pub one_a_cycle: PortSet,
    /// What [`flag::ADD_IMMEDIATE`] adds.
    pub step: i64,
    /// What kind of branch it is, if it is one.
    pub branch: Option<BranchKind>,
    /// From its address to that of the target in its code; 0: it has none.
    pub displacement: i32,
    /// It calls the kernel.
    pub calls_kernel: bool,
    /// Its code is where shared objects are mapped, which on Linux is far from where the program is.
    pub in_shared_object: bool,
    /// Inputs that it can use at another time, in [`Program::advances`].
    pub advances: Range<u32>,
    /// Nothing but inputs, ports and memory holds its µops up: such an instruction takes a short way
    /// through the back end.
    pub plain: bool,
}

impl Instr {
    /// Whether any of the facts holds.
    #[inline]
    #[must_use]
    pub fn is(&self, flags: u32) -> bool {
        self.flags & flags != 0
    }
}

/// A laminated µop: what is delivered as one. It lies in one line of a cache, with all that the back
/// end must know of most.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub struct Laminated {
    /// First µop in [`Program::uops`].
    pub uops: u32,
    /// Unfused µops.
    pub uops_len: u16,
    /// Fused µops.
    pub fused: u16,
    /// Slots that the cycle of its issue must have left: its own, and those behind it.
    pub slots: u16,
    /// What the cycle of its issue counts beside slots: its instruction's constants, or its instruction, with
    /// the first of an instruction.
    pub counted: u16,
    /// Those of its µops that must find a port for themselves in the cycle of its issue.
    pub dealt: Dealt,
    /// What its µops take until it retires.
    pub takes: Takes,
    /// Last of its instruction.
    pub is_last: bool,
    /// Its instruction uses rsp, through the stack engine or not.
    pub uses_stack: bool,
    /// Of a plain instruction ([`Instr::plain`]).
    pub is_plain: bool,
    /// Of a conditional jump.
    pub is_conditional: bool,
    /// Which is the second half of a fused pair.
    pub is_pair: bool,
    /// A single µop that computes, of a plain instruction, with nothing special about it: what
    /// follows says all of it.
    pub is_simple: bool,
    /// Some of its outputs are [`result::LATE_FLAGS`].
    pub late_flags: bool,
    /// Registers written, if it is simple.
    pub outputs_len: u8,
    /// The longest of their latencies.
    pub latency: u16,
    /// Which general-purpose and vector registers are among them, one bit each.
    pub written: u64,
    /// Ports that can execute it.
    pub ports: PortSet,
    /// What it reads; [`RegId::NONE`] where that is less.
    pub inputs: [RegId; FIRST_INPUTS],
    /// What it writes.
    pub outputs: [Output; SIMPLE_OUTPUTS],
}

/// µops of which each is given a port for itself in the cycle of its issue: up to four, each the set of ports that will
/// do, of which bit n is the n-th of [`PortLayout::one_a_cycle`](crate::machine::params::PortLayout::one_a_cycle).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dealt(u32);

impl Dealt {
    /// None.
    pub const NONE: Self = Self(0);

    /// One more, with these ports; no more than four are kept.
    #[must_use]
    pub fn with(self, ports: u8) -> Self {
        match self.0 >> 24 {
            0 => Self(self.0 << 8 | u32::from(ports)),
            _ => self,
        }
    }

    /// Of a µop with `ports` one more, where all of these are among those of which `each` is given one; `any` of them
    /// will do.
    #[must_use]
    pub fn with_uop(self, ports: PortSet, each: PortSet, any: bool) -> Self {
        if ports.is_empty() || !each.contains(ports) {
            return self;
        }
        let all = each.iter().enumerate();
        self.with(all.fold(0, |set, (n, port)| {
            let one = any || ports.meets(PortSet(1 << port));
            set | u8::from(one) << n
        }))
    }

    /// Whether there is none.
    #[inline(always)]
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The ports of each.
    #[inline(always)]
    pub fn uops(self) -> impl Iterator<Item = u32> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let first = rest & 0xff;
            rest >>= 8;
            (first != 0).then_some(first)
        })
    }
}

/// Most registers that a simple µop writes.
pub const SIMPLE_OUTPUTS: usize = 4;

impl Laminated {
    /// The registers that a simple µop writes.
    #[inline(always)]
    #[must_use]
    pub fn outputs(&self) -> &[Output] {
        self.outputs
            .get(..usize::from(self.outputs_len))
            .unwrap_or(&[])
    }
}

/// Static instructions of one session on one CPU.
#[derive(Debug, Default)]
pub struct Program {
    /// Instructions.
    pub instrs: Vec<Instr>,
    /// Laminated µops.
    pub laminated: Vec<Laminated>,
    /// Unfused µops.
    pub uops: Vec<Uop>,
    /// Inputs of µops.
    pub inputs: Vec<RegId>,
    /// Outputs of µops.
    pub outputs: Vec<Output>,
    /// Registers zeroed at rename.
    pub zeroed: Vec<RegId>,
    /// Inputs that come sooner or later than others.
    pub advances: Vec<Advance>,
    /// The same instructions one by one for an in-order core; empty for others.
    pub in_order: crate::inorder::Code,
    /// Numbers of forms.
    forms: FxHashMap<usize, u32>,
    /// What tells each form from others, by number.
    identities: Vec<usize>,
}

impl Program {
    /// The number of a form: the same wherever in the program it is, since a limit on how often a
    /// form can start holds across blocks. `identity` is different for different forms.
    pub fn number_of_form(&mut self, identity: usize) -> u32 {
        let known = &mut self.identities;
        *self.forms.entry(identity).or_insert_with(|| {
            known.push(identity);
            known.len() as u32 - 1
        })
    }

    /// Appends an instruction's µops and fills in the ranges of `instr`.
    pub fn push(
        &mut self,
        instr: Instr,
        laminated: &[LaminatedSpec],
        loads: &[PointerLoad],
        stored: Stored,
    ) {
        let sum = instr.is(flag::BY_WRITER);
        let forwarded = Forwarded {
            all: if sum { result::FP_SUM } else { 0 },
            stored,
            ..Forwarded::default()
        };
        self.push_forwarded(instr, laminated, loads, &forwarded);
    }

    /// The same of an instruction that has inputs or outputs with times of their own.
    pub fn push_forwarded(
        &mut self,
        mut instr: Instr,
        laminated: &[LaminatedSpec],
        loads: &[PointerLoad],
        forwarded: &Forwarded<'_>,
    ) {
        if !forwarded.advances.is_empty() {
            instr.flags |= flag::BY_WRITER;
        }
        let advances = self.advances.len() as u32;
        self.advances.extend_from_slice(forwarded.advances);
        instr.advances = advances..self.advances.len() as u32;
        instr.uops = self.uops.len() as u32;
        instr.laminated = self.laminated.len() as u32;
        instr.laminated_len = laminated.len() as u16;
        if instr.throughput > 0 || instr.is(flag::LOAD_FENCE | flag::STORE_FENCE) {
            instr.flags |= flag::SPACED;
        }
        instr.laminated_mite = u16::from(instr.uops_mite).min(instr.laminated_len);
        let end = self.laminated.len() + laminated.len();
        let mut written = 0u128;
        let of_all = if instr.is(flag::POINTER_LOAD) {
            result::POINTER_LOAD
        } else {
            0
        };
        let flags_are_late = of_all == 0 && instr.is(flag::LATE_FLAGS);
        for group in laminated {
            let uops = self.uops.len() as u32;
            for fused in group {
                for (n, uop) in fused.iter().enumerate() {
                    let inputs = self.inputs.len() as u32;
                    for input in &uop.inputs {
                        if input.0 < RegId::PSEUDO && written & (1 << input.0) != 0 {
                            instr.flags |= flag::DEFERRED_WRITES;
                        }
                        if !self.inputs[inputs as usize..].contains(input) {
                            self.inputs.push(*input);
                        }
                    }
                    let outputs = self.outputs.len() as u32;
                    let mut late_flags = false;
                    for &(reg, latency) in &uop.outputs {
                        written |= 1 << reg.0;
                        let named = forwarded.kinds.iter().find(|(of, _)| *of == reg);
                        let mut kind = of_all | named.map_or(forwarded.all, |(_, kind)| *kind);
                        if flags_are_late && matches!(reg, RegId::CARRY | RegId::SPAZO) {
                            (kind, late_flags) = (result::LATE_FLAGS, true);
                        }
                        self.outputs.push(Output { reg, kind, latency });
                    }
                    let pointer = match uop.kind {
                        UopKind::Load(m) => loads.get(usize::from(m)).or(loads.last()),
                        _ => None,
                    };
                    self.uops.push(Uop {
                        ports: uop.ports,
                        kind: uop.kind,
                        first_inputs: std::array::from_fn(|n| {
                            let input = self.inputs.get(inputs as usize + n);
                            input.copied().unwrap_or(RegId::NONE)
                        }),
                        inputs,
                        inputs_len: (self.inputs.len() as u32 - inputs) as u8,
                        outputs_len: (self.outputs.len() as u32 - outputs) as u8,
                        divider: uop.divider,
                        outputs,
                        base: pointer.map_or(NO_REG, |c| c.base),
                        index: pointer.map_or(NO_REG, |c| c.index),
                        near: pointer.is_some_and(|c| c.near),
                        forwarded_later: match uop.kind {
                            UopKind::StoreData(_) => forwarded.stored.forwarded_later,
                            _ => pointer.map_or(0, |c| c.forwarded_later),
                        },
                        vector_later: match uop.kind {
                            UopKind::StoreData(_) => forwarded.stored.vector_later,
                            _ => pointer.map_or(0, |c| c.vector_later),
                        },
                        crossing_later: pointer.map_or(0, |c| c.crossing_later),
                        absolute: match uop.kind {
                            UopKind::StoreAddress(_) => forwarded.stored.absolute,
                            _ => pointer.is_some_and(|c| c.absolute),
                        },
                        ends_fused: n + 1 == fused.len(),
                        late_flags,
                    });
                }
            }
            let first = self.laminated.len() == instr.laminated as usize;
            let memory = group.iter().flatten().any(|u| u.kind != UopKind::Compute);
            self.laminated.push(Laminated {
                slots: group.len() as u16
                    + u16::from(if memory { instr.slots_behind_memory } else { 0 }),
                counted: u16::from(if first { instr.counted } else { 0 }),
                dealt: (group.iter().flatten()).fold(Dealt::NONE, |dealt, uop| {
                    // Two pairs with a jump start in a cycle, but more may issue.
                    let any = instr.is(flag::FUSED_NEXT);
                    dealt.with_uop(uop.ports, instr.one_a_cycle, any)
                }),
                takes: (group.iter().flatten()).fold(Takes::NONE, |takes, uop| {
                    match uop.ports.is_empty() || instr.is(flag::ELIMINABLE) {
                        true => takes,
                        false => takes.with_uop(uop.kind, &uop.outputs),
                    }
                }),
                uops,
                uops_len: (self.uops.len() as u32 - uops) as u16,
                fused: group.len() as u16,
                is_last: self.laminated.len() + 1 == end,
                uses_stack: instr.rsp_change != 0 || instr.is(flag::READS_RSP | flag::WRITES_RSP),
                is_plain: false,
                is_conditional: instr.branch == Some(BranchKind::Conditional)
                    || instr.is(flag::FUSED_NEXT),
                is_pair: instr.is(flag::FUSED_NEXT),
                is_simple: false,
                late_flags: false,
                outputs_len: 0,
                latency: 0,
                written: 0,
                ports: PortSet::NONE,
                inputs: [RegId::NONE; FIRST_INPUTS],
                outputs: [Output::NONE; SIMPLE_OUTPUTS],
            });
            instr.fused += group.len() as u16;
        }
        instr.plain = self.is_plain(&instr);
        self.simplify(&instr);
        self.instrs.push(instr);
    }

    /// Tells of an instruction's laminated µops which are plain and which simple.
    fn simplify(&mut self, instr: &Instr) {
        /// What a µop of such an instruction does besides is not in its inputs, ports and outputs.
        const SPECIAL: u32 = flag::ELIMINABLE
            | flag::ADD_IMMEDIATE
            | flag::BY_WRITER
            | flag::SHIFT
            | flag::CONDITIONAL
            | flag::POINTER_LOAD;
        let own = instr.laminated as usize;
        for laminated in self.laminated.iter_mut().skip(own) {
            laminated.is_plain = instr.plain;
        }
        if !instr.plain || instr.is(SPECIAL) || !instr.zeroed.is_empty() {
            return;
        }
        let all = self.laminated.iter_mut().skip(own);
        for laminated in all.filter(|laminated| laminated.uops_len == 1) {
            let Some(uop) = self.uops.get(laminated.uops as usize) else {
                continue;
            };
            let first = uop.outputs as usize;
            let outputs = self
                .outputs
                .get(first..first + usize::from(uop.outputs_len));
            let Some(outputs) = outputs.filter(|outputs| outputs.len() <= SIMPLE_OUTPUTS) else {
                continue;
            };
            if uop.kind == UopKind::Compute && !uop.ports.is_empty() {
                laminated.is_simple = true;
                laminated.late_flags = uop.late_flags;
                laminated.ports = uop.ports;
                laminated.inputs = uop.first_inputs;
                laminated.outputs_len = outputs.len() as u8;
                for (slot, output) in laminated.outputs.iter_mut().zip(outputs) {
                    *slot = *output;
                    laminated.latency = laminated.latency.max(output.latency);
                    if output.reg.0 < RegId::MASK {
                        laminated.written |= 1 << output.reg.0;
                    }
                }
            }
        }
    }

    /// [`Instr::plain`] of an instruction whose µops are there.
    fn is_plain(&self, instr: &Instr) -> bool {
        const SPECIAL: u32 = flag::SERIALIZING | flag::SPACED | flag::DEFERRED_WRITES | flag::REP;
        const UNUSUAL: u32 = flag::ELIMINABLE | flag::ADD_IMMEDIATE | flag::SHIFT;
        debug_assert!(instr.uops as usize <= self.uops.len());
        let uops = self.uops.get(instr.uops as usize..).unwrap_or(&[]);
        let unusual = instr.is(UNUSUAL) || !instr.advances.is_empty();
        !(instr.is(SPECIAL) || instr.locked)
            && instr.high8_reads | instr.high8_writes == 0
            && !uops.is_empty()
            && uops.iter().all(|uop| {
                uop.divider == 0
                    && usize::from(uop.inputs_len) <= FIRST_INPUTS
                    && (uop.kind == UopKind::Compute || !(uop.ports.is_empty() || unusual))
            })
    }

    /// Inputs of a µop.
    #[inline]
    #[must_use]
    pub fn inputs_of(&self, uop: &Uop) -> &[RegId] {
        let start = uop.inputs as usize;
        debug_assert!(start + usize::from(uop.inputs_len) <= self.inputs.len());
        self.inputs
            .get(start..start + usize::from(uop.inputs_len))
            .unwrap_or(&[])
    }

    /// Outputs of a µop.
    #[inline]
    #[must_use]
    pub fn outputs_of(&self, uop: &Uop) -> &[Output] {
        let start = uop.outputs as usize;
        debug_assert!(start + usize::from(uop.outputs_len) <= self.outputs.len());
        self.outputs
            .get(start..start + usize::from(uop.outputs_len))
            .unwrap_or(&[])
    }
}
