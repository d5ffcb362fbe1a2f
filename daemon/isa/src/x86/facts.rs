//! What an instruction is, beyond what the tables say that it costs: found once, here, and read by
//! whoever builds, follows addresses and values, or looks for bounds.

use iced_x86::{ConditionCode, FlowControl, Instruction, Mnemonic, OpKind, Register};

use super::encoding::Encoding;

bitflags::bitflags! {
    /// Facts that hold or do not.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Fact: u32 {
        /// Goes somewhere else than to the next instruction, perhaps.
        const BRANCH = 1;
        /// A conditional jump that may macro-fuse.
        const CONDITIONAL_JUMP = 1 << 1;
        /// Moves or sets on a condition.
        const CONDITIONAL = 1 << 2;
        /// Copies a register, or part of it, which rename may do.
        const MOVE = 1 << 3;
        /// A logical operation of registers and immediates that writes flags.
        const LOGIC = 1 << 4;
        /// Shifts or rotates a general-purpose register.
        const SHIFT = 1 << 5;
        /// Adds or subtracts vectors or scalars of floating-point numbers, without further work.
        const FP_ADD = 1 << 6;
        /// Loads what the address of the next load may be (uiCA, fast pointer chasing).
        const POINTER_LOAD = 1 << 7;
        /// Accesses 256 bits or more of memory at a time.
        const WIDE_ACCESS = 1 << 8;
        /// Waits for an empty re-order buffer.
        const SERIALIZING = 1 << 9;
        /// Loads wait for it and it waits for loads.
        const LOAD_FENCE = 1 << 10;
        /// Stores wait for it and it waits for stores.
        const STORE_FENCE = 1 << 11;
        /// String instruction with a repeat prefix.
        const REP = 1 << 12;
        /// Repeats by comparing (`scas`, `cmps`).
        const REP_COMPARE = 1 << 13;
        /// `pop rsp`, `pop r12`.
        const POP_RSP_OR_R12 = 1 << 14;
        /// `movzx` from a byte register that shares its encoding with `ah`, `ch`, `dh` or `bh`.
        const HIGH8_ALIAS = 1 << 15;
        /// Computes in one cycle on any integer ALU, from registers and immediates.
        const SIMPLE = 1 << 16;
        /// Divides floating-point numbers, or takes their square root.
        const FLOAT_DIVISION = 1 << 17;
    }
}

/// What becomes of a destination register, as far as it follows from one source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effect {
    /// The source decides it alone: a copy, or what is extracted from it.
    Copy,
    /// So much more than the source.
    Add(i64),
    /// Something else.
    #[default]
    Other,
}

/// The facts of one instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Those that hold.
    pub holds: Fact,
    /// What it does to its destination.
    pub effect: Effect,
    /// What it adds to a 64-bit register to make another, or the same: rename can do that.
    pub step: Option<i64>,
}

impl Facts {
    /// Finds them.
    #[must_use]
    pub fn of(instruction: &Instruction, encoding: &Encoding) -> Self {
        let effect = effect(instruction, encoding.immediate);
        Self {
            holds: of_control(instruction)
                | of_operation(instruction)
                | of_operands(instruction)
                | of_order(instruction),
            effect,
            step: step(instruction, effect),
        }
    }

    /// The facts of another instruction that differs in its constants only.
    #[must_use]
    pub fn of_other(&self, instruction: &Instruction, immediate: Option<i64>) -> Self {
        let effect = effect(instruction, immediate);
        Self {
            holds: self.holds,
            effect,
            step: step(instruction, effect),
        }
    }

    /// Whether any of these holds.
    #[inline]
    #[must_use]
    pub fn is(&self, any: Fact) -> bool {
        self.holds.intersects(any)
    }
}

fn when(condition: bool, fact: Fact) -> Fact {
    if condition { fact } else { Fact::empty() }
}

fn is_in_memory(instruction: &Instruction) -> bool {
    (0..instruction.op_count()).any(|n| instruction.op_kind(n) == OpKind::Memory)
}

fn of_control(instruction: &Instruction) -> Fact {
    let flow = instruction.flow_control();
    let leaves = matches!(
        flow,
        FlowControl::UnconditionalBranch
            | FlowControl::IndirectBranch
            | FlowControl::ConditionalBranch
            | FlowControl::Return
            | FlowControl::Call
            | FlowControl::IndirectCall
            | FlowControl::XbeginXabortXend
    );
    let traps = flow != FlowControl::Next
        && matches!(
            instruction.mnemonic(),
            Mnemonic::Syscall | Mnemonic::Int | Mnemonic::Int3
        );
    let jumps = flow == FlowControl::ConditionalBranch;
    let conditional = instruction.condition_code() != ConditionCode::None;
    when(leaves || traps, Fact::BRANCH)
        | when(
            jumps && instruction.is_jcc_short_or_near(),
            Fact::CONDITIONAL_JUMP,
        )
        | when(conditional && !jumps, Fact::CONDITIONAL)
}

