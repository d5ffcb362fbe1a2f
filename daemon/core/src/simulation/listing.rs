//! Cycles of single instructions and source lines.

use std::collections::BTreeMap;

use crate::lists::part;
use mcad_proto::word::{BlockId, GuestAddr};

use super::Symbolizer;
use super::core::Core;
use super::dictionary::TranslatedBlock;
use mcad_isa::machine::params::{PortLayout, PortSet};
use mcad_isa::program::{Instr, Program};
use mcad_report::{InstructionReport, LINES, LineReport};

/// What became of the instructions of a block. `port_uops` has their µops on each port, as far as
/// that is known.
pub(super) fn of(
    core: &Core,
    id: BlockId,
    block: &TranslatedBlock,
    port_uops: Vec<Vec<f64>>,
    symbols: &dyn Symbolizer,
) -> Vec<InstructionReport> {
    let cycles = core.cycles(id);
    let mut port_uops = port_uops.into_iter();
    let units: Option<Vec<_>> = core.units(id).map(Iterator::collect);
    let instructions = core.instructions(id).iter().enumerate();
    instructions
        .map(|(n, instr)| {
            let address = block.address_of(n);
            InstructionReport {
                address: format!("{address:#x}"),
                line: symbols.line(id, GuestAddr(address)),
                cycles: cycles.get(n).copied().unwrap_or(0),
                uops: instr.fused,
                ports: match &units {
                    Some(units) => {
                        let unit = units.get(n).copied().flatten();
                        unit.map_or_else(String::new, |unit| format!("1*{unit}"))
                    }
                    None => ports(core.program(), instr, &core.model.core.ports),
                },
                port_uops: port_uops.next().unwrap_or_default(),
            }
        })
        .collect()
}

/// `1*p06+1*p23`, in the order of the µops; empty where none is executed.
fn ports(program: &Program, instr: &Instr, layout: &PortLayout) -> String {
    let laminated = instr.laminated as usize;
    let laminated = laminated..laminated + usize::from(instr.laminated_len);
    let mut counts: Vec<(PortSet, u32)> = Vec::new();
    for group in part(&program.laminated, laminated) {
        let uops = group.uops as usize..group.uops as usize + usize::from(group.uops_len);
        for uop in part(&program.uops, uops) {
            match counts.iter_mut().find(|(set, _)| *set == uop.ports) {
                _ if uop.ports.is_empty() => {}
                Some((_, count)) => *count += 1,
                None => counts.push((uop.ports, 1)),
            }
        }
    }
    let terms = counts
        .into_iter()
        .map(|(set, count)| format!("{count}*p{}", layout.text(set)));
    terms.collect::<Vec<_>>().join("+")
}

/// The hottest source lines of these blocks; each comes with the name of its function.
pub(super) fn lines<'a>(
    core: &Core,
    blocks: impl Iterator<Item = (BlockId, &'a TranslatedBlock, &'a str)>,
    symbols: &dyn Symbolizer,
) -> Vec<LineReport> {
    let mut by_line: BTreeMap<String, BTreeMap<&str, u64>> = BTreeMap::new();
    for (id, block, function) in blocks {
        for (n, cycles) in core.cycles(id).iter().enumerate() {
            if *cycles == 0 {
                continue;
            }
            if let Some(line) = symbols.line(id, GuestAddr(block.address_of(n))) {
                *by_line
                    .entry(line)
                    .or_default()
                    .entry(function)
                    .or_default() += cycles;
            }
        }
    }
    let mut lines: Vec<LineReport> = by_line
        .into_iter()
        .map(|(line, functions)| LineReport {
            line,
            cycles: functions.values().sum(),
            function: functions
                .into_iter()
                .max_by_key(|(name, cycles)| (*cycles, std::cmp::Reverse(*name)))
                .map_or_else(String::new, |(name, _)| name.to_owned()),
        })
        .collect();
    lines.sort_by(|a, b| b.cycles.cmp(&a.cycles).then_with(|| a.line.cmp(&b.line)));
    lines.truncate(LINES);
    lines
}
