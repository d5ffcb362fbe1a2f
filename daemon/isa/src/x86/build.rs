//! Builds the static instructions of a block: bytes to [`Instr`]s in a [`Program`].
//!
//! What depends on the block's addresses and neighbours, not on its execution, is decided here:
//! fusion, the JCC erratum and length-changing prefixes.

use std::ops::Deref;
use std::sync::Arc;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};

use super::encoding::first_immediate;
use super::facts::{Fact, Facts};
use super::figures::Prepared;
use super::fusion::{Fused, fuse, stand_for, take_in_jump};
use super::inorder::Translator;
use super::known::{Known, Made};
use super::operands::{MemoryRef, Operands, Value, abcd_mask};
use super::pattern::Pattern;
use super::uops::{group, split};
use crate::machine::CpuModel;
use crate::machine::params::{Core, PortSet};
use crate::machine::table::{Form, LatencyKind, OperandName, Perf};
use crate::program::piece::Extent;
use crate::program::{
    BranchKind, Instr, NO_REG, NOT_FORWARDED, PointerLoad, Program, Stored, flag,
};
use crate::regs::{RegId, size_bits};
use crate::uop::LaminatedSpec;

/// What stands for the form of all locked instructions where these start in turn; no form is at this address.
const LOCKED: usize = 1;
/// The same of all that divide floating-point numbers or take their square root.
const FLOAT_DIVISION: usize = 2;

/// Makes static instructions for one CPU, each only once as long as it is known.
pub struct Builder {
    model: Arc<CpuModel>,
    known: Known,
}

/// What [`Builder::append`] found out about an instruction beyond what the pipeline needs.
#[derive(Clone, Debug)]
pub struct Described {
    common: Arc<Common>,
    /// What it is.
    pub facts: Facts,
    displacement: i64,
}

/// Of that, what all instructions have that differ in constants and addresses only.
#[derive(Clone, Debug)]
pub struct Common {
    /// uops.info's name of the form; `None` when the table lacks it.
    pub form: Option<&'static Form>,
    /// The figures used.
    pub perf: Perf,
    /// Inputs, outputs and addresses.
    pub operands: Operands,
    /// Second half of a macro-fused pair.
    pub fused_previous: bool,
}

impl Deref for Described {
    type Target = Common;

    fn deref(&self) -> &Common {
        &self.common
    }
}

impl Described {
    /// The address of one of its memory operands.
    #[must_use]
    pub fn memory(&self, value: &Value) -> Option<MemoryRef> {
        self.operands.at(value, self.displacement)
    }
}

/// A decoded instruction with its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Decoded {
    /// The instruction.
    pub instruction: Instruction,
    /// Its bytes.
    pub bytes: Bytes,
    /// Its code is where shared objects are mapped.
    pub in_shared_object: bool,
    /// What it has in common with others.
    pub(super) pattern: Pattern,
}

/// The bytes of an instruction: x86 has none longer than this.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    all: [u8; Self::MOST],
    len: u8,
}

impl Bytes {
    /// Most that an instruction has.
    pub const MOST: usize = 15;

    /// The first of `bytes`, as many as an instruction can have.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let len = bytes.len().min(Self::MOST);
        let mut all = [0; Self::MOST];
        all[..len].copy_from_slice(&bytes[..len]);
        Self {
            all,
            len: len as u8,
        }
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.all.get(..usize::from(self.len)).unwrap_or(&[])
    }
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
        let bytes = Bytes::of(bytes.get(at..decoder.position()).unwrap_or(&[]));
        let constants = decoder.get_constant_offsets(&instruction);
        decoded.push(Decoded {
            instruction,
            bytes,
            in_shared_object: false,
            pattern: Pattern::of(&instruction, &bytes, &constants),
        });
    }
    (decoded, None)
}

impl Builder {
    /// A builder for `model`.
    #[must_use]
    pub fn new(model: &Arc<CpuModel>) -> Self {
        Self {
            model: Arc::clone(model),
            known: Known::default(),
        }
    }

    /// The CPU.
    #[must_use]
    pub fn model(&self) -> &Arc<CpuModel> {
        &self.model
    }

