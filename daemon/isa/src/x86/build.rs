//! Builds the static instructions of a block: bytes to [`Instr`]s in a [`Program`].
//!
//! Macro-fusion, the JCC erratum and length-changing prefixes are decided here, since they hang
//! on the block's addresses and neighbours, not on its execution.

use iced_x86::{
    ConditionCode, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory,
    Mnemonic, OpKind, Register,
};

use super::encoding::{Encoding, encoding};
use super::generic::generic;
use super::inorder::Translator;
use super::operands::{Operands, abcd_mask, operands, variant};
use super::uops::{group, split};
use crate::program::{BranchKind, Chase, Instr, NO_REG, Program, flag};
use crate::regs::RegId;

use crate::machine::CpuModel;
use crate::machine::table::{Form, LatencyKind, OperandName, Perf, PortSet};

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

struct Prepared {
    form: Option<&'static Form>,
    perf: Perf,
    operands: Operands,
    encoding: Encoding,
    eliminable: bool,
    /// Figures and operands that its µops are made from, where they are not its own.
    stands_for: Option<(Perf, Operands)>,
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
        if let Some(core) = &self.model.core.in_order
            && let Ok(mut translator) = Translator::new(core)
        {
            for decoded in block {
                translator.append(&mut program.in_order, &decoded.instruction);
            }
        }
        let zmm = block.iter().any(|d| uses_zmm(&d.instruction));
        let mut prepared: Vec<Prepared> = block.iter().map(|d| self.prepare(d, zmm)).collect();
        let mut fused = vec![0u32; block.len()];
        for n in 1..block.len() {
            let jump = &block[n].instruction;
            let Some(form) = prepared[n - 1].form else {
                continue;
            };
            if jump.flow_control() != FlowControl::ConditionalBranch
                || !jump.is_jcc_short_or_near()
                || !self.model.core.frontend.macro_fusion
                || jump.ip().is_multiple_of(64)
                || form.macro_fusible & (1 << condition(jump)) == 0
            {
                continue;
            }
            fused[n] |= flag::FUSED_PREVIOUS;
            fused[n - 1] |= flag::FUSED_NEXT;
            let jump_ports = prepared[n]
                .perf
                .ports
                .first()
                .map_or(PortSet::NONE, |p| p.0);
            let perf = &mut prepared[n - 1].perf;
            if perf.uops == 0 {
                perf.uops = 1;
                perf.ports = vec![(jump_ports, 1)];
            } else if let Some(place) = perf.ports.iter().position(|(p, _)| p.contains(jump_ports))
            {
                // The pair executes where the jump can.
                perf.ports[place].0 = jump_ports;
            }
        }
        if self.model.core.frontend.move_fusion {
            fuse_moves(block, &mut prepared, &mut fused);
        }
        block
            .iter()
            .zip(prepared)
            .zip(&fused)
            .map(|((decoded, prepared), fused)| self.finish(program, decoded, prepared, *fused))
            .collect()
    }

    fn prepare(&mut self, decoded: &Decoded, zmm: bool) -> Prepared {
        let instruction = &decoded.instruction;
        let encoding = encoding(instruction, &decoded.bytes);
        let Some(form) = self.model.forms().and_then(|table| table.find(instruction)) else {
            let (perf, operands) = self.unknown(instruction);
            return Prepared {
                form: None,
                perf,
                operands,
                encoding,
                eliminable: false,
                stands_for: None,
            };
        };
        let (same, indexed) = variant(instruction, form);
        let mut perf = match (&form.same_reg, &form.indexed) {
            (_, Some(perf)) if indexed => perf.clone(),
            (Some(perf), _) if same => perf.clone(),
            _ => form.perf.clone(),
        };
        let core = &self.model.core;
        let renaming = core.execute.memory_renaming;
        let alu = core.ports.alu;
        let is_move = form.name.contains("MOV");
        let no_delay = perf.latencies.iter().all(|l| l.cycles == 0);
        let summed = core.rename.add_immediate_range > 0 || perf.uops == 0;
        if summed && step(instruction, &encoding).is_some() {
            // What it costs when rename does not add.
            perf.uops = perf.uops.max(1);
            if perf.ports.is_empty() {
                perf.ports = vec![(alu, 1)];
            }
            for latency in &mut perf.latencies {
                latency.cycles = latency.cycles.max(1);
            }
        }
        if is_move && no_delay && perf.uops == 1 && perf.ports == [(alu, 1)] && !same {
            // Eliminated most of the time when it was measured.
            perf.uops = 0;
        } else if is_move && no_delay && same {
            for latency in &mut perf.latencies {
                latency.cycles = 1;
            }
        }
        if core.rename.late_flags && perf.uops > 0 && is_logic(instruction) {
            // Two cycles to the flags were measured with a conditional set in the same cycle.
            for latency in &mut perf.latencies {
                latency.cycles = 1;
            }
        }
        let keep = is_move && perf.uops == 0;
        let mut eliminable = false;
        let mut operands_ = operands(instruction, form, &perf, keep, renaming);
        if is_move && perf.uops == 0 {
            let single = operands_.in_regs.len() == 1 && operands_.out_regs.len() == 1;
            let high8_alias = !self.model.core.rename.movzx_high8_alias_eliminated
                && movzx_of_high8_alias(instruction);
            eliminable = single && !high8_alias;
            if eliminable || high8_alias {
                // What it costs when rename does not eliminate it.
                if let Some(executed) = &form.same_reg {
                    perf.uops = executed.uops;
                    perf.ports = executed.ports.clone();
                    perf.latencies = executed.latencies.clone();
                }
                if perf.uops > 0 && perf.ports.is_empty() {
                    perf.ports = vec![(alu, 1)];
                }
            }
            operands_ = operands(instruction, form, &perf, eliminable, renaming);
        }
        if zmm && operands_.vector {
            let taken = core.ports.taken_by_512;
            let mut ports: Vec<(PortSet, u16)> = Vec::new();
            for &(set, n) in &perf.ports {
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
            perf.ports = ports;
        }
        Prepared {
            form: Some(form),
            perf,
            operands: operands_,
            encoding,
            eliminable,
            stands_for: None,
        }
    }

    /// Figures for an instruction that the table lacks: one µop of one cycle on the integer ALUs,
    /// with its loads and stores. It is counted and reported.
    fn unknown(&mut self, instruction: &Instruction) -> (Perf, Operands) {
        let form = generic(instruction, &mut self.factory, &self.model.core);
        let operands = operands(instruction, &form, &form.perf, false, false);
        (form.perf, operands)
    }

    fn finish(
        &mut self,
        program: &mut Program,
        decoded: &Decoded,
        prepared: Prepared,
        fused: u32,
    ) -> Described {
        let Prepared {
            form,
            perf,
            operands: o,
            encoding,
            eliminable,
            stands_for,
        } = prepared;
        // The µops of a fused move are those of the operation behind it.
        let (own_perf, own_operands) = (perf, o);
        let (perf, o) = match &stands_for {
            Some((perf, operands)) => (perf, operands),
            None => (&own_perf, &own_operands),
        };
        let instruction = &decoded.instruction;
        let core = &self.model.core;
        let mut flags = fused;
        let mut set = |on: bool, bit: u32| {
            if on {
                flags |= bit;
            }
        };
        let microcoded = perf.uops_ms > 0;
        let mut simple = perf.simple_decoders.unwrap_or(core.frontend.decoders as u8);
        let mut complex = perf.complex_decoder
            || microcoded
            || usize::from(perf.uops_mite) + usize::from(perf.uops_ms) > 1;
        if is_pop_rsp_or_r12(instruction) {
            complex |= core.frontend.pop_rsp_complex;
            if core.frontend.pop_rsp_ends_group {
                simple = 0;
            }
        }
        let mnemonic = instruction.mnemonic();
        set(
            instruction.flow_control() != FlowControl::Next && is_branch(instruction),
            flag::BRANCH,
        );
        set(complex, flag::COMPLEX);
        set(form.is_some_and(|f| f.macro_fusible != 0), flag::FUSIBLE);
        set(encoding.lcp, flag::LCP);
        let extra = encoding.immediate.is_some_and(|i| {
            i32::try_from(i).is_err() || (i16::try_from(i).is_err() && !o.addresses.is_empty())
        });
        set(extra, flag::EXTRA_SLOT);
        set(
            matches!(
                mnemonic,
                Mnemonic::Lfence
                    | Mnemonic::Cpuid
                    | Mnemonic::Iretq
                    | Mnemonic::Iretd
                    | Mnemonic::Serialize
            ),
            flag::SERIALIZING,
        );
        set(
            matches!(mnemonic, Mnemonic::Mfence | Mnemonic::Lfence),
            flag::LOAD_FENCE,
        );
        set(
            matches!(mnemonic, Mnemonic::Mfence | Mnemonic::Sfence),
            flag::STORE_FENCE,
        );
        set(eliminable, flag::ELIMINABLE);
        set(
            o.out_regs
                .first()
                .is_some_and(|v| crate::regs::size_bits(v.register) == 32),
            flag::MOVE32,
        );
        set(perf.uops == 0, flag::NO_UOPS);
        set(form.is_some_and(is_pointer_load), flag::POINTER_LOAD);
        let uses_rsp = |v: &super::operands::Value| v.id == Some(RegId::RSP) && !v.implicit_stack;
        set(
            o.in_regs.iter().chain(&o.addresses).any(uses_rsp),
            flag::READS_RSP,
        );
        set(
            o.out_regs.iter().any(|v| v.id == Some(RegId::RSP)),
            flag::WRITES_RSP,
        );
        let rsp_change = if uses_stack_engine(form) {
            instruction.stack_pointer_increment().clamp(-64, 64) as i8
        } else {
            0
        };
        let high8_writes = abcd_mask(&o.out_regs, true);
        set(
            !microcoded && rsp_change == 0 && high8_writes == 0,
            flag::LOOP_STREAM,
        );
        set(form.is_none(), flag::UNKNOWN);
        set(
            form.is_some_and(|f| f.approximated_from.is_some()),
            flag::APPROXIMATED,
        );
        set(
            form.is_some_and(|f| f.name.contains("M256") || f.name.contains("M512")),
            flag::WIDE_ACCESS,
        );
        let rep = (instruction.has_rep_prefix() || instruction.has_repne_prefix())
            && instruction.is_string_instruction();
        set(rep, flag::REP);
        set(rep && instruction.rflags_written() != 0, flag::REP_COMPARE);
        set(form.is_some_and(is_fp_add), flag::FP_ADD);
        set(is_shift(mnemonic), flag::SHIFT);
        if self.model.core.rename.late_flags {
            let late = fused & flag::FUSED_NEXT != 0 || is_logic(instruction);
            set(late, flag::LATE_FLAGS);
            let jumps = instruction.flow_control() == FlowControl::ConditionalBranch;
            let conditional = instruction.condition_code() != ConditionCode::None && !jumps;
            set(conditional, flag::CONDITIONAL);
        }
        let step = step(instruction, &encoding).filter(|_| fused & flag::FUSED_NEXT == 0);
        set(step.is_some(), flag::ADD_IMMEDIATE);
        let any = core.execute.memory_renaming_general && !o.vector;
        let told = form.is_some_and(|f| renamed_load(f, core.execute.table_load_latency));
        set((told || any) && !o.indexed, flag::RENAMED_LOAD);
        let told = form.is_some_and(renamed_store);
        set((told || any) && !o.indexed, flag::RENAMED_STORE);

        let mut wide = o.in_regs.clone();
        wide.extend_from_slice(&o.addresses);
        let wide_reads = abcd_mask(&wide, false);
        let zeroed = program.zeroed.len() as u32;
        if perf.uops == 0 && !eliminable {
            program
                .zeroed
                .extend(o.out_regs.iter().chain(&o.out_flags).filter_map(|v| v.id));
        }
        let loads: Vec<Chase> = o
            .in_mems
            .iter()
            .filter_map(|v| o.memory.get(v.memory))
            .map(|m| Chase {
                base: m.base.map_or(NO_REG, |r| r.0),
                index: m.index.map_or(NO_REG, |r| r.0),
                near: (0..2048).contains(&m.displacement),
            })
            .collect();
        let laminated = if fused & flag::FUSED_PREVIOUS != 0 {
            Vec::new()
        } else {
            let uops = split(o, perf, core);
            if core.rename.micro_fusion {
                group(uops, perf, &core.ports)
            } else {
                uops.into_iter().map(|uop| vec![vec![uop]]).collect()
            }
        };
        let delivered = if core.rename.micro_fusion {
            perf.uops_mite
        } else {
            (laminated.len() as u16).saturating_sub(perf.uops_ms)
        };
        let instr = Instr {
            flags,
            uops: 0,
            laminated: 0,
            laminated_len: 0,
            laminated_mite: 0,
            simple_decoders: simple,
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
            form: form.map_or(u32::MAX, |f| {
                program.number_of_form(std::ptr::from_ref(f).addr())
            }),
            zeroed: zeroed..program.zeroed.len() as u32,
            fused: 0,
            step: step.unwrap_or(0),
            branch: branch_kind(instruction),
            displacement: displacement(instruction),
            plain: 0,
        };
        program.push(instr, &laminated, &loads);
        Described {
            form,
            perf: own_perf,
            operands: own_operands,
            immediate: encoding.immediate,
            fused_previous: fused & flag::FUSED_PREVIOUS != 0,
        }
    }
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

/// Fuses moves between registers with the operations behind them that work on their destination:
/// the move takes over the operation's µops, which read the move's source, and nothing is left of
/// the operation.
fn fuse_moves(block: &[Decoded], prepared: &mut [Prepared], fused: &mut [u32]) {
    for n in 1..block.len() {
        if fused[n] != 0 || fused[n - 1] != 0 || !prepared[n - 1].eliminable {
            continue;
        }
        let (mov, operation) = (&block[n - 1].instruction, &block[n].instruction);
        if !works_on_destination(mov, operation) {
            continue;
        }
        let to = RegId::of(mov.op0_register());
        let from = RegId::of(mov.op1_register());
        let mut operands = prepared[n].operands.clone();
        for value in operands.in_regs.iter_mut().filter(|v| v.id == to) {
            value.id = from;
        }
        prepared[n - 1].stands_for = Some((prepared[n].perf.clone(), operands));
        prepared[n - 1].eliminable = false;
        fused[n - 1] |= flag::MOVE_FUSED;
        fused[n] |= flag::FUSED_PREVIOUS;
    }
}

/// Whether an instruction is a simple operation of registers and immediates, as wide as the move
/// before it and on its destination (measured on Zen 5, docs/ZEN5.md).
fn works_on_destination(mov: &Instruction, operation: &Instruction) -> bool {
    let simple = matches!(
        operation.mnemonic(),
        Mnemonic::Add
            | Mnemonic::Sub
            | Mnemonic::And
            | Mnemonic::Or
            | Mnemonic::Xor
            | Mnemonic::Inc
            | Mnemonic::Dec
            | Mnemonic::Not
    );
    let to = mov.op0_register();
    simple
        && mov.mnemonic() == Mnemonic::Mov
        && (to.is_gpr32() || to.is_gpr64())
        && operation.op0_register() == to
        && (0..operation.op_count()).all(|n| operation.op_kind(n) != OpKind::Memory)
}

fn is_branch(instruction: &Instruction) -> bool {
    matches!(
        instruction.flow_control(),
        FlowControl::UnconditionalBranch
            | FlowControl::IndirectBranch
            | FlowControl::ConditionalBranch
            | FlowControl::Return
            | FlowControl::Call
            | FlowControl::IndirectCall
            | FlowControl::XbeginXabortXend
    ) || matches!(
        instruction.mnemonic(),
        Mnemonic::Syscall | Mnemonic::Int | Mnemonic::Int3
    )
}

fn condition(jump: &Instruction) -> u32 {
    use iced_x86::ConditionCode as C;
    match jump.condition_code() {
        C::o => 0,
        C::no => 1,
        C::b => 2,
        C::ae => 3,
        C::e => 4,
        C::ne => 5,
        C::be => 6,
        C::a => 7,
        C::s => 8,
        C::ns => 9,
        C::p => 10,
        C::np => 11,
        C::l => 12,
        C::ge => 13,
        C::le => 14,
        C::g => 15,
        C::None => 31,
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

fn is_pop_rsp_or_r12(instruction: &Instruction) -> bool {
    instruction.mnemonic() == Mnemonic::Pop
        && instruction.op0_register() != Register::None
        && matches!(
            instruction.op0_register(),
            Register::RSP | Register::SP | Register::R12 | Register::R12W
        )
}

/// `movzx` from a byte register that shares its encoding with `ah`, `ch`, `dh` or `bh`.
fn movzx_of_high8_alias(instruction: &Instruction) -> bool {
    instruction.mnemonic() == Mnemonic::Movzx
        && matches!(
            instruction.op1_register(),
            Register::SPL
                | Register::BPL
                | Register::SIL
                | Register::DIL
                | Register::R12L
                | Register::R13L
                | Register::R14L
                | Register::R15L
        )
}

/// Additions of vectors or scalars of floating-point numbers, without further work.
fn is_fp_add(form: &Form) -> bool {
    let name = form.name.strip_prefix('V').unwrap_or(&form.name);
    let (operation, rest) = name.split_at(name.len().min(3));
    matches!(operation, "ADD" | "SUB")
        && matches!(rest.get(..2), Some("SS" | "SD" | "PS" | "PD"))
        && form.name.contains("MM")
}

/// A logical operation of registers that writes flags.
fn is_logic(instruction: &Instruction) -> bool {
    let logic = matches!(
        instruction.mnemonic(),
        Mnemonic::Test | Mnemonic::And | Mnemonic::Or | Mnemonic::Xor
    );
    logic && (0..instruction.op_count()).all(|n| instruction.op_kind(n) != OpKind::Memory)
}

/// Shifts and rotates of general-purpose registers.
fn is_shift(mnemonic: Mnemonic) -> bool {
    matches!(
        mnemonic,
        Mnemonic::Shl
            | Mnemonic::Sal
            | Mnemonic::Shr
            | Mnemonic::Sar
            | Mnemonic::Rol
            | Mnemonic::Ror
            | Mnemonic::Shlx
            | Mnemonic::Shrx
            | Mnemonic::Sarx
            | Mnemonic::Rorx
    )
}

/// What an instruction adds to a 64-bit register to make another, or the same: rename can do that.
fn step(instruction: &Instruction, encoding: &Encoding) -> Option<i64> {
    if !instruction.op0_register().is_gpr64() {
        return None;
    }
    match (instruction.mnemonic(), encoding.immediate) {
        (Mnemonic::Inc, _) => Some(1),
        (Mnemonic::Dec, _) => Some(-1),
        (Mnemonic::Add, Some(by)) => Some(by),
        (Mnemonic::Sub, Some(by)) => Some(by.wrapping_neg()),
        (Mnemonic::Lea, _)
            if instruction.memory_base().is_gpr64()
                && instruction.memory_index() == Register::None =>
        {
            Some(instruction.memory_displacement64() as i64)
        }
        _ => None,
    }
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

/// The loads whose result the next load's address can take a cycle sooner (uiCA, fast pointer
/// chasing).
fn is_pointer_load(form: &Form) -> bool {
    matches!(
        &*form.name,
        "MOV (R64, M64)"
            | "MOV (RAX, M64)"
            | "MOV (R32, M32)"
            | "MOV (EAX, M32)"
            | "MOVSXD (R64, M32)"
            | "POP (R64)"
    )
}
