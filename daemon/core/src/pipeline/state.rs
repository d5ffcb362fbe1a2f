//! Fingerprints of the core's state, to recognise that it recurs.
//!
//! The simulation is deterministic: if all that the future can depend on is at one cycle what it
//! was at an earlier one, everything repeats with the distance between them. A fingerprint is
//! taken between two cycles of the front end, never within an instruction, and covers every part:
//! each has a `fingerprint` method beside its state. Stamps go in relative to the issue cycle,
//! and those that can no longer matter as zero. Who adds state to a part adds it there too; the
//! tests compare predictions with and without recurrence.

use super::frontend::{FrontEnd, Target};
use super::inst::Source;
use super::observer::Observer;
use mcad_isa::program::flag;

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

impl FrontEnd {
    /// The state, unless an instruction is under way.
    pub(super) fn state<O: Observer>(&self, t: &Target<'_, O>) -> Option<State> {
        let next = t.feed.front()?;
        let instr = t.program.instrs.get(next.instr as usize)?;
        if self.microcode.within_instruction() || !t.feed.between_instructions() {
            return None;
        }
        let now = t.back.cycle();
        let mut h = Fingerprint::default();
        h.add(u64::from(next.instr) << 8 | next.source as u64);
        h.add(u64::from(instr.is(flag::FUSED_PREVIOUS)));
        // Behind the decoders code has no addresses; from them, only the place in a block counts.
        h.add(match next.source {
            Source::Decoders => next.address % u64::from(self.p.predecode_block_bytes),
            Source::UopCache | Source::LoopStream => next.address,
        });
        h.add(self.clock.wrapping_sub(now));
        self.fingerprint(t.feed, &mut h);
        t.feed.fingerprint(&mut h);
        t.back.fingerprint(self.clock, &mut h);
        Some(State {
            fingerprint: h,
            cycle: now,
            tag: next.tag,
        })
    }
}
