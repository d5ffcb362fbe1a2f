//! The figures of one instruction: which of its form's apply, and what rename makes of them.
//!
//! The tables have what was measured, with moves eliminated and additions done at rename most of the
//! time; what is wanted here is what an instruction costs when rename does not do it.

use iced_x86::{Instruction, InstructionInfoFactory};

use super::build::Decoded;
use super::encoding::{Encoding, encoding};
use super::facts::{Fact, Facts};
use super::generic::generic;
use super::operands::{Operands, Value, operands, variant};
use crate::machine::CpuModel;
use crate::machine::params::{Core, PortSet};
use crate::machine::table::{Form, Perf};
use crate::regs::RegId;

/// An instruction with its figures, before it is fused with its neighbours.
pub(super) struct Prepared {
    /// `None` when the table lacks it.
    pub(super) form: Option<&'static Form>,
    pub(super) perf: Perf,
    pub(super) operands: Operands,
    pub(super) encoding: Encoding,
    pub(super) facts: Facts,
    /// A move that rename may do.
    pub(super) eliminable: bool,
    /// Registers that it writes, and those of its addresses, but for the stack engine's; one bit each.
    pub(super) written: u128,
    pub(super) addressed: u128,
}

/// Finds the figures of an instruction in a block that has 512-bit operations if `zmm`.
pub(super) fn prepare(
    model: &CpuModel,
    factory: &mut InstructionInfoFactory,
    decoded: &Decoded,
    zmm: bool,
) -> Prepared {
    let instruction = &decoded.instruction;
    let encoding = encoding(instruction, &decoded.bytes);
    let facts = Facts::of(instruction, &encoding);
    let core = &model.core;
    let Some(form) = model.forms().and_then(|table| table.find(instruction)) else {
        // One µop of one cycle on the integer ALUs, with its loads and stores. It is counted and
        // reported.
        let form = generic(instruction, factory, core);
        let operands = operands(instruction, &form, &form.perf, false, false);
        return Prepared {
            form: None,
            perf: form.perf,
            written: registers(&operands.out_regs),
            addressed: registers(&operands.addresses),
            operands,
            encoding,
            facts,
            eliminable: false,
        };
    };
    let (same, indexed) = variant(instruction, form);
    let mut perf = match (&form.same_reg, &form.indexed) {
        (_, Some(perf)) if indexed => perf.clone(),
        (Some(perf), _) if same => perf.clone(),
        _ => form.perf.clone(),
    };
    let is_move = facts.is(Fact::MOVE);
    execute_additions(core, &facts, &mut perf);
    if is_move {
        eliminate_again(core, same, &mut perf);
    }
    if core.rename.late_flags && perf.uops > 0 && facts.is(Fact::LOGIC) {
        // Two cycles to the flags were measured with a conditional set in the same cycle.
        for latency in &mut perf.latencies {
            latency.cycles = 1;
        }
    }
    let (mut operands, eliminable) = if is_move && perf.uops == 0 {
        execute_move(core, instruction, form, &facts, &mut perf)
    } else {
        let renaming = core.execute.memory_renaming;
        (operands(instruction, form, &perf, false, renaming), false)
    };
    if zmm && operands.vector {
        perf.ports = beside_512(core.ports.taken_by_512, &perf.ports);
    }
    stay_together(core, instruction, &encoding, &mut operands, &mut perf);
    Prepared {
        form: Some(form),
        perf,
        written: registers(&operands.out_regs),
        addressed: registers(&operands.addresses),
        operands,
        encoding,
        facts,
        eliminable,
    }
}