fn of_operation(instruction: &Instruction) -> Fact {
    use Mnemonic as M;
    let registers = !is_in_memory(instruction);
    let logic = Fact::LOGIC | Fact::SIMPLE;
    match instruction.mnemonic() {
        M::Test if registers => Fact::LOGIC,
        M::And | M::Or | M::Xor if registers => logic,
        M::Add | M::Sub | M::Inc | M::Dec | M::Not if registers => Fact::SIMPLE,
        M::Shl
        | M::Sal
        | M::Shr
        | M::Sar
        | M::Rol
        | M::Ror
        | M::Shlx
        | M::Shrx
        | M::Sarx
        | M::Rorx => Fact::SHIFT,
        M::Addss
        | M::Addsd
        | M::Addps
        | M::Addpd
        | M::Subss
        | M::Subsd
        | M::Subps
        | M::Subpd
        | M::Vaddss
        | M::Vaddsd
        | M::Vaddps
        | M::Vaddpd
        | M::Vsubss
        | M::Vsubsd
        | M::Vsubps
        | M::Vsubpd => Fact::FP_ADD,
        mnemonic if divides_floats(mnemonic) => Fact::FLOAT_DIVISION,
        mnemonic => when(is_move(mnemonic), Fact::MOVE),
    }
}

/// Copies of registers and memory: of registers rename may do them.
fn is_move(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(
        mnemonic,
        M::Mov | M::Movzx | M::Movaps | M::Movapd | M::Movups | M::Movupd | M::Movdqa | M::Movdqu
    ) || matches!(
        mnemonic,
        M::Vmovaps
            | M::Vmovapd
            | M::Vmovups
            | M::Vmovupd
            | M::Vmovdqa
            | M::Vmovdqu
            | M::Vmovdqa32
            | M::Vmovdqa64
            | M::Vmovdqu8
            | M::Vmovdqu16
            | M::Vmovdqu32
            | M::Vmovdqu64
            | M::Vmovd
            | M::Vmovq
    ) || matches!(
        mnemonic,
        M::Kmovb | M::Kmovw | M::Kmovd | M::Kmovq | M::Bndmov
    )
}

/// Divisions and square roots of floating-point numbers.
fn divides_floats(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(
        mnemonic,
        M::Divps
            | M::Divpd
            | M::Divss
            | M::Divsd
            | M::Sqrtps
            | M::Sqrtpd
            | M::Sqrtss
            | M::Sqrtsd
            | M::Vdivps
            | M::Vdivpd
            | M::Vdivph
            | M::Vdivss
            | M::Vdivsd
            | M::Vdivsh
            | M::Vsqrtps
            | M::Vsqrtpd
            | M::Vsqrtph
            | M::Vsqrtss
            | M::Vsqrtsd
            | M::Vsqrtsh
            | M::Fdiv
            | M::Fdivp
            | M::Fdivr
            | M::Fdivrp
            | M::Fidiv
            | M::Fidivr
            | M::Fsqrt
    )
}

fn of_operands(instruction: &Instruction) -> Fact {
    use Mnemonic as M;
    let memory = is_in_memory(instruction);
    let mnemonic = instruction.mnemonic();
    let to = instruction.op0_register();
    let whole = to.is_gpr32() || to.is_gpr64();
    let pointer = match mnemonic {
        M::Mov => memory && whole,
        M::Movsxd => memory && to.is_gpr64(),
        M::Pop => to.is_gpr64(),
        _ => false,
    };
    let pops = mnemonic == M::Pop
        && matches!(
            to,
            Register::RSP | Register::SP | Register::R12 | Register::R12W
        );
    let high8_alias = mnemonic == M::Movzx
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
        );
    let bytes = instruction.memory_size().size();
    when(pointer, Fact::POINTER_LOAD)
        | when(pops, Fact::POP_RSP_OR_R12)
        | when(high8_alias, Fact::HIGH8_ALIAS)
        | when(memory && matches!(bytes, 32 | 64), Fact::WIDE_ACCESS)
}

fn of_order(instruction: &Instruction) -> Fact {
    use Mnemonic as M;
    let fact = match instruction.mnemonic() {
        M::Lfence => Fact::SERIALIZING | Fact::LOAD_FENCE,
        M::Mfence => Fact::LOAD_FENCE | Fact::STORE_FENCE,
        M::Sfence => Fact::STORE_FENCE,
        M::Cpuid | M::Iretq | M::Iretd | M::Serialize => Fact::SERIALIZING,
        _ => Fact::empty(),
    };
    let rep = (instruction.has_rep_prefix() || instruction.has_repne_prefix())
        && instruction.is_string_instruction();
    fact | when(rep, Fact::REP) | when(rep && instruction.rflags_written() != 0, Fact::REP_COMPARE)
}

