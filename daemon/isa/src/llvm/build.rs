//! Builds the static instructions of a block of A64 or RISC-V code for one CPU.
//!
//! LLVM says what an instruction reads and writes, how many µops it is, which units it takes and
//! how long each result takes. Which of the µops loads and which computes it does not say: the
//! units of loads and stores are the model's (`ports.load`, `ports.store_address`,
//! `ports.store_data`), the register that an address is taken from is where the instruction set
//! puts it, and every other µop waits for all that is read, for each operand as long as
//! [`super::forwarding`] says.

use mcad_proto::event::Arch;

use super::Instruction;
use super::cost::{Taken, Units};
use super::decode::form;
use super::forwarding::Forwarding;
use super::table::CpuTable;
use super::wire::{Class, Operand, flag as llvm};
use crate::code::Flow;
use crate::machine::params::{PortLayout, PortSet};
use crate::program::{Advance, BranchKind, Forwarded, Instr, NO_REG, PointerLoad, Program, flag};
use crate::regs::RegId;
use crate::uop::{FusedSpec, LaminatedSpec, UopKind, UopSpec};

/// Longest time for which a pipelined unit is booked; what takes it longer keeps the divider.
const MOST_PIPELINED: u16 = 4;

/// The same for vector instructions, which take a unit once for each register of a group.
const MOST_REGISTERS: u16 = 8;

/// What a CPU's table says of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// Its own costs.
    Exactly,
    /// Costs of something like it, named here.
    As(&'static str),
    /// Nothing.
    Not,
}

/// A register read or written: which, and its index among uses or definitions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Named {
    pub(super) reg: RegId,
    pub(super) index: u8,
    /// Part of an address.
    pub(super) address: bool,
}

/// Which of the registers are meant that an instruction does not name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sources {
    /// Those that its execution reads and writes.
    Executed,
    /// All that LLVM lists: calls are said to read the stack pointer, for the compiler.
    AsListed,
}

/// What instructions cost on a CPU.
#[derive(Clone, Copy, Debug)]
pub struct Costs<'c> {
    /// Its table.
    pub cpu: &'c CpuTable,
    /// Its units as ports.
    pub units: &'c Units,
    /// Which results come sooner to which operands.
    pub forwarding: &'c Forwarding,
    /// Which ports load and store.
    pub ports: &'c PortLayout,
}

impl Costs<'_> {
    /// Appends the instructions of one block to `program`.
    pub fn append(&self, program: &mut Program, block: &[Instruction]) -> Vec<Known> {
        let each = block.iter();
        each.map(|instruction| one(program, instruction, self))
            .collect()
    }
}

fn one(program: &mut Program, instruction: &Instruction, costs: &Costs<'_>) -> Known {
    let Costs {
        cpu, units, ports, ..
    } = *costs;
    let opcode = instruction.opcode();
    let reads = named(instruction, false, Sources::Executed);
    let writes = named(instruction, true, Sources::Executed);
    let class = class_of(instruction, cpu);
    let (load, store) = (
        opcode.flags & llvm::LOAD != 0,
        opcode.flags & llvm::STORE != 0,
    );
    let known = match class {
        Some(_) if opcode.vector_forms.is_empty() || instruction.vector.is_some() => Known::Exactly,
        Some(_) => Known::As("the same at the scheduling model's usual vector length"),
        None if load && store => Known::As("a load and a store"),
        // LLVM gives RISC-V's fences no units (`Sched<[]>`): a slot, and what they order.
        None if orders(instruction) != 0 => Known::Exactly,
        None => Known::Not,
    };
    let one_cycle = Class {
        uops: 1,
        ..Class::default()
    };
    let class = class.unwrap_or(&one_cycle);
    let mut taken = units.taken(class);
    let one = |ports| Taken { ports, cycles: 1 };
    if taken.is_empty() && orders(instruction) != 0 {
        // What no unit executes is done at rename and waits for nothing.
        taken = vec![one(ports.load)];
    } else if taken.is_empty() && known != Known::Exactly {
        taken = match load && store {
            true => vec![one(ports.load), one(ports.store_address)],
            false => vec![one(ports.alu)],
        };
    }
    let parts = Parts {
        reads,
        writes,
        class,
        load,
        store,
        pipelined: match opcode.vector_forms.is_empty() {
            true => MOST_PIPELINED,
            false => MOST_REGISTERS,
        },
    };
    let fused = parts.uops(&taken, ports);
    let laminated: Vec<LaminatedSpec> = fused.into_iter().map(|fused| vec![fused]).collect();
    let load = PointerLoad {
        base: NO_REG,
        index: NO_REG,
        near: false,
        forwarded_later: 0,
        vector_later: 0,
        crossing_later: 0,
        absolute: false,
    };
    let kinds = parts.kinds(costs.forwarding);
    let advances = parts.advances(costs.forwarding);
    let forwarded = Forwarded {
        kinds: &kinds,
        advances: &advances,
        ..Forwarded::default()
    };
    let instr = instr(instruction, known, laminated.len());
    program.push_forwarded(instr, &laminated, &[load], &forwarded);
    known
}

