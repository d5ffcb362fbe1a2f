//! An example instruction for a code and the traits that a form requires: to see what it reads and
//! writes, to check that a finished table finds the form again, and to measure it.

use iced_x86::{
    Code, Decoder, DecoderOptions, Encoder, Instruction, OpCodeOperandKind as Kind, OpKind,
    Register, RoundingControl,
};

use super::{Selector, Traits};

const R8: [Register; 4] = [Register::BL, Register::CL, Register::DL, Register::AL];
const R8_UPPER: [Register; 4] = [Register::BPL, Register::SPL, Register::SIL, Register::DIL];
const R8_HIGH: [Register; 4] = [Register::BH, Register::CH, Register::DH, Register::AH];

fn numbered(first: Register, position: u32) -> Register {
    Register::try_from(first as usize + position as usize).unwrap_or(first)
}

/// Builds the example; it need not be encodable.
#[must_use]
pub fn build(code: Code, selector: Selector) -> Instruction {
    let info = code.op_code();
    let wants = |bit: u32| selector.value & bit != 0;
    let mut instruction = Instruction::new();
    instruction.set_code(code);
    instruction.set_has_lock_prefix(wants(Traits::LOCK));
    instruction.set_has_rep_prefix(wants(Traits::REP));
    instruction.set_has_repne_prefix(wants(Traits::REPNE));
    if wants(Traits::MASKED) || info.require_op_mask_register() {
        instruction.set_op_mask(Register::K1);
    }
    instruction.set_zeroing_masking(wants(Traits::ZEROING));
    instruction.set_is_broadcast(wants(Traits::BROADCAST));
    if wants(Traits::ROUNDING) {
        if info.can_use_rounding_control() {
            instruction.set_rounding_control(RoundingControl::RoundDown);
        } else {
            instruction.set_suppress_all_exceptions(true);
        }
    }
    let immediate = if wants(Traits::ZERO_IMMEDIATE) { 0 } else { 2 };
    for (i, kind) in (0_u32..).zip(info.op_kinds()) {
        operand(&mut instruction, i, *kind, selector, immediate);
    }
    instruction
}

/// Encodes and decodes an example; `None` if that does not give the code back.
#[must_use]
pub fn round_trip(example: &Instruction) -> Option<Instruction> {
    let mut encoder = Encoder::new(64);
    encoder.encode(example, 0x1000).ok()?;
    let bytes = encoder.take_buffer();
    [DecoderOptions::NONE, DecoderOptions::MPX]
        .into_iter()
        .map(|options| Decoder::with_ip(64, &bytes, 0x1000, options).decode())
        .find(|decoded| decoded.code() == example.code())
}

/// Whether an operand of this kind is a register in some encodings and in memory in others.
#[must_use]
pub fn register_or_memory(kind: Kind) -> bool {
    matches!(
        kind,
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
    )
}

