//! What operations on 32 bits compute (RISC-V manual, volume I, chapters "RV32I" and "M").

use super::decode::{Arithmetic, Condition, Multiply};

/// Whether a branch on this condition is taken.
pub(super) fn holds(condition: Condition, a: u32, b: u32) -> bool {
    match condition {
        Condition::Equal => a == b,
        Condition::NotEqual => a != b,
        Condition::Less => (a as i32) < b as i32,
        Condition::GreaterEqual => (a as i32) >= b as i32,
        Condition::LessUnsigned => a < b,
        Condition::GreaterEqualUnsigned => a >= b,
    }
}

/// What an operation of the base set gives.
pub(super) fn arithmetic(operation: Arithmetic, a: u32, b: u32) -> u32 {
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

/// The half of a product that is asked for.
pub(super) fn multiply(half: Multiply, a: u32, b: u32) -> u32 {
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
pub(super) fn divide(signed: bool, remainder: bool, a: u32, b: u32) -> u32 {
    match (b, signed, remainder) {
        (0, _, false) => u32::MAX,
        (0, _, true) => a,
        (_, true, false) => (a as i32).wrapping_div(b as i32) as u32,
        (_, true, true) => (a as i32).wrapping_rem(b as i32) as u32,
        (_, false, false) => a / b,
        (_, false, true) => a % b,
    }
}
