//! The kind of an instruction of A64 or RISC-V.
//!
//! Written down by hand, since LLVM tells kinds apart only by the units of one CPU or another.
//! Sources: Arm Architecture Reference Manual, C4.1 (data processing, scalar floating point,
//! Advanced SIMD); RISC-V unprivileged specification, "RV32/64G instruction set listings" and
//! chapters "Zcb" and "V".

use mcad_proto::event::Arch;

use super::Instruction;
use super::wire::flag;
use crate::code::Flow;
use crate::kind::Kind;

/// The kind of an instruction.
#[must_use]
pub fn kind(instruction: &Instruction) -> Kind {
    let flags = instruction.opcode().flags;
    if instruction.flow() != Flow::Next && instruction.flow() != Flow::System {
        return Kind::Branch;
    }
    if flags & flag::LOAD != 0 {
        return Kind::Load;
    }
    if flags & flag::STORE != 0 {
        return Kind::Store;
    }
    match instruction.arch {
        Arch::AArch64 => a64(instruction.word),
        _ => riscv(instruction.word),
    }
}

fn a64(w: u32) -> Kind {
    match w {
        // Three sources: madd, smaddl, umulh and their like.
        _ if w & 0x1f00_0000 == 0x1b00_0000 => Kind::Multiply,
        // Two sources: udiv, sdiv.
        _ if w & 0x5fe0_f800 == 0x1ac0_0800 => Kind::Divide,
        // Scalar floating point, three sources: fmadd and its like.
        _ if w & 0x5f00_0000 == 0x1f00_0000 => Kind::FpMultiply,
        // Scalar floating point, two sources.
        _ if w & 0x5f20_0c00 == 0x1e20_0800 => match w >> 12 & 15 {
            0 | 8 => Kind::FpMultiply,
            1 => Kind::FpDivide,
            _ => Kind::FpAdd,
        },
        // Scalar floating point, one source: square roots.
        _ if w & 0x5f3f_fc00 == 0x1e21_c000 => Kind::FpDivide,
        // Scalar floating point: the other moves, comparisons, conversions.
        _ if w & 0x5f20_0000 == 0x1e20_0000 || w & 0x5f20_0000 == 0x1e00_0000 => Kind::FpAdd,
        // Advanced SIMD, three registers of the same kind, vector and scalar.
        _ if w & 0x9f20_0400 == 0x0e20_0400 || w & 0xdf20_0400 == 0x5e20_0400 => {
            match (w >> 11 & 31, w >> 29 & 1) {
                // mla, mul; pmul is polynomial.
                (0x12 | 0x13 | 0x16, _) => Kind::Multiply,
                // fmla, fmls; fmul, fmulx; frecps, frsqrts.
                (0x19 | 0x1b | 0x1f, 0) | (0x1b, 1) => Kind::FpMultiply,
                (0x1f, 1) => Kind::FpDivide,
                (0x18.., _) => Kind::FpAdd,
                _ => Kind::Alu,
            }
        }
        // Advanced SIMD, two registers: fsqrt; conversions, comparisons with zero, roundings.
        _ if w & 0x9f3e_0c00 == 0x0e20_0800 || w & 0xdf3e_0c00 == 0x5e20_0800 => {
            match (w >> 12 & 31, w >> 29 & 1, w >> 23 & 1) {
                (0x1f, 1, 1) => Kind::FpDivide,
                (0x0c..=0x0f | 0x16..=0x1f, ..) => Kind::FpAdd,
                _ => Kind::Alu,
            }
        }
        // Advanced SIMD, three registers of different kinds: smlal, smull, sqdmull and their like.
        _ if w & 0x9f20_0c00 == 0x0e20_0000 => match w >> 12 & 15 {
            8..=13 => Kind::Multiply,
            _ => Kind::Alu,
        },
        _ => Kind::Alu,
    }
}

