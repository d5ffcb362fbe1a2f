//! Instructions that can start only every so many cycles, as the tables say and ports do not
//! explain.

use rustc_hash::FxHashMap;

use crate::pipeline::state::{Fingerprint, Moment, Part};

/// When each form may start next, in hundredths of a cycle.
#[derive(Default)]
pub struct Spacing {
    next: FxHashMap<u32, u64>,
}

impl Spacing {
    /// The first µop of a form that starts at most every `throughput` hundredths of a cycle is known
    /// to be startable at `known`; returns the cycle in which it may start.
    pub fn start(&mut self, form: u32, throughput: u64, known: u64) -> u64 {
        let next = self.next.entry(form).or_insert(0);
        let start = (known * 100).max(*next);
        *next = start + throughput;
        start / 100
    }
}

impl Part for Spacing {
    fn reset(&mut self, _: &Moment) {
        let Self { next } = self;
        next.clear();
    }

    fn fingerprint(&self, at: &Moment, h: &mut Fingerprint) {
        let Self { next } = self;
        // In any order: the sum over forms.
        let forms = next.iter().map(|(form, next)| {
            let mut one = Fingerprint::default();
            one.add(u64::from(*form));
            one.add_future(*next, at.issue * 100);
            one.value()
        });
        h.add(forms.fold(0, u64::wrapping_add));
    }
}
