//! The operand list of a row on a code: XED's names bound to iced's operands.

use std::collections::HashMap;

use iced_x86::{
    Code, EncodingKind, InstructionInfoFactory, OpAccess, OpCodeOperandKind as Kind, RflagsBits,
};
use mcad_core::machine::table::{Binding, FlagGroups, Operand, OperandName, Selector, Traits};

use super::example;
use super::implicit::{self, Implicit};
use super::mapping::{Fit, Target};
use super::source::{ListedOperand, Row};
use super::spec::{self, Spec};

/// Operand lists of the rows of 2025, by generation-neutral string.
#[derive(Default)]
pub struct Lists(HashMap<String, Vec<ListedOperand>>);

impl Lists {
    /// Takes up the lists of these rows; earlier ones win.
    pub fn add(&mut self, rows: &[Row]) {
        for row in rows {
            if let Some(list) = row.listed_operands() {
                let key = spec::generation_neutral(&row.string);
                self.0.entry(key).or_insert(list);
            }
        }
    }

    fn get(&self, row: &Row) -> Option<&[ListedOperand]> {
        // EVEX forms share strings with VEX forms but not their operands.
        if row.iform.contains("AVX512") {
            return None;
        }
        let key = spec::generation_neutral(&row.string);
        self.0.get(&key).map(Vec::as_slice)
    }
}

/// The operands, and what did not agree with the published list.
pub struct Bound {
    pub operands: Vec<Operand>,
    pub disagreements: Vec<String>,
}

/// Names XED's operands in order.
#[derive(Default)]
struct Namer {
    registers: u8,
    memories: u8,
}

impl Namer {
    fn register(&mut self) -> OperandName {
        self.registers += 1;
        OperandName::Reg(self.registers - 1)
    }
    fn memory(&mut self) -> (OperandName, u8) {
        self.memories += 1;
        (OperandName::Mem(self.memories - 1), self.memories - 1)
    }
}

/// XED's spelling of a name.
pub fn spelled(name: OperandName) -> String {
    match name {
        OperandName::Reg(n) => format!("REG{n}"),
        OperandName::Mem(n) => format!("MEM{n}"),
        OperandName::Agen => "AGEN".to_owned(),
    }
}

/// Binds the operands of a row on one of its codes.
pub fn bind(row: &Row, spec: &Spec, target: &Target, lists: &Lists) -> Bound {
    let mut operands = explicit(spec, target);
    let mut namer = Namer::default();
    for operand in &mut operands {
        operand.name = match operand.name {
            OperandName::Reg(_) => namer.register(),
            OperandName::Mem(_) => namer.memory().0,
            OperandName::Agen => OperandName::Agen,
        };
    }
    let mut disagreements = Vec::new();
    if !agrees_with_iform(&row.iform, &operands) {
        disagreements.push("order of the iform's operands".to_owned());
    }
    let mut untracked = Vec::new();
    let repeated = row.attrs.contains_key("rep");
    for implicit in implicit::operands(spec, target.code, repeated) {
        let (name, binding, access) = match implicit {
            Implicit::Register(register, access) => {
                (namer.register(), Some(Binding::Implicit(register)), access)
            }
            Implicit::InstructionPointer(access) => (
                namer.register(),
                Some(Binding::Implicit(iced_x86::Register::RIP)),
                access,
            ),
            Implicit::Stack => (
                namer.register(),
                Some(Binding::StackEngine),
                implicit::Access::RW,
            ),
            Implicit::Memory(access) => {
                let (name, n) = namer.memory();
                let n = if spec.string_instruction { n } else { 0 };
                (name, Some(Binding::ImplicitMemory(n)), access)
            }
            Implicit::Untracked(access) => {
                let name = namer.register();
                untracked.push(name);
                (name, None, access)
            }
        };
        if let Some(binding) = binding {
            operands.push(Operand {
                name,
                binding,
                read: access.read(),
                written: access.written(),
            });
        }
    }
    let (flags_read, flags_written) = row.flags();
    let flags_name = namer.register();
    if let Some(list) = lists.get(row) {
        let expected = list
            .iter()
            .filter(|o| o.kind == "reg" || o.kind == "mem")
            .count();
        let made = usize::from(namer.registers - 1 + namer.memories);
        if expected != made {
            disagreements.push(format!("{made} operands instead of {expected}"));
        }
        for operand in &mut operands {
            let name = spelled(operand.name);
            if let Some(listed) = list.iter().find(|o| o.name == name) {
                let is_implicit = matches!(
                    operand.binding,
                    Binding::Implicit(_) | Binding::StackEngine | Binding::ImplicitMemory(_)
                );
                if is_implicit && (operand.read, operand.written) != (listed.read, listed.written) {
                    disagreements.push(format!("access of {name}"));
                }
                operand.read = listed.read;
                operand.written = listed.written;
            }
        }
    }
    if !flags_read.is_empty() || !flags_written.is_empty() {
        operands.push(Operand {
            name: flags_name,
            binding: Binding::Flags,
            read: !flags_read.is_empty(),
            written: !flags_written.is_empty(),
        });
    }
    for register in implicit::moved_pointers(spec) {
        operands.push(Operand {
            name: namer.register(),
            binding: Binding::Implicit(*register),
            read: true,
            written: true,
        });
    }
    note_latencies(row, &mut operands, &untracked, &mut disagreements);
    Bound {
        operands,
        disagreements,
    }
}

