//! What one instruction reads and writes, with the latency from each input to each output.
//!
//! Follows the operand rules of uiCA: a register counts as read if XED marks it so or if the
//! table has a latency from it; inputs whose latency to every output is 0 are no dependencies
//! (zero idioms); address registers are inputs of their own, with latencies of kind `addr` and
//! `index`.

use iced_x86::{Instruction, OpKind, Register};

use crate::machine::table::{Binding, Form, LatencyKind, OperandName, Perf, implicit_memory_base};
use crate::regs::{RegId, is_high8, size_bits};

/// Place of an operand in [`Operands::all`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OperandIndex(usize);

/// One input or output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value {
    /// Where it is in [`Operands::all`].
    pub index: OperandIndex,
    /// What is renamed; `None` for memory.
    pub id: Option<RegId>,
    /// The register as written.
    pub register: Register,
    /// Stack pointer of a push, pop, call or ret: handled by the stack engine.
    pub implicit_stack: bool,
    /// Place in [`Operands::memory`], for memory operands.
    pub memory: usize,
}

/// A memory operand's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryRef {
    /// Base register, `None` for absolute and rip-relative addresses.
    pub base: Option<RegId>,
    /// Index register.
    pub index: Option<RegId>,
    /// Scale of the index.
    pub scale: u8,
    /// Displacement.
    pub displacement: i64,
    /// Bytes accessed, 0 when unknown.
    pub size: u16,
}

/// All of one instruction.
#[derive(Clone, Debug, Default)]
pub struct Operands {
    /// Number of operands.
    count: usize,
    /// From input to output, the last one for a pair counts.
    latencies: Vec<(OperandIndex, OperandIndex, u16)>,
    /// Registers read.
    pub in_regs: Vec<Value>,
    /// Flag groups read.
    pub in_flags: Vec<Value>,
    /// Memory read.
    pub in_mems: Vec<Value>,
    /// Registers written.
    pub out_regs: Vec<Value>,
    /// Flag groups written.
    pub out_flags: Vec<Value>,
    /// Memory written.
    pub out_mems: Vec<Value>,
    /// Registers that make up addresses of accessed memory.
    pub addresses: Vec<Value>,
    /// Address generation without access (`lea`).
    pub agen: bool,
    /// Addresses of memory operands.
    pub memory: Vec<MemoryRef>,
    /// All general-purpose and vector registers are the same one, and there are at least two.
    pub same_register: bool,
    /// An address has an index register.
    pub indexed: bool,
    /// A 512-bit register is used.
    pub zmm: bool,
    /// A vector register is used.
    pub vector: bool,
}

const MAX_OPERANDS: usize = 40;

impl Operands {
    fn add(&mut self, id: Option<RegId>, register: Register) -> Value {
        let index = OperandIndex(self.count.min(MAX_OPERANDS - 1));
        self.count += 1;
        Value {
            index,
            id,
            register,
            implicit_stack: false,
            memory: 0,
        }
    }

    fn set_latency(&mut self, from: OperandIndex, to: OperandIndex, cycles: u16) {
        self.latencies.push((from, to, cycles));
    }

    /// Cycles from an input to an output, where the table has any.
    #[must_use]
    pub fn latency(&self, from: &Value, to: &Value) -> Option<u16> {
        self.latencies
            .iter()
            .rev()
            .find(|(f, t, _)| (*f, *t) == (from.index, to.index))
            .map(|(_, _, cycles)| *cycles)
    }

    /// All outputs.
    pub fn outputs(&self) -> impl Iterator<Item = &Value> {
        self.out_regs
            .iter()
            .chain(&self.out_flags)
            .chain(&self.out_mems)
    }
}

enum Place {
    Register(Register),
    Memory(MemoryRef),
    Flags,
    StackEngine,
    Nothing,
}

fn memory_of(instruction: &Instruction, kind: OpKind, size: u16) -> MemoryRef {
    let plain = |base: Register| MemoryRef {
        base: RegId::of(base),
        index: None,
        scale: 1,
        displacement: 0,
        size,
    };
    match kind {
        OpKind::MemoryESRDI | OpKind::MemorySegRDI => plain(Register::RDI),
        OpKind::MemoryESEDI | OpKind::MemorySegEDI => plain(Register::EDI),
        OpKind::MemorySegRSI => plain(Register::RSI),
        OpKind::MemorySegESI => plain(Register::ESI),
        _ => MemoryRef {
            base: RegId::of(instruction.memory_base()),
            index: RegId::of(instruction.memory_index()),
            scale: instruction.memory_index_scale() as u8,
            displacement: instruction.memory_displacement64() as i64,
            size,
        },
    }
}

