//! Latencies from operand to operand, simulated in the loops that show them.
//!
//! As the profiler does it, what helper instructions carry from one instance to the next is taken off,
//! with the helpers' own latencies as the model has them.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use mcad_isa::machine::CpuModel;
use mcad_isa::machine::measured::{kind_text, operand_text};
use mcad_profile::instruction::{HelperLoop, LatencyLoop, Pair, helper_loops};

use super::turn;

/// A pair of operands, as files name them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct PairName {
    /// Source.
    pub from: String,
    /// Destination.
    pub to: String,
    /// Part of the source.
    pub kind: String,
}

impl PairName {
    /// Of a pair.
    pub(super) fn of(pair: Pair) -> Self {
        Self {
            from: operand_text(pair.from),
            to: operand_text(pair.to),
            kind: kind_text(pair.kind).to_owned(),
        }
    }
}

impl fmt::Display for PairName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, kind } = self;
        write!(f, "{from}.{kind} to {to}")
    }
}

/// The helpers' latencies on a model.
pub(super) struct Helpers(HashMap<String, f64>);

impl Helpers {
    /// Simulates them.
    pub(super) fn of(model: &Arc<CpuModel>) -> Self {
        let one = |helper: HelperLoop| {
            let cycles = turn(model, &helper.bytes)? / helper.links;
            Some((helper.name, cycles))
        };
        Self(helper_loops().into_iter().filter_map(one).collect())
    }

    /// Simulates a latency.
    pub(super) fn simulate(&self, model: &Arc<CpuModel>, latency: &LatencyLoop) -> Option<f64> {
        let mut cycles = turn(model, &latency.bytes)?;
        for (name, ways) in &latency.helpers {
            cycles -= ways * self.0.get(name)?;
        }
        Some((cycles / latency.links).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use mcad_profile::instruction::Subjects;

    use super::*;

    #[test]
    fn latencies_are_those_of_the_table() {
        let model = mcad_isa::machine::cpu("skl").unwrap();
        let helpers = Helpers::of(&model);
        let subjects = Subjects::of(model.forms().unwrap());
        for (name, pair, want) in [
            ("IMUL (R64, R64)", "REG0.reg to REG0", 3.0),
            ("IMUL (R64, R64)", "REG1.reg to REG0", 3.0),
            ("MULPD (XMM, XMM)", "REG1.reg to REG0", 4.0),
            ("MOV (R64, M64)", "MEM0.addr to REG0", 5.0),
        ] {
            let subject = subjects.iter().find(|s| &*s.form().name == name).unwrap();
            let loops = subject.latency_loops();
            let of_pair = |l: &&LatencyLoop| PairName::of(l.pair).to_string() == pair;
            let got = helpers.simulate(&model, loops.iter().find(of_pair).unwrap());
            assert!((got.unwrap() - want).abs() < 0.05, "{name} {pair}: {got:?}");
        }
    }
}
