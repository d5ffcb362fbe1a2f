//! How large results can be whose operands are not known.
//!
//! All bounds are of values without sign. That a sum or a product exceeds 32 bits is possible unless the
//! operands' bounds exclude it; that a program divides by zero is not looked at.

use super::decode::{Arithmetic, Multiply};

/// What is known of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounded {
    /// Its value, if that is certain.
    pub value: Option<u32>,
    /// The largest that it can be: `u32::MAX` where nothing is known.
    pub most: u32,
}

impl Bounded {
    /// A value that is certain.
    #[must_use]
    pub fn sure(value: u32) -> Self {
        Self {
            value: Some(value),
            most: value,
        }
    }
}

/// The largest number with as many bits.
fn all_ones(value: u32) -> u32 {
    u32::MAX.checked_shr(value.leading_zeros()).unwrap_or(0)
}

/// As a bound, if it has not overflowed.
fn bound(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

fn has_sign(value: u32) -> bool {
    value >> 31 != 0
}

/// The largest result of an operation.
#[must_use]
pub fn of_arithmetic(operation: Arithmetic, a: Bounded, b: Bounded) -> u32 {
    let shift = b.value.map(|by| by & 31);
    match operation {
        Arithmetic::Add => bound(u64::from(a.most) + u64::from(b.most)),
        Arithmetic::Subtract => u32::MAX,
        Arithmetic::And => a.most.min(b.most),
        Arithmetic::Or | Arithmetic::Xor => all_ones(a.most | b.most),
        Arithmetic::SetLess | Arithmetic::SetLessUnsigned => 1,
        Arithmetic::ShiftLeft => shift.map_or(u32::MAX, |by| bound(u64::from(a.most) << by)),
        Arithmetic::ShiftRightArithmetic if has_sign(a.most) => u32::MAX,
        Arithmetic::ShiftRight | Arithmetic::ShiftRightArithmetic => a.most >> shift.unwrap_or(0),
    }
}

/// The same of a product.
#[must_use]
pub fn of_product(half: Multiply, a: Bounded, b: Bounded) -> u32 {
    let product = u64::from(a.most) * u64::from(b.most);
    match half {
        Multiply::Low => bound(product),
        Multiply::HighUnsigned => (product >> 32) as u32,
        Multiply::High if !has_sign(a.most | b.most) => (product >> 32) as u32,
        Multiply::High | Multiply::HighSignedUnsigned => u32::MAX,
    }
}

/// The same of a quotient or a remainder.
#[must_use]
pub fn of_division(signed: bool, remainder: bool, a: Bounded, b: Bounded) -> u32 {
    if signed && has_sign(a.most | b.most) {
        return u32::MAX;
    }
    match (remainder, b.value) {
        (true, _) => a.most.min(b.most.saturating_sub(1)),
        (false, Some(by)) => a.most / by.max(1),
        (false, None) => a.most,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_bounded_by_what_bounds_their_operands() {
        let at_most = |most| Bounded { value: None, most };
        let unknown = at_most(u32::MAX);
        let (sure, of) = (Bounded::sure, of_arithmetic);
        assert_eq!(of(Arithmetic::ShiftRight, unknown, sure(9)), (1 << 23) - 1);
        assert_eq!(of(Arithmetic::And, unknown, sure(7)), 7);
        assert_eq!(of(Arithmetic::Or, at_most(5), sure(1)), 7);
        assert_eq!(of(Arithmetic::Add, at_most(1008), sure(1)), 1009);
        assert_eq!(of(Arithmetic::Add, unknown, sure(1)), u32::MAX);
        assert_eq!(of(Arithmetic::Subtract, at_most(8), sure(1)), u32::MAX);
        assert_eq!(of_product(Multiply::Low, at_most(3), at_most(5)), 15);
        assert_eq!(of_division(false, true, unknown, sure(1009)), 1008);
        assert_eq!(of_division(false, false, at_most(99), sure(10)), 9);
        assert_eq!(of_division(true, false, unknown, sure(10)), u32::MAX);
        assert_eq!(all_ones(0), 0);
    }
}
