//! The 16-bit forms of the C extension, expanded to the 32-bit instructions that they stand for.
//!
//! Source: ISA manual, chapter 16 and tables 16.5 to 16.7 (RV32C without floating point).

/// Bits `high..=low` of `word`, moved to bit `to`.
const fn field(word: u32, high: u32, low: u32, to: u32) -> u32 {
    ((word >> low) & ((1 << (high - low + 1)) - 1)) << to
}

/// The value of `bits` bits with the sign of its highest one.
const fn sign(value: u32, bits: u32) -> i32 {
    ((value << (32 - bits)) as i32) >> (32 - bits)
}

const fn i_type(opcode: u32, funct3: u32, rd: u32, rs1: u32, imm: i32) -> u32 {
    opcode | (rd << 7) | (funct3 << 12) | (rs1 << 15) | ((imm as u32) << 20)
}

const fn r_type(funct7: u32, funct3: u32, rd: u32, rs1: u32, rs2: u32) -> u32 {
    0x33 | (rd << 7) | (funct3 << 12) | (rs1 << 15) | (rs2 << 20) | (funct7 << 25)
}

const fn store(rs1: u32, rs2: u32, imm: u32) -> u32 {
    0x23 | (2 << 12) | (rs1 << 15) | (rs2 << 20) | field(imm, 4, 0, 7) | field(imm, 11, 5, 25)
}

const fn branch(funct3: u32, rs1: u32, imm: i32) -> u32 {
    let imm = imm as u32;
    0x63 | (funct3 << 12)
        | (rs1 << 15)
        | field(imm, 11, 11, 7)
        | field(imm, 4, 1, 8)
        | field(imm, 10, 5, 25)
        | field(imm, 12, 12, 31)
}

const fn jump(rd: u32, imm: i32) -> u32 {
    let imm = imm as u32;
    0x6f | (rd << 7)
        | field(imm, 19, 12, 12)
        | field(imm, 11, 11, 20)
        | field(imm, 10, 1, 21)
        | field(imm, 20, 20, 31)
}