fn is_memory(kind: OpKind) -> bool {
    matches!(
        kind,
        OpKind::Memory
            | OpKind::MemoryESRDI
            | OpKind::MemoryESEDI
            | OpKind::MemoryESDI
            | OpKind::MemorySegRSI
            | OpKind::MemorySegESI
            | OpKind::MemorySegSI
            | OpKind::MemorySegRDI
            | OpKind::MemorySegEDI
            | OpKind::MemorySegDI
    )
}

fn place(instruction: &Instruction, binding: Binding) -> Place {
    let size = instruction.memory_size().size() as u16;
    match binding {
        Binding::Explicit(n) => {
            let n = u32::from(n);
            if n >= instruction.op_count() {
                return Place::Nothing;
            }
            match instruction.op_kind(n) {
                OpKind::Register => Place::Register(instruction.op_register(n)),
                kind if is_memory(kind) => Place::Memory(memory_of(instruction, kind, size)),
                _ => Place::Nothing,
            }
        }
        Binding::OpMask => match instruction.op_mask() {
            Register::None => Place::Nothing,
            mask => Place::Register(mask),
        },
        Binding::Implicit(register) => Place::Register(register),
        Binding::Flags => Place::Flags,
        Binding::StackEngine => Place::StackEngine,
        Binding::ImplicitMemory(n) => {
            let (base, index) = implicit_memory_base(instruction, n);
            Place::Memory(MemoryRef {
                base: RegId::of(base),
                index: RegId::of(index),
                scale: 1,
                displacement: 0,
                size,
            })
        }
    }
}

/// Finds inputs, outputs and latencies of `instruction` under `form`; `perf` picks the figures
/// ([`Form::perf`] or one of its variants); `keep_zero_latency` keeps inputs without latency
/// (moves), and so does `memory_renaming` those of stores.
#[must_use]
pub fn operands(
    instruction: &Instruction,
    form: &Form,
    perf: &Perf,
    keep_zero_latency: bool,
    memory_renaming: bool,
) -> Operands {
    let mut all = Operands {
        ..Operands::default()
    };
    let places: Vec<Place> = form
        .operands
        .iter()
        .map(|o| place(instruction, o.binding))
        .collect();
    scan_registers(&mut all, &places);
    let latency = |from: OperandName, to: OperandName, kind: LatencyKind| {
        perf.latencies
            .iter()
            .find(|l| l.from == from && l.to == to && l.kind == kind)
            .map_or(1, |l| l.cycles)
    };

    // Outputs: registers, flags, memory.
    let mut named: Vec<(OperandName, Value)> = Vec::new();
    for (operand, place) in form.operands.iter().zip(&places) {
        if let Place::Register(register) = place
            && operand.written
            && let Some(id) = RegId::of(*register)
        {
            let value = all.add(Some(id), *register);
            all.out_regs.push(value);
            named.push((operand.name, value));
        }
    }
    for (operand, place) in form.operands.iter().zip(&places) {
        if matches!(place, Place::Flags) {
            for (written, id) in [
                (form.flags_written.c, RegId::CARRY),
                (form.flags_written.spazo, RegId::SPAZO),
            ] {
                if written {
                    let value = all.add(Some(id), Register::None);
                    all.out_flags.push(value);
                    named.push((operand.name, value));
                }
            }
        }
    }
    for (operand, place) in form.operands.iter().zip(&places) {
        if let Place::Memory(memory) = place
            && operand.written
            && operand.name != OperandName::Agen
        {
            let mut value = all.add(None, Register::None);
            value.memory = all.memory.len();
            all.memory.push(*memory);
            all.out_mems.push(value);
            named.push((operand.name, value));
        }
    }

    // Registers read.
    for (operand, place) in form.operands.iter().zip(&places) {
        let Place::Register(register) = place else {
            continue;
        };
        let Some(id) = RegId::of(*register) else {
            continue;
        };
        if !operand.read && !perf.latencies.iter().any(|l| l.from == operand.name) {
            continue;
        }
        // A latency of zero to memory is a store that loads read without delay, not a store of
        // nothing.
        let no_dependency = !keep_zero_latency
            && !named.is_empty()
            && (all.out_mems.is_empty() || !memory_renaming)
            && named
                .iter()
                .all(|(to, _)| latency(operand.name, *to, LatencyKind::Reg) == 0);
        if no_dependency {
            continue;
        }
        let value = all.add(Some(id), *register);
        all.in_regs.push(value);
        for (to, out) in &named {
            all.set_latency(
                value.index,
                out.index,
                latency(operand.name, *to, LatencyKind::Reg),
            );
        }
    }
    // Flags read.
    for (operand, place) in form.operands.iter().zip(&places) {
        if matches!(place, Place::Flags) {
            for (read, id) in [
                (form.flags_read.c, RegId::CARRY),
                (form.flags_read.spazo, RegId::SPAZO),
            ] {
                if read {
                    let value = all.add(Some(id), Register::None);
                    all.in_flags.push(value);
                    for (to, out) in &named {
                        let cycles = latency(operand.name, *to, LatencyKind::Reg);
                        all.set_latency(value.index, out.index, cycles);
                    }
                }
            }
        }
    }
    // Memory read.
    for (operand, place) in form.operands.iter().zip(&places) {
        let Place::Memory(memory) = place else {
            continue;
        };
        if operand.name == OperandName::Agen {
            all.agen = true;
            continue;
        }
        if !operand.read {
            continue;
        }
        let mut value = all.add(None, Register::None);
        value.memory = all.memory.len();
        all.memory.push(*memory);
        all.in_mems.push(value);
        for (to, out) in &named {
            all.set_latency(
                value.index,
                out.index,
                latency(operand.name, *to, LatencyKind::Mem),
            );
        }
    }
    // Address registers.
    let stack_engine = places.iter().any(|p| matches!(p, Place::StackEngine));
    let memories = places
        .iter()
        .filter(|p| matches!(p, Place::Memory(_)))
        .count();
    for (operand, place) in form.operands.iter().zip(&places) {
        let Place::Memory(memory) = place else {
            continue;
        };
        for (id, kind) in [
            (memory.base, LatencyKind::Addr),
            (memory.index, LatencyKind::Index),
        ] {
            let Some(id) = id else { continue };
            let mut value = all.add(Some(id), Register::None);
            value.implicit_stack = id == RegId::RSP
                && stack_engine
                && (memories == 1 || operand.name == OperandName::Mem(1));
            if operand.name == OperandName::Agen {
                all.in_regs.push(value);
            } else {
                all.addresses.push(value);
            }
            for (to, out) in &named {
                all.set_latency(value.index, out.index, latency(operand.name, *to, kind));
            }
        }
    }
    all
}

