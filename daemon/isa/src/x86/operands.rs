//! What one instruction reads and writes, with the latency from each input to each output.
//!
//! Follows the operand rules of uiCA: a register counts as read if XED marks it so or if the
//! table has a latency from it; inputs whose latency to every output is 0 are no dependencies
//! (zero idioms); address registers are inputs of their own, with latencies of kind `addr` and
//! `index`.

use iced_x86::{Instruction, OpKind, Register};

use crate::machine::table::{
    Binding, FlagGroups, Form, LatencyKind, Operand, OperandName, Perf, implicit_memory_base,
};
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
    /// Displacement, or all of the address that is no register's.
    pub displacement: i64,
    /// The displacement is the instruction's own.
    displaced: bool,
    /// There is one in its bytes, if only of zero.
    has_displacement: bool,
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
    /// Inputs from which the table has no latency to any output.
    unmeasured: Vec<OperandIndex>,
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
    /// An address of accessed memory that no register is in: absolute, or from the instruction's own.
    /// Nothing waits for it, but what is loaded there takes as long to each output.
    pub fixed_address: Option<Value>,
    /// Address generation without access (`lea`).
    pub agen: bool,
    /// Addresses of memory operands; their displacements are those of one instruction of several that
    /// may have these operands ([`Operands::at`]).
    memory: Vec<MemoryRef>,
    /// All general-purpose and vector registers are the same one, and there are at least two.
    pub same_register: bool,
    /// An address has an index register.
    pub indexed: bool,
    /// An address has an index register that is multiplied.
    pub scaled: bool,
    /// An address has an index register that is not multiplied, and a displacement.
    pub displaced_index: bool,
    /// A 512-bit register is used.
    pub zmm: bool,
    /// A vector register is used.
    pub vector: bool,
    /// An ALU is taken beside the data of a store, which does not go through it.
    pub beside_data: bool,
}

const MAX_OPERANDS: usize = 40;

fn any(values: &[Value], is: impl Fn(RegId) -> bool) -> bool {
    values.iter().filter_map(|value| value.id).any(is)
}

impl Operands {
    /// Whether a general-purpose register is written by what vector registers hold, without memory.
    #[must_use]
    pub fn writes_general_from_vector(&self) -> bool {
        self.without_memory()
            && any(&self.out_regs, RegId::is_gpr)
            && any(&self.in_regs, RegId::is_vector)
            && !any(&self.in_regs, RegId::is_gpr)
    }

    /// Whether a vector register is written by what a general-purpose one holds, without memory.
    #[must_use]
    pub fn writes_vector_from_general(&self) -> bool {
        self.without_memory()
            && any(&self.out_regs, RegId::is_vector)
            && any(&self.in_regs, RegId::is_gpr)
    }

    fn without_memory(&self) -> bool {
        self.in_mems.is_empty() && self.out_mems.is_empty()
    }

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

    fn add_memory(&mut self, memory: MemoryRef) -> Value {
        let mut value = self.add(None, Register::None);
        value.memory = self.memory.len();
        self.memory.push(memory);
        value
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

    /// Whether the table has cycles from an input to some output; else they are taken to be one.
    #[must_use]
    pub fn is_measured(&self, from: &Value) -> bool {
        !self.unmeasured.contains(&from.index)
    }

    /// The address of a memory operand of an instruction that has this displacement.
    #[must_use]
    pub fn at(&self, value: &Value, displacement: i64) -> Option<MemoryRef> {
        let mut memory = *self.memory.get(value.memory)?;
        if memory.displaced {
            memory.displacement = displacement;
        }
        Some(memory)
    }

    /// Bytes of the widest load.
    #[must_use]
    pub fn loaded_bytes(&self) -> u16 {
        let sizes = self
            .in_mems
            .iter()
            .filter_map(|v| self.memory.get(v.memory));
        sizes.map(|m| m.size).max().unwrap_or(0)
    }

    /// Registers that make up addresses of memory operands.
    pub fn address_registers(&self) -> impl Iterator<Item = RegId> {
        let registers = |m: &MemoryRef| [m.base, m.index];
        self.memory.iter().flat_map(registers).flatten()
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
        displaced: false,
        has_displacement: false,
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
            displaced: true,
            has_displacement: instruction.memory_displ_size() > 0,
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
                displaced: false,
                has_displacement: false,
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
    let places: Vec<Place> = form
        .operands
        .iter()
        .map(|o| place(instruction, o.binding))
        .collect();
    let mut finder = Finder {
        form,
        perf,
        places: &places,
        found: Operands::default(),
        named: Vec::new(),
    };
    scan_registers(&mut finder.found, &places);
    finder.outputs();
    finder.registers_read(keep_zero_latency, memory_renaming);
    finder.flags_read();
    finder.memory_read();
    finder.addresses();
    finder.found
}

/// The operands of one instruction, being found: outputs first, since each input has a latency to
/// each of them.
struct Finder<'a> {
    form: &'a Form,
    perf: &'a Perf,
    /// Of [`Form::operands`].
    places: &'a [Place],
    found: Operands,
    /// Outputs, by the names that latencies use.
    named: Vec<(OperandName, Value)>,
}

impl<'a> Finder<'a> {
    fn placed(&self) -> impl Iterator<Item = (&'a Operand, &'a Place)> + use<'a> {
        self.form.operands.iter().zip(self.places)
    }