/// The 32-bit instruction that a 16-bit one stands for; `None` when it is none of RV32C.
#[must_use]
pub fn expand(half: u16) -> Option<u32> {
    let c = u32::from(half);
    let rd = field(c, 11, 7, 0);
    let rs2 = field(c, 6, 2, 0);
    let (high, low) = (8 + field(c, 9, 7, 0), 8 + field(c, 4, 2, 0));
    let six = sign(field(c, 12, 12, 5) | field(c, 6, 2, 0), 6);
    let word = field(c, 12, 10, 3) | field(c, 6, 6, 2) | field(c, 5, 5, 6);
    Some(match (c & 3, c >> 13) {
        (0, 0) => {
            let imm =
                field(c, 12, 11, 4) | field(c, 10, 7, 6) | field(c, 6, 6, 2) | field(c, 5, 5, 3);
            if imm == 0 {
                return None;
            }
            i_type(0x13, 0, low, 2, imm as i32)
        }
        (0, 2) => i_type(0x03, 2, low, high, word as i32),
        (0, 6) => store(high, low, word),
        (1, 0) => i_type(0x13, 0, rd, rd, six),
        (1, 1 | 5) => {
            let imm = field(c, 12, 12, 11)
                | field(c, 11, 11, 4)
                | field(c, 10, 9, 8)
                | field(c, 8, 8, 10)
                | field(c, 7, 7, 6)
                | field(c, 6, 6, 7)
                | field(c, 5, 3, 1)
                | field(c, 2, 2, 5);
            jump(u32::from(c >> 13 == 1), sign(imm, 12))
        }
        (1, 2) => i_type(0x13, 0, rd, 0, six),
        (1, 3) if rd == 2 => {
            let imm = field(c, 12, 12, 9)
                | field(c, 6, 6, 4)
                | field(c, 5, 5, 6)
                | field(c, 4, 3, 7)
                | field(c, 2, 2, 5);
            if imm == 0 {
                return None;
            }
            i_type(0x13, 0, 2, 2, sign(imm, 10))
        }
        (1, 3) if six != 0 => 0x37 | (rd << 7) | ((six as u32) << 12),
        (1, 4) => match (field(c, 11, 10, 0), field(c, 12, 12, 0), field(c, 6, 5, 0)) {
            (0, 0, _) => i_type(0x13, 5, high, high, rs2 as i32),
            (1, 0, _) => i_type(0x13, 5, high, high, rs2 as i32 | 0x400),
            (2, _, _) => i_type(0x13, 7, high, high, six),
            (3, 0, 0) => r_type(0x20, 0, high, high, low),
            (3, 0, 1) => r_type(0, 4, high, high, low),
            (3, 0, 2) => r_type(0, 6, high, high, low),
            (3, 0, 3) => r_type(0, 7, high, high, low),
            _ => return None,
        },
        (1, n @ (6 | 7)) => {
            let imm = field(c, 12, 12, 8)
                | field(c, 11, 10, 3)
                | field(c, 6, 5, 6)
                | field(c, 4, 3, 1)
                | field(c, 2, 2, 5);
            branch(n - 6, high, sign(imm, 9))
        }
        (2, 0) if field(c, 12, 12, 0) == 0 => i_type(0x13, 1, rd, rd, rs2 as i32),
        (2, 2) if rd != 0 => {
            let imm = field(c, 12, 12, 5) | field(c, 6, 4, 2) | field(c, 3, 2, 6);
            i_type(0x03, 2, rd, 2, imm as i32)
        }
        (2, 4) => match (field(c, 12, 12, 0), rd, rs2) {
            (0, 0, 0) => return None,
            (0, _, 0) => i_type(0x67, 0, 0, rd, 0),
            (0, _, _) => r_type(0, 0, rd, 0, rs2),
            (_, 0, 0) => 0x0010_0073,
            (_, _, 0) => i_type(0x67, 0, 1, rd, 0),
            (_, _, _) => r_type(0, 0, rd, rd, rs2),
        },
        (2, 6) => store(2, rs2, field(c, 12, 9, 2) | field(c, 8, 7, 6)),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::riscv::decode;

    #[test]
    fn forms_expand_to_what_the_assembler_makes_of_their_names() {
        // 16-bit form, and the 32-bit form of the same instruction by GNU as.
        for (half, word) in [
            (0x0808, 0x0101_0513), // addi a0, sp, 16
            (0x4390, 0x0007_a603), // lw a2, 0(a5)
            (0xc19c, 0x00f5_a023), // sw a5, 0(a1)
            (0x157d, 0xfff5_0513), // addi a0, a0, -1
            (0xa089, 0x0420_006f), // j +0x42
            (0x2089, 0x0420_00ef), // jal ra, +0x42
            (0x4501, 0x0000_0513), // li a0, 0
            (0x7179, 0xfd01_0113), // addi sp, sp, -48
            (0x6585, 0x0000_15b7), // lui a1, 1
            (0x8225, 0x0096_5613), // srli a2, a2, 9
            (0x8785, 0x4017_d793), // srai a5, a5, 1
            (0x8a0d, 0x0036_7613), // andi a2, a2, 3
            (0x8f99, 0x40e7_87b3), // sub a5, a5, a4
            (0x8e3d, 0x00f6_4633), // xor a2, a2, a5
            (0x8ed9, 0x00e6_e6b3), // or a3, a3, a4
            (0x8ff5, 0x00d7_f7b3), // and a5, a5, a3
            (0xf1e1, 0xfc05_90e3), // bnez a1, -64
            (0xc311, 0x0007_0263), // beqz a4, +4
            (0x070a, 0x0027_1713), // slli a4, a4, 2
            (0x40b2, 0x00c1_2083), // lw ra, 12(sp)
            (0xc606, 0x0011_2623), // sw ra, 12(sp)
            (0x8082, 0x0000_8067), // ret
            (0x9782, 0x0007_80e7), // jalr a5
            (0x892e, 0x00b0_0933), // add s2, zero, a1
            (0x97ba, 0x00e7_87b3), // add a5, a5, a4
            (0x9002, 0x0010_0073), // ebreak
        ] {
            assert_eq!(expand(half), Some(word), "{half:04x}");
        }
        assert_eq!(expand(0), None);
    }

    #[test]
    fn every_form_that_expands_is_an_instruction_of_two_bytes() {
        let mut forms = 0;
        for half in 0..=u16::MAX {
            if half & 3 != 3 && expand(half).is_some() {
                forms += 1;
                let inst = decode(u32::from(half));
                assert_eq!(inst.map(|i| i.len), Some(2), "{half:04x}");
            }
        }
        assert!(forms > 20_000, "{forms}");
    }
}