    /// Appends the instructions of one block to `program` and describes them.
    pub fn append(&mut self, program: &mut Program, block: &[Decoded]) -> Vec<Described> {
        let mut all = Vec::with_capacity(block.len());
        self.append_each(program, block, |decoded, facts, common| {
            all.push(Described {
                common: Arc::clone(common),
                facts,
                displacement: decoded.instruction.memory_displacement64() as i64,
            });
        });
        all
    }

    /// Appends the instructions of one block to `program` and shows what was found out about them.
    pub(crate) fn append_each(
        &mut self,
        program: &mut Program,
        block: &[Decoded],
        mut see: impl FnMut(&Decoded, Facts, &Arc<Common>),
    ) {
        let (model, known) = (&*self.model, &mut self.known);
        let core = &model.core;
        if let Some(core) = &core.in_order
            && let Ok(mut translator) = Translator::new(core)
        {
            for decoded in block {
                translator.append(&mut program.in_order, &decoded.instruction);
            }
        }
        let zmm = block.iter().any(|d| uses_zmm(&d.instruction));
        known.prepare(model, block, zmm);
        let kept = core.execute.memory_renaming_kept as usize;
        let written_from = |known: &Known, n: usize| {
            let behind = n..block.len().min(n + kept);
            let all = behind.fold(0, |all, n| all | known.prepared(n).written);
            // Rename follows the stack pointer.
            all & !(1 << RegId::RSP.0)
        };
        let fused = fuse(&core.frontend, block, |n| known.prepared(n));
        for (n, (decoded, fused)) in block.iter().zip(fused).enumerate() {
            let written = written_from(known, n);
            let made = known.made(n, fused, |prepared, operation| {
                make(core, decoded, prepared, fused, operation)
            });
            program.append_moved(&made.piece);
            let instruction = &decoded.instruction;
            let facts = (made.facts).of_other(instruction, first_immediate(instruction));
            if let Some(instr) = program.instrs.last_mut() {
                // What is not the same for all of a pattern.
                instr.address_kept = made.addressed & written == 0;
                instr.displacement = displacement(instruction);
                instr.step = step(facts, fused).unwrap_or(0);
            }
            see(decoded, facts, &made.common);
        }
    }
}

/// What rename may add.
fn step(facts: Facts, fused: Fused) -> Option<i64> {
    (facts.step).filter(|_| !matches!(fused, Fused::WithJump(_)))
}

/// Makes an instruction as a piece of a program; of a fused move, with the `operation` behind it.
fn make(
    core: &Core,
    decoded: &Decoded,
    prepared: &Prepared,
    fused: Fused,
    operation: Option<&Prepared>,
) -> Made {
    let mut program = Program::default();
    let mut own = prepared.perf.clone();
    if let Fused::WithJump(ports) = fused {
        take_in_jump(&mut own, &decoded.instruction, ports, &core.ports);
    }
    let stands_for = operation.map(|operation| stand_for(prepared, operation));
    let given = Given {
        decoded,
        prepared,
        perf: &own,
        eliminable: prepared.eliminable && operation.is_none(),
        fused,
    };
    finish(core, &mut program, &given, stands_for.as_ref());
    Made {
        piece: program.since(Extent::default()),
        addressed: prepared.addressed,
        facts: prepared.facts,
        common: Arc::new(Common {
            form: prepared.form,
            fused_previous: fused == Fused::Second,
            perf: own,
            operands: prepared.operands.clone(),
        }),
    }
}

/// An instruction, and what fusion made of it.
struct Given<'a> {
    decoded: &'a Decoded,
    prepared: &'a Prepared,
    /// Its own figures.
    perf: &'a Perf,
    /// A move that rename may do.
    eliminable: bool,
    fused: Fused,
}

