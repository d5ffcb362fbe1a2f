//! The operand list of a row on a code: XED's names bound to iced's operands.

use std::collections::HashMap;

use iced_x86::{Code, EncodingKind, OpCodeOperandKind as Kind};
use mcad_isa::machine::table::{Binding, Operand, OperandName};

use super::explicit::{self, Namer};
use super::implicit::{self, Implicit};
use super::mapping::Target;
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
    let mut operands = explicit::of_row(spec, target);
    let mut namer = Namer::default();
    namer.name(&mut operands);
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
