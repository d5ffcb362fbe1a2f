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
    /// Waiting so that results are written in order.
    pub write_back: f64,
    /// Waiting for a load that missed in the data cache.
    pub data_cache: f64,
    /// Waiting for code that missed in the instruction cache.
    pub instruction_cache: f64,
    /// Behind mispredicted branches.
    pub misprediction: f64,
    /// Behind taken branches that were predicted.
    pub taken_branch: f64,
}

impl Stack {
    /// All cycles.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.base
            + self.dependences.iter().sum::<f64>()
            + self.units.iter().sum::<f64>()
            + self.events().iter().map(|e| e.1).sum::<f64>()
    }

    fn events(&self) -> [(&'static str, f64); 5] {
        [
            ("write_back", self.write_back),
            ("data_cache", self.data_cache),
            ("instruction_cache", self.instruction_cache),
            ("misprediction", self.misprediction),
            ("taken_branch", self.taken_branch),
        ]
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
            .chain(
                self.events()
                    .map(|(name, cycles)| (name.to_owned(), cycles)),
            )
    }
}
