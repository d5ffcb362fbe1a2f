//! Memory accesses on their way through the core.
//!
//! Where they go is of two kinds: addresses known from a trace (or from values that a block starts
//! with), and, for a block of which nothing is known, expressions of registers. Only the first kind
//! means anything to a cache.

use std::ops::Range;

/// Bytes of a cache line.
const LINE: u64 = 64;

/// Where an access goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address {
    /// To this guest address.
    Known(u64),
    /// To the value of an expression of which only that is known.
    Symbolic(Symbol),
}

/// An address of which it is only known which other accesses have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Equal for equal addresses, different for others: such accesses never overlap in part.
    pub id: u32,
    /// Equal for those that are the same expression of registers but for their displacement.
    pub expression: u32,
    /// What is added to the expression, in bytes. The expression's value is taken to be aligned
    /// to lines.
    pub displacement: i64,
}

/// Accesses of one instruction of an executed block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Place of the instruction in its block.
    pub index: u16,
    /// First access among those of the block: loads, then stores.
    pub start: u32,
    /// Loads.
    pub loads: u8,
    /// Stores.
    pub stores: u8,
    /// Bytes loaded or stored, whichever is more.
    pub bytes: u64,
}

/// The line, or part of one, that an access begins in, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Line {
    base: u64,
    offset: i64,
}

impl Line {
    /// No access goes there.
    pub const NONE: Self = Self {
        base: u64::MAX,
        offset: 0,
    };

    /// Whether two accesses go into the same line.
    #[inline]
    #[must_use]
    pub fn same(self, other: Self) -> bool {
        self.shares(other, LINE)
    }

    /// Whether two accesses go into the same part of a line, of parts of so many bytes.
    #[inline]
    #[must_use]
    pub fn shares(self, other: Self, bytes: u64) -> bool {
        self.base == other.base && (self.offset - other.offset).unsigned_abs() < bytes
    }

    /// The line, or part of one, that follows.
    #[inline]
    #[must_use]
    pub fn next(self) -> Self {
        Self {
            base: self.base.wrapping_add(1),
            ..self
        }
    }
}

/// One memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Its first byte.
    pub address: Address,
    /// Bytes, at least 1.
    pub size: u16,
}

impl Access {
    /// An access to a known address.
    #[inline]
    #[must_use]
    pub fn known(address: u64, size: u16) -> Self {
        Self {
            address: Address::Known(address),
            size,
        }
    }

    /// Its bytes: of memory, or, for a symbolic address, of a space in which each has four bytes
    /// of its own.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> Range<u64> {
        match self.address {
            Address::Known(start) => start..start.wrapping_add(u64::from(self.size.max(1))),
            Address::Symbolic(symbol) => {
                let start = u64::from(symbol.id) * 8;
                start..start + 1
            }
        }
    }

    /// The line that it begins in.
    #[inline]
    #[must_use]
    pub fn line(&self) -> Line {
        self.part(LINE)
    }

    /// The part of a line that it begins in, of parts of so many bytes.
    #[inline]
    #[must_use]
    pub fn part(&self, bytes: u64) -> Line {
        match self.address {
            Address::Known(start) => Line {
                base: start / bytes,
                offset: 0,
            },
            Address::Symbolic(symbol) => Line {
                base: u64::from(symbol.expression),
                offset: match bytes {
                    // As near to each other as a line's bytes are, wherever lines begin.
                    LINE => symbol.displacement,
                    _ => symbol.displacement.div_euclid(bytes as i64) * bytes as i64,
                },
            },
        }
    }

    /// Place of its first byte in its line.
    #[inline]
    #[must_use]
    pub fn in_line(&self) -> u8 {
        match self.address {
            Address::Known(start) => (start % LINE) as u8,
            Address::Symbolic(symbol) => (symbol.displacement as u64 % LINE) as u8,
        }
    }

    /// Its bytes as stores that go into aligned parts of so many bytes each, where so many of them go at a time.
    pub fn pieces(&self, part: u64) -> impl Iterator<Item = Self> + use<> {
        let size = u64::from(self.size.max(1));
        let (start, known) = match self.address {
            Address::Known(start) => (start, true),
            Address::Symbolic(_) => (0, false),
        };
        let whole = *self;
        let mut at = 0;
        std::iter::from_fn(move || {
            if at >= size {
                return None;
            }
            let first = start.wrapping_add(at);
            let turn_ends = (at / part + 1) * part;
            let most = (part - first % part).min(turn_ends.min(size) - at);
            let piece = match known {
                true => Self::known(first, most as u16),
                false => whole,
            };
            at = if known { at + most } else { size };
            Some(piece)
        })
    }

    /// Whether it lies in more than one aligned part of memory of so many bytes, a power of two.
    #[inline]
    #[must_use]
    pub fn crosses(&self, bytes: u64) -> bool {
        match self.address {
            Address::Known(start) => (start & (bytes - 1)) + u64::from(self.size) > bytes,
            Address::Symbolic(_) => false,
        }
    }

    /// Whether it reaches into the next line.
    #[inline]
    #[must_use]
    pub fn crosses_line(&self) -> bool {
        let size = match self.address {
            Address::Known(_) => u64::from(self.size),
            Address::Symbolic(_) => 1,
        };
        u64::from(self.in_line()) + size > LINE
    }
}