fn riscv(w: u32) -> Kind {
    // Zcb's c.mul is the only compressed one of these.
    if w & 3 != 3 {
        return match w & 0xfc63 {
            0x9c41 => Kind::Multiply,
            _ => Kind::Alu,
        };
    }
    let (funct7, funct3) = (w >> 25, w >> 12 & 7);
    match w & 0x7f {
        // OP and OP-32 with M's functions.
        0x33 | 0x3b if funct7 == 1 => match funct3 {
            0..4 => Kind::Multiply,
            _ => Kind::Divide,
        },
        // madd, msub, nmsub, nmadd.
        0x43 | 0x47 | 0x4b | 0x4f => Kind::FpMultiply,
        // OP-FP: the upper five bits are the function, the lower two the format.
        0x53 => match funct7 >> 2 {
            2 => Kind::FpMultiply,
            3 | 0x0b => Kind::FpDivide,
            _ => Kind::FpAdd,
        },
        // OP-V: the upper six bits are the function, the kind of operands is funct3.
        0x57 => match (funct3, w >> 26) {
            // OPFVV, OPFVF.
            (1 | 5, 0x20 | 0x21) => Kind::FpDivide,
            (1, 0x13) if w >> 15 & 31 == 0 => Kind::FpDivide,
            (1 | 5, 0x24 | 0x27..=0x2f | 0x38 | 0x3c..=0x3f) => Kind::FpMultiply,
            (1 | 5, _) => Kind::FpAdd,
            // OPMVV, OPMVX.
            (2 | 6, 0x20..=0x23) => Kind::Divide,
            (2 | 6, 0x24..=0x2f | 0x38..=0x3f) => Kind::Multiply,
            _ => Kind::Alu,
        },
        _ => Kind::Alu,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Words by GNU as 2.40.
    const A64: &[(u32, Kind)] = &[
        (0x8b020020, Kind::Alu),        // add x0, x1, x2
        (0xf9400020, Kind::Load),       // ldr x0, [x1]
        (0xa8c107e0, Kind::Load),       // ldp x0, x1, [sp], #16
        (0xf9000420, Kind::Store),      // str x0, [x1, #8]
        (0xfd400020, Kind::Load),       // ldr d0, [x1]
        (0x14000000, Kind::Branch),     // b
        (0xb4000000, Kind::Branch),     // cbz x0,
        (0xd65f03c0, Kind::Branch),     // ret
        (0xd63f0060, Kind::Branch),     // blr x3
        (0xd4000001, Kind::Alu),        // svc #0x0
        (0x9b020c20, Kind::Multiply),   // madd x0, x1, x2, x3
        (0x1b027c20, Kind::Multiply),   // mul w0, w1, w2
        (0x9b227c20, Kind::Multiply),   // smull x0, w1, w2
        (0x9bc27c20, Kind::Multiply),   // umulh x0, x1, x2
        (0x9ac20820, Kind::Divide),     // udiv x0, x1, x2
        (0x1ac20c20, Kind::Divide),     // sdiv w0, w1, w2
        (0x9ac22020, Kind::Alu),        // lsl x0, x1, x2
        (0x1ac24820, Kind::Alu),        // crc32w w0, w1, w2
        (0x1f420c20, Kind::FpMultiply), // fmadd d0, d1, d2, d3
        (0x1e220820, Kind::FpMultiply), // fmul s0, s1, s2
        (0x1e628820, Kind::FpMultiply), // fnmul d0, d1, d2
        (0x1e621820, Kind::FpDivide),   // fdiv d0, d1, d2
        (0x1e622820, Kind::FpAdd),      // fadd d0, d1, d2
        (0x1e61c020, Kind::FpDivide),   // fsqrt d0, d1
        (0x1e612000, Kind::FpAdd),      // fcmp d0, d1
        (0x1e604020, Kind::FpAdd),      // fmov d0, d1
        (0x9e780020, Kind::FpAdd),      // fcvtzs x0, d1
        (0x9e620020, Kind::FpAdd),      // scvtf d0, x1
        (0x1e620c20, Kind::FpAdd),      // fcsel d0, d1, d2, eq
        (0x4ea28420, Kind::Alu),        // add v0.4s, v1.4s, v2.4s
        (0x6e221c20, Kind::Alu),        // eor v0.16b, v1.16b, v2.16b
        (0x4ea29c20, Kind::Multiply),   // mul v0.4s, v1.4s, v2.4s
        (0x4ea29420, Kind::Multiply),   // mla v0.4s, v1.4s, v2.4s
        (0x4e22cc20, Kind::FpMultiply), // fmla v0.4s, v1.4s, v2.4s
        (0x6e62dc20, Kind::FpMultiply), // fmul v0.2d, v1.2d, v2.2d
        (0x6e62fc20, Kind::FpDivide),   // fdiv v0.2d, v1.2d, v2.2d
        (0x4e22d420, Kind::FpAdd),      // fadd v0.4s, v1.4s, v2.4s
        (0x6ee1f820, Kind::FpDivide),   // fsqrt v0.2d, v1.2d
        (0x4e21d820, Kind::FpAdd),      // scvtf v0.4s, v1.4s
        (0x2e22c020, Kind::Multiply),   // umull v0.8h, v1.8b, v2.8b
        (0x6e228c20, Kind::Alu),        // cmeq v0.16b, v1.16b, v2.16b
        (0x4ea2bc20, Kind::Alu),        // addp v0.4s, v1.4s, v2.4s
        (0x0e205820, Kind::Alu),        // cnt v0.8b, v1.8b
        (0x7ee2d420, Kind::FpAdd),      // fabd d0, d1, d2
    ];

    const RISCV: &[(u32, Kind)] = &[
        (0x00c58533, Kind::Alu),        // add a0,a1,a2
        (0x0005b503, Kind::Load),       // ld a0,0(a1)
        (0x00a5b023, Kind::Store),      // sd a0,0(a1)
        (0x0005b507, Kind::Load),       // fld fa0,0(a1)
        (0x00b6252f, Kind::Load),       // amoadd.w a0,a1,(a2)
        (0x00b50063, Kind::Branch),     // beq a0,a1,14
        (0x000000ef, Kind::Branch),     // jal
        (0x00008067, Kind::Branch),     // ret
        (0x00000073, Kind::Alu),        // ecall
        (0x02c58533, Kind::Multiply),   // mul a0,a1,a2
        (0x02c5b533, Kind::Multiply),   // mulhu a0,a1,a2
        (0x02c5853b, Kind::Multiply),   // mulw a0,a1,a2
        (0x02c5c533, Kind::Divide),     // div a0,a1,a2
        (0x02c5f53b, Kind::Divide),     // remuw a0,a1,a2
        (0x6ac5f543, Kind::FpMultiply), // fmadd.d fa0,fa1,fa2,fa3
        (0x10c5f553, Kind::FpMultiply), // fmul.s fa0,fa1,fa2
        (0x1ac5f553, Kind::FpDivide),   // fdiv.d fa0,fa1,fa2
        (0x5a05f553, Kind::FpDivide),   // fsqrt.d fa0,fa1
        (0x02c5f553, Kind::FpAdd),      // fadd.d fa0,fa1,fa2
        (0xa2c5a553, Kind::FpAdd),      // feq.d a0,fa1,fa2
        (0xd2257553, Kind::FpAdd),      // fcvt.d.l fa0,a0
        (0xe2050553, Kind::FpAdd),      // fmv.x.d a0,fa0
        (0x022180d7, Kind::Alu),        // vadd.vv v1,v2,v3
        (0x9621a0d7, Kind::Multiply),   // vmul.vv v1,v2,v3
        (0xb63560d7, Kind::Multiply),   // vmacc.vx v1,a0,v3
        (0x8621a0d7, Kind::Divide),     // vdiv.vv v1,v2,v3
        (0x022190d7, Kind::FpAdd),      // vfadd.vv v1,v2,v3
        (0x922550d7, Kind::FpMultiply), // vfmul.vf v1,v2,fa0
        (0xb23110d7, Kind::FpMultiply), // vfmacc.vv v1,v2,v3
        (0x822190d7, Kind::FpDivide),   // vfdiv.vv v1,v2,v3
        (0x4e2010d7, Kind::FpDivide),   // vfsqrt.v v1,v2
        (0x0221a0d7, Kind::Alu),        // vredsum.vs v1,v2,v3
        (0xee42a157, Kind::Multiply),   // vwmul.vv v2,v4,v5
        (0x02056087, Kind::Load),       // vle32.v v1,(a0)
        (0x020560a7, Kind::Store),      // vse32.v v1,(a0)
    ];

    fn all(arch: Arch, words: &[(u32, Kind)]) {
        for &(word, expected) in words {
            let (decoded, bad) = super::super::decode(arch, &word.to_le_bytes(), 0x1000);
            let name = decoded.first().map(|i| i.opcode().name.clone());
            assert!(
                !decoded.is_empty() && bad.is_none_or(|at| at > 0),
                "{word:08x}"
            );
            assert_eq!(kind(&decoded[0]), expected, "{word:08x} {name:?}");
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
