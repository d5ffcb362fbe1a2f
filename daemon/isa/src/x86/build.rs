//! Builds the static instructions of a block: bytes to [`Instr`]s in a [`Program`].
//!
//! What depends on the block's addresses and neighbours, not on its execution, is decided here:
//! fusion, the JCC erratum and length-changing prefixes.

use std::collections::HashSet;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory};

use super::facts::{Fact, Facts};
use super::figures::{Prepared, prepare};
use super::fusion::fuse;
use super::inorder::Translator;
use super::operands::{Operands, Value, abcd_mask};
use super::uops::{group, split};
use crate::machine::CpuModel;
use crate::machine::params::Core;
use crate::machine::table::{Form, LatencyKind, OperandName, Perf};
use crate::program::{BranchKind, Instr, NO_REG, PointerLoad, Program, flag};
use crate::regs::{RegId, size_bits};
use crate::uop::LaminatedSpec;

/// Makes static instructions for one CPU.
pub struct Builder<'m> {
    model: &'m CpuModel,
    factory: InstructionInfoFactory,
}

/// What [`Builder::append`] found out about an instruction beyond what the pipeline needs.
#[derive(Debug)]
pub struct Described {
    /// uops.info's name of the form; `None` when the table lacks it.
    pub form: Option<&'static Form>,
    /// The figures used.
    pub perf: Perf,
    /// Inputs, outputs and addresses.
    pub operands: Operands,
    /// What it is.
    pub facts: Facts,
    /// The immediate, sign-extended.
    pub immediate: Option<i64>,
    /// Second half of a macro-fused pair.
    pub fused_previous: bool,
}

/// A decoded instruction with its bytes.
#[derive(Clone, Debug)]
pub struct Decoded {
    /// The instruction.
    pub instruction: Instruction,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// Decodes `bytes` as 64-bit code at `address`. Stops at the first bytes that are no instruction
/// and returns their offset with what came before.
#[must_use]
pub fn decode(bytes: &[u8], address: u64) -> (Vec<Decoded>, Option<usize>) {
    let mut decoder = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE);
    let mut decoded = Vec::new();
    while decoder.can_decode() {
        let at = decoder.position();
        let instruction = decoder.decode();
        if instruction.is_invalid() {
            return (decoded, Some(at));
        }
        let bytes = bytes.get(at..decoder.position()).unwrap_or(&[]).to_vec();
        decoded.push(Decoded { instruction, bytes });
    }
    (decoded, None)
}

impl<'m> Builder<'m> {
    /// A builder for `model`.
    #[must_use]
    pub fn new(model: &'m CpuModel) -> Self {
        Self {
            model,
            factory: InstructionInfoFactory::new(),
        }
    }

    /// Appends the instructions of one block to `program` and describes them.
    pub fn append(&mut self, program: &mut Program, block: &[Decoded]) -> Vec<Described> {
        let core = &self.model.core;
        if let Some(core) = &core.in_order
            && let Ok(mut translator) = Translator::new(core)
        {
            for decoded in block {
                translator.append(&mut program.in_order, &decoded.instruction);
            }
        }
        let zmm = block.iter().any(|d| uses_zmm(&d.instruction));
        let prepared = block.iter();
        let mut prepared: Vec<Prepared> = prepared
            .map(|decoded| prepare(self.model, &mut self.factory, decoded, zmm))
            .collect();
        if core.execute.memory_renaming_learnt > 0 {
            find_kept_addresses(&mut prepared);
        }
        let fused = fuse(&core.frontend, block, &mut prepared);
        let all = block.iter().zip(prepared).zip(&fused);
        all.map(|((decoded, prepared), fused)| finish(core, program, decoded, prepared, *fused))
            .collect()
    }
}

