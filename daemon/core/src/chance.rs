//! What tables and caches leave to chance: the same numbers every time (Marsaglia's xorshift32, "Xorshift RNGs", 2003).

/// Where they are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chance(u32);

impl Chance {
    /// From a number other than 0 on.
    pub(crate) const fn new(seed: u32) -> Self {
        Self(seed)
    }

    /// The next one.
    #[inline]
    pub(crate) fn next(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0
    }

    /// Any number below `count`.
    pub(crate) fn below(&mut self, count: usize) -> usize {
        ((u64::from(self.next()) * count as u64) >> 32) as usize
    }
}
