//! What instructions compute where their inputs are known.
//!
//! A trace has addresses and the way that branches went, no values. Those that matter to time
//! (the operands of a divider that ends early) can mostly be computed from the start of a program
//! on: immediates, results of known inputs, what was stored before, and base registers by the
//! addresses that the trace gives. A value that cannot be known stays unknown.
//!
//! Memory that was read before it was written is taken to be zero, as C has it for data without a value
//! of their own, until the trace refutes that. An access elsewhere than such a zero says shows a pointer:
//! its word is unknown from then on. A branch that goes the other way shows data; linkers lay those with
//! values of their own before those without, so that everything up to them is unknown from then on.

use rustc_hash::{FxHashMap, FxHashSet};

use super::decode::{Arithmetic, Condition, Inst, Multiply, Op};

/// Bytes that are remembered as written; a hart that writes more has them forgotten.
const MOST_WRITTEN: usize = 1 << 20;

/// A value that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known<T> {
    value: T,
    /// It rests on memory at this address being zero, which was never seen to be written: of several, at
    /// the lowest.
    assumes: Option<u32>,
}

impl<T> Known<T> {
    fn sure(value: T) -> Self {
        Self {
            value,
            assumes: None,
        }
    }
}

/// The lower of the addresses that two values rest on.
fn lower(a: Option<u32>, b: Option<u32>) -> Option<u32> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (one, other) => one.or(other),
    }
}

/// Registers of a hart, as far as known.
#[derive(Clone, Copy, Debug)]
pub struct Registers([Option<Known<u32>>; 32]);

impl Default for Registers {
    fn default() -> Self {
        let mut registers = [None; 32];
        registers[0] = Some(Known::sure(0));
        Self(registers)
    }
}

impl Registers {
    /// What a register holds.
    #[must_use]
    pub fn get(&self, number: u8) -> Option<u32> {
        self.known(number).map(|known| known.value)
    }

    fn known(&self, number: u8) -> Option<Known<u32>> {
        self.0.get(usize::from(number)).copied().flatten()
    }

    /// What the values of two registers rest on.
    fn assumed(&self, inst: &Inst) -> Option<u32> {
        let of = |number| self.known(number).and_then(|known| known.assumes);
        match inst.op {
            Op::Branch(_) | Op::Arithmetic(_) | Op::Multiply(_) | Op::Divide { .. } => {
                lower(of(inst.rs1), of(inst.rs2))
            }
            Op::Jalr | Op::Load { .. } | Op::Store(_) | Op::ArithmeticImmediate(_) => of(inst.rs1),
            Op::Lui | Op::Auipc | Op::Jal | Op::Csr | Op::Fence | Op::System => None,
        }
    }

    fn set(&mut self, number: u8, value: Option<Known<u32>>) {
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
    ) -> Option<Option<Known<u32>>> {
        let (a, b) = (self.get(inst.rs1), self.get(inst.rs2));
        let imm = inst.imm as u32;
        let value = match inst.op {
            Op::Lui => Some(imm),
            Op::Auipc => Some(pc.wrapping_add(imm)),
            Op::Jal | Op::Jalr => Some(pc.wrapping_add(u32::from(inst.len))),
            Op::Load { size, signed } => {
                return Some(address.and_then(|at| values.load(at, size, signed)));
            }
            Op::ArithmeticImmediate(operation) => a.map(|a| arithmetic(operation, a, imm)),
            Op::Arithmetic(operation) => a.zip(b).map(|(a, b)| arithmetic(operation, a, b)),
            Op::Multiply(half) => a.zip(b).map(|(a, b)| multiply(half, a, b)),
            Op::Divide { signed, remainder } => {
                a.zip(b).map(|(a, b)| divide(signed, remainder, a, b))
            }
            Op::Csr => None,
            Op::Store(_) | Op::Branch(_) | Op::Fence | Op::System => return None,
        };
        let assumes = match inst.op {
            Op::Jalr => None,
            _ => self.assumed(inst),
        };
        Some(value.map(|value| Known { value, assumes }))
    }
}

/// Registers and memory of a hart, as far as known.
#[derive(Clone, Debug, Default)]
pub struct Values {
    registers: Registers,
    /// Bytes that were written, by address; `None`: with something unknown.
    memory: FxHashMap<u32, Option<Known<u8>>>,
    /// What was written was forgotten once: nothing is taken to be zero any more.
    forgot: bool,
    /// What of the rest was not zero at the start.
    initialised: Initialised,
    /// Where control should have gone, and what that rests on, if on anything.
    expected: Option<Known<u32>>,
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
    /// base register of an access is known from then on.
    pub fn execute(&mut self, inst: &Inst, pc: u32, address: Option<u32>) {
        if let Some(expected) = self.expected.take().filter(|e| e.value != pc) {
            self.refute(expected.assumes, Initialised::up_to);
        }
        if let Some(address) = address {
            let base = address.wrapping_sub(inst.imm as u32);
            if let Some(known) = self.registers.known(inst.rs1).filter(|k| k.value != base) {
                self.refute(known.assumes, Initialised::word);
            }
            self.registers.set(inst.rs1, Some(Known::sure(base)));
            if let Op::Store(size) = inst.op {
                self.store(address, size, self.registers.known(inst.rs2));
            }
        }
        if matches!(inst.op, Op::Branch(_) | Op::Jalr)
            && let assumes @ Some(_) = self.registers.assumed(inst)
        {
            let next = self.registers.next(inst, pc);
            self.expected = next.map(|value| Known { value, assumes });
        }
        if let Some(result) = self.registers.result(inst, pc, address, self) {
            self.registers.set(inst.rd, result);
        }
    }

