//! From the dump to the embedded file: registers get their numbers, costs are shared, forms are
//! numbered.

use std::collections::HashMap;

use anyhow::{Context, Result, bail};
use mcad_isa::llvm::regs::Bank;
use mcad_isa::llvm::wire::{self, flag};

use super::json::{Cpu, Dump, Opcode, Operand};

/// What could not be said of some instructions, for people.
#[derive(Debug, Default)]
pub struct Gaps {
    /// Operands whose register is in no field of the word: instruction, register.
    pub operands: Vec<(String, String)>,
    /// Registers that nothing tracks.
    pub untracked: Vec<String>,
}

/// Packs a dump of the instruction set called `arch`.
///
/// # Errors
/// When the dump is not what this program expects.
pub fn pack(dump: &Dump, arch: &str) -> Result<(wire::File, Gaps)> {
    let mut gaps = Gaps::default();
    let mut forms = Forms::default();
    let mut file = wire::File {
        version: wire::VERSION,
        llvm: dump.llvm.clone(),
        ..wire::File::default()
    };
    for opcode in &dump.opcodes {
        file.opcodes
            .push(one(opcode, arch, dump.cpus.len(), &mut forms, &mut gaps)?);
        file.rules.push(wire::Rule {
            mask: opcode.ones | opcode.zeros,
            value: opcode.ones,
            opcode: u16::try_from(file.opcodes.len() - 1)?,
        });
    }
    file.rules
        .sort_by_key(|rule| (32 - rule.mask.count_ones(), rule.mask, rule.value));
    file.forms = u16::try_from(forms.labels.len()).context("too many forms")?;
    for (place, cpu) in dump.cpus.iter().enumerate() {
        file.cpus.push(costs(cpu, place, &forms)?);
    }
    gaps.untracked.sort();
    gaps.untracked.dedup();
    Ok((file, gaps))
}

/// Forms: scheduling class of each CPU.
#[derive(Default)]
struct Forms {
    labels: Vec<Vec<u32>>,
    numbers: HashMap<Vec<u32>, u16>,
}

impl Forms {
    fn number(&mut self, label: &[u32], cpus: usize) -> Result<u16> {
        let label = match label {
            [one] => vec![*one; cpus],
            each => each.to_vec(),
        };
        if let Some(number) = self.numbers.get(&label) {
            return Ok(*number);
        }
        let number = u16::try_from(self.labels.len())?;
        self.labels.push(label.clone());
        self.numbers.insert(label, number);
        Ok(number)
    }
}

fn one(
    opcode: &Opcode,
    arch: &str,
    cpus: usize,
    forms: &mut Forms,
    gaps: &mut Gaps,
) -> Result<wire::Opcode> {
    let flags = [
        (opcode.load, flag::LOAD),
        (opcode.store, flag::STORE),
        (opcode.branch, flag::BRANCH),
        (opcode.call, flag::CALL),
        (opcode.returns, flag::RETURN),
        (opcode.conditional, flag::CONDITIONAL),
        (opcode.indirect, flag::INDIRECT),
        (opcode.unmodeled, flag::SIDE_EFFECTS),
    ];
    let mut implicit = |list: &[(String, u8)]| -> Vec<u8> {
        let number = |(bank, number): &(String, u8)| match Bank::of(arch, bank) {
            Some(bank) => bank.register(i16::from(*number)).map_or(NOTHING, |r| r.0),
            None => {
                gaps.untracked.push(bank.clone());
                NOTHING
            }
        };
        list.iter().map(number).collect()
    };
    let (uses, defs) = (implicit(&opcode.uses), implicit(&opcode.defs));
    let mut operands = Vec::new();
    for operand in &opcode.operands {
        match packed(operand, arch, opcode.explicit_defs) {
            Ok(packed) => operands.push(packed),
            Err(register) => gaps.operands.push((opcode.name.clone(), register)),
        }
    }
    let rules = opcode.classes.iter().map(|(mask, value, label, same)| {
        let form = forms.number(label, cpus)?;
        Ok(wire::FormRule {
            mask: *mask,
            value: *value,
            same_sources: *same,
            form,
        })
    });
    let rules: Result<Vec<_>> = rules.collect();
    let vector = opcode
        .vector
        .iter()
        .map(|class| forms.number(&[*class], cpus));
    let vector: Result<Vec<_>> = vector.collect();
    let rules = rules?;
    Ok(wire::Opcode {
        name: opcode.name.clone(),
        size: opcode.size,
        flags: flags
            .iter()
            .map(|(set, bit)| if *set != 0 { *bit } else { 0 })
            .sum(),
        operands,
        uses,
        defs,
        explicit_uses: opcode.explicit_uses,
        explicit_defs: opcode.explicit_defs,
        forms: rules,
        vector_forms: vector?,
    })
}

/// A register that nothing tracks keeps its place among the uses or definitions.
const NOTHING: u8 = u8::MAX;

/// The operand, or a register of it whose field was not found or that nothing tracks.
fn packed(operand: &Operand, arch: &str, defs: u8) -> Result<wire::Operand, String> {
    if let Some(register) = &operand.unknown {
        return Err(register.clone());
    }
    let bank = Bank::of(arch, &operand.bank).ok_or_else(|| operand.bank.clone())?;
    let zero = match (operand.at31.as_str(), bank.zero) {
        ("zero", Some(number)) => bank.register(number).map(|r| r.0),
        _ => None,
    };
    Ok(wire::Operand {
        def: operand.def,
        index: if operand.def {
            operand.index
        } else {
            operand.index - defs
        },
        pos: operand.pos,
        len: operand.len,
        base: i16::from(bank.first) + operand.fixed.unwrap_or(operand.add),
        stride: operand.stride.max(1),
        count: operand.count.max(1),
        bank: (bank.first, bank.count),
        zero,
        unless: u8::try_from(operand.unless).ok(),
    })
}

fn costs(cpu: &Cpu, place: usize, forms: &Forms) -> Result<wire::Cpu> {
    if cpu.has_model == 0 {
        bail!("LLVM has no scheduling model of {}", cpu.name);
    }
    let mut classes: Vec<wire::Class> = Vec::new();
    let mut numbers: HashMap<wire::Class, u16> = HashMap::new();
    let mut class_of = Vec::new();
    for label in &forms.labels {
        let class = label.get(place).and_then(|id| cpu.classes.get(id));
        let Some(class) = class else {
            class_of.push(0);
            continue;
        };
        let class = wire::Class {
            uops: class.uops,
            group: (class.begin != 0, class.end != 0),
            out_of_order: class.ooo != 0,
            resources: class.resources.clone(),
            latencies: class.latencies.clone(),
            advances: class.advances.clone(),
        };
        let next = u16::try_from(classes.len() + 1)?;
        let number = *numbers.entry(class.clone()).or_insert_with(|| {
            classes.push(class);
            next
        });
        class_of.push(number);
    }
    let resources = cpu.resources.iter().map(|r| wire::Resource {
        name: r.name.clone(),
        units: r.units,
        part_of: r.part_of,
        buffer: r.buffer,
        members: r.subs.clone(),
    });
    Ok(wire::Cpu {
        name: cpu.name.clone(),
        issue_width: cpu.issue_width,
        buffer: cpu.buffer,
        mispredict: cpu.mispredict,
        retire: cpu.reorder_buffer.zip(cpu.retire),
        resources: resources.collect(),
        classes,
        class_of,
    })
}
