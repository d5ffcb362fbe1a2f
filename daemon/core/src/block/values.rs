//! Values of registers and memory while a block repeats: numbers where they can be known, else
//! symbols that are equal when the values must be.
//!
//! A value is a symbol plus an offset; symbol 0 is the number zero. Moves copy, additions and
//! `lea` change the offset, and operations on numbers are carried out. Any other result is a
//! symbol that stands for "this output of this instruction with these inputs", so a computation
//! that is repeated with the same inputs gives the same value again. That is sound: it never
//! calls two values equal that could differ, except that 32-bit results of symbols are taken not
//! to wrap.

use std::hash::{Hash, Hasher};

use rustc_hash::{FxHashMap, FxHasher};

use mcad_isa::regs::RegId;
use mcad_isa::x86::effect::{Effect, Operation, Source};

/// `symbol + offset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value {
    /// 0: the number zero.
    pub symbol: u32,
    /// Added to it.
    pub offset: i64,
}

impl Value {
    /// A number.
    #[must_use]
    pub fn number(number: i64) -> Self {
        Self {
            symbol: 0,
            offset: number,
        }
    }

    /// The number, when it is one.
    #[must_use]
    pub fn known(self) -> Option<i64> {
        (self.symbol == 0).then_some(self.offset)
    }

    fn plus(self, by: i64) -> Self {
        Self {
            symbol: self.symbol,
            offset: self.offset.wrapping_add(by),
        }
    }
}

/// Makes symbols.
#[derive(Clone, Debug, Default)]
pub struct Symbols {
    next: u32,
    /// By a hash of instruction, output and inputs: the last result that has it.
    last: FxHashMap<u64, usize>,
    results: Vec<Computed>,
    /// Inputs of all results.
    inputs: Vec<Value>,
    /// What exclusive or makes of two values; with one of them it makes the other of that again.
    differences: FxHashMap<(Value, Value), Value>,
}

/// A result that has a symbol.
#[derive(Clone, Debug)]
struct Computed {
    instr: u32,
    output: u8,
    /// In [`Symbols::inputs`].
    inputs: std::ops::Range<usize>,
    symbol: u32,
    /// Another one with the same hash.
    other: Option<usize>,
}

impl Symbols {
    /// A symbol that equals no other.
    pub fn fresh(&mut self) -> Value {
        self.next += 1;
        Value {
            symbol: self.next,
            offset: 0,
        }
    }

    /// The value of `output` of instruction `instr` with these inputs.
    pub fn result(&mut self, instr: u32, output: u8, inputs: &[Value]) -> Value {
        let mut hasher = FxHasher::default();
        (instr, output, inputs).hash(&mut hasher);
        let hash = hasher.finish();
        let other = self.last.get(&hash).copied();
        let mut at = other;
        while let Some(result) = at.and_then(|n| self.results.get(n)) {
            let same = self.inputs.get(result.inputs.clone()) == Some(inputs);
            if same && (result.instr, result.output) == (instr, output) {
                return Value {
                    symbol: result.symbol,
                    offset: 0,
                };
            }
            at = result.other;
        }
        let value = self.fresh();
        let start = self.inputs.len();
        self.inputs.extend_from_slice(inputs);
        self.last.insert(hash, self.results.len());
        self.results.push(Computed {
            instr,
            output,
            inputs: start..self.inputs.len(),
            symbol: value.symbol,
            other,
        });
        value
    }

    /// Exclusive or of two values that are not both numbers.
    pub fn exclusive_or(&mut self, a: Value, b: Value) -> Value {
        let of = |a: Value, b: Value| (a.min(b), a.max(b));
        if let Some(known) = self.differences.get(&of(a, b)) {
            return *known;
        }
        let difference = self.fresh();
        self.differences.insert(of(a, b), difference);
        self.differences.insert(of(difference, a), b);
        self.differences.insert(of(difference, b), a);
        difference
    }

    /// Forgets all symbols.
    pub fn clear(&mut self) {
        self.differences.clear();
        self.next = 0;
        self.last.clear();
        self.results.clear();
        self.inputs.clear();
    }
}

/// The low `bits` of a number, zero-extended.
#[must_use]
pub fn zero_extend(number: i64, bits: u16) -> i64 {
    match bits {
        8 => i64::from(number as u8),
        16 => i64::from(number as u16),
        32 => i64::from(number as u32),
        _ => number,
    }
}

fn sign_extend(number: i64, bits: u16) -> i64 {
    match bits {
        8 => i64::from(number as i8),
        16 => i64::from(number as i16),
        32 => i64::from(number as i32),
        _ => number,
    }
}

/// Reads operands for [`result_of`].
pub trait Reader {
    /// Value of a register's full width.
    fn register(&mut self, id: RegId) -> Value;
    /// Value loaded by the instruction's memory operand, zero-extended, when it is tracked.
    fn loaded(&mut self) -> Option<Value>;
    /// Exclusive or of two values of 64 bits that are not both numbers.
    fn exclusive_or(&mut self, a: Value, b: Value) -> Option<Value>;
}

