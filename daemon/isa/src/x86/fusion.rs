//! What a core makes of two instructions that stand side by side: one macro-op.
//!
//! A compare and its jump, and on some cores a move and the operation behind it. Who is fused is
//! decided when a block is built, since it depends on its addresses and neighbours only.

use iced_x86::{Instruction, Mnemonic};

use super::build::Decoded;
use super::facts::Fact;
use super::figures::Prepared;
use crate::machine::params::{Frontend, PortSet};
use crate::program::flag;
use crate::regs::RegId;

/// Fuses what `p` allows: changes the figures and returns the flags of each instruction.
pub(super) fn fuse(p: &Frontend, block: &[Decoded], prepared: &mut [Prepared]) -> Vec<u32> {
    let mut fused = vec![0; block.len()];
    if p.macro_fusion {
        fuse_jumps(block, prepared, &mut fused);
    }
    if p.move_fusion {
        fuse_moves(block, prepared, &mut fused);
    }
    fused
}

/// Jumps with what their flags come from, unless they start a line of code.
fn fuse_jumps(block: &[Decoded], prepared: &mut [Prepared], fused: &mut [u32]) {
    for n in 1..block.len() {
        let jump = &block[n].instruction;
        let fusible = prepared[n - 1].form.map_or(0, |form| form.macro_fusible);
        if !prepared[n].facts.is(Fact::CONDITIONAL_JUMP)
            || jump.ip().is_multiple_of(64)
            || fusible & (1 << condition(jump)) == 0
        {
            continue;
        }
        fused[n] |= flag::FUSED_PREVIOUS;
        fused[n - 1] |= flag::FUSED_NEXT;
        let ports = prepared[n].perf.ports.first();
        let jump_ports = ports.map_or(PortSet::NONE, |p| p.0);
        let perf = &mut prepared[n - 1].perf;
        if perf.uops == 0 {
            perf.uops = 1;
            perf.ports = vec![(jump_ports, 1)];
        } else if let Some(place) = perf.ports.iter().position(|(p, _)| p.contains(jump_ports)) {
            // The pair executes where the jump can.
            perf.ports[place].0 = jump_ports;
        }
    }
}

/// Moves between registers with the operations behind them that work on their destination: the move
/// takes over the operation's µops, which read the move's source, and nothing is left of the
/// operation.
fn fuse_moves(block: &[Decoded], prepared: &mut [Prepared], fused: &mut [u32]) {
    for n in 1..block.len() {
        if fused[n] != 0 || fused[n - 1] != 0 || !prepared[n - 1].eliminable {
            continue;
        }
        let (mov, operation) = (&block[n - 1].instruction, &block[n].instruction);
        let to = mov.op0_register();
        // As measured on Zen 5: of the same width only, and not with itself.
        let shifts = matches!(
            operation.mnemonic(),
            Mnemonic::Shl | Mnemonic::Shr | Mnemonic::Sar
        );
        let fits = (shifts || prepared[n].facts.is(Fact::SIMPLE))
            && RegId::of(operation.op1_register()) != RegId::of(to)
            && mov.mnemonic() == Mnemonic::Mov
            && (to.is_gpr32() || to.is_gpr64())
            && operation.op0_register() == to;
        if !fits {
            continue;
        }
        let (to, from) = (RegId::of(to), RegId::of(mov.op1_register()));
        let immediate = prepared[n].encoding.immediate;
        let mut operands = prepared[n].operands.clone();
        for value in operands.in_regs.iter_mut().filter(|v| v.id == to) {
            value.id = from;
        }
        prepared[n - 1].stands_for = Some((prepared[n].perf.clone(), operands, immediate));
        prepared[n - 1].eliminable = false;
        fused[n - 1] |= flag::MOVE_FUSED;
        fused[n] |= flag::FUSED_PREVIOUS;
    }
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