fn instr(instruction: &Instruction, known: Known, uops: usize) -> Instr {
    let mut flags = match known {
        Known::Exactly => 0,
        Known::As(_) => flag::APPROXIMATED,
        Known::Not => flag::UNKNOWN,
    };
    let branch = branch(instruction);
    if branch.is_some() {
        flags |= flag::BRANCH;
    }
    flags |= orders(instruction);
    Instr {
        address_kept: false,
        flags,
        uops: 0,
        laminated: 0,
        laminated_len: 0,
        laminated_mite: 0,
        simple_decoders: u8::MAX,
        uops_mite: uops.min(usize::from(u8::MAX)) as u8,
        microcoded: false,
        len: instruction.len() as u8,
        nominal_opcode: 0,
        rsp_change: 0,
        wide_reads: 0,
        wide_uses: 0,
        high8_reads: 0,
        high8_writes: 0,
        move_from: RegId::NONE,
        move_to: RegId::NONE,
        locked: false,
        throughput: 0,
        form: 0,
        zeroed: 0..0,
        fused: 0,
        constants: 0,
        counted: 0,
        slots_behind_memory: 0,
        one_a_cycle: PortSet::NONE,
        step: 0,
        advances: 0..0,
        plain: false,
        branch: branch.map(|(kind, _)| kind),
        displacement: branch.map_or(0, |(_, displacement)| displacement),
        calls_kernel: false,
        in_shared_object: false,
    }
}

/// What kind of branch an instruction is, and how far it is from its address to that of the target in
/// its code.
pub(crate) fn branch(instruction: &Instruction) -> Option<(BranchKind, i32)> {
    let (kind, target) = match instruction.flow() {
        Flow::Conditional(target) => (BranchKind::Conditional, target),
        Flow::Jump(Some(target)) => (BranchKind::Jump, Some(target)),
        Flow::Jump(None) => (BranchKind::IndirectJump, None),
        Flow::Call(Some(target)) => (BranchKind::Call, Some(target)),
        Flow::Call(None) => (BranchKind::IndirectCall, None),
        Flow::Return => (BranchKind::Return, None),
        Flow::Next | Flow::System | Flow::Exception => return None,
    };
    let displacement = target.map_or(0, |to| to.wrapping_sub(instruction.address) as i32);
    Some((kind, displacement))
}

