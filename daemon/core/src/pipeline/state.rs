//! The state of the core: what each part must do with its own, and fingerprints to recognise that
//! the whole recurs.
//!
//! The simulation is deterministic: if all that the future can depend on is at one cycle what it
//! was at an earlier one, everything repeats with the distance between them. A fingerprint is
//! taken between two cycles of the front end, never within an instruction, and covers every part.
//! Stamps go in relative to the [`Moment`], and those that can no longer matter as zero. Tests
//! compare predictions with and without recurrence.

use super::fold::Folding;
use super::functional::Warm;

/// A part of the core that has state.
///
/// An owner of parts lists them with `parts!`, a part takes itself to pieces (`let Self { … }`
/// without `..`): a field that is in neither does not compile, so that new state cannot be
/// forgotten when the core is brought to rest or compared.
pub trait Part {
    /// Brings it to rest; `end` is the moment that it was left in.
    fn reset(&mut self, end: &Moment);

    /// Adds all that the future depends on.
    fn fingerprint(&self, at: &Moment, h: &mut Fingerprint);

    /// Shows its large tables, if it has any, always in the same order.
    fn fold(&mut self, _: &mut Folding) {}
}

/// A part that remembers for longer than an interval's warm-up lasts, or the owner of such a part:
/// a core that begins in the middle of a program takes that over from one that has walked there
/// ([`super::functional`]).
pub trait Remember {
    /// Takes its own from what the other core remembers.
    fn resume(&mut self, warm: &mut Warm);
}

/// Implements [`Part`] and [`Remember`] for the owner of parts. All of its fields are either parts
/// that forget within some ten thousand instructions, or parts that remember for longer, or `fixed` and
/// `tables` (each with what it is full of at first),
/// which never change or mean nothing to a core that begins elsewhere.
macro_rules! parts {
    (
        $owner:ty { $($part:ident),* $(,)? }
        remembers { $($memory:ident),* $(,)? }
        $(tables { $($table:ident: $fill:expr),* $(,)? })?
        fixed { $($fixed:ident),* $(,)? }
    ) => {
        impl $crate::pipeline::state::Part for $owner {
            fn reset(&mut self, end: &$crate::pipeline::state::Moment) {
                let Self { $($part,)* $($memory,)* $($($table: _,)*)? $($fixed: _,)* } = self;
                $($part.reset(end);)*
                $($memory.reset(end);)*
            }

            fn fingerprint(
                &self,
                at: &$crate::pipeline::state::Moment,
                h: &mut $crate::pipeline::state::Fingerprint,
            ) {
                let Self { $($part,)* $($memory,)* $($($table: _,)*)? $($fixed: _,)* } = self;
                $($part.fingerprint(at, h);)*
                $($memory.fingerprint(at, h);)*
            }

            fn fold(&mut self, folding: &mut $crate::pipeline::fold::Folding) {
                let Self { $($part,)* $($memory,)* $($($table,)*)? $($fixed: _,)* } = self;
                $($part.fold(folding);)*
                $($memory.fold(folding);)*
                $($(folding.table($table, $fill);)*)?
            }
        }

        impl $crate::pipeline::state::Remember for $owner {
            fn resume(&mut self, warm: &mut $crate::pipeline::functional::Warm) {
                let Self { $($part: _,)* $($memory,)* $($($table: _,)*)? $($fixed: _,)* } = self;
                $($memory.resume(warm);)*
            }
        }
    };
}
pub(crate) use parts;

/// What stamps count from.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moment {
    /// Cycle of the last issue.
    pub issue: u64,
    /// The front end's next cycle.
    pub clock: u64,
    /// Cycle of the last retirement: nothing is dispatched behind it.
    pub retired: u64,
    /// Fused µops that are not yet retired at `issue`.
    pub in_flight: u64,
    /// Number of the next instruction to be delivered.
    pub next: u64,
}

/// A hash that state is added to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Fingerprint(u64);

impl Fingerprint {
    /// Adds a value.
    #[inline]
    pub fn add(&mut self, value: u64) {
        const K: u64 = 0x9e37_79b9_7f4a_7c15;
        self.0 = (self.0.rotate_left(23) ^ value).wrapping_mul(K);
        self.0 ^= self.0 >> 29;
    }

    /// Adds distances, four at a time: few need more than 16 bits.
    #[inline]
    pub fn add_distances(&mut self, distances: impl Iterator<Item = u64>) {
        let (mut word, mut count) = (0u64, 0u64);
        distances.for_each(|distance| {
            word = word.rotate_left(16) ^ distance;
            count += 1;
            if count.is_multiple_of(4) {
                self.add(word);
                word = 0;
            }
        });
        self.add(word);
        self.add(count);
    }

    /// The hash so far.
    #[must_use]
    pub fn value(self) -> u64 {
        self.0
    }

    /// Adds a stamp that matters only when it lies behind `now`.
    #[inline]
    pub fn add_future(&mut self, stamp: u64, now: u64) {
        self.add(stamp.saturating_sub(now));
    }
}

/// The state of the core between two cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// Equal for states with the same future.
    pub fingerprint: Fingerprint,
    /// Issue cycle that stamps count from.
    pub cycle: u64,
    /// Tag of the next instruction to be delivered.
    pub tag: u32,
}
