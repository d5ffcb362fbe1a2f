//! Where control goes after an instruction of A64 or RISC-V.
//!
//! Written down by hand, since LLVM's marks are a compiler's: it does not say that `jalr` returns.
//! Sources: Arm Architecture Reference Manual, C4.1 (branches, exception generating); RISC-V
//! unprivileged specification, 2.5 (the hints of `jal` and `jalr`) and chapter "C".

use mcad_proto::event::Arch;

use crate::code::Flow;

/// Where control goes after `word` at `address`.
#[must_use]
pub fn flow(arch: Arch, word: u32, address: u64) -> Flow {
    match arch {
        Arch::AArch64 => a64(word, address),
        Arch::RiscV32 => within_32_bits(riscv(word, address)),
        _ if word & 3 == 3 => riscv(word, address),
        _ => compressed(word, address),
    }
}

/// Addresses wrap at 32 bits.
fn within_32_bits(flow: Flow) -> Flow {
    let cut = |target: Option<u64>| target.map(|target| target & u64::from(u32::MAX));
    match flow {
        Flow::Jump(target) => Flow::Jump(cut(target)),
        Flow::Conditional(target) => Flow::Conditional(cut(target)),
        Flow::Call(target) => Flow::Call(cut(target)),
        other => other,
    }
}

/// The field `pos..pos + len` as a signed number.
fn signed(word: u32, pos: u32, len: u32) -> i64 {
    let field = i64::from(word >> pos & ((1 << len) - 1));
    field << (64 - len) >> (64 - len)
}

fn a64(word: u32, address: u64) -> Flow {
    let to = |words: i64| Some(address.wrapping_add_signed(words << 2));
    match word {
        w if w & 0xfc00_0000 == 0x1400_0000 => Flow::Jump(to(signed(w, 0, 26))),
        w if w & 0xfc00_0000 == 0x9400_0000 => Flow::Call(to(signed(w, 0, 26))),
        // b.cond, bc.cond; cbz, cbnz
        w if w & 0xff00_0000 == 0x5400_0000 || w & 0x7e00_0000 == 0x3400_0000 => {
            Flow::Conditional(to(signed(w, 5, 19)))
        }
        // tbz, tbnz
        w if w & 0x7e00_0000 == 0x3600_0000 => Flow::Conditional(to(signed(w, 5, 14))),
        // br, blr, ret and their authenticated forms
        w if w & 0xfe00_0000 == 0xd600_0000 => match w >> 21 & 3 {
            0 => Flow::Jump(None),
            1 => Flow::Call(None),
            _ => Flow::Return,
        },
        // svc
        w if w & 0xffe0_001f == 0xd400_0001 => Flow::System,
        // hvc, smc, brk, hlt, dcps
        w if w & 0xff00_0000 == 0xd400_0000 => Flow::Exception,
        _ => Flow::Next,
    }
}

/// Registers that hold return addresses.
fn links(register: u32) -> bool {
    matches!(register, 1 | 5)
}

fn riscv(word: u32, address: u64) -> Flow {
    let to = |offset: i64| Some(address.wrapping_add_signed(offset));
    let bits = |high: u32, low: u32| i64::from(word >> low & ((1 << (high - low + 1)) - 1));
    let (rd, rs1) = (word >> 7 & 31, word >> 15 & 31);
    let sign = signed(word, 31, 1);
    match word & 0x7f {
        0x6f => {
            let offset = sign << 20 | bits(19, 12) << 12 | bits(20, 20) << 11 | bits(30, 21) << 1;
            match links(rd) {
                true => Flow::Call(to(offset)),
                false => Flow::Jump(to(offset)),
            }
        }
        0x67 => match (links(rd), links(rs1)) {
            (true, _) => Flow::Call(None),
            (false, true) => Flow::Return,
            (false, false) => Flow::Jump(None),
        },
        0x63 => {
            let offset = sign << 12 | bits(7, 7) << 11 | bits(30, 25) << 5 | bits(11, 8) << 1;
            Flow::Conditional(to(offset))
        }
        0x73 if word == 0x73 => Flow::System,
        0x73 if word >> 12 & 7 == 0 => Flow::Exception,
        _ => Flow::Next,
    }
}

