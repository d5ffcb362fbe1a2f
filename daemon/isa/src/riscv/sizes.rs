//! How large values likely are that are not known, in bits of their magnitude.
//!
//! [`bounds`](super::bounds) say what is certain; most values are far from these. A constant of a program's
//! data is likely small; sums are as large as what is added, products and shifts as both together, and what
//! a generator of random numbers turns over and over soon fills its register. `None`: there is no telling.

use super::decode::{Arithmetic, Multiply};

/// Bits of a number that lay in memory when the program started and was not zero.
pub const CONSTANT: u8 = 8;

/// Bits of a register.
const ALL: u8 = 32;

/// What is known of an operand.
#[derive(Clone, Copy, Debug)]
pub struct Sized {
    /// Its value, if that is certain.
    pub value: Option<u32>,
    /// Bits that it likely has.
    pub bits: Option<u8>,
}

impl Sized {
    /// A value that is certain.
    #[must_use]
    pub fn sure(value: u32) -> Self {
        Self {
            value: Some(value),
            bits: Some(of(value)),
        }
    }

    /// The same of a number that may be negative.
    fn magnitude(self) -> Option<u8> {
        match self.value {
            Some(value) => Some(of(value.min(!value))),
            None => self.bits,
        }
    }
}

/// Bits of a number.
#[must_use]
pub fn of(value: u32) -> u8 {
    (u32::BITS - value.leading_zeros()) as u8
}

/// The largest number of so many bits that is not negative.
#[must_use]
pub fn largest(bits: u8) -> u32 {
    (1 << bits.min(ALL - 1)) - 1
}

/// The smaller of two sizes; of one that there is no telling of, the other.
#[must_use]
pub fn smaller(a: Option<u8>, b: Option<u8>) -> Option<u8> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (one, other) => one.or(other),
    }
}

fn both(a: Option<u8>, b: Option<u8>, of: impl FnOnce(u8, u8) -> u8) -> Option<u8> {
    a.zip(b).map(|(a, b)| of(a, b).min(ALL))
}

/// Bits of the result of an operation.
#[must_use]
pub fn of_arithmetic(operation: Arithmetic, a: Sized, b: Sized) -> Option<u8> {
    let shift = b.value.map(|by| (by & 31) as u8);
    match operation {
        Arithmetic::Add | Arithmetic::Subtract => both(a.magnitude(), b.magnitude(), u8::max),
        Arithmetic::Or | Arithmetic::Xor => both(a.bits, b.bits, u8::max),
        Arithmetic::And => smaller(a.bits, b.bits),
        Arithmetic::SetLess | Arithmetic::SetLessUnsigned => Some(1),
        Arithmetic::ShiftLeft => both(a.bits, shift, |a, by| a + by),
        Arithmetic::ShiftRight | Arithmetic::ShiftRightArithmetic => {
            let by = shift.unwrap_or(0);
            let all = a.bits.unwrap_or(ALL).saturating_sub(by);
            (a.bits.is_some() || by > 0).then_some(all)
        }
    }
}

/// The same of a product.
#[must_use]
pub fn of_product(half: Multiply, a: Sized, b: Sized) -> Option<u8> {
    let all = |a: u8, b: u8| a + b;
    match half {
        Multiply::Low => both(a.bits, b.bits, all),
        _ => both(a.bits, b.bits, |a, b| (a + b).saturating_sub(ALL)),
    }
}

/// The same of a quotient or a remainder.
#[must_use]
pub fn of_division(remainder: bool, a: Sized, b: Sized) -> Option<u8> {
    match remainder {
        true => smaller(a.bits, b.bits),
        false => both(a.bits, b.bits, |a, b| (a + 1).saturating_sub(b)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_as_large_as_what_they_are_made_of() {
        let likely = |bits| Sized {
            value: None,
            bits: Some(bits),
        };
        let (sure, of) = (Sized::sure, of_arithmetic);
        assert_eq!(of(Arithmetic::Add, likely(8), sure(u32::MAX)), Some(8));
        assert_eq!(of(Arithmetic::Add, likely(8), sure(1000)), Some(10));
        assert_eq!(of(Arithmetic::And, likely(8), sure(3)), Some(2));
        assert_eq!(of(Arithmetic::ShiftLeft, likely(8), sure(13)), Some(21));
        assert_eq!(of(Arithmetic::ShiftRight, likely(8), sure(9)), Some(0));
        // A step of a generator of random numbers.
        let product = of_product(Multiply::Low, likely(8), sure(1_664_525));
        assert_eq!(product, Some(29));
        assert_eq!(
            of_product(Multiply::HighUnsigned, likely(20), likely(20)),
            Some(8)
        );
        let unknown = Sized {
            value: None,
            bits: None,
        };
        assert_eq!(of(Arithmetic::Add, unknown, sure(1)), None);
        assert_eq!(of(Arithmetic::ShiftRight, unknown, sure(9)), Some(23));
        assert_eq!(of_division(true, unknown, likely(6)), Some(6));
        assert_eq!(of_division(false, likely(32), likely(10)), Some(23));
        assert_eq!((largest(3), largest(32)), (7, i32::MAX as u32));
    }
}
