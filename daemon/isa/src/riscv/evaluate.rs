//! What instructions compute where their inputs are known.
//!
//! A trace has addresses and the way that branches went, no values. Those that matter to time
//! (the operands of a divider that ends early) can mostly be computed from the start of a program
//! on: immediates, results of known inputs, what was stored before, and base registers by the
//! addresses that the trace gives. A value that cannot be known stays unknown.
//!
//! Memory that was read before it was written is taken to be what the program's file has there
//! ([`Image`]), and where that is not known to be zero, as C has it for data without a value of their own,
//! until the trace refutes that. An access elsewhere than such a zero says shows a pointer:
//! its word is unknown from then on. A branch that goes the other way shows data; linkers lay those with
//! values of their own before those without, so that everything up to them is unknown from then on; of
//! what a file has only that word is.
//! A division by such a zero shows that its word was none.
//!
//! Of values that cannot be known it is followed how large they can be ([`bounds`]): shifts, masks,
//! remainders and narrow loads say so, and branches that compare with what is known. And how large they
//! likely are, which is less ([`sizes`]).

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::bounds::{self, Bounded};
use super::decode::{Condition, Inst, Op};
use super::divider::Operand;
use super::image::Image;
use super::operations::{arithmetic, divide, holds, multiply};
use super::sizes::{self, Sized};

/// Bytes that are remembered as written; a hart that writes more has them forgotten.
const MOST_WRITTEN: usize = 1 << 20;

/// A value that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known<T> {
    value: T,
    /// It rests on memory at this address being what it was at the start, which was never seen to be
    /// written: of several, at the lowest.
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

/// What a register holds.
#[derive(Clone, Copy, Debug)]
struct Value {
    known: Option<Known<u32>>,
    /// The largest that it can be, which does not rest on any assumption.
    most: u32,
    /// Bits that it likely has, likewise.
    likely: Option<u8>,
}

impl Value {
    /// Nothing is known of it but that, and how many bits it likely has.
    fn at_most(most: u32, likely: Option<u8>) -> Self {
        let bits = (most < u32::MAX).then(|| sizes::of(most));
        Self {
            known: (most == 0).then_some(Known::sure(0)),
            most,
            likely: sizes::smaller(likely, bits),
        }
    }

    /// Nothing at all is known of it.
    fn unknown() -> Self {
        Self::at_most(u32::MAX, None)
    }

    /// It is known; `likely`: how many bits it has if what that rests on does not hold.
    fn known(known: Known<u32>, likely: Option<u8>) -> Self {
        Self {
            known: Some(known),
            most: match known.assumes {
                None => known.value,
                Some(_) => u32::MAX,
            },
            likely: match known.assumes {
                None => Some(sizes::of(known.value)),
                Some(_) => likely,
            },
        }
    }

    fn sure(value: u32) -> Self {
        Self::known(Known::sure(value), None)
    }

    fn sized(&self) -> Sized {
        Sized {
            value: self.bounded().value,
            bits: self.likely,
        }
    }

