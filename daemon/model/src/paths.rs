//! Each path stepped once: nearly exact, at the cost of the code's size and not of its executions.
//!
//! A path costs what the stepwise core takes for all of it, less what it takes without its last
//! block. Along an execution these differences add up to its cycles, as far as what happened before
//! a path's context has no effect any more.

use crate::machine::Machine;
use crate::profile::Profile;
use crate::step::{StaticCode, Stepper};

/// Cycles of the program on a machine.
#[must_use]
pub fn predict(machine: &Machine, profile: &Profile) -> f64 {
    let code = StaticCode::new(machine, &profile.blocks);
    let mut cycles = 0.0;
    for path in &profile.paths {
        let Some((_, context)) = path.blocks.split_last() else {
            continue;
        };
        let took = |blocks: &[u32]| {
            let mut stepper = Stepper::new(machine);
            for &block in blocks {
                stepper.execute(&code, block);
            }
            stepper.finish(&code)
        };
        let (all, before) = (took(&path.blocks), took(context));
        cycles += path.count as f64 * all.saturating_sub(before) as f64;
    }
    cycles
}
