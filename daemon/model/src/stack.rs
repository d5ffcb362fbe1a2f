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

    /// The same in whole cycles: parts add up to the total to the cycle. Each is rounded down, and the
    /// cycles that are missing then go to those that lost most by it (the largest remainders).
    #[must_use]
    pub fn whole(mut self) -> Self {
        let total = self.total().round();
        let mut parts = self.parts_mut();
        let mut remainders: Vec<(usize, f64)> = Vec::with_capacity(parts.len());
        for (n, part) in parts.iter_mut().enumerate() {
            remainders.push((n, part.fract()));
            **part = part.floor();
        }
        let missing = total - parts.iter().map(|part| **part).sum::<f64>();
        // Equal remainders: the first.
        remainders.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        for (n, _) in remainders.into_iter().take(missing.max(0.0) as usize) {
            if let Some(part) = parts.get_mut(n) {
                **part += 1.0;
            }
        }
        self
    }

    fn parts_mut(&mut self) -> Vec<&mut f64> {
        let units = self.dependences.iter_mut().chain(&mut self.units);
        let mut parts: Vec<&mut f64> = units.collect();
        parts.extend([
            &mut self.base,
            &mut self.write_back,
            &mut self.data_cache,
            &mut self.instruction_cache,
            &mut self.misprediction,
            &mut self.taken_branch,
        ]);
        parts
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_stacks_add_up_to_the_rounded_total_and_differ_by_less_than_a_cycle() {
        let mut number = 1u64;
        let mut next = |scale: f64| {
            number = number
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (number >> 33) as f64 / (1u64 << 31) as f64 * scale
        };
        for n in 0..2000 {
            let scale = [0.7, 10.0, 1e4, 1e9][n % 4];
            let mut stack = Stack::default();
            for part in stack.parts_mut() {
                *part = next(scale);
            }
            let whole = stack.clone().whole();
            let sum: f64 = whole.parts().map(|p| p.1).sum();
            assert_eq!(sum, stack.total().round());
            for ((name, before), (_, after)) in stack.parts().zip(whole.parts()) {
                assert_eq!(after.fract(), 0.0);
                assert!((after - before).abs() < 1.0, "{name}: {before} {after}");
            }
        }
    }
}
