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
    /// Numbers that it may be, each for all that take as long, with their shares: up to its bound all are
    /// as likely. `None` where nothing is known.
    fn likely(self, p: &Divider, signed: bool, least: u32) -> Option<Vec<(f64, u32)>> {
        let most = match self {
            Self::Known(value) => return Some(vec![(1.0, value)]),
            Self::AtMost(most) => most,
        };
        if most == u32::MAX || signed && most >> 31 != 0 {
            return None;
        }
        let most = most.max(least);
        let all = f64::from(most - least) + 1.0;
        let mut from = least;
        let mut likely = Vec::new();
        let groups = (p.skip_bits..32).step_by(p.skip_bits as usize);
        for bits in std::iter::once(p.small_bits).chain(groups).chain([32]) {
            let last = u32::MAX.checked_shr(32 - bits).unwrap_or(0).min(most);
            if last >= from {
                likely.push(((f64::from(last - from) + 1.0) / all, last));
                from = last.saturating_add(1);
            }
            if last == most {
                break;
            }
        }
        Some(likely)
    }
}

/// The same where operands may not be known: the mean over all that they may be, taken to have nothing to
/// do with each other. Of one without a bound the size is taken that makes the dividend one group of bits
/// larger than the divisor.
#[must_use]
pub fn likely_cycles(
    p: &Divider,
    [dividend, divisor]: [Operand; 2],
    signed: bool,
    remainder: bool,
) -> u32 {
    let of = |dividend, divisor| {
        let operands = Operands {
            dividend,
            divisor,
            signed,
            remainder,
        };
        f64::from(cycles(p, &operands))
    };
    let dividends = dividend.likely(p, signed, 0);
    let mean = match (dividends, divisor.likely(p, signed, 1)) {
        (Some(dividends), Some(divisors)) => (dividends.iter())
            .flat_map(|a| divisors.iter().map(move |b| (a, b)))
            .map(|((share, a), (of_these, b))| share * of_these * of(*a, *b))
            .sum(),
        (None, Some(divisors)) => (divisors.iter())
            .map(|&(share, divisor)| {
                let size = groups(divisor, signed && divisor >> 31 != 0, 0, p.skip_bits);
                share * of(1 << (size * p.skip_bits).min(30), divisor)
            })
            .sum(),
        (Some(dividends), None) => (dividends.iter())
            .map(|&(share, dividend)| share * of(dividend, (dividend >> p.skip_bits).max(1)))
            .sum(),
        (None, None) => return typical(p, remainder),
    };
    f64::round(mean) as u32
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_up_to_a_bound_are_all_as_likely() {
        let core = crate::machine::cpu("eh1").unwrap().core.in_order.clone();
        let p = core.unwrap().divider.clone().unwrap();
        let exact = |dividend, divisor| {
            let operands = Operands {
                dividend,
                divisor,
                signed: false,
                remainder: true,
            };
            cycles(&p, &operands)
        };
        let mean = |operands| likely_cycles(&p, operands, false, true);
        let (known, most) = (Operand::Known, Operand::AtMost);
        assert_eq!(mean([known(1000), known(7)]), exact(1000, 7));
        // A quarter has one group of bits.
        let (one, two) = (exact(200, 7), exact(1000, 7));
        assert_eq!(mean([most(1023), known(7)]), (one + 3 * two + 2) / 4);
        assert_eq!(mean([known(9), most(0)]), exact(9, 1));
        assert_eq!(mean([most(u32::MAX); 2]), typical(&p, true));
    }
}