    /// Memory at this address was not zero.
    fn refute(&mut self, address: Option<u32>, shows: impl FnOnce(&mut Initialised, u32)) {
        let Some(address) = address else {
            return;
        };
        shows(&mut self.initialised, address);
        for register in &mut self.registers.0 {
            *register = register.filter(|known| !self.initialised.has(known.assumes));
        }
    }

    fn load(&self, address: u32, size: u8, signed: bool) -> Option<Known<u32>> {
        let mut value = 0;
        let mut assumes = None;
        for n in (0..u32::from(size)).rev() {
            let at = address.wrapping_add(n);
            let byte = match self.memory.get(&at) {
                Some(written) => (*written)?,
                None if self.forgot => return None,
                None => Known {
                    value: 0,
                    assumes: Some(at),
                },
            };
            if self.initialised.has(byte.assumes) {
                return None;
            }
            value = value << 8 | u32::from(byte.value);
            assumes = lower(assumes, byte.assumes);
        }
        let unused = 32 - 8 * u32::from(size);
        let value = if signed {
            (((value << unused) as i32) >> unused) as u32
        } else {
            value
        };
        Some(Known { value, assumes })
    }

    fn store(&mut self, address: u32, size: u8, value: Option<Known<u32>>) {
        if self.memory.len() >= MOST_WRITTEN {
            self.memory.clear();
            self.forgot = true;
        }
        for n in 0..u32::from(size) {
            let byte = value.map(|known| Known {
                value: (known.value >> (8 * n)) as u8,
                assumes: known.assumes,
            });
            self.memory.insert(address.wrapping_add(n), byte);
        }
    }
}

/// Memory that had values of its own when the program started.
#[derive(Clone, Debug, Default)]
struct Initialised {
    /// All up to here.
    end: Option<u32>,
    /// Words beyond.
    words: FxHashSet<u32>,
}

impl Initialised {
    fn up_to(&mut self, address: u32) {
        self.end = self.end.max(Some(address));
    }

    fn word(&mut self, address: u32) {
        self.words.insert(address / 4);
    }

    /// Whether what rests on this address being zero does not hold.
    fn has(&self, address: Option<u32>) -> bool {
        address.is_some_and(|at| Some(at) <= self.end || self.words.contains(&(at / 4)))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::riscv::decode;

    fn run(code: &[(u32, u32, Option<u32>)]) -> Values {
        let mut values = Values::default();
        for &(pc, opcode, address) in code {
            values.execute(&decode(opcode).unwrap(), pc, address);
        }
        values
    }

    const LOAD_T1: u32 = 0x0002_a303; // lw t1, 0(t0)
    const LOAD_T2: u32 = 0x0002_a383; // lw t2, 0(t0)
    const ADD: u32 = 0x0013_0e13; // addi t3, t1, 1
    const BRANCH: u32 = 0x0003_1463; // bnez t1, +8

    #[test]
    fn memory_that_was_never_written_is_zero_until_a_branch_says_otherwise() {
        let kept = run(&[
            (0, LOAD_T1, Some(64)),
            (4, ADD, None),
            (8, BRANCH, None),
            (12, ADD, None),
        ]);
        assert_eq!((kept.register(6), kept.register(28)), (Some(0), Some(1)));
        // Taken: the word at 64 was not zero, nor need be what lies before it.
        let code = [
            (0, LOAD_T1, Some(64)),
            (4, ADD, None),
            (8, BRANCH, None),
            (16, LOAD_T2, Some(60)),
        ];
        let refuted = run(&code);
        assert_eq!((refuted.register(6), refuted.register(28)), (None, None));
        assert_eq!(refuted.register(7), None);
        let beyond = run(&[&code[..], &[(20, LOAD_T2, Some(68))]].concat());
        assert_eq!(beyond.register(7), Some(0));
    }

    #[test]
    fn a_pointer_refutes_its_own_word_only() {
        // lw t0, 0(t0) at 64, then lw t1, 0(t0) at 128: the word at 64 held 128.
        let code = [(0, 0x0002_a283, Some(64)), (4, LOAD_T1, Some(128))];
        let values = run(&code);
        assert_eq!(
            (values.register(5), values.register(6)),
            (Some(128), Some(0))
        );
        assert_eq!(values.load(60, 4, false).map(|k| k.value), Some(0));
        assert_eq!(values.load(64, 4, false), None);
    }
}