    fn bounded(&self) -> Bounded {
        Bounded {
            value: self.known.filter(|k| k.assumes.is_none()).map(|k| k.value),
            most: self.most,
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
pub struct Registers([Value; 32]);

impl Default for Registers {
    fn default() -> Self {
        let mut registers = [Value::unknown(); 32];
        registers[0] = Value::sure(0);
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
        self.value(number).known
    }

    fn value(&self, number: u8) -> Value {
        let register = self.0.get(usize::from(number)).copied();
        register.unwrap_or_else(Value::unknown)
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

    fn set(&mut self, number: u8, value: Value) {
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
    fn result(&self, inst: &Inst, pc: u32, address: Option<u32>, values: &Values) -> Option<Value> {
        let (a, b) = (self.get(inst.rs1), self.get(inst.rs2));
        let imm = inst.imm as u32;
        let value = match inst.op {
            Op::Lui => Some(imm),
            Op::Auipc => Some(pc.wrapping_add(imm)),
            Op::Jal | Op::Jalr => Some(pc.wrapping_add(u32::from(inst.len))),
            Op::Load { size, signed } => {
                let unknown = Value::at_most(largest(size, signed), None);
                return Some(address.map_or(unknown, |at| values.load(at, size, signed)));
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
        Some(match value {
            Some(value) => Value::known(Known { value, assumes }, self.likely(inst)),
            None => Value::at_most(self.most(inst), self.likely(inst)),
        })
    }

    /// Bits that a result likely has.
    fn likely(&self, inst: &Inst) -> Option<u8> {
        let a = self.value(inst.rs1).sized();
        let b = self.value(inst.rs2).sized();
        match inst.op {
            Op::ArithmeticImmediate(operation) => {
                sizes::of_arithmetic(operation, a, Sized::sure(inst.imm as u32))
            }
            Op::Arithmetic(operation) => sizes::of_arithmetic(operation, a, b),
            Op::Multiply(half) => sizes::of_product(half, a, b),
            Op::Divide { remainder, .. } => sizes::of_division(remainder, a, b),
            _ => None,
        }
    }

    /// The largest that a result can be.
    fn most(&self, inst: &Inst) -> u32 {
        let a = self.value(inst.rs1).bounded();
        let b = self.value(inst.rs2).bounded();
        match inst.op {
            Op::ArithmeticImmediate(operation) => {
                bounds::of_arithmetic(operation, a, Bounded::sure(inst.imm as u32))
            }
            Op::Arithmetic(operation) => bounds::of_arithmetic(operation, a, b),
            Op::Multiply(half) => bounds::of_product(half, a, b),
            Op::Divide { signed, remainder } => bounds::of_division(signed, remainder, a, b),
            _ => u32::MAX,
        }
    }

    /// What a branch that went so shows of what it compared.
    fn learn(&mut self, inst: &Inst, taken: bool) {
        let Op::Branch(condition) = inst.op else {
            return;
        };
        let (a, b) = (self.value(inst.rs1), self.value(inst.rs2));
        let (small, large, less) = match (condition, taken) {
            (Condition::Equal, true) | (Condition::NotEqual, false) => {
                for (from, to) in [(a, inst.rs2), (b, inst.rs1)] {
                    if from.bounded().value.is_some() {
                        self.set(to, from);
                    }
                }
                return;
            }
            (Condition::LessUnsigned, true) | (Condition::GreaterEqualUnsigned, false) => {
                (inst.rs1, b, 1)
            }
            (Condition::LessUnsigned, false) | (Condition::GreaterEqualUnsigned, true) => {
                (inst.rs2, a, 0)
            }
            _ => return,
        };
        let most = large.most.saturating_sub(less);
        if self.known(small).is_none() && self.value(small).most > most {
            self.set(small, Value::at_most(most, self.value(small).likely));
        }
    }
}

/// The largest that a load of so many bytes can give.
fn largest(size: u8, signed: bool) -> u32 {
    match size {
        1 | 2 if !signed => (1 << (8 * u32::from(size))) - 1,
        _ => u32::MAX,
    }
}

/// A byte that was written.
#[derive(Clone, Copy, Debug)]
struct Byte {
    known: Option<Known<u8>>,
    /// Bits that it likely has.
    likely: Option<u8>,
}

/// Registers and memory of a hart, as far as known.
#[derive(Clone, Debug, Default)]
pub struct Values {
    registers: Registers,
    /// Bytes that were written, by address.
    memory: FxHashMap<u32, Byte>,
    /// What was written was forgotten once: nothing is taken to be zero any more.
    forgot: bool,
    /// What of the rest was not zero at the start.
    initialised: Initialised,
    /// Where control should have gone, and what that rests on, if on anything.
    expected: Option<Known<u32>>,
    /// The last instruction, where it is a branch, and its address.
    branch: Option<(Inst, u32)>,
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

    /// Files have these images in memory at the start.
    #[inline]
    pub fn start_with(&mut self, images: &[Arc<Image>]) {
        if self.initialised.images.len() != images.len() {
            self.initialised.images = images.to_vec();
        }
    }

    /// What is known of the operands of a division at `pc`, which is executed next, and whether that rests
    /// on memory being zero.
    pub fn operands(&mut self, inst: &Inst, pc: u32) -> ([Operand; 2], bool) {
        self.arrive(pc);
        let divisor = self.registers.known(inst.rs2);
        if let Some(zero) = divisor.filter(|k| k.value == 0) {
            self.refute(zero.assumes, Initialised::word);
        }
        let operands = [inst.rs1, inst.rs2].map(|number| {
            let value = self.registers.value(number);
            let likely = value.likely.map_or(u32::MAX, sizes::largest);
            let most = Operand::AtMost(value.most.min(likely));
            value
                .known
                .map_or(most, |known| Operand::Known(known.value))
        });
        (operands, self.registers.assumed(inst).is_some())
    }

    /// Takes from where control has gone what that shows.
    fn arrive(&mut self, pc: u32) {
        if let Some(expected) = self.expected.take().filter(|e| e.value != pc) {
            self.refute(expected.assumes, Initialised::up_to);
        }
        if let Some((branch, at)) = self.branch.take() {
            let after = at.wrapping_add(u32::from(branch.len));
            if at.wrapping_add(branch.imm as u32) != after {
                self.registers.learn(&branch, pc != after);
            }
        }
    }

    /// Executes an instruction at `pc`; `address` is that of its access, where it has one. The
    /// base register of an access is known from then on.
    pub fn execute(&mut self, inst: &Inst, pc: u32, address: Option<u32>) {
        self.arrive(pc);
        if let Some(address) = address {
            let base = address.wrapping_sub(inst.imm as u32);
            if let Some(known) = self.registers.known(inst.rs1).filter(|k| k.value != base) {
                self.refute(known.assumes, Initialised::word);
            }
            self.registers.set(inst.rs1, Value::sure(base));
            if let Op::Store(size) = inst.op {
                self.store(address, size, &self.registers.value(inst.rs2));
            }
        }
        if matches!(inst.op, Op::Branch(_)) {
            self.branch = Some((*inst, pc));
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
            register.known = register
                .known
                .filter(|known| !self.initialised.has(known.assumes));
        }
    }

    /// A byte, if it is known.
    fn byte(&self, at: u32) -> Option<Known<u8>> {
        let byte = match self.memory.get(&at) {
            Some(written) => written.known?,
            None if self.forgot => return None,
            None => Known {
                value: self.initialised.byte(at).unwrap_or(0),
                assumes: Some(at),
            },
        };
        (!self.initialised.has(byte.assumes)).then_some(byte)
    }

    /// Bits that byte `n` of a number likely has, if it is at an address.
    fn likely(&self, at: u32, n: u32) -> Option<u8> {
        let written = self.memory.get(&at);
        let constant = sizes::CONSTANT.saturating_sub(8 * n as u8).min(8);
        written.map_or(Some(constant), |byte| byte.likely)
    }

    fn load(&self, address: u32, size: u8, signed: bool) -> Value {
        let (mut value, mut most) = (0, 0);
        let mut likely = Some(0);
        let mut assumes = None;
        let mut known = true;
        for n in (0..u32::from(size)).rev() {
            let byte = self.byte(address.wrapping_add(n));
            known &= byte.is_some();
            value = value << 8 | byte.map_or(0, |b| u32::from(b.value));
            let sure = byte.filter(|b| b.assumes.is_none());
            most = most << 8 | sure.map_or(0xff, |b| u32::from(b.value));
            assumes = lower(assumes, byte.and_then(|b| b.assumes));
            let bits = self.likely(address.wrapping_add(n), n);
            likely = likely.zip(bits).map(|(above, bits)| match (above, bits) {
                (0, 0) => 0,
                (0, bits) => 8 * n as u8 + bits,
                (above, _) => above,
            });
        }
        let unused = 32 - 8 * u32::from(size);
        let extend = |value: u32| match signed {
            true => (((value << unused) as i32) >> unused) as u32,
            false => value,
        };
        if known {
            let value = extend(value);
            return Value::known(Known { value, assumes }, likely);
        }
        // With a sign that may be set nothing bounds it.
        let most = if extend(most) == most { most } else { u32::MAX };
        Value::at_most(most, likely)
    }

    fn store(&mut self, address: u32, size: u8, value: &Value) {
        if self.memory.len() >= MOST_WRITTEN {
            self.memory.clear();
            self.forgot = true;
        }
        for n in 0..u32::from(size) {
            let beyond = value.most >> (8 * n) == 0;
            let known = match value.known {
                Some(known) => Some(Known {
                    value: (known.value >> (8 * n)) as u8,
                    assumes: known.assumes,
                }),
                None => beyond.then_some(Known::sure(0)),
            };
            let likely = value.likely.map(|b| b.saturating_sub(8 * n as u8).min(8));
            let byte = Byte { known, likely };
            self.memory.insert(address.wrapping_add(n), byte);
        }
    }
}

/// Memory that had values of its own when the program started.
#[derive(Clone, Debug, Default)]
struct Initialised {
    /// What files have there.
    images: Vec<Arc<Image>>,
    /// All up to here.
    end: Option<u32>,
    /// Words beyond.
    words: FxHashSet<u32>,
}

impl Initialised {
    /// What a file has at an address.
    fn byte(&self, address: u32) -> Option<u8> {
        let mut images = self.images.iter();
        images.find_map(|image| image.byte(address))
    }

    fn up_to(&mut self, address: u32) {
        match self.byte(address) {
            Some(_) => self.word(address),
            None => self.end = self.end.max(Some(address)),
        }
    }

    fn word(&mut self, address: u32) {
        self.words.insert(address / 4);
    }

    /// Whether what rests on this address being zero, or what a file has there, does not hold.
    fn has(&self, address: Option<u32>) -> bool {
        let before_end = |at| Some(at) <= self.end && self.byte(at).is_none();
        address.is_some_and(|at| self.words.contains(&(at / 4)) || before_end(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::riscv::decode;
    use crate::riscv::decode::Arithmetic;

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
    fn what_a_file_has_is_there_until_its_word_is_refuted() {
        let mut image = Image::default();
        image.add(56, &[1, 0, 0, 0, 7, 0, 0, 0, 9, 0, 0, 0], 16);
        let mut values = Values::default();
        values.start_with(&[Arc::new(image)]);
        let mut execute = |code: &[(u32, u32, Option<u32>)]| {
            for &(pc, opcode, address) in code {
                values.execute(&decode(opcode).unwrap(), pc, address);
            }
            [6, 7, 28].map(|register| values.register(register))
        };
        // 9 at 64, and zero behind what the file has at 68.
        let loads = [
            (0, LOAD_T1, Some(64)),
            (4, LOAD_T2, Some(68)),
            (8, ADD, None),
        ];
        assert_eq!(execute(&loads), [Some(9), Some(0), Some(10)]);
        // Not taken though t1 is 9: somebody has written zero to 64, and to nothing else.
        let refuted = [(12, BRANCH, None), (16, LOAD_T2, Some(60))];
        assert_eq!(execute(&refuted), [Some(0), Some(7), None]);
        // Neither does what lies behind the file say anything of what it has.
        let stack = [
            (20, LOAD_T1, Some(1024)),
            (24, BRANCH, None),
            (32, LOAD_T2, Some(60)),
        ];
        assert_eq!(execute(&stack)[1], Some(7));
        assert_eq!(execute(&[(36, LOAD_T2, Some(1020))])[1], None);
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
        assert_eq!(values.load(60, 4, false).known.map(|k| k.value), Some(0));
        assert_eq!(values.load(64, 4, false).known, None);
    }

    #[test]
    fn what_cannot_be_known_is_bounded() {
        let inst = |op, rs2| Inst {
            op,
            rs1: 5,
            rs2,
            rd: 6,
            imm: 9,
            len: 4,
        };
        let mut values = Values::default();
        // t1 = t0 >> 9, of which nothing is known, goes to memory and comes back.
        let shift = Op::ArithmeticImmediate(Arithmetic::ShiftRight);
        values.execute(&inst(shift, 0), 0, None);
        values.execute(&inst(Op::Store(4), 6), 4, Some(64));
        let remainder = Op::Divide {
            signed: false,
            remainder: true,
        };
        values.registers.set(5, values.load(64, 4, false));
        let ([dividend, divisor], assumed) = values.operands(&inst(remainder, 7), 8);
        assert_eq!(dividend, Operand::AtMost((1 << 23) - 1));
        assert_eq!((divisor, assumed), (Operand::AtMost(u32::MAX), false));
        // Not below t1, which is 100: t2 is at most that.
        values.registers.set(5, Value::sure(100));
        let branch = inst(Op::Branch(Condition::LessUnsigned), 7);
        values.execute(&branch, 8, None);
        values.arrive(12);
        assert_eq!(values.registers.value(7).most, 100);
    }

    #[test]
    fn nothing_is_divided_by_memory_that_was_never_written() {
        let mut values = run(&[(0, LOAD_T1, Some(64))]);
        let divide = Op::Divide {
            signed: false,
            remainder: false,
        };
        let inst = Inst {
            op: divide,
            rs1: 0,
            rs2: 6,
            rd: 7,
            imm: 0,
            len: 4,
        };
        let (operands, assumed) = values.operands(&inst, 4);
        // It is a constant, and likely small.
        assert_eq!(operands, [Operand::Known(0), Operand::AtMost(255)]);
        assert!(!assumed);
    }
}
