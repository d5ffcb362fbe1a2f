//! What LLVM's scheduling model says of instructions, as a scheduler takes it: units and groups of
//! units by bit, buffers, and the registers read and written with their delays.
//!
//! [`super::build`] makes µops of the same classes for the out-of-order pipeline. Here an
//! instruction stays whole, as in LLVM's `lib/MCA`, whose rules of taking units these are
//! (`InstrBuilder.cpp`, `Support.cpp`): the in-order core of such CPUs works on it, and so does
//! what is compared with llvm-mca.

use mcad_proto::event::Arch;
use rustc_hash::FxHashMap;

use super::Instruction;
use super::build::{Sources, named, writes_back};
use super::table::CpuTable;
use super::wire::{Class, Cpu, Opcode, flag};
use crate::regs::RegId;

/// Cycles that llvm-mca takes for a call, and for what has no latency.
pub const CALL: u32 = 100;

/// Most resources: a bit of a word each.
const MAX_RESOURCES: usize = 64;

/// Who asks for the static instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Notion {
    /// A program that runs: calls take what their class says.
    #[default]
    Program,
    /// llvm-mca, which does not follow calls: they take [`CALL`] cycles and read the stack pointer.
    LlvmMca,
}

/// A unit, several alike, or a group of units. Its place is its bit in masks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resource {
    /// LLVM's name.
    pub name: String,
    /// Its own bit and, of a group, those of its members.
    pub mask: u64,
    /// Of a group its members; else a bit for each unit.
    pub units: u64,
    /// Entries of its buffer: -1: none of its own; 0: it holds up dispatch while it is taken.
    pub buffer: i32,
    /// The port by which views know its first unit; the others follow. None of groups and of what is
    /// part of another.
    pub port: Option<u8>,
}

impl Resource {
    /// Whether it is a group of others.
    #[must_use]
    pub fn is_group(&self) -> bool {
        self.mask.count_ones() > 1
    }
}

/// A resource that an instruction takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Its place.
    pub resource: u8,
    /// Cycles for which a unit of it is taken.
    pub cycles: u32,
    /// Units that must be free.
    pub units: u32,
    /// The group as a whole is taken, not a unit of it.
    pub reserved: bool,
}

/// What a class of instructions costs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// µops.
    pub uops: u32,
    /// Begins a group of instructions that issue together.
    pub begins_group: bool,
    /// Ends one.
    pub ends_group: bool,
    /// Its results may be written before those of older instructions.
    pub out_of_order: bool,
    /// Cycles until all results are there.
    pub latency: u32,
    /// Resources, smallest groups first.
    pub taken: Vec<Taken>,
    /// Groups of resources that it takes.
    pub groups: u64,
    /// Some of these share units and do not contain each other.
    pub overlapping: bool,
    /// Buffers that have an entry for it.
    pub buffers: u64,
    /// It has no buffer to wait in: it issues when it is dispatched.
    pub immediate: bool,
}

/// A register read, or several as one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// The register.
    pub register: RegId,
    /// Which operand: registers of one operand are read as one.
    pub operand: u8,
    /// Place of its advances in [`Code::advances`], and how many there are.
    advances: (u32, u8),
}

/// A register written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// The register.
    pub register: RegId,
    /// Which result: registers of one operand are written as one.
    pub operand: u8,
    /// Cycles until it is there.
    pub latency: u32,
    /// Kind of result, which advances ask for.
    pub kind: u16,
    /// It comes from memory.
    pub loaded: bool,
}

/// A static instruction.
#[derive(Clone, Copy, Debug, Default)]
pub struct Static {
    /// Place of its cost.
    cost: u32,
    reads: (u32, u8),
    writes: (u32, u8),
    /// Cycles until all results are there; calls may differ from their class.
    pub latency: u32,
    /// Cycles until the first result is there.
    pub first_result: u32,
    /// Loads.
    pub load: bool,
    /// Stores.
    pub store: bool,
}

