//! What an instruction of A64 or RISC-V computes, as far as the mechanistic models of in-order
//! cores tell kinds of work apart.
//!
//! Written down by hand, since LLVM tells kinds apart only by the units of one CPU or another.
//! Sources: Arm Architecture Reference Manual, C4.1 (data processing, scalar floating point,
//! Advanced SIMD); RISC-V unprivileged specification, "RV32/64G instruction set listings" and
//! chapters "Zcb" and "V".

use mcad_proto::event::Arch;

use super::Instruction;
use super::wire::flag;
use crate::code::Flow;

/// Kinds of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Integer arithmetic, logic, moves; of vectors, too.
    Integer,
    /// A load, alone or with what is done to its value.
    Load,
    /// A store.
    Store,
    /// A branch.
    Branch,
    /// An integer multiplication.
    Multiply,
    /// An integer division.
    Divide,
    /// Floating point: additions, comparisons, conversions.
    FpAdd,
    /// Floating point: multiplications, with an addition or without.
    FpMultiply,
    /// Floating point: divisions and square roots.
    FpDivide,
}

/// What an instruction does.
#[must_use]
pub fn work(instruction: &Instruction) -> Work {
    let flags = instruction.opcode().flags;
    if instruction.flow() != Flow::Next && instruction.flow() != Flow::System {
        return Work::Branch;
    }
    if flags & flag::LOAD != 0 {
        return Work::Load;
    }
    if flags & flag::STORE != 0 {
        return Work::Store;
    }
    match instruction.arch {
        Arch::AArch64 => a64(instruction.word),
        _ => riscv(instruction.word),
    }
}

fn a64(w: u32) -> Work {
    match w {
        // Three sources: madd, smaddl, umulh and their like.
        _ if w & 0x1f00_0000 == 0x1b00_0000 => Work::Multiply,
        // Two sources: udiv, sdiv.
        _ if w & 0x5fe0_f800 == 0x1ac0_0800 => Work::Divide,
        // Scalar floating point, three sources: fmadd and its like.
        _ if w & 0x5f00_0000 == 0x1f00_0000 => Work::FpMultiply,
        // Scalar floating point, two sources.
        _ if w & 0x5f20_0c00 == 0x1e20_0800 => match w >> 12 & 15 {
            0 | 8 => Work::FpMultiply,
            1 => Work::FpDivide,
            _ => Work::FpAdd,
        },
        // Scalar floating point, one source: square roots.
        _ if w & 0x5f3f_fc00 == 0x1e21_c000 => Work::FpDivide,
        // Scalar floating point: the other moves, comparisons, conversions.
        _ if w & 0x5f20_0000 == 0x1e20_0000 || w & 0x5f20_0000 == 0x1e00_0000 => Work::FpAdd,
        // Advanced SIMD, three registers of the same kind, vector and scalar.
        _ if w & 0x9f20_0400 == 0x0e20_0400 || w & 0xdf20_0400 == 0x5e20_0400 => {
            match (w >> 11 & 31, w >> 29 & 1) {
                // mla, mul; pmul is polynomial.
                (0x12 | 0x13 | 0x16, _) => Work::Multiply,
                // fmla, fmls; fmul, fmulx; frecps, frsqrts.
                (0x19 | 0x1b | 0x1f, 0) | (0x1b, 1) => Work::FpMultiply,
                (0x1f, 1) => Work::FpDivide,
                (0x18.., _) => Work::FpAdd,
                _ => Work::Integer,
            }
        }
        // Advanced SIMD, two registers: fsqrt; conversions, comparisons with zero, roundings.
        _ if w & 0x9f3e_0c00 == 0x0e20_0800 || w & 0xdf3e_0c00 == 0x5e20_0800 => {
            match (w >> 12 & 31, w >> 29 & 1, w >> 23 & 1) {
                (0x1f, 1, 1) => Work::FpDivide,
                (0x0c..=0x0f | 0x16..=0x1f, ..) => Work::FpAdd,
                _ => Work::Integer,
            }
        }
        // Advanced SIMD, three registers of different kinds: smlal, smull, sqdmull and their like.
        _ if w & 0x9f20_0c00 == 0x0e20_0000 => match w >> 12 & 15 {
            8..=13 => Work::Multiply,
            _ => Work::Integer,
        },
        _ => Work::Integer,
    }
}

