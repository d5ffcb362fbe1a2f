//! Each path stepped once: nearly exact, at the cost of the code's size and not of its executions.
//!
//! A path costs what the stepwise core takes for all of it, less what it takes without its last
//! block. Along an execution these differences add up to its cycles, as far as what happened before
//! a path's context has no effect any more.
//!
//! Paths do not say when something misses or is mispredicted. What the chain says of that is put right by
//! stretches of the execution ([`stretches`]), stepped with what befell them and without.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use crate::chain::Chain;
use crate::events::{Costs, Counted};
use crate::kind::KINDS;
use crate::machine::Machine;
use crate::profile::Profile;
use crate::step::{StaticCode, Stepper};
use crate::stretches::{self, Linear, Said, Stretch};

/// Latencies of results by kinds.
type Latencies = [[u8; KINDS]; KINDS];

/// What a machine takes without misses and mispredictions.
#[derive(Debug)]
struct Ideal {
    cycles: f64,
    /// Of each stretch; empty until they are asked for.
    stretches: Vec<u64>,
}

/// Predicts cycles of one program; keeps what several machines have in common.
#[derive(Debug)]
pub struct Paths {
    profile: Rc<Profile>,
    chain: Rc<Chain>,
    /// What befell the program, all together.
    befell: Counted,
    /// The code with the latencies that it was made for.
    code: Option<(Latencies, StaticCode)>,
    ideal: FxHashMap<Machine, Ideal>,
}

impl Paths {
    /// Of a program.
    #[must_use]
    pub fn new(profile: Rc<Profile>, chain: Rc<Chain>) -> Self {
        let mut befell = Counted::default();
        for site in &profile.sites {
            befell.add(site, 1.0);
        }
        Self {
            profile,
            chain,
            befell,
            code: None,
            ideal: FxHashMap::default(),
        }
    }

    /// Cycles of the program on a machine.
    #[must_use]
    pub fn predict(&mut self, machine: &Machine) -> f64 {
        let profile = &*self.profile;
        let latencies = machine.latencies();
        let code = match self.code.take() {
            Some(kept) if kept.0 == latencies => kept.1,
            _ => StaticCode::new(machine, &profile.blocks),
        };
        let (_, code) = self.code.insert((latencies, code));
        let without = machine.without_events();
        let ideal = self
            .ideal
            .entry(without)
            .or_insert_with_key(|machine| Ideal {
                cycles: without_events(machine, code, profile),
                stretches: Vec::new(),
            });
        if !machine.has_events() {
            return ideal.cycles;
        }
        if ideal.stretches.is_empty() {
            let mut stepper = Stepper::new(machine);
            let cycles = |stretch: &Stretch| stepper.without_events(code, &stretch.order);
            ideal.stretches = profile.stretches.iter().map(cycles).collect();
        }
        let said = Said {
            stack: self.chain.predict(machine),
            of: Linear::counted(&Costs::new(machine), &self.befell),
        };
        let stretches = profile
            .stretches
            .iter()
            .zip(ideal.stretches.iter().copied());
        ideal.cycles + stretches::cost(machine, code, stretches, &said)
    }
}

/// Cycles of the program on a machine, misses and mispredictions left out.
fn without_events(machine: &Machine, code: &StaticCode, profile: &Profile) -> f64 {
    let mut stepper = Stepper::new(machine);
    profile.paths.iter().fold(0.0, |cycles, path| {
        cycles + path.count as f64 * stepper.last_of(code, &path.blocks) as f64
    })
}
