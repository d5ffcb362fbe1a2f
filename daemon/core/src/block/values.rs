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

use iced_x86::{Instruction, Mnemonic, OpKind, Register};
use rustc_hash::{FxHashMap, FxHasher};

use mcad_isa::regs::{RegId, is_high8, size_bits};

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

    /// Forgets all symbols.
    pub fn clear(&mut self) {
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
}

fn read<R: Reader>(
    instruction: &Instruction,
    operand: u32,
    reader: &mut R,
) -> Option<(Value, u16)> {
    if operand >= instruction.op_count() {
        return None;
    }
    match instruction.op_kind(operand) {
        OpKind::Register => {
            let register = instruction.op_register(operand);
            if !register.is_gpr() || is_high8(register) {
                return None;
            }
            let bits = size_bits(register);
            let value = reader.register(RegId::of(register)?);
            Some(match value.known() {
                Some(number) => (Value::number(zero_extend(number, bits)), bits),
                None if bits >= 32 => (value, bits),
                None => return None,
            })
        }
        OpKind::Memory => {
            let bits = (instruction.memory_size().size() * 8) as u16;
            let value = reader.loaded()?;
            (value.symbol == 0 || bits == 64).then_some((value, bits))
        }
        OpKind::Immediate8
        | OpKind::Immediate16
        | OpKind::Immediate32
        | OpKind::Immediate64
        | OpKind::Immediate8to16
        | OpKind::Immediate8to32
        | OpKind::Immediate8to64
        | OpKind::Immediate32to64 => {
            Some((Value::number(instruction.immediate(operand) as i64), 64))
        }
        _ => None,
    }
}

/// The effective address of `lea`, when it is linear in one symbol at most.
fn effective<R: Reader>(instruction: &Instruction, reader: &mut R) -> Option<Value> {
    let mut sum = Value::number(instruction.memory_displacement64() as i64);
    for (register, scale) in [
        (instruction.memory_base(), 1),
        (
            instruction.memory_index(),
            i64::from(instruction.memory_index_scale()),
        ),
    ] {
        if register == Register::None || register.is_ip() {
            continue;
        }
        let value = reader.register(RegId::of(register)?);
        sum = match (value.known(), sum.symbol) {
            (Some(number), _) => sum.plus(number.wrapping_mul(scale)),
            (None, 0) if scale == 1 => Value {
                symbol: value.symbol,
                offset: value.offset.wrapping_add(sum.offset),
            },
            _ => return None,
        };
    }
    Some(sum)
}

/// What `instruction` writes to its first operand, a general-purpose register, at the register's
/// full width; `None` when that is not followed.
pub fn result_of<R: Reader>(instruction: &Instruction, reader: &mut R) -> Option<Value> {
    let target = instruction.op0_register();
    if instruction.op_count() == 0
        || instruction.op_kind(0) != OpKind::Register
        || !target.is_gpr()
        || is_high8(target)
    {
        return None;
    }
    let bits = size_bits(target);
    let mut binary = |f: fn(i64, i64) -> i64| {
        let (a, _) = read(instruction, 0, reader)?;
        let (b, _) = read(instruction, 1, reader)?;
        Some(Value::number(f(a.known()?, b.known()?)))
    };
    let value = match instruction.mnemonic() {
        Mnemonic::Mov | Mnemonic::Movzx => read(instruction, 1, reader)?.0,
        Mnemonic::Movsx | Mnemonic::Movsxd => {
            let (value, from) = read(instruction, 1, reader)?;
            match value.known() {
                Some(number) => Value::number(sign_extend(number, from)),
                None => value,
            }
        }
        Mnemonic::Add | Mnemonic::Sub => {
            let (a, _) = read(instruction, 0, reader)?;
            let (b, _) = read(instruction, 1, reader)?;
            let add = instruction.mnemonic() == Mnemonic::Add;
            match (a.known(), b.known()) {
                (_, Some(b)) => a.plus(if add { b } else { b.wrapping_neg() }),
                (Some(a), None) if add => b.plus(a),
                (None, None) if !add && a.symbol == b.symbol => {
                    Value::number(a.offset.wrapping_sub(b.offset))
                }
                _ => return None,
            }
        }
        Mnemonic::Inc => read(instruction, 0, reader)?.0.plus(1),
        Mnemonic::Dec => read(instruction, 0, reader)?.0.plus(-1),
        Mnemonic::Lea => effective(instruction, reader)?,
        Mnemonic::Xor
            if instruction.op1_register() == target
                && instruction.op_kind(1) == OpKind::Register =>
        {
            Value::number(0)
        }
        Mnemonic::And => binary(|a, b| a & b)?,
        Mnemonic::Or => binary(|a, b| a | b)?,
        Mnemonic::Xor => binary(|a, b| a ^ b)?,
        Mnemonic::Shl if bits >= 32 => {
            let (a, _) = read(instruction, 0, reader)?;
            let (b, _) = read(instruction, 1, reader)?;
            let count = b.known()? as u32 & (u32::from(bits) - 1);
            Value::number(a.known()?.wrapping_shl(count))
        }
        Mnemonic::Shr if bits >= 32 => {
            let (a, _) = read(instruction, 0, reader)?;
            let (b, _) = read(instruction, 1, reader)?;
            let count = b.known()? as u32 & (u32::from(bits) - 1);
            Value::number((zero_extend(a.known()?, bits) as u64).wrapping_shr(count) as i64)
        }
        _ => return None,
    };
    match (value.known(), bits) {
        (Some(number), 64) => Some(Value::number(number)),
        (Some(number), 32) => Some(Value::number(zero_extend(number, 32))),
        (Some(number), _) => {
            let old = reader.register(RegId::of(target)?).known()?;
            let low = zero_extend(number, bits);
            Some(Value::number(old & !zero_extend(-1, bits) | low))
        }
        (None, 32 | 64) => Some(value),
        (None, _) => None,
    }
}