fn compressed(word: u32, address: u64) -> Flow {
    let bit = |from: u32, to: u32| i64::from(word >> from & 1) << to;
    let bits =
        |high: u32, low: u32, to: u32| i64::from(word >> low & ((1 << (high - low + 1)) - 1)) << to;
    let to = |offset: i64| Some(address.wrapping_add_signed(offset));
    let sign = signed(word, 12, 1);
    match (word & 3, word >> 13 & 7) {
        // c.j
        (1, 5) => {
            let high = sign << 11 | bit(11, 4) | bits(10, 9, 8) | bit(8, 10);
            Flow::Jump(to(high | bit(7, 6) | bit(6, 7) | bits(5, 3, 1) | bit(2, 5)))
        }
        // c.beqz, c.bnez
        (1, 6 | 7) => {
            let offset = sign << 8 | bits(11, 10, 3) | bits(6, 5, 6) | bits(4, 3, 1) | bit(2, 5);
            Flow::Conditional(to(offset))
        }
        // c.jr, c.jalr, c.ebreak
        (2, 4) if word >> 2 & 31 == 0 => match (word >> 12 & 1, word >> 7 & 31) {
            (1, 0) => Flow::Exception,
            (1, _) => Flow::Call(None),
            (_, register) if links(register) => Flow::Return,
            _ => Flow::Jump(None),
        },
        _ => Flow::Next,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_of_a64() {
        let at = |word| flow(Arch::AArch64, word, 0x1000);
        assert_eq!(at(0x1400_0002), Flow::Jump(Some(0x1008)));
        assert_eq!(at(0x97ff_ffff), Flow::Call(Some(0xffc)));
        assert_eq!(at(0x5400_0041), Flow::Conditional(Some(0x1008)));
        assert_eq!(at(0xb4ff_ffe0), Flow::Conditional(Some(0xffc)));
        assert_eq!(at(0x3600_0040), Flow::Conditional(Some(0x1008)));
        assert_eq!(at(0xd61f_0020), Flow::Jump(None));
        assert_eq!(at(0xd63f_0020), Flow::Call(None));
        assert_eq!(at(0xd65f_03c0), Flow::Return);
        assert_eq!(at(0xd400_0001), Flow::System);
        assert_eq!(at(0xd420_0000), Flow::Exception);
        assert_eq!(at(0x8b01_0000), Flow::Next);
    }

    #[test]
    fn branches_of_riscv() {
        let at = |word| flow(Arch::RiscV64, word, 0x1000);
        // jal ra, 8; j -4; jalr ra, a0; ret; jr a5; beq a0, a1, 16; ecall
        assert_eq!(at(0x0080_00ef), Flow::Call(Some(0x1008)));
        assert_eq!(at(0xffdf_f06f), Flow::Jump(Some(0xffc)));
        assert_eq!(at(0x0005_00e7), Flow::Call(None));
        assert_eq!(at(0x0000_8067), Flow::Return);
        assert_eq!(at(0x0007_8067), Flow::Jump(None));
        assert_eq!(at(0x00b5_0863), Flow::Conditional(Some(0x1010)));
        assert_eq!(at(0x73), Flow::System);
        // c.j 8; c.beqz a0, 8; ret; c.jalr a5; c.jr a5; c.mv a0, a1
        assert_eq!(at(0xa021), Flow::Jump(Some(0x1008)));
        assert_eq!(at(0xc501), Flow::Conditional(Some(0x1008)));
        assert_eq!(at(0x8082), Flow::Return);
        assert_eq!(at(0x9782), Flow::Call(None));
        assert_eq!(at(0x8782), Flow::Jump(None));
        assert_eq!(at(0x852e), Flow::Next);
    }
}
