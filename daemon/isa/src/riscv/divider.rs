//! Divisions that take as long as their operands are apart in size.
//!
//! Source: `exu_div_ctl.sv` of VeeR EH1: one bit of the quotient a cycle; bits that must be zero
//! are skipped eight at a time; operands of four bits come from a table.

use crate::machine::inorder::Divider;

/// Operands of a division, as they are in the registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operands {
    /// What is divided.
    pub dividend: u32,
    /// By what.
    pub divisor: u32,
    /// They have signs.
    pub signed: bool,
    /// The remainder is wanted.
    pub remainder: bool,
}

/// Size of a number in groups of bits, at least 1. A negative dividend is sized by the bits below
/// its sign, one bit lower than the groups begin.
fn groups(value: u32, negative: bool, low: u32, bits: u32) -> u32 {
    let shift = u32::from(negative) * low;
    let value = if negative { !value } else { value } << shift;
    (32 - value.leading_zeros()).div_ceil(bits).max(1)
}

/// Cycles from issue to retirement.
#[must_use]
pub fn cycles(p: &Divider, o: &Operands) -> u32 {
    let remainder = if o.remainder { p.remainder } else { 0 };
    let full = p.full + remainder;
    if o.divisor == 0 {
        return full;
    }
    let small = |value: u32| value >> p.small_bits == 0;
    if !o.remainder && (o.dividend == 0 || small(o.dividend) && small(o.divisor)) {
        return p.small_cycles;
    }
    let of_dividend = groups(
        o.dividend,
        o.signed && o.dividend >> 31 != 0,
        1,
        p.skip_bits,
    );
    let of_divisor = groups(o.divisor, o.signed && o.divisor >> 31 != 0, 0, p.skip_bits);
    let all = 32u32.div_ceil(p.skip_bits);
    let skipped = (all - 1 + of_divisor).saturating_sub(of_dividend).min(all);
    if skipped == 0 {
        return full;
    }
    // Of the last group one bit is always computed.
    full + p.skip_cost - (skipped * p.skip_bits).min(31)
}

/// What is known of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// Its value.
    Known(u32),
    /// It is not larger, or hardly ever; `u32::MAX`: nothing.
    AtMost(u32),
}

impl Operand {
    /// A number that is as large as most that it may be; `None` where that is not known.
    fn likely(self, signed: bool) -> Option<u32> {
        match self {
            Self::Known(value) => Some(value),
            Self::AtMost(u32::MAX) => None,
            Self::AtMost(most) => Some(most).filter(|m| !signed || m >> 31 == 0),
        }
    }
}

/// The same where operands may not be known. Most numbers up to a bound have as many groups of bits as the
/// bound; of one without a bound the size is taken that makes the dividend one group larger than the
/// divisor.
#[must_use]
pub fn likely_cycles(
    p: &Divider,
    [dividend, divisor]: [Operand; 2],
    signed: bool,
    remainder: bool,
) -> u32 {
    let of = |dividend, divisor| Operands {
        dividend,
        divisor,
        signed,
        remainder,
    };
    let operands = match (dividend.likely(signed), divisor.likely(signed)) {
        (Some(dividend), Some(divisor)) => of(dividend, divisor),
        (None, Some(divisor)) => {
            let size = groups(divisor, signed && divisor >> 31 != 0, 0, p.skip_bits);
            of(1 << (size * p.skip_bits).min(30), divisor)
        }
        (Some(dividend), None) => of(dividend, (dividend >> p.skip_bits).max(1)),
        (None, None) => return typical(p, remainder),
    };
    cycles(p, &operands)
}

/// The same where nothing is known of the operands: a dividend one group larger than the divisor, which
/// is the least that computes something.
#[must_use]
pub fn typical(p: &Divider, remainder: bool) -> u32 {
    let operands = Operands {
        dividend: 1 << (2 * p.skip_bits).min(31),
        divisor: 1 << p.skip_bits.min(31),
        signed: false,
        remainder,
    };
    cycles(p, &operands)
}