/// Static instructions of a session on one CPU.
#[derive(Clone, Debug, Default)]
pub struct Code {
    /// The instructions.
    pub instrs: Vec<Static>,
    costs: Vec<Cost>,
    by_class: FxHashMap<usize, u32>,
    reads: Vec<Read>,
    writes: Vec<Write>,
    advances: Vec<(u16, i32)>,
    /// For llvm-mca, by where the opcode is in memory: operands that the first of it in the block
    /// read and wrote.
    firsts: FxHashMap<usize, (Vec<u8>, Vec<u8>)>,
}

/// The units of a CPU, units before groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Resources by place.
    pub resources: Vec<Resource>,
    /// Place of LLVM's resource.
    places: Vec<Option<u8>>,
}

impl Machine {
    /// The units of a CPU.
    ///
    /// # Errors
    /// A text when there are too many.
    pub fn new(cpu: &Cpu) -> Result<Self, String> {
        if cpu.resources.len() > MAX_RESOURCES {
            return Err(format!(
                "{} has more than {MAX_RESOURCES} resources",
                cpu.name
            ));
        }
        let mut machine = Self {
            resources: Vec::new(),
            places: vec![None; cpu.resources.len()],
        };
        let mut ports = 0;
        // Resource 0 stands for none.
        for groups in [false, true] {
            for (n, resource) in cpu.resources.iter().enumerate().skip(1) {
                if resource.members.is_empty() == groups {
                    continue;
                }
                let place = machine.resources.len();
                let members = resource.members.iter().filter_map(|member| {
                    let place = (*machine.places.get(usize::from(*member))?)?;
                    Some(machine.resources.get(usize::from(place))?.mask)
                });
                let members = members.fold(0, |all, mask| all | mask);
                machine.places[n] = Some(place as u8);
                let port = (!groups && resource.part_of == 0).then_some(ports);
                ports += if port.is_some() {
                    resource.units as u8
                } else {
                    0
                };
                machine.resources.push(Resource {
                    port,
                    name: resource.name.clone(),
                    mask: 1 << place | members,
                    units: match groups {
                        true => members,
                        false => (1u64 << resource.units.min(63)) - 1,
                    },
                    buffer: i32::from(resource.buffer),
                });
            }
        }
        Ok(machine)
    }

    fn place(&self, resource: u16) -> Option<u8> {
        *self.places.get(usize::from(resource))?
    }

    /// What a class takes: each group is relieved of what its members are taken for.
    fn cost(&self, cpu: &Cpu, class: &Class) -> Cost {
        let mut work: Vec<Work> = Vec::new();
        let mut wholes: FxHashMap<u64, u32> = FxHashMap::default();
        let (mut buffers, mut in_order, mut hazard) = (0u64, true, false);
        for &(number, cycles, _) in &class.resources {
            let Some(place) = self.place(number).filter(|_| cycles > 0) else {
                continue;
            };
            let resource = &self.resources[usize::from(place)];
            match resource.buffer {
                ..0 => in_order = false,
                size => {
                    buffers |= 1 << place;
                    hazard |= size == 0;
                    in_order &= size <= 1;
                }
            }
            work.push(Work {
                place,
                mask: resource.mask,
                cycles: u32::from(cycles),
                units: 1,
            });
            let whole = cpu.resources.get(usize::from(number));
            let whole = whole.map(|r| r.part_of).filter(|whole| *whole != 0);
            if let Some(whole) = whole.and_then(|whole| self.place(whole)) {
                let mask = self.resources[usize::from(whole)].mask;
                *wholes.entry(mask).or_default() += u32::from(cycles);
            }
        }
        work.sort_by_key(|w| (w.mask.count_ones(), w.mask));
        let mut cost = Cost {
            uops: u32::from(class.uops),
            begins_group: class.group.0,
            ends_group: class.group.1,
            out_of_order: class.out_of_order,
            latency: latency(class),
            immediate: in_order && hazard,
            ..Cost::default()
        };
        let mut of_groups = 0u64;
        for n in 0..work.len() {
            let taken = work[n];
            let group = taken.mask.count_ones() > 1;
            let own = 1u64 << taken.place;
            if taken.cycles == 0 {
                cost.groups |= own;
                continue;
            }
            let members = if group { taken.mask ^ own } else { taken.mask };
            if group {
                cost.overlapping |= of_groups & members != 0;
                of_groups |= members;
                cost.groups |= own;
            }
            cost.taken.push(Taken {
                resource: taken.place,
                cycles: taken.cycles,
                units: taken.units,
                reserved: false,
            });
            for other in &mut work[n + 1..] {
                if members & other.mask != members {
                    continue;
                }
                // What is part of others is booked by them and not by groups.
                let part = *wholes.entry(taken.mask).or_default();
                other.cycles = other.cycles.wrapping_sub(taken.cycles.wrapping_sub(part));
                if other.mask.count_ones() > 1 {
                    other.units += 1;
                }
            }
        }
        for taken in &mut cost.taken {
            let resource = &self.resources[usize::from(taken.resource)];
            let most = resource.units.count_ones();
            if resource.is_group() && taken.units > most {
                taken.reserved = true;
                taken.units = most;
            }
        }
        for whole in wholes.keys() {
            for (place, resource) in self.resources.iter().enumerate() {
                let contains = resource.mask != *whole && resource.mask & whole == *whole;
                if resource.buffer != -1 && contains {
                    buffers |= 1 << place;
                }
            }
        }
        cost.buffers = buffers;
        cost
    }
}