/// Whether the iform (`ADD_MEMv_GPRv`) has registers and memory in the same order.
fn agrees_with_iform(iform: &str, operands: &[Operand]) -> bool {
    const REGISTERS: [&str; 15] = [
        "GPR", "VGPR", "XMM", "YMM", "ZMM", "MMX", "MASK", "BND", "SEG", "CR", "DR", "AL", "CL",
        "DX", "O",
    ];
    // Names that look like operands, and iforms that leave operands out.
    const EXEMPT: [&str; 6] = ["REP_OUTS", "PUSH_", "NOP_", "MOV_CR", "MOV_DR", "PREFETCHW"];
    if EXEMPT.iter().any(|name| iform.starts_with(name)) {
        return true;
    }
    let parts = iform.split('_').skip(1).filter_map(|part| {
        let memory = part.starts_with("MEM");
        let register = REGISTERS.iter().any(|r| part.starts_with(r))
            && part != "XMM"
            && part != "OF"
            && !part.starts_with("ONE");
        let address = part == "AGEN";
        (memory || register || address).then_some(if memory {
            'M'
        } else if address {
            'A'
        } else {
            'R'
        })
    });
    let ours = operands.iter().map(|o| match o.name {
        OperandName::Reg(_) => 'R',
        OperandName::Mem(_) => 'M',
        OperandName::Agen => 'A',
    });
    parts.eq(ours)
}

/// What occurs as the source of a latency is an input, whatever XED says (uiCA's rule).
fn note_latencies(
    row: &Row,
    operands: &mut [Operand],
    untracked: &[OperandName],
    disagreements: &mut Vec<String>,
) {
    let variants = [
        Some(&row.figures),
        row.indexed.as_ref(),
        row.same_reg.as_ref(),
    ];
    let mut unknown = std::collections::BTreeSet::new();
    for (from, to, _, _) in variants
        .into_iter()
        .flatten()
        .flat_map(|f| f.lat.iter().flatten())
    {
        for name in [from, to] {
            let mut known = operands
                .iter()
                .map(|o| o.name)
                .chain(untracked.iter().copied());
            if !known.any(|n| spelled(n) == *name) {
                unknown.insert(name.clone());
            }
        }
        for operand in operands.iter_mut() {
            let is_register = matches!(operand.name, OperandName::Reg(_));
            if is_register && operand.binding != Binding::Flags && spelled(operand.name) == *from {
                operand.read = true;
            }
        }
    }
    for name in unknown {
        disagreements.push(format!("latency of unknown operand {name}"));
    }
}

/// The explicit operands of a code that no row describes, named in order.
pub fn explicit_of_code(code: Code) -> Vec<Operand> {
    let spec = Spec::default();
    let mut selector = Selector::default();
    selector.require(
        Traits::MEMORY,
        code.op_code().op_kinds().contains(&Kind::mem),
    );
    let target = Target {
        code,
        selector,
        fit: Fit::OtherEncoding,
    };
    let mut operands = explicit(&spec, &target);
    let mut namer = Namer::default();
    for operand in &mut operands {
        operand.name = match operand.name {
            OperandName::Reg(_) => namer.register(),
            OperandName::Mem(_) => namer.memory().0,
            OperandName::Agen => OperandName::Agen,
        };
    }
    operands
}

/// The operand of the flags as iced knows them, behind the operands of a list.
pub fn flags_operand(code: Code, list: &[Operand]) -> Option<Operand> {
    let (read, written) = flags(code);
    let none = FlagGroups::default();
    (read != none || written != none).then(|| Operand {
        name: OperandName::Reg(registers(list)),
        binding: Binding::Flags,
        read: read != none,
        written: written != none,
    })
}