/// Which accesses it keeps in order, older ones before younger ones: `dmb`, `dsb`; `fence`, as
/// [`flag::LOAD_FENCE`] and [`flag::STORE_FENCE`]. Sources: Arm ARM, C6 (barriers, CRm and op2);
/// RISC-V unprivileged specification, 2.7. A fence of one kind before and another behind orders both
/// kinds here.
fn orders(instruction: &Instruction) -> u32 {
    let word = instruction.word;
    let (loads, stores) = match instruction.arch {
        Arch::AArch64 => {
            let barrier = word & 0xffff_f01f == 0xd503_301f && matches!(word >> 5 & 7, 4 | 5);
            // The lowest two bits of CRm: 1 loads, 2 stores, else both.
            let kinds = word >> 8 & 3;
            (barrier && kinds != 2, barrier && kinds != 1)
        }
        _ => {
            // Predecessors and successors: device input and output, reads, writes.
            let (before, behind) = (word >> 24 & 15, word >> 20 & 15);
            let kinds = before | behind;
            let fence = word & 0x707f == 0x0f;
            (fence && kinds & 0b1010 != 0, fence && kinds & 0b0101 != 0)
        }
    };
    let when = |is: bool, flag: u32| if is { flag } else { 0 };
    when(loads, flag::LOAD_FENCE) | when(stores, flag::STORE_FENCE)
}

/// The scheduling class of an instruction on a CPU.
#[must_use]
pub fn class_of(instruction: &Instruction, cpu: &CpuTable) -> Option<&'static Class> {
    let opcode = instruction.opcode();
    let vector = instruction.vector.and_then(|vector| vector.form(opcode));
    let form = vector.or_else(|| form(opcode, instruction.word))?;
    let class = *cpu.cpu.class_of.get(usize::from(form))?;
    cpu.cpu.classes.get(usize::from(class).checked_sub(1)?)
}

/// Registers that the execution of an instruction reads or writes.
#[must_use]
pub fn registers_of(instruction: &Instruction, writes: bool) -> Vec<RegId> {
    let named = named(instruction, writes, Sources::Executed);
    named.into_iter().map(|named| named.reg).collect()
}

/// Registers that an instruction reads or writes.
pub(super) fn named(instruction: &Instruction, writes: bool, sources: Sources) -> Vec<Named> {
    let opcode = instruction.opcode();
    let mut all = Vec::new();
    for operand in opcode
        .operands
        .iter()
        .filter(|operand| operand.def == writes)
    {
        let address = addresses(instruction, operand);
        for reg in registers(operand, instruction.word) {
            all.push(Named {
                reg,
                index: operand.index,
                address,
            });
        }
    }
    let (implicit, explicit) = match writes {
        true => (&opcode.defs, opcode.explicit_defs),
        false => (&opcode.uses, opcode.explicit_uses),
    };
    for (n, &reg) in implicit.iter().enumerate() {
        let compilers = sources == Sources::Executed
            && instruction.flow() != Flow::Next
            && instruction.arch == Arch::AArch64
            && reg == 31;
        if usize::from(reg) < RegId::GENERAL && !compilers {
            all.push(Named {
                reg: RegId(reg),
                index: explicit + n as u8,
                address: false,
            });
        }
    }
    all
}

/// Whether an access of A64 writes its address back: pre- and post-indexed (Arm ARM, C4.1, loads and
/// stores of one and of two registers; of vectors, post-indexed).
pub(super) fn writes_back(instruction: &Instruction) -> bool {
    let word = instruction.word;
    instruction.arch == Arch::AArch64
        && (word & 0x3b20_0400 == 0x3800_0400
            || word & 0x3a80_0000 == 0x2880_0000
            || word & 0xbe80_0000 == 0x0c80_0000)
}

/// The registers that an operand of `word` names.
fn registers(operand: &Operand, word: u32) -> impl Iterator<Item = RegId> {
    let absent = operand.unless.is_some_and(|bit| word >> bit & 1 == 1);
    let field = match operand.len {
        0 => 0,
        len => i32::from((word >> operand.pos & ((1 << len) - 1)) as u16),
    };
    let first = i32::from(operand.base) + i32::from(operand.stride) * field;
    let (bank, size) = (i32::from(operand.bank.0), i32::from(operand.bank.1).max(1));
    let none = absent || operand.zero.map(i32::from) == Some(first);
    let count = if none { 0 } else { i32::from(operand.count) };
    (0..count).map(move |n| RegId((bank + (first - bank + n).rem_euclid(size)) as u8))
}

