//! Addresses of compressed loads and stores that a file has wrong.
//!
//! Bit 6 of `c.lw` and `c.sw` is bit 2 of their offset. Files are about whose recorder took it for bit 7, so
//! that those addresses are 124 too high: values that are followed through memory go astray. A file shows
//! that itself, where what registers hold is known by other accesses.

use mcad_isa::riscv::evaluate::Values;
use mcad_isa::riscv::{Inst, Op};

/// By how much.
pub const TOO_HIGH: u32 = (1 << 7) - (1 << 2);

/// Whether an instruction is one whose address may be wrong.
pub fn may_be_wrong(opcode: u32, inst: &Inst) -> bool {
    let word = matches!(inst.op, Op::Load { size: 4, .. } | Op::Store(4));
    word && opcode & 3 == 0 && opcode >> 6 & 1 != 0
}

/// Looks for such addresses.
#[derive(Debug, Default)]
pub struct Addresses {
    /// What the other addresses show of registers.
    values: Values,
    right: u64,
    wrong: u64,
}

impl Addresses {
    /// Takes the next instruction, with its address if it accesses memory.
    pub fn look(&mut self, opcode: u32, inst: &Inst, pc: u32, address: Option<u32>) {
        if !may_be_wrong(opcode, inst) {
            self.values.execute(inst, pc, address);
            return;
        }
        let base = self.values.register(inst.rs1);
        let known = base.map(|base| base.wrapping_add(inst.imm as u32));
        match known.zip(address).map(|(known, at)| at.wrapping_sub(known)) {
            Some(0) => self.right += 1,
            Some(TOO_HIGH) => self.wrong += 1,
            _ => {}
        }
        self.values.execute(inst, pc, None);
    }

    /// Whether they are wrong.
    pub fn are_wrong(&self) -> bool {
        self.wrong > self.right
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcad_isa::riscv::decode;

    #[test]
    fn what_registers_hold_shows_wrong_addresses() {
        const SW: u32 = 0x0107_2023; // sw a6, 0(a4)
        const C_SW: u32 = 0xc348; // sw a0, 4(a4)
        const ADDI: u32 = 0x0047_0713; // addi a4, a4, 4
        let wrong = |code: &[(u32, Option<u32>)]| {
            let mut addresses = Addresses::default();
            for &(opcode, address) in code {
                addresses.look(opcode, &decode(opcode).unwrap(), 0, address);
            }
            addresses.are_wrong()
        };
        assert!(wrong(&[(SW, Some(0x100)), (C_SW, Some(0x180))]));
        assert!(!wrong(&[(SW, Some(0x100)), (C_SW, Some(0x104))]));
        let moved = |at| [(SW, Some(0x100)), (ADDI, None), (C_SW, Some(at))];
        assert!(!wrong(&moved(0x108)) && wrong(&moved(0x184)));
        assert!(!wrong(&[(C_SW, Some(0x180)), (C_SW, Some(0x180))]));
    }
}
