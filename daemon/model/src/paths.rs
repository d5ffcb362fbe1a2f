//! Each path stepped once: nearly exact, at the cost of the code's size and not of its executions.
//!
//! A path costs what the stepwise core takes for all of it, less what it takes without its last
//! block. Along an execution these differences add up to its cycles, as far as what happened before
//! a path's context has no effect any more. Paths of one shape are one ([`shapes`](crate::shapes)).
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
use crate::shapes::Shapes;
use crate::step::{StaticCode, Stepper};
use crate::stretches::{self, Linear, Said, Stretch};

/// Latencies of results by kinds.
type Latencies = [[u8; KINDS]; KINDS];

/// Predicts cycles of one program; keeps what several machines have in common.
#[derive(Debug)]
pub struct Paths {
    profile: Rc<Profile>,
    chain: Rc<Chain>,
    /// What befell the program, all together.
    befell: Counted,
    /// What of the paths matters; made when it is asked for.
    shapes: Option<Shapes>,
    /// The code of the stretches with the latencies that it was made for.
    code: Option<(Latencies, StaticCode)>,
    /// By machine: the cycles of each stretch without misses and mispredictions.
    stretches: FxHashMap<Machine, Vec<u64>>,
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
            shapes: None,
            code: None,
            stretches: FxHashMap::default(),
        }
    }

    /// Cycles of the program on a machine.
    #[must_use]
    pub fn predict(&mut self, machine: &Machine) -> f64 {
        let profile = &*self.profile;
        let shapes = self.shapes.get_or_insert_with(|| Shapes::of(profile));
        let ideal = shapes.cycles(machine) as f64;
        if !machine.has_events() {
            return ideal;
        }
        let latencies = machine.latencies();
        let code = match self.code.take() {
            Some(kept) if kept.0 == latencies => kept.1,
            _ => of_stretches(machine, profile),
        };
        let (_, code) = self.code.insert((latencies, code));
        let without = (self.stretches)
            .entry(machine.without_events())
            .or_insert_with_key(|machine| {
                let mut stepper = Stepper::new(machine);
                let cycles = |stretch: &Stretch| stepper.without_events(code, &stretch.order);
                profile.stretches.iter().map(cycles).collect()
            });
        let said = Said {
            stack: self.chain.predict(machine),
            of: Linear::counted(&Costs::new(machine), &self.befell),
        };
        let stretches = profile.stretches.iter().zip(without.iter().copied());
        ideal + stretches::cost(machine, code, stretches, &said)
    }
}

/// The blocks that stretches have, under their numbers; the others are empty.
fn of_stretches(machine: &Machine, profile: &Profile) -> StaticCode {
    let mut has = vec![false; profile.blocks.len()];
    for &piece in profile.stretches.iter().flat_map(|s| &s.order.pieces) {
        if let Some(has) = has.get_mut(piece as usize) {
            *has = true;
        }
    }
    let mut code = StaticCode::default();
    for (block, has) in profile.blocks.iter().zip(has) {
        code.push(machine, if has { block } else { &[] });
    }
    code
}