fn effect(instruction: &Instruction, immediate: Option<i64>) -> Effect {
    use Mnemonic as M;
    match (instruction.mnemonic(), immediate) {
        (M::Inc, _) => Effect::Add(1),
        (M::Dec, _) => Effect::Add(-1),
        (M::Add, Some(by)) => Effect::Add(by),
        (M::Sub, Some(by)) => Effect::Add(by.wrapping_neg()),
        (
            M::Movsx
            | M::Movsxd
            | M::Movd
            | M::Movq
            | M::Movmskps
            | M::Movmskpd
            | M::Vmovmskps
            | M::Vmovmskpd
            | M::Pmovmskb
            | M::Vpmovmskb,
            _,
        ) => Effect::Copy,
        (mnemonic, _) if is_move(mnemonic) => Effect::Copy,
        _ => Effect::Other,
    }
}

fn step(instruction: &Instruction, effect: Effect) -> Option<i64> {
    if !instruction.op0_register().is_gpr64() {
        return None;
    }
    match effect {
        Effect::Add(by) => Some(by),
        Effect::Other
            if instruction.mnemonic() == Mnemonic::Lea
                && instruction.memory_base().is_gpr64()
                && instruction.memory_index() == Register::None =>
        {
            Some(instruction.memory_displacement64() as i64)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::build::decode;
    use super::super::encoding::encoding;
    use super::*;

    fn facts(bytes: &[u8]) -> Facts {
        let (decoded, _) = decode(bytes, 0);
        Facts::of(
            &decoded[0].instruction,
            &encoding(&decoded[0].instruction, bytes),
        )
    }

    #[test]
    fn facts_are_those_of_the_instruction() {
        for (bytes, holds, effect, step) in [
            // mov rdx, r14; mov eax, [rdi]; movzx eax, sil
            (&[0x4c, 0x89, 0xf2][..], Fact::MOVE, Effect::Copy, None),
            (
                &[0x8b, 0x07],
                Fact::MOVE | Fact::POINTER_LOAD,
                Effect::Copy,
                None,
            ),
            (
                &[0x40, 0x0f, 0xb6, 0xc6],
                Fact::MOVE | Fact::HIGH8_ALIAS,
                Effect::Copy,
                None,
            ),
            // vdivss xmm0, xmm1, xmm2; sqrtsd xmm0, xmm1; fdivp st(1), st
            (
                &[0xc5, 0xf2, 0x5e, 0xc2],
                Fact::FLOAT_DIVISION,
                Effect::Other,
                None,
            ),
            (
                &[0xf2, 0x0f, 0x51, 0xc1],
                Fact::FLOAT_DIVISION,
                Effect::Other,
                None,
            ),
            (&[0xde, 0xf9], Fact::FLOAT_DIVISION, Effect::Other, None),
            // add rcx, 8; sub ecx, 8; lea rax, [rbx + 4]; lea rax, [rbx + rcx]
            (
                &[0x48, 0x83, 0xc1, 8],
                Fact::SIMPLE,
                Effect::Add(8),
                Some(8),
            ),
            (&[0x83, 0xe9, 8], Fact::SIMPLE, Effect::Add(-8), None),
            (
                &[0x48, 0x8d, 0x43, 4],
                Fact::empty(),
                Effect::Other,
                Some(4),
            ),
            (
                &[0x48, 0x8d, 0x04, 0x0b],
                Fact::empty(),
                Effect::Other,
                None,
            ),
            // test rax, rax; and rax, [rdi]; vaddps ymm0, ymm1, [rdi]
            (&[0x48, 0x85, 0xc0], Fact::LOGIC, Effect::Other, None),
            (&[0x48, 0x23, 0x07], Fact::empty(), Effect::Other, None),
            (
                &[0xc5, 0xf4, 0x58, 0x07],
                Fact::FP_ADD | Fact::WIDE_ACCESS,
                Effect::Other,
                None,
            ),
            // cmove eax, ebx; je; rep stosb; mfence
            (&[0x0f, 0x44, 0xc3], Fact::CONDITIONAL, Effect::Other, None),
            (
                &[0x74, 0x00],
                Fact::BRANCH | Fact::CONDITIONAL_JUMP,
                Effect::Other,
                None,
            ),
            (&[0xf3, 0xaa], Fact::REP, Effect::Other, None),
            (
                &[0x0f, 0xae, 0xf0],
                Fact::LOAD_FENCE | Fact::STORE_FENCE,
                Effect::Other,
                None,
            ),
        ] {
            let found = facts(bytes);
            assert_eq!(
                (found.holds, found.effect, found.step),
                (holds, effect, step),
                "{bytes:x?}"
            );
        }
    }
}