/// Appends one instruction, with the flags that fusion gave it.
fn finish(
    core: &Core,
    program: &mut Program,
    decoded: &Decoded,
    prepared: Prepared,
    fused: u32,
) -> Described {
    // The µops of a fused move are those of the operation behind it.
    let (perf, o, immediate) = match &prepared.stands_for {
        Some((perf, operands, immediate)) => (perf, operands, *immediate),
        None => (
            &prepared.perf,
            &prepared.operands,
            prepared.encoding.immediate,
        ),
    };
    let instruction = &decoded.instruction;
    let (facts, encoding) = (&prepared.facts, &prepared.encoding);
    let rsp_change = if uses_stack_engine(prepared.form) {
        instruction.stack_pointer_increment().clamp(-64, 64) as i8
    } else {
        0
    };
    let high8_writes = abcd_mask(&o.out_regs, true);
    let (complex, simple_decoders) = decoding(core, facts, perf);
    let microcoded = perf.uops_ms > 0;
    let step = facts.step.filter(|_| fused & flag::FUSED_NEXT == 0);
    let flags = fused
        | flags_of_facts(core, &prepared, fused)
        | flags_of_operands(core, instruction, &prepared, perf, o)
        | when(complex, flag::COMPLEX)
        | when(
            step.is_some() && core.rename.add_immediate_range > 0,
            flag::ADD_IMMEDIATE,
        )
        | when(
            !microcoded && rsp_change == 0 && high8_writes == 0,
            flag::LOOP_STREAM,
        );
    let mut wide = o.in_regs.clone();
    wide.extend_from_slice(&o.addresses);
    let wide_reads = abcd_mask(&wide, false);
    let zeroed = program.zeroed.len() as u32;
    if perf.uops == 0 && !prepared.eliminable {
        program
            .zeroed
            .extend(o.out_regs.iter().chain(&o.out_flags).filter_map(|v| v.id));
    }
    let laminated = laminated(core, perf, o, flags);
    let delivered = if core.rename.micro_fusion {
        perf.uops_mite
    } else {
        (laminated.len() as u16).saturating_sub(perf.uops_ms)
    };
    let constants = constants(instruction, immediate);
    let jumps = facts.is(Fact::BRANCH) || fused & flag::FUSED_NEXT != 0;
    let instr = Instr {
        address_kept: prepared.address_kept,
        flags,
        uops: 0,
        laminated: 0,
        laminated_len: 0,
        laminated_mite: 0,
        simple_decoders,
        uops_mite: delivered.min(255) as u8,
        microcoded,
        len: instruction.len() as u8,
        nominal_opcode: encoding.nominal_opcode,
        rsp_change,
        wide_reads,
        wide_uses: wide_reads | abcd_mask(&o.out_regs, false),
        high8_reads: abcd_mask(&o.in_regs, true),
        high8_writes,
        move_from: o.in_regs.first().and_then(|v| v.id).unwrap_or(RegId(0)),
        move_to: o.out_regs.first().and_then(|v| v.id).unwrap_or(RegId(0)),
        throughput: perf.tp.unwrap_or(0),
        form: prepared.form.map_or(u32::MAX, |f| {
            program.number_of_form(std::ptr::from_ref(f).addr())
        }),
        zeroed: zeroed..program.zeroed.len() as u32,
        fused: 0,
        constants: constants + u8::from(jumps),
        issue_constants: issue_constants(core, &prepared, constants + u8::from(jumps)),
        slots_behind_memory: core.rename.slots_behind_memory as u8,
        step: step.unwrap_or(0),
        branch: branch_kind(instruction),
        displacement: displacement(instruction),
        advances: 0..0,
        plain: false,
    };
    program.push(instr, &laminated, &pointer_loads(o));
    Described {
        form: prepared.form,
        facts: prepared.facts,
        immediate: encoding.immediate,
        fused_previous: fused & flag::FUSED_PREVIOUS != 0,
        perf: prepared.perf,
        operands: prepared.operands,
    }
}

/// Finds the instructions whose address registers no instruction of the block writes.
fn find_kept_addresses(block: &mut [Prepared]) {
    let outputs = block.iter().flat_map(|p| &p.operands.out_regs);
    let written: HashSet<RegId> = outputs.filter_map(|v| v.id).collect();
    for prepared in block {
        let addresses = prepared.operands.addresses.iter();
        let mut registers = addresses.filter(|v| !v.implicit_stack).filter_map(|v| v.id);
        prepared.address_kept = registers.all(|register| !written.contains(&register));
    }
}

fn when(condition: bool, flag: u32) -> u32 {
    if condition { flag } else { 0 }
}