/// Whether all general-purpose and vector registers of an instruction are one and the same, and
/// whether its addresses have an index: what selects the variant of the figures.
#[must_use]
pub fn variant(instruction: &Instruction, form: &Form) -> (bool, bool) {
    let mut all = Operands::default();
    let places: Vec<Place> = form
        .operands
        .iter()
        .map(|o| place(instruction, o.binding))
        .collect();
    scan_registers(&mut all, &places);
    (all.same_register, all.indexed)
}

fn scan_registers(all: &mut Operands, places: &[Place]) {
    let mut first: Option<RegId> = None;
    let mut count = 0;
    let mut same = true;
    for place in places {
        match place {
            Place::Register(register) => {
                all.zmm |= register.is_zmm();
                all.vector |= register.is_vector_register() || register.is_mm();
                if let Some(id) = RegId::of(*register)
                    && (id.is_gpr() || register.is_vector_register() || register.is_mm())
                {
                    count += 1;
                    same &= *first.get_or_insert(id) == id;
                }
            }
            Place::Memory(memory) => all.indexed |= memory.index.is_some(),
            _ => {}
        }
    }
    all.same_register = count > 1 && same;
}

/// Which of rax, rbx, rcx, rdx (bits 0, 3, 1, 2: their [`RegId`]) occur in `values` as registers
/// of the size class asked for.
#[must_use]
pub fn abcd_mask(values: &[Value], high8: bool) -> u8 {
    values
        .iter()
        .filter_map(|v| {
            let id = v.id.filter(|id| id.0 < 4)?;
            let hit = if high8 {
                is_high8(v.register)
            } else {
                // Address registers carry no register of their own; they are 64 bits wide.
                v.register == Register::None || size_bits(v.register) > 8
            };
            hit.then_some(1 << id.0)
        })
        .fold(0, |a, b| a | b)
}
