//! What instructions compute where their inputs are known.
//!
//! A trace has addresses and the way that branches went, no values. Those that matter to time
//! (the operands of a divider that ends early) can mostly be computed from the start of a program
//! on: immediates, results of known inputs, what was stored before, and base registers by the
//! addresses that the trace gives. A value that cannot be known stays unknown.

use rustc_hash::FxHashMap;

use super::decode::{Arithmetic, Condition, Inst, Multiply, Op};

/// Registers of a hart, as far as known.
#[derive(Clone, Copy, Debug)]
pub struct Registers([Option<u32>; 32]);

impl Default for Registers {
    fn default() -> Self {
        let mut registers = [None; 32];
        registers[0] = Some(0);
        Self(registers)
    }
}

impl Registers {
    /// What a register holds.
    #[must_use]
    pub fn get(&self, number: u8) -> Option<u32> {
        self.0.get(usize::from(number)).copied().flatten()
    }

    fn set(&mut self, number: u8, value: Option<u32>) {
        if number != 0
            && let Some(register) = self.0.get_mut(usize::from(number))
        {
            *register = value;
        }
    }

    /// Where control goes after an instruction at `pc`, if that is known.
    #[must_use]
    pub fn next(&self, inst: &Inst, pc: u32) -> Option<u32> {
        let (a, b) = (self.get(inst.rs1), self.get(inst.rs2));
        let to = pc.wrapping_add(inst.imm as u32);
        let after = pc.wrapping_add(u32::from(inst.len));
        match inst.op {
            Op::Jal => Some(to),
            Op::Jalr => a.map(|a| a.wrapping_add(inst.imm as u32) & !1),
            Op::Branch(condition) => a
                .zip(b)
                .map(|(a, b)| if holds(condition, a, b) { to } else { after }),
            _ => Some(after),
        }
    }

    /// Executes an instruction at `pc`; loads read what `values` has in memory, and stores are
    /// forgotten.
    pub fn execute(&mut self, inst: &Inst, pc: u32, values: &Values) {
        let address = self.get(inst.rs1).map(|a| a.wrapping_add(inst.imm as u32));
        if let Some(result) = self.result(inst, pc, address, values) {
            self.set(inst.rd, result);
        }
    }

    /// What an instruction writes; `None` when it writes no register.
    fn result(
        &self,
        inst: &Inst,
        pc: u32,
        address: Option<u32>,
        values: &Values,
    ) -> Option<Option<u32>> {
        let (a, b) = (self.get(inst.rs1), self.get(inst.rs2));
        let imm = inst.imm as u32;
        Some(match inst.op {
            Op::Lui => Some(imm),
            Op::Auipc => Some(pc.wrapping_add(imm)),
            Op::Jal | Op::Jalr => Some(pc.wrapping_add(u32::from(inst.len))),
            Op::Load { size, signed } => address.and_then(|at| values.load(at, size, signed)),
            Op::ArithmeticImmediate(operation) => a.map(|a| arithmetic(operation, a, imm)),
            Op::Arithmetic(operation) => a.zip(b).map(|(a, b)| arithmetic(operation, a, b)),
            Op::Multiply(half) => a.zip(b).map(|(a, b)| multiply(half, a, b)),
            Op::Divide { signed, remainder } => {
                a.zip(b).map(|(a, b)| divide(signed, remainder, a, b))
            }
            Op::Csr => None,
            Op::Store(_) | Op::Branch(_) | Op::Fence | Op::System => return None,
        })
    }
}

/// Registers and memory of a hart, as far as known.
#[derive(Clone, Debug, Default)]
pub struct Values {
    registers: Registers,
    /// Bytes that were written, by address; `None`: with something unknown.
    memory: FxHashMap<u32, Option<u8>>,
}

impl Values {
    /// What a register holds.
    #[must_use]
    pub fn register(&self, number: u8) -> Option<u32> {
        self.registers.get(number)
    }

    /// All registers.
    #[must_use]
    pub fn registers(&self) -> Registers {
        self.registers
    }

    /// Executes an instruction at `pc`; `address` is that of its access, where it has one. The
    /// base register of an access is known from then on. Memory that was read before it was
    /// written is taken to be zero, as C has it for data without a value of its own.
    pub fn execute(&mut self, inst: &Inst, pc: u32, address: Option<u32>) {
        if let Some(address) = address {
            let base = address.wrapping_sub(inst.imm as u32);
            self.registers.set(inst.rs1, Some(base));
            if let Op::Store(size) = inst.op {
                self.store(address, size, self.registers.get(inst.rs2));
            }
        }
        if let Some(result) = self.registers.result(inst, pc, address, self) {
            self.registers.set(inst.rd, result);
        }
    }

    fn load(&self, address: u32, size: u8, signed: bool) -> Option<u32> {
        let mut value = 0;
        for n in (0..u32::from(size)).rev() {
            let byte = self.memory.get(&address.wrapping_add(n));
            value = value << 8 | u32::from(byte.copied().unwrap_or(Some(0))?);
        }
        let unused = 32 - 8 * u32::from(size);
        Some(if signed {
            (((value << unused) as i32) >> unused) as u32
        } else {
            value
        })
    }

    fn store(&mut self, address: u32, size: u8, value: Option<u32>) {
        for n in 0..u32::from(size) {
            let byte = value.map(|value| (value >> (8 * n)) as u8);
            self.memory.insert(address.wrapping_add(n), byte);
        }
    }
}

fn holds(condition: Condition, a: u32, b: u32) -> bool {
    match condition {
        Condition::Equal => a == b,
        Condition::NotEqual => a != b,
        Condition::Less => (a as i32) < b as i32,
        Condition::GreaterEqual => (a as i32) >= b as i32,
        Condition::LessUnsigned => a < b,
        Condition::GreaterEqualUnsigned => a >= b,
    }
}

fn arithmetic(operation: Arithmetic, a: u32, b: u32) -> u32 {
    match operation {
        Arithmetic::Add => a.wrapping_add(b),
        Arithmetic::Subtract => a.wrapping_sub(b),
        Arithmetic::ShiftLeft => a << (b & 31),
        Arithmetic::SetLess => u32::from((a as i32) < b as i32),
        Arithmetic::SetLessUnsigned => u32::from(a < b),
        Arithmetic::Xor => a ^ b,
        Arithmetic::ShiftRight => a >> (b & 31),
        Arithmetic::ShiftRightArithmetic => ((a as i32) >> (b & 31)) as u32,
        Arithmetic::Or => a | b,
        Arithmetic::And => a & b,
    }
}

fn multiply(half: Multiply, a: u32, b: u32) -> u32 {
    let (signed_a, signed_b) = (i64::from(a as i32), i64::from(b as i32));
    let (wide_a, wide_b) = (i64::from(a), i64::from(b));
    match half {
        Multiply::Low => a.wrapping_mul(b),
        Multiply::High => ((signed_a * signed_b) >> 32) as u32,
        Multiply::HighSignedUnsigned => ((signed_a * wide_b) >> 32) as u32,
        Multiply::HighUnsigned => ((wide_a as u64 * wide_b as u64) >> 32) as u32,
    }
}

/// Division by zero and overflow give what the manual's table 7.1 has.
fn divide(signed: bool, remainder: bool, a: u32, b: u32) -> u32 {
    match (b, signed, remainder) {
        (0, _, false) => u32::MAX,
        (0, _, true) => a,
        (_, true, false) => (a as i32).wrapping_div(b as i32) as u32,
        (_, true, true) => (a as i32).wrapping_rem(b as i32) as u32,
        (_, false, false) => a / b,
        (_, false, true) => a % b,
    }
}