/// Whether an operand read is part of the address of a load or store.
fn addresses(instruction: &Instruction, operand: &Operand) -> bool {
    let opcode = instruction.opcode();
    if operand.def || opcode.flags & (llvm::LOAD | llvm::STORE) == 0 {
        return false;
    }
    match instruction.arch {
        // Rn, and Rm of the forms with a register offset.
        Arch::AArch64 => {
            operand.pos == 5 || (operand.pos == 16 && instruction.word & 0x3b20_0c00 == 0x3820_0800)
        }
        // rs1; the compressed forms have rs1' in its own place, or the stack pointer.
        _ if instruction.word & 3 == 3 => operand.pos == 15,
        _ => operand.len == 0 || operand.pos == 7 && operand.len == 3,
    }
}

/// What an instruction is put together from.
struct Parts<'c> {
    reads: Vec<Named>,
    writes: Vec<Named>,
    class: &'c Class,
    load: bool,
    store: bool,
    /// Longest time for which a pipelined unit is booked.
    pipelined: u16,
}

impl Parts<'_> {
    /// The µops in groups that share an issue slot.
    fn uops(&self, taken: &[Taken], layout: &PortLayout) -> Vec<FusedSpec> {
        let mut kinds: Vec<(UopKind, PortSet, u16)> = Vec::new();
        let (mut load, mut store) = (self.load, self.store);
        for part in taken {
            let kind = if load && part.ports.meets(layout.load) {
                load = false;
                UopKind::Load(0)
            } else if store && part.ports.meets(layout.store_address) {
                store = false;
                UopKind::StoreAddress(0)
            } else {
                UopKind::Compute
            };
            kinds.push((kind, part.ports, part.cycles));
        }
        // What the model books on no unit of loads or stores is done all the same.
        if store {
            kinds.insert(0, (UopKind::StoreAddress(0), PortSet::NONE, 1));
        }
        if load {
            kinds.insert(0, (UopKind::Load(0), PortSet::NONE, 1));
        }
        if self.store {
            // The data's own unit, if there is one; else it comes with the address.
            let data = kinds.iter().position(|(kind, ports, _)| {
                *kind == UopKind::Compute && ports.meets(layout.store_data)
            });
            let data = data.map_or((PortSet::NONE, 1), |n| {
                let (_, ports, cycles) = kinds.remove(n);
                (ports, cycles)
            });
            kinds.push((UopKind::StoreData(0), data.0, data.1));
        }
        // Loads first, then what computes, then stores.
        kinds.sort_by_key(|(kind, ..)| match kind {
            UopKind::Load(_) => 0,
            UopKind::Compute => 1,
            UopKind::StoreAddress(_) => 2,
            UopKind::StoreData(_) => 3,
        });
        if kinds.is_empty() {
            kinds.push((UopKind::Compute, PortSet::NONE, 1));
        }
        self.groups(&kinds)
    }

    fn groups(&self, kinds: &[(UopKind, PortSet, u16)]) -> Vec<FusedSpec> {
        let computes = kinds.iter().any(|(kind, ..)| *kind == UopKind::Compute);
        let last = kinds.iter().rposition(|(kind, ..)| match kind {
            UopKind::Compute => true,
            _ => !computes,
        });
        let mut specs: Vec<FusedSpec> = Vec::new();
        for (n, &(kind, ports, cycles)) in kinds.iter().enumerate() {
            let divider = if cycles > self.pipelined { cycles } else { 0 };
            let mut group = vec![UopSpec {
                ports,
                inputs: self.inputs(kind),
                outputs: self.outputs(kind, Some(n) == last, computes),
                divider,
                kind,
            }];
            // A pipelined unit that is taken for more cycles executes as many halves.
            for _ in 1..if divider > 0 { 1 } else { cycles.max(1) } {
                group.push(UopSpec {
                    ports,
                    inputs: self.inputs(kind),
                    outputs: Vec::new(),
                    divider: 0,
                    kind: UopKind::Compute,
                });
            }
            specs.push(group);
        }
        let slots = usize::from(self.class.uops.max(1));
        // Slots and units are counted apart: units beyond the slots share the last one.
        while specs.len() > slots {
            let group = specs.pop().unwrap_or_default();
            if let Some(last) = specs.last_mut() {
                last.extend(group);
            }
        }
        while specs.len() < slots {
            specs.push(vec![UopSpec {
                ports: PortSet::NONE,
                inputs: Vec::new(),
                outputs: Vec::new(),
                divider: 0,
                kind: UopKind::Compute,
            }]);
        }
        specs
    }

    fn inputs(&self, kind: UopKind) -> Vec<RegId> {
        let wanted = |named: &&Named| match kind {
            UopKind::Load(_) | UopKind::StoreAddress(_) => named.address,
            UopKind::StoreData(_) => !named.address,
            UopKind::Compute => true,
        };
        self.reads
            .iter()
            .filter(wanted)
            .map(|named| named.reg)
            .collect()
    }

    /// What a µop writes: the address register that is written back by whatever computes, all else
    /// by the load, or by the last µop that computes.
    fn outputs(&self, kind: UopKind, last: bool, computes: bool) -> Vec<(RegId, u16)> {
        let writes_back = |named: &Named| {
            let mut reads = self.reads.iter();
            reads.any(|read| read.address && read.reg == named.reg)
        };
        let mine = |named: &&Named| match kind {
            UopKind::Load(_) => !(computes && writes_back(named)),
            _ if self.load => last && writes_back(named),
            _ => last,
        };
        let written = self.writes.iter().filter(mine);
        written
            .map(|named| (named.reg, self.latency(named.index)))
            .collect()
    }

    /// A definition's latency and kind of result.
    fn result(&self, definition: u8) -> (i16, u16) {
        let listed = self.class.latencies.get(usize::from(definition));
        let most = || self.class.latencies.iter().map(|(cycles, _)| *cycles).max();
        let result = listed.copied();
        result
            .or_else(|| most().map(|cycles| (cycles, 0)))
            .unwrap_or((1, 0))
    }

    fn latency(&self, definition: u8) -> u16 {
        let (cycles, _) = self.result(definition);
        u16::try_from(cycles).unwrap_or(0).max(1)
    }

    /// The kinds of what is written, where readers tell them apart.
    fn kinds(&self, forwarding: &Forwarding) -> Vec<(RegId, u8)> {
        let kind = |named: &Named| {
            let (cycles, kind) = self.result(named.index);
            (named.reg, forwarding.kind(kind, cycles))
        };
        let kinds = self.writes.iter().map(kind);
        kinds.filter(|(_, kind)| *kind != 0).collect()
    }

    /// When what is read is needed, where that depends on its kind. A register that several operands
    /// read is needed as soon as the first of them needs it.
    fn advances(&self, forwarding: &Forwarding) -> Vec<Advance> {
        let of = |named: &Named| forwarding.advances(self.class, named.index);
        let mut all: Vec<Advance> = Vec::new();
        for named in &self.reads {
            for &(kind, cycles) in of(named) {
                let same = |other: &&Named| other.reg == named.reg;
                let others = self.reads.iter().filter(same).map(|other| {
                    let found = of(other).iter().find(|(of, _)| *of == kind);
                    found.map_or(0, |(_, cycles)| *cycles)
                });
                let advance = Advance {
                    reg: named.reg,
                    kind,
                    cycles: others.min().unwrap_or(cycles),
                };
                if advance.cycles != 0 && !all.contains(&advance) {
                    all.push(advance);
                }
            }
        }
        all
    }
}
