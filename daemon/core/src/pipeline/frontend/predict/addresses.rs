//! Registers of the addresses of taken branches, as found in Zen (docs/ZEN1.md, "Branches" and "Targets"). A taken branch shifts the one by a
//! few bits and leaves some of the address of its last byte in it, by exclusive or; the other one, which reaches further back, is shifted
//! by one bit, and bits that are a shift of the first apart lie one apart in it.

use mcad_isa::machine::params::branch::AddressPath;

/// The registers.
#[derive(Clone)]
pub struct AddressRegisters {
    /// None: nothing is left in them.
    p: Option<AddressPath>,
    /// What an address leaves in the long one.
    left: Box<[u16]>,
    near: u64,
    long: u64,
}

/// The lowest `bits` of a number, fewer than 64.
#[inline]
pub fn lowest(number: u64, bits: u32) -> u64 {
    number & ((1 << bits) - 1)
}

/// A number in turns of so many bits, by exclusive or.
#[inline]
pub fn turns(mut number: u64, bits: u32) -> u64 {
    let mut all = 0;
    while number > 0 {
        all ^= lowest(number, bits);
        number >>= bits;
    }
    all
}

/// By the bits of an address that are taken, what it leaves in the long register.
fn left_in_long(p: AddressPath) -> Box<[u16]> {
    let [low, high] = p.address_bits;
    let left = |address: u32| {
        let bits = (0..=high - low).filter(|bit| address >> bit & 1 == 1);
        bits.fold(0, |left, bit| left ^ 1 << (bit % p.shift + bit / p.shift))
    };
    (0..1 << (high - low + 1)).map(left).collect()
}

impl AddressRegisters {
    /// Those of no branch yet.
    #[must_use]
    pub fn new(p: Option<AddressPath>) -> Self {
        Self {
            p,
            left: p.map(left_in_long).unwrap_or_default(),
            near: 0,
            long: 0,
        }
    }

    /// A branch whose last byte is there is taken.
    #[inline]
    pub fn take(&mut self, last_byte: u64) {
        let Some(p) = self.p else {
            return;
        };
        let [low, high] = p.address_bits;
        let address = lowest(last_byte >> low, high - low + 1);
        let left = self.left.get(address as usize).copied().unwrap_or(0);
        self.near = self.near << p.shift ^ address;
        self.long = self.long << 1 ^ u64::from(left);
    }

    /// The lowest bits of the one that is shifted by several.
    #[inline]
    #[must_use]
    pub fn near(&self, bits: u32) -> u64 {
        lowest(self.near, bits)
    }

    /// The lowest bits of the other one.
    #[inline]
    #[must_use]
    pub fn long(&self, bits: u32) -> u64 {
        lowest(self.long, bits)
    }
}