/// Keeps what an instruction computes beside its address, where it has more inputs than the µops of a
/// scheduler apart would: [`PortLayout::beside_addresses`](crate::machine::params::PortLayout).
fn stay_together(
    core: &Core,
    instruction: &Instruction,
    encoding: &Encoding,
    operands: &mut Operands,
    perf: &mut Perf,
) {
    let (alu, beside) = (core.ports.alu, core.ports.beside_addresses);
    let stores = !operands.out_mems.is_empty();
    let accesses = stores || !operands.in_mems.is_empty();
    if beside.is_empty() || operands.vector || !accesses {
        return;
    }
    let registers = operands.indexed && operands.in_regs.iter().any(|v| v.id.is_some());
    let immediate = encoding.immediate.is_some();
    let constants = instruction.memory_displ_size() > 0 && immediate;
    let computing = |(set, n): &&mut (PortSet, u16)| alu.contains(*set) && *n > 0;
    if let Some((set, _)) = perf.ports.iter_mut().find(computing) {
        let both = PortSet(set.0 & beside.0);
        if (registers || constants) && !both.is_empty() {
            *set = both;
        }
    } else if stores && (registers || immediate && (operands.indexed || !is_narrow(instruction))) {
        perf.ports.insert(0, (alu, 1));
        perf.uops += 1;
        operands.beside_data = true;
    }
}

/// Whether the operand in memory that an instruction names has less than 32 bits.
fn is_narrow(instruction: &Instruction) -> bool {
    matches!(instruction.memory_size().size(), 1 | 2)
}

/// The registers among values, but for the stack pointer where the stack engine follows it.
fn registers(values: &[Value]) -> u128 {
    let ids = values.iter().filter(|v| !v.implicit_stack);
    ids.filter_map(|v| v.id)
        .fold(0, |all, id| all | 1 << (id.0 & 127))
}

/// Gives an addition of an immediate what it costs when rename does not add.
fn execute_additions(core: &Core, facts: &Facts, perf: &mut Perf) {
    let summed = core.rename.add_immediate_range > 0 || perf.uops == 0;
    if !summed || facts.step.is_none() {
        return;
    }
    perf.uops = perf.uops.max(1);
    if perf.ports.is_empty() {
        perf.ports = vec![(core.ports.alu, 1)];
    }
    for latency in &mut perf.latencies {
        latency.cycles = latency.cycles.max(1);
    }
}

/// Makes a move one without µops that was measured with some, since it was not eliminated at times;
/// one from a register to itself never is.
fn eliminate_again(core: &Core, same: bool, perf: &mut Perf) {
    let no_delay = perf.latencies.iter().all(|l| l.cycles == 0);
    if no_delay && perf.uops == 1 && perf.ports == [(core.ports.alu, 1)] && !same {
        perf.uops = 0;
    } else if no_delay && same {
        for latency in &mut perf.latencies {
            latency.cycles = 1;
        }
    }
}

/// Gives a move without µops what it costs when rename does not eliminate it; returns its operands
/// and whether rename may.
fn execute_move(
    core: &Core,
    instruction: &Instruction,
    form: &Form,
    facts: &Facts,
    perf: &mut Perf,
) -> (Operands, bool) {
    let renaming = core.execute.memory_renaming;
    let kept = operands(instruction, form, perf, true, renaming);
    let single = kept.in_regs.len() == 1 && kept.out_regs.len() == 1;
    let high8_alias = !core.rename.movzx_high8_alias_eliminated && facts.is(Fact::HIGH8_ALIAS);
    let of_rsp = !core.rename.move_elimination_of_rsp
        && kept.in_regs.iter().any(|v| v.id == Some(RegId::RSP));
    let executed = high8_alias || of_rsp;
    let eliminable = single && !executed;
    if eliminable || executed {
        if let Some(executed) = &form.same_reg {
            perf.uops = executed.uops;
            perf.ports = executed.ports.clone();
            perf.latencies = executed.latencies.clone();
        }
        if of_rsp {
            perf.uops = 1;
            perf.latencies.iter_mut().for_each(|l| l.cycles = 1);
        }
        if perf.uops > 0 && perf.ports.is_empty() {
            perf.ports = vec![(core.ports.alu, 1)];
        }
    }
    let operands = operands(instruction, form, perf, eliminable, renaming);
    (operands, eliminable)
}

/// The ports that vector µops have beside 512-bit operations.
fn beside_512(taken: PortSet, all: &[(PortSet, u16)]) -> Vec<(PortSet, u16)> {
    let mut ports: Vec<(PortSet, u16)> = Vec::new();
    for &(set, n) in all {
        let set = if taken.contains(set) {
            set
        } else {
            set.without(taken)
        };
        match ports.iter_mut().find(|p| p.0 == set) {
            Some(p) => p.1 += n,
            None => ports.push((set, n)),
        }
    }
    ports
}