fn operand(instruction: &mut Instruction, i: u32, kind: Kind, selector: Selector, immediate: u8) {
    let wants = |bit: u32| selector.value & bit != 0;
    let memory = wants(Traits::MEMORY);
    let high = wants(if i == 0 {
        Traits::HIGH8_0
    } else {
        Traits::HIGH8_1
    });
    let general = |first: Register| {
        // Clear of the registers of the address below.
        let number = match (wants(Traits::UPPER_REGISTER), i) {
            (true, 0) => 5,
            _ => [3, 1, 2, 0][i as usize & 3],
        };
        numbered(first, number)
    };
    let register = match kind {
        either if memory && register_or_memory(either) => Register::None,
        Kind::r8_or_mem | Kind::r8_reg | Kind::r8_opcode => {
            let names = match (high, wants(Traits::UPPER_REGISTER) && i == 0) {
                (true, _) => R8_HIGH,
                (_, true) => R8_UPPER,
                _ => R8,
            };
            names[i as usize & 3]
        }
        Kind::r16_or_mem | Kind::r16_reg | Kind::r16_reg_mem | Kind::r16_rm | Kind::r16_opcode => {
            general(Register::AX)
        }
        Kind::r32_or_mem
        | Kind::r32_or_mem_mpx
        | Kind::r32_reg
        | Kind::r32_reg_mem
        | Kind::r32_rm
        | Kind::r32_opcode
        | Kind::r32_vvvv => general(Register::EAX),
        Kind::r64_or_mem
        | Kind::r64_or_mem_mpx
        | Kind::r64_reg
        | Kind::r64_reg_mem
        | Kind::r64_rm
        | Kind::r64_opcode
        | Kind::r64_vvvv => general(Register::RAX),
        Kind::mm_or_mem | Kind::mm_reg | Kind::mm_rm => numbered(Register::MM1, i),
        Kind::xmm_or_mem
        | Kind::xmm_reg
        | Kind::xmm_rm
        | Kind::xmm_vvvv
        | Kind::xmm_is4
        | Kind::xmm_is5 => numbered(Register::XMM1, i),
        Kind::xmmp3_vvvv => Register::XMM4,
        Kind::ymm_or_mem
        | Kind::ymm_reg
        | Kind::ymm_rm
        | Kind::ymm_vvvv
        | Kind::ymm_is4
        | Kind::ymm_is5 => numbered(Register::YMM1, i),
        Kind::zmm_or_mem | Kind::zmm_reg | Kind::zmm_rm | Kind::zmm_vvvv => {
            numbered(Register::ZMM1, i)
        }
        Kind::zmmp3_vvvv => Register::ZMM4,
        Kind::k_or_mem | Kind::k_reg | Kind::k_rm | Kind::k_vvvv => numbered(Register::K2, i),
        Kind::kp1_reg => Register::K2,
        Kind::bnd_reg | Kind::bnd_or_mem_mpx => numbered(Register::BND0, i),
        Kind::cr_reg => Register::CR4,
        Kind::dr_reg => Register::DR6,
        Kind::seg_reg => Register::DS,
        Kind::fs => Register::FS,
        Kind::gs => Register::GS,
        Kind::al => Register::AL,
        Kind::cl => Register::CL,
        Kind::ax => Register::AX,
        Kind::dx => Register::DX,
        Kind::eax => Register::EAX,
        Kind::rax => Register::RAX,
        Kind::st0 => Register::ST0,
        Kind::sti_opcode => Register::ST3,
        _ => Register::None,
    };
    if register != Register::None {
        instruction.set_op_kind(i, OpKind::Register);
        instruction.set_op_register(i, register);
        return;
    }
    match kind {
        Kind::imm8 => set_immediate(instruction, i, OpKind::Immediate8, immediate),
        Kind::imm8_const_1 => set_immediate(instruction, i, OpKind::Immediate8, 1),
        Kind::imm4_m2z => set_immediate(instruction, i, OpKind::Immediate8, 0),
        Kind::imm8sex16 => set_immediate(instruction, i, OpKind::Immediate8to16, immediate),
        Kind::imm8sex32 => set_immediate(instruction, i, OpKind::Immediate8to32, immediate),
        Kind::imm8sex64 => set_immediate(instruction, i, OpKind::Immediate8to64, immediate),
        Kind::imm16 => set_immediate(instruction, i, OpKind::Immediate16, immediate),
        Kind::imm32 => set_immediate(instruction, i, OpKind::Immediate32, immediate),
        Kind::imm32sex64 => set_immediate(instruction, i, OpKind::Immediate32to64, immediate),
        Kind::imm64 => set_immediate(instruction, i, OpKind::Immediate64, immediate),
        Kind::br16_1 | Kind::br16_2 => {
            instruction.set_op_kind(i, OpKind::NearBranch16);
            instruction.set_near_branch16(0x1040);
        }
        Kind::br32_1 | Kind::br32_4 => {
            instruction.set_op_kind(i, OpKind::NearBranch32);
            instruction.set_near_branch32(0x1040);
        }
        Kind::br64_1 | Kind::br64_4 | Kind::xbegin_2 | Kind::xbegin_4 => {
            instruction.set_op_kind(i, OpKind::NearBranch64);
            instruction.set_near_branch64(0x1040);
        }
        Kind::seg_rSI => instruction.set_op_kind(i, OpKind::MemorySegRSI),
        Kind::es_rDI => instruction.set_op_kind(i, OpKind::MemoryESRDI),
        Kind::seg_rDI => instruction.set_op_kind(i, OpKind::MemorySegRDI),
        Kind::seg_rBX_al => {
            instruction.set_op_kind(i, OpKind::Memory);
            instruction.set_memory_base(Register::RBX);
            instruction.set_memory_index(Register::AL);
        }
        Kind::mem_offs => {
            instruction.set_op_kind(i, OpKind::Memory);
            instruction.set_memory_displacement64(0x1_0000_0000);
            instruction.set_memory_displ_size(8);
        }
        _ => set_memory(instruction, i, kind, selector),
    }
}

fn set_immediate(instruction: &mut Instruction, i: u32, kind: OpKind, value: u8) {
    // A second immediate (`enter`, `extrq`) has a kind and a field of its own.
    let second = (0..i).any(|j| {
        matches!(
            instruction.op_kind(j),
            OpKind::Immediate16 | OpKind::Immediate8
        )
    });
    if second && kind == OpKind::Immediate8 {
        instruction.set_op_kind(i, OpKind::Immediate8_2nd);
        instruction.set_immediate8_2nd(value);
        return;
    }
    instruction.set_op_kind(i, kind);
    match kind {
        OpKind::Immediate8to16 => instruction.set_immediate8to16(value.into()),
        OpKind::Immediate8to32 => instruction.set_immediate8to32(value.into()),
        OpKind::Immediate8to64 => instruction.set_immediate8to64(value.into()),
        OpKind::Immediate16 => instruction.set_immediate16(value.into()),
        OpKind::Immediate32 => instruction.set_immediate32(value.into()),
        OpKind::Immediate32to64 => instruction.set_immediate32to64(value.into()),
        OpKind::Immediate64 => instruction.set_immediate64(value.into()),
        _ => instruction.set_immediate8(value),
    }
}

fn set_memory(instruction: &mut Instruction, i: u32, kind: Kind, selector: Selector) {
    let wants = |bit: u32| selector.value & bit != 0;
    let free = selector.mask & Traits::ADDRESS == 0;
    instruction.set_op_kind(i, OpKind::Memory);
    if free || wants(Traits::BASE) {
        instruction.set_memory_base(Register::RSI);
    }
    if wants(Traits::RIP) {
        instruction.set_memory_base(Register::RIP);
        instruction.set_memory_displacement64(0x2000);
        instruction.set_memory_displ_size(8);
        return;
    }
    let index = match kind {
        Kind::mem_vsib32x | Kind::mem_vsib64x => Register::XMM9,
        Kind::mem_vsib32y | Kind::mem_vsib64y => Register::YMM9,
        Kind::mem_vsib32z | Kind::mem_vsib64z => Register::ZMM9,
        _ if wants(Traits::INDEX) => Register::RDI,
        _ => Register::None,
    };
    instruction.set_memory_index(index);
    if wants(Traits::SCALED) {
        instruction.set_memory_index_scale(4);
    }
    if wants(Traits::DISPLACEMENT8) {
        instruction.set_memory_displacement64(0x10);
        instruction.set_memory_displ_size(1);
    }
    if wants(Traits::DISPLACEMENT32) {
        instruction.set_memory_displacement64(0x1234);
        instruction.set_memory_displ_size(8);
    }
}