/// How many register names a list uses.
fn registers(list: &[Operand]) -> u8 {
    let names = list
        .iter()
        .filter(|o| matches!(o.name, OperandName::Reg(_)));
    u8::try_from(names.count()).unwrap_or(u8::MAX)
}

/// The flags that a code reads and writes, from iced.
pub fn flags(code: Code) -> (FlagGroups, FlagGroups) {
    let example = example::build(code, Selector::default());
    let groups = |bits: u32| FlagGroups {
        c: bits & RflagsBits::CF != 0,
        spazo: bits
            & (RflagsBits::SF | RflagsBits::PF | RflagsBits::AF | RflagsBits::ZF | RflagsBits::OF)
            != 0,
    };
    (
        groups(example.rflags_read()),
        groups(example.rflags_written() | example.rflags_cleared() | example.rflags_set()),
    )
}

/// The explicit operands, still with placeholder numbers in their names.
fn explicit(spec: &Spec, target: &Target) -> Vec<Operand> {
    let info = target.code.op_code();
    let example = example::build(target.code, target.selector);
    let mut factory = InstructionInfoFactory::new();
    let used = factory.info(&example);
    let access = |i: u32| match used.op_access(i) {
        OpAccess::Read | OpAccess::CondRead => (true, false),
        OpAccess::Write => (false, true),
        OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite => (true, true),
        OpAccess::None | OpAccess::NoMemAccess => (false, false),
    };
    let mut operands = Vec::new();
    if spec.string_instruction {
        return operands;
    }
    let in_memory = target.selector.value & Traits::MEMORY != 0;
    for (i, kind) in (0_u32..).zip(info.op_kinds()) {
        let name = match kind {
            Kind::seg_rBX_al | Kind::seg_rSI | Kind::seg_rDI | Kind::es_rDI => continue,
            Kind::mem | Kind::mem_mpx | Kind::mem_mib | Kind::r64_or_mem_mpx
                if spec.operands.last().is_some_and(|o| o == "AGEN") =>
            {
                OperandName::Agen
            }
            Kind::mem
            | Kind::mem_mpx
            | Kind::mem_mib
            | Kind::mem_offs
            | Kind::sibmem
            | Kind::mem_vsib32x
            | Kind::mem_vsib64x
            | Kind::mem_vsib32y
            | Kind::mem_vsib64y
            | Kind::mem_vsib32z
            | Kind::mem_vsib64z => OperandName::Mem(0),
            Kind::r8_or_mem
            | Kind::r16_or_mem
            | Kind::r32_or_mem
            | Kind::r32_or_mem_mpx
            | Kind::r64_or_mem
            | Kind::r64_or_mem_mpx
            | Kind::mm_or_mem
            | Kind::xmm_or_mem
            | Kind::ymm_or_mem
            | Kind::zmm_or_mem
            | Kind::bnd_or_mem_mpx
            | Kind::k_or_mem
                if in_memory =>
            {
                OperandName::Mem(0)
            }
            Kind::imm4_m2z
            | Kind::imm8
            | Kind::imm8_const_1
            | Kind::imm8sex16
            | Kind::imm8sex32
            | Kind::imm8sex64
            | Kind::imm16
            | Kind::imm32
            | Kind::imm32sex64
            | Kind::imm64
            | Kind::br16_1
            | Kind::br32_1
            | Kind::br64_1
            | Kind::br16_2
            | Kind::br32_4
            | Kind::br64_4
            | Kind::xbegin_2
            | Kind::xbegin_4 => continue,
            _ => OperandName::Reg(0),
        };
        let (mut read, written) = access(i);
        read |= name == OperandName::Agen;
        operands.push(Operand {
            name,
            binding: Binding::Explicit(u8::try_from(i).unwrap_or(u8::MAX)),
            read,
            written,
        });
        if i == 0 && info.encoding() == EncodingKind::EVEX && info.can_use_op_mask_register() {
            operands.push(Operand {
                name: OperandName::Reg(0),
                binding: Binding::OpMask,
                read: target.selector.value & Traits::MASKED != 0,
                written: info.is_op_mask_read_write(),
            });
        }
    }
    operands
}

/// Whether a code can only be reached through an EVEX prefix or works on opmasks.
pub fn needs_avx512(code: Code) -> bool {
    let info = code.op_code();
    info.encoding() == EncodingKind::EVEX
        || info.op_kinds().iter().any(|k| {
            matches!(
                k,
                Kind::k_or_mem | Kind::k_reg | Kind::kp1_reg | Kind::k_rm | Kind::k_vvvv
            )
        })
}