/// A resource on the way to [`Taken`].
#[derive(Clone, Copy, Debug)]
struct Work {
    place: u8,
    mask: u64,
    cycles: u32,
    units: u32,
}

/// Whether a CPU's class of an instruction depends on its operands.
fn is_variant(cpu: &Cpu, opcode: &Opcode) -> bool {
    let class = |form: u16| cpu.class_of.get(usize::from(form));
    let mut classes = opcode.forms.iter().map(|rule| class(rule.form));
    let first = classes.next();
    first.is_some_and(|first| classes.any(|other| other != first))
}

/// Whether llvm-mca takes an instruction for a call: of RISC-V, whose jumps LLVM does not mark, what
/// keeps a return address anywhere.
fn calls(instruction: &Instruction) -> bool {
    let word = instruction.word;
    let links = instruction.arch != Arch::AArch64
        && matches!(word & 0x7f, 0x67 | 0x6f)
        && word >> 7 & 31 != 0;
    links || instruction.opcode().flags & flag::CALL != 0
}

/// Cycles until all results of a class are there.
fn latency(class: &Class) -> u32 {
    let mut most = 0;
    for (cycles, _) in &class.latencies {
        match u32::try_from(*cycles) {
            Ok(cycles) => most = most.max(cycles),
            Err(_) => return CALL,
        }
    }
    most
}

