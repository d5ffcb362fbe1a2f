//! Where cycles go.

use serde::Serialize;

use crate::kind::{KINDS, Kind};

/// Cycles by cause; they add up to the total.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Stack {
    /// Instructions over width: what a core without stalls takes.
    pub base: f64,
    /// Waiting for a value, by the kind of its producer.
    pub dependences: [f64; KINDS],
    /// Waiting for a unit, by kind.
    pub units: [f64; KINDS],
}

impl Stack {
    /// All cycles.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.base + self.dependences.iter().sum::<f64>() + self.units.iter().sum::<f64>()
    }

    /// The parts with their names, in a fixed order.
    pub fn parts(&self) -> impl Iterator<Item = (String, f64)> + '_ {
        let base = std::iter::once(("base".to_owned(), self.base));
        let named = |what: &'static str, cycles: [f64; KINDS]| {
            let kinds = Kind::ALL.iter().zip(cycles);
            kinds.map(move |(kind, cycles)| (format!("{what}_{}", kind.name()), cycles))
        };
        base.chain(named("dependences", self.dependences))
            .chain(named("units", self.units))
    }
}