    fn latency(&self, from: OperandName, to: OperandName, kind: LatencyKind) -> u16 {
        self.perf
            .latencies
            .iter()
            .find(|l| l.from == from && l.to == to && l.kind == kind)
            .map_or(1, |l| l.cycles)
    }

    /// Notes the latencies from an input, a part of an operand, to every output.
    fn reaches_outputs(&mut self, value: &Value, from: OperandName, kind: LatencyKind) {
        for n in 0..self.named.len() {
            let (to, out) = self.named[n];
            let cycles = self.latency(from, to, kind);
            self.found.set_latency(value.index, out.index, cycles);
        }
        let mut measured = self.perf.latencies.iter();
        if !measured.any(|l| l.from == from && l.kind == kind) {
            self.found.unmeasured.push(value.index);
        }
    }

    /// Registers, flags and memory that are written.
    fn outputs(&mut self) {
        for (operand, place) in self.placed() {
            if let Place::Register(register) = place
                && operand.written
                && let Some(id) = RegId::of(*register)
            {
                let value = self.found.add(Some(id), *register);
                self.found.out_regs.push(value);
                self.named.push((operand.name, value));
            }
        }
        for (operand, place) in self.placed() {
            if matches!(place, Place::Flags) {
                for id in flag_groups(self.form.flags_written) {
                    let value = self.found.add(Some(id), Register::None);
                    self.found.out_flags.push(value);
                    self.named.push((operand.name, value));
                }
            }
        }
        for (operand, place) in self.placed() {
            if let Place::Memory(memory) = place
                && operand.written
                && operand.name != OperandName::Agen
            {
                let value = self.found.add_memory(*memory);
                self.found.out_mems.push(value);
                self.named.push((operand.name, value));
            }
        }
    }

    fn registers_read(&mut self, keep_zero_latency: bool, memory_renaming: bool) {
        for (operand, place) in self.placed() {
            let Place::Register(register) = place else {
                continue;
            };
            let Some(id) = RegId::of(*register) else {
                continue;
            };
            if !operand.read && !self.perf.latencies.iter().any(|l| l.from == operand.name) {
                continue;
            }
            // A latency of zero to memory is a store that loads read without delay, not a store
            // of nothing.
            let no_dependency = !keep_zero_latency
                && !self.named.is_empty()
                && (self.found.out_mems.is_empty() || !memory_renaming)
                && self
                    .named
                    .iter()
                    .all(|(to, _)| self.latency(operand.name, *to, LatencyKind::Reg) == 0);
            if no_dependency {
                continue;
            }
            let value = self.found.add(Some(id), *register);
            self.found.in_regs.push(value);
            self.reaches_outputs(&value, operand.name, LatencyKind::Reg);
        }
    }

    fn flags_read(&mut self) {
        for (operand, place) in self.placed() {
            if matches!(place, Place::Flags) {
                for id in flag_groups(self.form.flags_read) {
                    let value = self.found.add(Some(id), Register::None);
                    self.found.in_flags.push(value);
                    self.reaches_outputs(&value, operand.name, LatencyKind::Reg);
                }
            }
        }
    }

    fn memory_read(&mut self) {
        for (operand, place) in self.placed() {
            let Place::Memory(memory) = place else {
                continue;
            };
            if operand.name == OperandName::Agen {
                self.found.agen = true;
            } else if operand.read {
                let value = self.found.add_memory(*memory);
                self.found.in_mems.push(value);
                self.reaches_outputs(&value, operand.name, LatencyKind::Mem);
            }
        }
    }

    /// Registers that make up addresses.
    fn addresses(&mut self) {
        let places = self.places;
        let stack_engine = places.iter().any(|p| matches!(p, Place::StackEngine));
        let memories = places.iter().filter(|p| matches!(p, Place::Memory(_)));
        let only_one = memories.count() == 1;
        for (operand, place) in self.placed() {
            let Place::Memory(memory) = place else {
                continue;
            };
            if memory.base.is_none() && memory.index.is_none() && operand.name != OperandName::Agen
            {
                let value = self.found.add(None, Register::None);
                self.found.fixed_address = Some(value);
                self.reaches_outputs(&value, operand.name, LatencyKind::Addr);
            }
            for (id, kind) in [
                (memory.base, LatencyKind::Addr),
                (memory.index, LatencyKind::Index),
            ] {
                let Some(id) = id else { continue };
                let mut value = self.found.add(Some(id), Register::None);
                value.implicit_stack = id == RegId::RSP
                    && stack_engine
                    && (only_one || operand.name == OperandName::Mem(1));
                if operand.name == OperandName::Agen {
                    self.found.in_regs.push(value);
                } else {
                    self.found.addresses.push(value);
                }
                self.reaches_outputs(&value, operand.name, kind);
            }
        }
    }
}

/// What is renamed of the flags.
fn flag_groups(flags: FlagGroups) -> impl Iterator<Item = RegId> {
    [(flags.c, RegId::CARRY), (flags.spazo, RegId::SPAZO)]
        .into_iter()
        .filter_map(|(used, id)| used.then_some(id))
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
            Place::Memory(memory) => {
                all.indexed |= memory.index.is_some();
                all.scaled |= memory.index.is_some() && memory.scale > 1;
                all.displaced_index |=
                    memory.index.is_some() && memory.scale == 1 && memory.has_displacement;
            }
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
