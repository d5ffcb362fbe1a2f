//! What a core makes of two instructions that stand side by side: one macro-op.
//!
//! A compare and its jump, and on some cores a move and the operation behind it, or any instruction and
//! a no-operation. Who is fused is
//! decided when a block is built, since it depends on its addresses and neighbours only; what becomes
//! of the first of a pair follows from the two.

use iced_x86::{Instruction, Mnemonic};

use super::build::Decoded;
use super::facts::Fact;
use super::figures::Prepared;
use super::operands::{Operands, Value};
use crate::machine::params::{Frontend, PortLayout, PortSet};
use crate::machine::table::Perf;
use crate::program::flag;
use crate::regs::RegId;

/// What becomes of an instruction beside its neighbours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Fused {
    /// It stays by itself.
    #[default]
    Alone,
    /// It is part of the one before.
    Second,
    /// The jump behind it, which executes on these ports, is part of it.
    WithJump(PortSet),
    /// A move that takes over the µops of the operation behind it.
    WithOperation,
    /// The no-operation behind it is part of it.
    WithNop,
}

impl Fused {
    /// The flags that say so.
    pub(super) fn flags(self) -> u32 {
        match self {
            Self::Alone => 0,
            Self::Second => flag::FUSED_PREVIOUS,
            Self::WithJump(_) => flag::FUSED_NEXT,
            Self::WithOperation | Self::WithNop => flag::TAKES_NEXT,
        }
    }
}

/// Finds what `p` fuses of a block whose n-th instruction's figures are `prepared(n)`.
pub(super) fn fuse<'a>(
    p: &Frontend,
    block: &[Decoded],
    prepared: impl Fn(usize) -> &'a Prepared,
) -> Vec<Fused> {
    let mut fused = vec![Fused::Alone; block.len()];
    if p.macro_fusion {
        fuse_jumps(block, &prepared, &mut fused);
    }
    if p.move_fusion {
        fuse_moves(block, &prepared, &mut fused);
    }
    if p.nop_fusion {
        fuse_nops(block, &prepared, &mut fused);
    }
    fused
}

/// Jumps with what their flags come from, unless they start a line of code.
fn fuse_jumps<'a>(
    block: &[Decoded],
    prepared: &impl Fn(usize) -> &'a Prepared,
    fused: &mut [Fused],
) {
    for n in 1..block.len() {
        if !prepared(n).facts.is(Fact::CONDITIONAL_JUMP) {
            continue;
        }
        let jump = &block[n].instruction;
        let fusible = prepared(n - 1).form.map_or(0, |form| form.macro_fusible);
        if jump.ip().is_multiple_of(64) || fusible & (1 << condition(jump)) == 0 {
            continue;
        }
        let ports = prepared(n).perf.ports.first();
        fused[n] = Fused::Second;
        fused[n - 1] = Fused::WithJump(ports.map_or(PortSet::NONE, |p| p.0));
    }
}

/// Gives `first` of a pair what it costs with a jump that executes on `jump_ports`.
pub(super) fn take_in_jump(
    perf: &mut Perf,
    first: &Instruction,
    jump_ports: PortSet,
    ports: &PortLayout,
) {
    let flags_only = matches!(first.mnemonic(), Mnemonic::Cmp | Mnemonic::Test);
    let pairs = match flags_only || ports.pairs_with_result.is_empty() {
        true => ports.pairs,
        false => ports.pairs_with_result,
    };
    if perf.uops == 0 {
        perf.uops = 1;
        perf.ports = vec![(jump_ports, 1)];
    } else if let Some(place) = perf.ports.iter().position(|(p, _)| p.contains(jump_ports)) {
        // The pair executes where the jump can.
        perf.ports[place].0 = jump_ports;
    } else if !pairs.is_empty()
        && let Some((set, _)) = (perf.ports.iter_mut()).find(|(set, _)| ports.alu.contains(*set))
    {
        *set = pairs;
    }
}

/// Moves between registers with the operations behind them that work on their destination: the move
/// takes over the operation's µops, which read the move's source, and nothing is left of the
/// operation.
fn fuse_moves<'a>(
    block: &[Decoded],
    prepared: &impl Fn(usize) -> &'a Prepared,
    fused: &mut [Fused],
) {
    for n in 1..block.len() {
        let alone = fused[n] == Fused::Alone && fused[n - 1] == Fused::Alone;
        if !alone || !prepared(n - 1).eliminable {
            continue;
        }
        let (mov, operation) = (&block[n - 1].instruction, &block[n].instruction);
        let to = mov.op0_register();
        // As measured on Zen 5: of the same width only, and not with itself.
        let shifts = matches!(
            operation.mnemonic(),
            Mnemonic::Shl | Mnemonic::Shr | Mnemonic::Sar
        );
        let fits = (shifts || prepared(n).facts.is(Fact::SIMPLE))
            && RegId::of(operation.op1_register()) != RegId::of(to)
            && mov.mnemonic() == Mnemonic::Mov
            && (to.is_gpr32() || to.is_gpr64())
            && operation.op0_register() == to;
        if fits {
            fused[n - 1] = Fused::WithOperation;
            fused[n] = Fused::Second;
        }
    }
}

/// Bytes of an instruction and the no-operation that is part of it, at most.
const MOST_WITH_NOP: usize = 15;

/// No-operations with the instructions before them (docs/ZEN4.md), unless they start a line of code.
fn fuse_nops<'a>(
    block: &[Decoded],
    prepared: &impl Fn(usize) -> &'a Prepared,
    fused: &mut [Fused],
) {
    for n in 1..block.len() {
        let alone = fused[n] == Fused::Alone && fused[n - 1] == Fused::Alone;
        let (first, nop) = (&block[n - 1].instruction, &block[n].instruction);
        let known = prepared(n).form.is_some() && prepared(n - 1).form.is_some();
        let fits = known
            && nop.mnemonic() == Mnemonic::Nop
            && !nop.ip().is_multiple_of(64)
            && !prepared(n - 1).operands.vector
            && !prepared(n - 1).facts.is(Fact::BRANCH)
            && first.len() + nop.len() <= MOST_WITH_NOP;
        if alone && fits {
            fused[n - 1] = Fused::WithNop;
            fused[n] = Fused::Second;
        }
    }
}

/// Figures and operands of a move that stands for the operation behind it, and its immediate.
pub(super) fn stand_for(mov: &Prepared, operation: &Prepared) -> (Perf, Operands, Option<i64>) {
    let first = |values: &[Value]| values.first().and_then(|v| v.id);
    let (to, from) = (first(&mov.operands.out_regs), first(&mov.operands.in_regs));
    let mut operands = operation.operands.clone();
    for value in operands.in_regs.iter_mut().filter(|v| v.id == to) {
        value.id = from;
    }
    (
        operation.perf.clone(),
        operands,
        operation.encoding.immediate,
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
