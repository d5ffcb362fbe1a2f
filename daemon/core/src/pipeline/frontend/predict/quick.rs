//! The quick one of two predictors of directions, as whose answer fetch goes on until the other one's is there: a few
//! tables of short histories ([`super::tage`]), or counters that address and path choose, or the contexts used last
//! ([`super::contexts`]), trained by what branches did.

use mcad_isa::machine::params::branch;

use super::addresses::{AddressRegisters, turns};
use super::contexts::Contexts;
use super::history::Path;
use super::tage::Tage;
use crate::pipeline::fold::Folding;

/// The predictor.
#[derive(Clone)]
pub enum Quick {
    /// By tagged tables.
    Tables(Tage),
    /// By counters.
    Counters(PathCounters),
    /// By contexts.
    Contexts(Contexts),
}

impl Quick {
    /// An empty predictor, whose tables have the history's lengths from this one on.
    #[must_use]
    pub fn new(p: &branch::Quick, first_length: usize) -> Option<Self> {
        match (&p.direction, p.counters, &p.contexts) {
            (Some(direction), ..) => Some(Self::Tables(Tage::new(direction, first_length))),
            (_, Some(counters), _) => Some(Self::Counters(PathCounters::new(counters))),
            (.., Some(contexts)) => Some(Self::Contexts(Contexts::new(contexts, first_length))),
            (None, None, None) => None,
        }
    }

    /// Shows its tables.
    pub fn fold(&mut self, folding: &mut Folding) {
        match self {
            Self::Tables(tables) => tables.fold(folding),
            Self::Counters(counters) => folding.table(&mut counters.counters, 0),
            Self::Contexts(contexts) => contexts.fold(folding),
        }
    }

    /// What it says of the branch at `pc`, which then goes `taken`.
    #[inline]
    pub fn predicts(
        &mut self,
        pc: u64,
        taken: bool,
        history: &Path,
        addresses: &AddressRegisters,
    ) -> bool {
        match self {
            Self::Tables(tables) => {
                let guess = tables.predict(pc, history).taken;
                tables.update(taken, guess, history);
                guess
            }
            Self::Counters(counters) => counters.predicts(pc, taken, addresses),
            Self::Contexts(contexts) => contexts.predicts(pc, taken, history),
        }
    }
}

/// Counters of two bits.
#[derive(Clone)]
pub struct PathCounters {
    history_bits: u32,
    log: u32,
    /// Taken from 0 on.
    counters: Box<[i8]>,
}

impl PathCounters {
    fn new(p: branch::PathCounters) -> Self {
        Self {
            history_bits: p.history_bits,
            log: p.entries.trailing_zeros(),
            counters: vec![0; p.entries as usize].into(),
        }
    }

    #[inline]
    fn predicts(&mut self, pc: u64, taken: bool, addresses: &AddressRegisters) -> bool {
        let path = addresses.long(self.history_bits);
        let place = turns(path, self.log) ^ turns(pc, self.log);
        let Some(counter) = self.counters.get_mut(place as usize) else {
            return false;
        };
        let guess = *counter >= 0;
        *counter = (*counter + if taken { 1 } else { -1 }).clamp(-2, 1);
        guess
    }
}