/// Whether the complex decoder is needed, and how many simple ones may work beside it.
fn decoding(core: &Core, facts: &Facts, perf: &Perf) -> (bool, u8) {
    let p = &core.frontend;
    let uops = usize::from(perf.uops_mite) + usize::from(perf.uops_ms);
    let several = perf.complex_decoder || uops > 1;
    let complex = perf.uops_ms > 0 || several && !p.decoders_alike;
    let simple = perf.simple_decoders.unwrap_or(p.decoders as u8);
    if !facts.is(Fact::POP_RSP_OR_R12) {
        return (complex, simple);
    }
    let simple = if p.pop_rsp_ends_group { 0 } else { simple };
    (complex | p.pop_rsp_complex, simple)
}

/// The flags that follow from what an instruction is.
fn flags_of_facts(core: &Core, prepared: &Prepared, fused: u32) -> u32 {
    let facts = &prepared.facts;
    let known = prepared.form.is_some();
    let late = core.rename.late_flags;
    let jump = fused & flag::FUSED_NEXT != 0;
    when(facts.is(Fact::BRANCH), flag::BRANCH)
        | when(facts.is(Fact::SERIALIZING), flag::SERIALIZING)
        | when(facts.is(Fact::LOAD_FENCE), flag::LOAD_FENCE)
        | when(facts.is(Fact::STORE_FENCE), flag::STORE_FENCE)
        | when(facts.is(Fact::REP), flag::REP)
        | when(facts.is(Fact::REP_COMPARE), flag::REP_COMPARE)
        | when(
            core.execute.sum_to_shift > 0 && facts.is(Fact::SHIFT),
            flag::SHIFT,
        )
        | when(known && facts.is(Fact::POINTER_LOAD), flag::POINTER_LOAD)
        | when(known && facts.is(Fact::WIDE_ACCESS), flag::WIDE_ACCESS)
        | when(known && facts.is(Fact::FP_ADD), flag::BY_WRITER)
        | when(late && (jump || facts.is(Fact::LOGIC)), flag::LATE_FLAGS)
        | when(late && facts.is(Fact::CONDITIONAL), flag::CONDITIONAL)
}

/// The flags that follow from an instruction's form and operands.
fn flags_of_operands(
    core: &Core,
    instruction: &Instruction,
    prepared: &Prepared,
    perf: &Perf,
    o: &Operands,
) -> u32 {
    let form = prepared.form;
    let is_32_bits = |v: &Value| size_bits(v.register) == 32;
    let reads_rsp = |v: &Value| v.id == Some(RegId::RSP) && !v.implicit_stack;
    let writes_rsp = |v: &Value| v.id == Some(RegId::RSP);
    let synchronises = !core.rename.stack_offset_folded || o.out_regs.iter().any(writes_rsp);
    // Parts of registers are handed on only within an instruction that updates memory.
    let stack = o.addresses.iter().any(|v| v.implicit_stack);
    let updates = !o.in_mems.is_empty() && !o.out_mems.is_empty();
    let handed_on = stack || updates || instruction.memory_size().size() >= 4;
    let any = core.execute.memory_renaming_general && !o.vector && handed_on;
    let load = form.is_some_and(|f| renamed_load(f, core.execute.table_load_latency));
    let store = form.is_some_and(renamed_store);
    when(form.is_none(), flag::UNKNOWN)
        | when(
            form.is_some_and(|f| f.approximated_from.is_some()),
            flag::APPROXIMATED,
        )
        | when(form.is_some_and(|f| f.macro_fusible != 0), flag::FUSIBLE)
        | when(prepared.encoding.lcp, flag::LCP)
        | when(takes_two_slots(core, prepared, o), flag::EXTRA_SLOT)
        | when(prepared.eliminable, flag::ELIMINABLE)
        | when(o.out_regs.first().is_some_and(is_32_bits), flag::MOVE32)
        | when(perf.uops == 0, flag::NO_UOPS)
        | when(
            synchronises && o.in_regs.iter().chain(&o.addresses).any(reads_rsp),
            flag::READS_RSP,
        )
        | when(o.out_regs.iter().any(writes_rsp), flag::WRITES_RSP)
        | when(load && !o.indexed || any, flag::RENAMED_LOAD)
        | when(store && !o.indexed || any, flag::RENAMED_STORE)
}

