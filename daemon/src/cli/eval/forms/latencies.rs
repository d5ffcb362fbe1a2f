//! Latencies from operand to operand, simulated in the loops that show them.
//!
//! As the profiler does it, what helper instructions carry from one instance to the next is taken off,
//! with the helpers' own latencies as the model has them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use mcad_core::block::Init;
use mcad_isa::machine::CpuModel;
use mcad_isa::machine::measured::{kind_text, operand_text};
use mcad_profile::instruction::{LatencyLoop, Pair, helper_loops};

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
pub(super) struct Helpers {
    cycles: BTreeMap<String, f64>,
    /// Registers have the values that the profiler gives them; else any.
    as_profiled: bool,
}

impl fmt::Display for Helpers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.cycles.iter();
        let all: Vec<_> = all
            .map(|(name, cycles)| format!("{name} {cycles:.2}"))
            .collect();
        f.write_str(&all.join(", "))
    }
}

impl Helpers {
    /// Simulates them. `as_profiled`: with the values in registers that the profiler has, so that addresses are
    /// equal when they are made of different registers.
    pub(super) fn of(model: &Arc<CpuModel>, as_profiled: bool) -> Self {
        let mut helpers = Self {
            cycles: BTreeMap::new(),
            as_profiled,
        };
        for helper in helper_loops() {
            let init = helpers.init(helper.registers);
            if let Some(cycles) = turn(model, &helper.bytes, init) {
                helpers.cycles.insert(helper.name, cycles / helper.links);
            }
        }
        helpers
    }

    fn init(&self, registers: [u64; 16]) -> Init {
        match self.as_profiled {
            true => Init::Registers(registers),
            false => Init::Distinct,
        }
    }

    /// Simulates a latency.
    pub(super) fn simulate(&self, model: &Arc<CpuModel>, latency: &LatencyLoop) -> Option<f64> {
        let mut cycles = turn(model, &latency.bytes, self.init(latency.registers))?;
        for (name, ways) in &latency.helpers {
            cycles -= ways * self.cycles.get(name)?;
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
        let helpers = Helpers::of(&model, true);
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