fn riscv(w: u32) -> Work {
    // Zcb's c.mul is the only compressed one of these.
    if w & 3 != 3 {
        return match w & 0xfc63 {
            0x9c41 => Work::Multiply,
            _ => Work::Integer,
        };
    }
    let (funct7, funct3) = (w >> 25, w >> 12 & 7);
    match w & 0x7f {
        // OP and OP-32 with M's functions.
        0x33 | 0x3b if funct7 == 1 => match funct3 {
            0..4 => Work::Multiply,
            _ => Work::Divide,
        },
        // madd, msub, nmsub, nmadd.
        0x43 | 0x47 | 0x4b | 0x4f => Work::FpMultiply,
        // OP-FP: the upper five bits are the function, the lower two the format.
        0x53 => match funct7 >> 2 {
            2 => Work::FpMultiply,
            3 | 0x0b => Work::FpDivide,
            _ => Work::FpAdd,
        },
        // OP-V: the upper six bits are the function, the kind of operands is funct3.
        0x57 => match (funct3, w >> 26) {
            // OPFVV, OPFVF.
            (1 | 5, 0x20 | 0x21) => Work::FpDivide,
            (1, 0x13) if w >> 15 & 31 == 0 => Work::FpDivide,
            (1 | 5, 0x24 | 0x27..=0x2f | 0x38 | 0x3c..=0x3f) => Work::FpMultiply,
            (1 | 5, _) => Work::FpAdd,
            // OPMVV, OPMVX.
            (2 | 6, 0x20..=0x23) => Work::Divide,
            (2 | 6, 0x24..=0x2f | 0x38..=0x3f) => Work::Multiply,
            _ => Work::Integer,
        },
        _ => Work::Integer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Words by GNU as 2.40.
    const A64: &[(u32, Work)] = &[
        (0x8b020020, Work::Integer),    // add x0, x1, x2
        (0xf9400020, Work::Load),       // ldr x0, [x1]
        (0xa8c107e0, Work::Load),       // ldp x0, x1, [sp], #16
        (0xf9000420, Work::Store),      // str x0, [x1, #8]
        (0xfd400020, Work::Load),       // ldr d0, [x1]
        (0x14000000, Work::Branch),     // b
        (0xb4000000, Work::Branch),     // cbz x0,
        (0xd65f03c0, Work::Branch),     // ret
        (0xd63f0060, Work::Branch),     // blr x3
        (0xd4000001, Work::Integer),    // svc #0x0
        (0x9b020c20, Work::Multiply),   // madd x0, x1, x2, x3
        (0x1b027c20, Work::Multiply),   // mul w0, w1, w2
        (0x9b227c20, Work::Multiply),   // smull x0, w1, w2
        (0x9bc27c20, Work::Multiply),   // umulh x0, x1, x2
        (0x9ac20820, Work::Divide),     // udiv x0, x1, x2
        (0x1ac20c20, Work::Divide),     // sdiv w0, w1, w2
        (0x9ac22020, Work::Integer),    // lsl x0, x1, x2
        (0x1ac24820, Work::Integer),    // crc32w w0, w1, w2
        (0x1f420c20, Work::FpMultiply), // fmadd d0, d1, d2, d3
        (0x1e220820, Work::FpMultiply), // fmul s0, s1, s2
        (0x1e628820, Work::FpMultiply), // fnmul d0, d1, d2
        (0x1e621820, Work::FpDivide),   // fdiv d0, d1, d2
        (0x1e622820, Work::FpAdd),      // fadd d0, d1, d2
        (0x1e61c020, Work::FpDivide),   // fsqrt d0, d1
        (0x1e612000, Work::FpAdd),      // fcmp d0, d1
        (0x1e604020, Work::FpAdd),      // fmov d0, d1
        (0x9e780020, Work::FpAdd),      // fcvtzs x0, d1
        (0x9e620020, Work::FpAdd),      // scvtf d0, x1
        (0x1e620c20, Work::FpAdd),      // fcsel d0, d1, d2, eq
        (0x4ea28420, Work::Integer),    // add v0.4s, v1.4s, v2.4s
        (0x6e221c20, Work::Integer),    // eor v0.16b, v1.16b, v2.16b
        (0x4ea29c20, Work::Multiply),   // mul v0.4s, v1.4s, v2.4s
        (0x4ea29420, Work::Multiply),   // mla v0.4s, v1.4s, v2.4s
        (0x4e22cc20, Work::FpMultiply), // fmla v0.4s, v1.4s, v2.4s
        (0x6e62dc20, Work::FpMultiply), // fmul v0.2d, v1.2d, v2.2d
        (0x6e62fc20, Work::FpDivide),   // fdiv v0.2d, v1.2d, v2.2d
        (0x4e22d420, Work::FpAdd),      // fadd v0.4s, v1.4s, v2.4s
        (0x6ee1f820, Work::FpDivide),   // fsqrt v0.2d, v1.2d
        (0x4e21d820, Work::FpAdd),      // scvtf v0.4s, v1.4s
        (0x2e22c020, Work::Multiply),   // umull v0.8h, v1.8b, v2.8b
        (0x6e228c20, Work::Integer),    // cmeq v0.16b, v1.16b, v2.16b
        (0x4ea2bc20, Work::Integer),    // addp v0.4s, v1.4s, v2.4s
        (0x0e205820, Work::Integer),    // cnt v0.8b, v1.8b
        (0x7ee2d420, Work::FpAdd),      // fabd d0, d1, d2
    ];

    const RISCV: &[(u32, Work)] = &[
        (0x00c58533, Work::Integer),    // add a0,a1,a2
        (0x0005b503, Work::Load),       // ld a0,0(a1)
        (0x00a5b023, Work::Store),      // sd a0,0(a1)
        (0x0005b507, Work::Load),       // fld fa0,0(a1)
        (0x00b6252f, Work::Load),       // amoadd.w a0,a1,(a2)
        (0x00b50063, Work::Branch),     // beq a0,a1,14
        (0x000000ef, Work::Branch),     // jal
        (0x00008067, Work::Branch),     // ret
        (0x00000073, Work::Integer),    // ecall
        (0x02c58533, Work::Multiply),   // mul a0,a1,a2
        (0x02c5b533, Work::Multiply),   // mulhu a0,a1,a2
        (0x02c5853b, Work::Multiply),   // mulw a0,a1,a2
        (0x02c5c533, Work::Divide),     // div a0,a1,a2
        (0x02c5f53b, Work::Divide),     // remuw a0,a1,a2
        (0x6ac5f543, Work::FpMultiply), // fmadd.d fa0,fa1,fa2,fa3
        (0x10c5f553, Work::FpMultiply), // fmul.s fa0,fa1,fa2
        (0x1ac5f553, Work::FpDivide),   // fdiv.d fa0,fa1,fa2
        (0x5a05f553, Work::FpDivide),   // fsqrt.d fa0,fa1
        (0x02c5f553, Work::FpAdd),      // fadd.d fa0,fa1,fa2
        (0xa2c5a553, Work::FpAdd),      // feq.d a0,fa1,fa2
        (0xd2257553, Work::FpAdd),      // fcvt.d.l fa0,a0
        (0xe2050553, Work::FpAdd),      // fmv.x.d a0,fa0
        (0x022180d7, Work::Integer),    // vadd.vv v1,v2,v3
        (0x9621a0d7, Work::Multiply),   // vmul.vv v1,v2,v3
        (0xb63560d7, Work::Multiply),   // vmacc.vx v1,a0,v3
        (0x8621a0d7, Work::Divide),     // vdiv.vv v1,v2,v3
        (0x022190d7, Work::FpAdd),      // vfadd.vv v1,v2,v3
        (0x922550d7, Work::FpMultiply), // vfmul.vf v1,v2,fa0
        (0xb23110d7, Work::FpMultiply), // vfmacc.vv v1,v2,v3
        (0x822190d7, Work::FpDivide),   // vfdiv.vv v1,v2,v3
        (0x4e2010d7, Work::FpDivide),   // vfsqrt.v v1,v2
        (0x0221a0d7, Work::Integer),    // vredsum.vs v1,v2,v3
        (0xee42a157, Work::Multiply),   // vwmul.vv v2,v4,v5
        (0x02056087, Work::Load),       // vle32.v v1,(a0)
        (0x020560a7, Work::Store),      // vse32.v v1,(a0)
    ];

    fn all(arch: Arch, words: &[(u32, Work)]) {
        for &(word, expected) in words {
            let (decoded, bad) = super::super::decode(arch, &word.to_le_bytes(), 0x1000);
            let name = decoded.first().map(|i| i.opcode().name.clone());
            assert!(
                !decoded.is_empty() && bad.is_none_or(|at| at > 0),
                "{word:08x}"
            );
            assert_eq!(work(&decoded[0]), expected, "{word:08x} {name:?}");
        }
    }

    #[test]
    fn of_a64() {
        all(Arch::AArch64, A64);
    }

    #[test]
    fn of_riscv() {
        all(Arch::RiscV64, RISCV);
    }
}