impl Code {
    /// Appends an instruction; whether the CPU's model has it. What it has not is appended as
    /// something of one µop.
    pub fn push(
        &mut self,
        machine: &Machine,
        cpu: &CpuTable,
        instruction: &Instruction,
        class: Option<&'static Class>,
        notion: Notion,
    ) -> bool {
        let opcode = instruction.opcode();
        let call = notion == Notion::LlvmMca && calls(instruction);
        let none = Class {
            uops: 1,
            latencies: vec![(1, 0)],
            ..Class::default()
        };
        let known = class.is_some();
        let class = class.unwrap_or(&none);
        let cost = self.cost_of(machine, cpu.cpu, class, known);
        let latency = if call {
            CALL
        } else {
            self.costs[cost as usize].latency
        };
        let (reads, writes) = (self.reads.len(), self.writes.len());
        let first = (notion == Notion::LlvmMca && !is_variant(cpu.cpu, opcode))
            .then(|| self.first(instruction));
        let sources = match notion {
            Notion::Program => Sources::Executed,
            Notion::LlvmMca => Sources::AsListed,
        };
        let mut written_back = Vec::new();
        for one in named(instruction, false, sources) {
            if one.address && writes_back(instruction) {
                written_back.push(one.reg);
            }
            let explicit = one.index < opcode.explicit_uses;
            if explicit
                && first
                    .as_ref()
                    .is_some_and(|(reads, _)| !reads.contains(&one.index))
            {
                continue;
            }
            let advances = self.advances.len();
            // The first that fits counts.
            let listed = class.advances.iter();
            let mine = listed.filter(|(index, ..)| *index == u16::from(one.index));
            self.advances
                .extend(mine.map(|(_, kind, cycles)| (*kind, i32::from(*cycles))));
            self.reads.push(Read {
                register: one.reg,
                operand: one.index,
                advances: (advances as u32, (self.advances.len() - advances) as u8),
            });
        }
        let load = opcode.flags & flag::LOAD != 0;
        let mut first_result = latency;
        for one in named(instruction, true, sources) {
            let unseen = first
                .as_ref()
                .is_some_and(|(_, writes)| !writes.contains(&one.index));
            let (cycles, kind) = match class.latencies.get(usize::from(one.index)) {
                _ if unseen => (0, 0),
                Some(&(cycles, kind)) => (u32::try_from(cycles).unwrap_or(latency), kind),
                None => (latency, 0),
            };
            first_result = first_result.min(cycles);
            self.writes.push(Write {
                register: one.reg,
                operand: one.index,
                latency: cycles,
                kind,
                loaded: load && !written_back.contains(&one.reg),
            });
        }
        self.instrs.push(Static {
            cost,
            reads: (reads as u32, (self.reads.len() - reads) as u8),
            writes: (writes as u32, (self.writes.len() - writes) as u8),
            latency,
            first_result,
            load,
            store: opcode.flags & flag::STORE != 0,
        });
        known
    }

    /// What the first instruction of this opcode in the block reads and writes: llvm-mca keeps that
    /// for all of them, so where one names the zero register the others lack the operand.
    fn first(&mut self, instruction: &Instruction) -> (Vec<u8>, Vec<u8>) {
        let operands = |writes| {
            let all = named(instruction, writes, Sources::AsListed);
            all.iter().map(|one| one.index).collect::<Vec<u8>>()
        };
        let first = self
            .firsts
            .entry(std::ptr::from_ref(instruction.opcode()) as usize);
        first
            .or_insert_with(|| (operands(false), operands(true)))
            .clone()
    }

    /// The cost of a class; classes of the table stay where they are, which tells them apart.
    fn cost_of(&mut self, machine: &Machine, cpu: &Cpu, class: &Class, known: bool) -> u32 {
        let key = if known {
            std::ptr::from_ref(class) as usize
        } else {
            0
        };
        if let Some(cost) = self.by_class.get(&key) {
            return *cost;
        }
        let number = self.costs.len() as u32;
        self.costs.push(machine.cost(cpu, class));
        self.by_class.insert(key, number);
        number
    }

    /// What an instruction costs.
    #[inline]
    #[must_use]
    pub fn cost(&self, instr: &Static) -> &Cost {
        // `push` put it there.
        &self.costs[instr.cost as usize]
    }

    /// What an instruction reads.
    #[inline]
    #[must_use]
    pub fn reads(&self, instr: &Static) -> &[Read] {
        let (start, len) = (instr.reads.0 as usize, usize::from(instr.reads.1));
        self.reads.get(start..start + len).unwrap_or(&[])
    }

    /// What an instruction writes.
    #[inline]
    #[must_use]
    pub fn writes(&self, instr: &Static) -> &[Write] {
        let (start, len) = (instr.writes.0 as usize, usize::from(instr.writes.1));
        self.writes.get(start..start + len).unwrap_or(&[])
    }

    /// Cycles by which a result of a kind is there sooner for a read; below 0: later.
    #[inline]
    #[must_use]
    pub fn advance(&self, read: &Read, kind: u16) -> i32 {
        let (start, len) = (read.advances.0 as usize, usize::from(read.advances.1));
        let mut listed = self.advances.get(start..start + len).unwrap_or(&[]).iter();
        let found = listed.find(|(of, _)| *of == 0 || *of == kind);
        found.map_or(0, |(_, cycles)| *cycles)
    }
}