/// Appends one instruction, with the flags that fusion gave it. `stands_for`: figures and operands that
/// its µops are made from, and their immediate, where they are not its own.
fn finish(
    core: &Core,
    program: &mut Program,
    given: &Given<'_>,
    stands_for: Option<&(Perf, Operands, Option<i64>)>,
) {
    let (prepared, fused) = (given.prepared, given.fused.flags());
    // The µops of a fused move are those of the operation behind it.
    let (perf, o, immediate) = match stands_for {
        Some((perf, operands, immediate)) => (perf, operands, *immediate),
        None => (given.perf, &prepared.operands, prepared.encoding.immediate),
    };
    let not_executed = given.perf.ports.is_empty() || given.eliminable;
    let nothing_left = stands_for.is_none() && (given.perf.uops == 0 || given.eliminable);
    let instruction = &given.decoded.instruction;
    let (facts, encoding) = (&prepared.facts, &prepared.encoding);
    let rsp_change = if uses_stack_engine(prepared.form) {
        instruction.stack_pointer_increment().clamp(-64, 64) as i8
    } else {
        0
    };
    let high8_writes = abcd_mask(&o.out_regs, true);
    let (complex, simple_decoders) = decoding(core, facts, perf);
    let microcoded = perf.uops_ms > 0;
    let flags = fused
        | flags_of_facts(core, prepared, fused)
        | flags_of_operands(core, given, perf, o)
        | when(complex, flag::COMPLEX)
        | when(
            step(*facts, given.fused).is_some() && core.rename.add_immediate_range > 0,
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
    if perf.uops == 0 && !given.eliminable {
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
    let displacement = instruction.memory_displacement64() as i64;
    let jumps = facts.is(Fact::BRANCH) || fused & flag::FUSED_NEXT != 0;
    let constants = constants(instruction, immediate) + u8::from(jumps);
    let instr = Instr {
        address_kept: false,
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
        locked: prepared.form.is_some_and(|f| f.locked),
        throughput: match prepared.form.is_some_and(|f| f.locked) {
            true if core.execute.locked_retirement.is_some() => 0,
            _ => perf.tp.unwrap_or(0),
        },
        form: prepared.form.map_or(u32::MAX, |f| {
            let divides = core.execute.float_divisions_in_turn && facts.is(Fact::FLOAT_DIVISION);
            program.number_of_form(match f.locked && core.execute.locked_in_turn {
                true => LOCKED,
                false if divides => FLOAT_DIVISION,
                false => std::ptr::from_ref(f).addr(),
            })
        }),
        zeroed: zeroed..program.zeroed.len() as u32,
        fused: 0,
        constants: match core.frontend.uop_cache_constants_of_executed && not_executed {
            true => 0,
            false => constants,
        },
        counted: match (
            core.rename.constants_per_cycle,
            core.rename.instructions_per_cycle,
        ) {
            (0, 0) => 0,
            (0, _) => 1,
            _ if nothing_left => 0,
            _ => constants,
        },
        slots_behind_memory: core.rename.slots_behind_memory as u8,
        // What rename does by itself is given to no port, and what results of vectors keep is not given at issue.
        one_a_cycle: match flags & flag::ELIMINABLE {
            0 if !o.writes_general_from_vector() => core.ports.one_a_cycle,
            _ => PortSet::NONE,
        },
        step: 0,
        branch: branch_kind(instruction),
        calls_kernel: instruction.mnemonic() == Mnemonic::Syscall,
        displacement: 0,
        in_shared_object: false,
        advances: 0..0,
        plain: false,
    };
    let absolute = is_absolute(instruction);
    let loads = pointer_loads(core, o, displacement, absolute);
    let stored = Stored {
        forwarded_later: stored_later(core, instruction, o),
        vector_later: match o.vector {
            true => core.execute.vector_store_later,
            false => 0,
        },
        // Else a `push`.
        absolute: absolute && rsp_change == 0,
    };
    program.push(instr, &laminated, &loads, stored);
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
fn flags_of_operands(core: &Core, given: &Given<'_>, perf: &Perf, o: &Operands) -> u32 {
    let (instruction, prepared) = (&given.decoded.instruction, given.prepared);
    let form = prepared.form;
    let is_32_bits = |v: &Value| size_bits(v.register) == 32;
    let reads_rsp = |v: &Value| v.id == Some(RegId::RSP) && !v.implicit_stack;
    let writes_rsp = |v: &Value| v.id == Some(RegId::RSP);
    let synchronises = if core.rename.stack_operand_slot {
        let takes_over = match instruction.mnemonic() {
            Mnemonic::Lea => !o.indexed,
            _ => prepared.facts.is(Fact::MOVE) && o.out_mems.is_empty(),
        };
        !takes_over && o.in_regs.iter().any(reads_rsp)
    } else {
        !core.rename.stack_offset_folded || o.out_regs.iter().any(writes_rsp)
    };
    // Parts of registers are handed on only within an instruction that updates memory.
    let stack = o.addresses.iter().any(|v| v.implicit_stack);
    let updates = !o.in_mems.is_empty() && !o.out_mems.is_empty();
    let parts = updates && core.execute.memory_renaming_of_parts;
    let handed_on = stack || parts || instruction.memory_size().size() >= 4;
    let general = core.execute.memory_renaming_general;
    let computes = perf
        .ports
        .iter()
        .any(|(set, _)| core.ports.alu.contains(*set));
    let locked = form.is_some_and(|f| f.locked);
    let alone = updates || !core.execute.memory_renaming_of_moves || !computes;
    let any = general && !o.vector && handed_on;
    let by_table = !general && !o.indexed;
    let load = |f| renamed_load(f, core.execute.table_load_latency);
    let renames = |if_locked: bool| any && (if_locked || !locked);
    let renamed_load = alone && renames(core.execute.memory_renaming_of_locked)
        || by_table && form.is_some_and(load);
    let renamed_store = renames(core.execute.memory_renaming_from_locked)
        || by_table && form.is_some_and(renamed_store);
    when(form.is_none(), flag::UNKNOWN)
        | when(
            form.is_some_and(|f| f.approximated_from.is_some()),
            flag::APPROXIMATED,
        )
        | when(form.is_some_and(|f| f.macro_fusible != 0), flag::FUSIBLE)
        | when(prepared.encoding.lcp, flag::LCP)
        | when(takes_two_slots(core, prepared, o), flag::EXTRA_SLOT)
        | when(given.eliminable, flag::ELIMINABLE)
        | when(o.out_regs.first().is_some_and(is_32_bits), flag::MOVE32)
        | when(perf.uops == 0, flag::NO_UOPS)
        | when(
            synchronises && o.in_regs.iter().chain(&o.addresses).any(reads_rsp),
            flag::READS_RSP,
        )
        | when(o.out_regs.iter().any(writes_rsp), flag::WRITES_RSP)
        | when(renamed_load, flag::RENAMED_LOAD)
        | when(renamed_store, flag::RENAMED_STORE)
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

/// Whether a load with this displacement can follow the load of its base a cycle sooner.
pub(super) fn is_near(displacement: i64) -> bool {
    (0..2048).contains(&displacement)
}

/// Whether the address that an instruction names is a constant and not told from its own.
fn is_absolute(instruction: &Instruction) -> bool {
    instruction.op_kinds().any(|kind| kind == OpKind::Memory)
        && instruction.memory_base() == Register::None
        && instruction.memory_index() == Register::None
}

/// From when its data is there, how many cycles later loads can take what an instruction stores.
fn stored_later(core: &Core, instruction: &Instruction, o: &Operands) -> u8 {
    let p = &core.execute;
    let stores = instruction.op0_kind() == OpKind::Memory && !instruction.is_vsib();
    let masked = instruction.has_op_mask() && stores;
    let [half, whole, wide] = p.vector_store_extra;
    match instruction.memory_size().size() {
        _ if masked && p.masked_stores_written => NOT_FORWARDED,
        _ if !o.vector => 0,
        ..=16 => half,
        17..=32 => whole,
        _ => wide,
    }
}

/// What matters of each load beside its ports and latencies.
fn pointer_loads(core: &Core, o: &Operands, displacement: i64, absolute: bool) -> Vec<PointerLoad> {
    let p = &core.execute;
    o.in_mems
        .iter()
        .filter_map(|v| o.at(v, displacement))
        .map(|m| PointerLoad {
            base: m.base.map_or(NO_REG, |r| r.0),
            index: m.index.map_or(NO_REG, |r| r.0),
            near: m.base.is_some() && is_near(m.displacement),
            forwarded_later: match o.vector {
                true if m.size > 32 => p.vector_forward_extra.max(p.vector_forward_extra_64),
                true => p.vector_forward_extra,
                false => 0,
            },
            vector_later: match o.vector {
                true => p.vector_load_later[usize::from(m.size > 16) + usize::from(m.size > 32)],
                false => 0,
            },
            crossing_later: (p.crossing_loads).map_or(0, |crossing| match o.vector {
                true => crossing.vectors_later.unwrap_or(crossing.later),
                false => crossing.later,
            }),
            absolute,
        })
        .collect()
}

/// What kind of branch an instruction is, and how far it is from its address to that of the target in
/// its code.
pub(crate) fn branch(instruction: &Instruction) -> Option<(BranchKind, i32)> {
    Some((branch_kind(instruction)?, displacement(instruction)))
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