/// Whether an instruction's constants take a second entry of a line of the µop cache.
fn takes_two_slots(core: &Core, prepared: &Prepared, o: &Operands) -> bool {
    core.frontend.uop_cache_wide_immediates
        && prepared.encoding.immediate.is_some_and(|i| {
            let beside_address = i16::try_from(i).is_err() && !o.addresses.is_empty();
            i32::try_from(i).is_err() || beside_address
        })
}

/// An instruction's constants: its displacement and its immediate, which is two where it has more than
/// 32 bits; a jump's target comes to that.
fn constants(instruction: &Instruction, immediate: Option<i64>) -> u8 {
    let displaced = instruction.memory_displ_size() > 0;
    let immediate = match immediate {
        None => 0,
        Some(i) if i32::try_from(i).is_ok() => 1,
        Some(_) => 2,
    };
    u8::from(displaced) + immediate
}

/// Those of an instruction's `constants` that [`Rename::constants_per_cycle`] counts: none where rename
/// does all.
fn issue_constants(core: &Core, prepared: &Prepared, all: u8) -> u8 {
    let nothing_left =
        prepared.stands_for.is_none() && (prepared.perf.uops == 0 || prepared.eliminable);
    if core.rename.constants_per_cycle == 0 || nothing_left {
        return 0;
    }
    all
}

/// The µops in the groups in which they are delivered.
fn laminated(core: &Core, perf: &Perf, o: &Operands, flags: u32) -> Vec<LaminatedSpec> {
    if flags & flag::FUSED_PREVIOUS != 0 {
        return Vec::new();
    }
    let uops = split(o, perf, core);
    if core.rename.micro_fusion {
        group(uops, perf, &core.ports)
    } else {
        uops.into_iter().map(|uop| vec![vec![uop]]).collect()
    }
}

/// Chasing facts of each load's address.
fn pointer_loads(o: &Operands) -> Vec<PointerLoad> {
    o.in_mems
        .iter()
        .filter_map(|v| o.memory.get(v.memory))
        .map(|m| PointerLoad {
            base: m.base.map_or(NO_REG, |r| r.0),
            index: m.index.map_or(NO_REG, |r| r.0),
            near: (0..2048).contains(&m.displacement),
        })
        .collect()
}

fn branch_kind(instruction: &Instruction) -> Option<BranchKind> {
    match instruction.flow_control() {
        FlowControl::ConditionalBranch => Some(BranchKind::Conditional),
        FlowControl::UnconditionalBranch => Some(BranchKind::Jump),
        FlowControl::Call if instruction.is_call_near() => Some(BranchKind::Call),
        FlowControl::IndirectBranch => Some(BranchKind::IndirectJump),
        FlowControl::IndirectCall => Some(BranchKind::IndirectCall),
        FlowControl::Return => Some(BranchKind::Return),
        _ => None,
    }
}

/// From a branch's address to that of the target in its code.
fn displacement(instruction: &Instruction) -> i32 {
    match instruction.near_branch_target() {
        0 => 0,
        target => target.wrapping_sub(instruction.ip()) as i32,
    }
}

fn uses_zmm(instruction: &Instruction) -> bool {
    (0..instruction.op_count()).any(|n| instruction.op_register(n).is_zmm())
}

fn uses_stack_engine(form: Option<&Form>) -> bool {
    form.is_some_and(|f| {
        f.operands
            .iter()
            .any(|o| o.binding == crate::machine::table::Binding::StackEngine)
    })
}

/// Whether a load can be renamed to a store's source: the table's latency from the data in memory
/// is then that of the computation alone, at least a load less than from the address.
fn renamed_load(form: &Form, load_latency: u16) -> bool {
    let latencies = &form.perf.latencies;
    latencies.iter().any(|data| {
        data.kind == LatencyKind::Mem
            && matches!(data.to, OperandName::Reg(_))
            && latencies.iter().any(|l| {
                l.from == data.from
                    && l.to == data.to
                    && matches!(l.kind, LatencyKind::Addr | LatencyKind::Index)
                    && l.cycles >= data.cycles + load_latency
            })
    })
}

/// Whether loads can be renamed to a store's source: the table's latency from the address to the
/// data in memory is then less than that of forwarding (10 cycles and more).
fn renamed_store(form: &Form) -> bool {
    form.perf.latencies.iter().any(|l| {
        l.kind == LatencyKind::Addr
            && matches!(l.from, OperandName::Mem(_))
            && l.to == l.from
            && l.cycles < 8
    })
}
