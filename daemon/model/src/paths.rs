//! Each path stepped once: nearly exact, at the cost of the code's size and not of its executions.
//!
//! A path costs what the stepwise core takes for all of it, less what it takes without its last
//! block. Along an execution these differences add up to its cycles, as far as what happened before
//! a path's context has no effect any more.

use crate::chain::Chain;
use crate::machine::Machine;
use crate::profile::Profile;
use crate::step::{StaticCode, Stepper};

/// Cycles of the program on a machine, misses and mispredictions left out: paths do not say when they
/// come.
#[must_use]
pub fn without_events(machine: &Machine, profile: &Profile) -> f64 {
    let code = StaticCode::new(machine, &profile.blocks);
    let mut stepper = Stepper::new(machine);
    profile.paths.iter().fold(0.0, |cycles, path| {
        cycles + path.count as f64 * stepper.last_of(&code, &path.blocks) as f64
    })
}

/// Cycles of the program on a machine: paths say what it takes without misses and mispredictions, and
/// the chain how many cycles these cost.
#[must_use]
pub fn predict(machine: &Machine, profile: &Profile, chain: &Chain) -> f64 {
    let cycles = without_events(machine, profile);
    let ideal = machine.without_events();
    if ideal == *machine {
        return cycles;
    }
    cycles + chain.predict(machine).total() - chain.predict(&ideal).total()
}