fn read<R: Reader>(source: Source, reader: &mut R) -> Option<Value> {
    match source {
        Source::Register { id, bits } => {
            let value = reader.register(id);
            match value.known() {
                Some(number) => Some(Value::number(zero_extend(number, bits))),
                None => (bits >= 32).then_some(value),
            }
        }
        Source::Memory { bits } => {
            let value = reader.loaded()?;
            (value.symbol == 0 || bits == 64).then_some(value)
        }
        Source::Number(number) => Some(Value::number(number)),
    }
}

/// Two sources as numbers, if they are known.
fn numbers<R: Reader>(a: Source, b: Source, reader: &mut R) -> Option<(i64, i64)> {
    Some((read(a, reader)?.known()?, read(b, reader)?.known()?))
}

/// A sum of registers, when it is linear in one symbol at most.
fn address<R: Reader>(
    terms: &[Option<(RegId, i64)>],
    displacement: i64,
    reader: &mut R,
) -> Option<Value> {
    let mut sum = Value::number(displacement);
    for &(id, scale) in terms.iter().flatten() {
        let value = reader.register(id);
        sum = match (value.known(), sum.symbol) {
            (Some(number), _) => sum.plus(number.wrapping_mul(scale)),
            (None, 0) if scale == 1 => value.plus(sum.offset),
            _ => return None,
        };
    }
    Some(sum)
}

/// What is in the target's full width after an effect; `None` when that is not followed.
pub fn result_of<R: Reader>(effect: &Effect, reader: &mut R) -> Option<Value> {
    let bits = effect.bits;
    let count = |by: i64| by as u32 & (u32::from(bits) - 1);
    let value = match effect.operation {
        Operation::Copy(source) => read(source, reader)?,
        Operation::SignExtend(source) => {
            let value = read(source, reader)?;
            match (value.known(), source) {
                (
                    Some(number),
                    Source::Register { bits: from, .. } | Source::Memory { bits: from },
                ) => Value::number(sign_extend(number, from)),
                _ => value,
            }
        }
        Operation::Add(a, b) => {
            let (a, b) = (read(a, reader)?, read(b, reader)?);
            match (a.known(), b.known()) {
                (_, Some(b)) => a.plus(b),
                (Some(a), None) => b.plus(a),
                (None, None) => return None,
            }
        }
        Operation::Subtract(a, b) => {
            let (a, b) = (read(a, reader)?, read(b, reader)?);
            match b.known() {
                Some(b) => a.plus(b.wrapping_neg()),
                None if a.symbol == b.symbol => Value::number(a.offset.wrapping_sub(b.offset)),
                None => return None,
            }
        }
        Operation::And(a, b) => numbers(a, b, reader).map(|(a, b)| Value::number(a & b))?,
        Operation::Or(a, b) => numbers(a, b, reader).map(|(a, b)| Value::number(a | b))?,
        Operation::Xor(a, b) => {
            let (a, b) = (read(a, reader)?, read(b, reader)?);
            match (a.known(), b.known()) {
                (Some(a), Some(b)) => Value::number(a ^ b),
                _ if bits == 64 => reader.exclusive_or(a, b)?,
                _ => return None,
            }
        }
        Operation::ShiftLeft(a, b) => {
            let (a, b) = numbers(a, b, reader)?;
            Value::number(a.wrapping_shl(count(b)))
        }
        Operation::ShiftRight(a, b) => {
            let (a, b) = numbers(a, b, reader)?;
            Value::number((zero_extend(a, bits) as u64).wrapping_shr(count(b)) as i64)
        }
        Operation::Address {
            terms,
            displacement,
        } => address(&terms, displacement, reader)?,
    };
    match (value.known(), bits) {
        (Some(number), 64) => Some(Value::number(number)),
        (Some(number), 32) => Some(Value::number(zero_extend(number, 32))),
        (Some(number), _) => {
            let old = reader.register(effect.target).known()?;
            let low = zero_extend(number, bits);
            Some(Value::number(old & !zero_extend(-1, bits) | low))
        }
        (None, 32 | 64) => Some(value),
        (None, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exclusive_or_twice_changes_nothing() {
        let mut symbols = Symbols::default();
        let (number, symbol) = (Value::number(0x1234), symbols.fresh());
        let changed = symbols.exclusive_or(number, symbol);
        assert_ne!(changed, number);
        assert_eq!(symbols.exclusive_or(symbol, number), changed);
        assert_eq!(symbols.exclusive_or(changed, symbol), number);
        assert_eq!(symbols.exclusive_or(changed, number), symbol);
        let other = symbols.fresh();
        assert_ne!(symbols.exclusive_or(changed, other), number);
    }
}
