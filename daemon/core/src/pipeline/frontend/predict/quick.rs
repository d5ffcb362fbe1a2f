//! The quick one of two predictors of directions, as whose answer fetch goes on until the other one's is there: a few
//! tables of short histories ([`super::tage`]), trained by what branches did.

use super::history::Path;
use super::tage::Tage;
use crate::pipeline::fold::Folding;
use mcad_isa::machine::params::branch::Direction;

/// The predictor.
#[derive(Clone)]
pub struct Quick {
    tage: Tage,
}

impl Quick {
    /// An empty predictor, whose tables have the history's lengths from this one on.
    #[must_use]
    pub fn new(p: &Direction, first_length: usize) -> Self {
        Self {
            tage: Tage::new(p, first_length),
        }
    }

    /// Shows its tables.
    pub fn fold(&mut self, folding: &mut Folding) {
        self.tage.fold(folding);
    }

    /// What it says of the branch at `pc`, which then goes `taken`.
    #[inline]
    pub fn predicts(&mut self, pc: u64, taken: bool, history: &Path) -> bool {
        let guess = self.tage.predict(pc, history).taken;
        self.tage.update(taken, guess, history);
        guess
    }
}
