//! Prefetchers: each looks at the accesses and says which lines it would like, as a run of lines.
//! Whether a line is already there, may be asked for (its page must be known) and finds a buffer
//! is decided by who asks them.

pub mod region;
pub mod stream;
pub mod stride;

/// Lines that a prefetcher asks for: `count` lines, `step` apart, from `first` on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Number of the first line.
    pub first: u64,
    /// From one to the next.
    pub step: i64,
    /// How many.
    pub count: u32,
}

impl Wanted {
    /// Nothing.
    pub const NONE: Self = Self {
        first: 0,
        step: 0,
        count: 0,
    };

    /// The lines.
    pub fn lines(self) -> impl Iterator<Item = u64> {
        (0..i64::from(self.count)).map(move |n| self.first.wrapping_add_signed(n * self.step))
    }
}
