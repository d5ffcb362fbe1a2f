//! A slow, literal predictor of directions: TAGE-SC-L of the 64 KB class (A. Seznec, "TAGE-SC-L branch
//! predictors again", CBP-5, 2016), against which the core's own is held.
//!
//! It shares nothing with the core's: histories are bits, as long as the paper's, that each look-up folds
//! anew, tables have the paper's sizes and number of banks, and all is written down as it is
//! defined, whatever that costs. What the paper leaves to chance (which tables get an entry) moves what is
//! predicted wrongly, by up to a tenth where that is little, so that is taken over several seeds.

mod corrector;
mod counter;
mod history;
mod loops;
mod tage;

use mcad_core::pipeline::frontend::predict::{Executed, Kind};

use corrector::Corrector;
use counter::toward;
use history::Global;
use loops::Loops;
use tage::Tage;

/// The predictor.
pub struct Reference {
    history: Global,
    tage: Tage,
    loops: Loops,
    /// Whether loop predictions were better than the others.
    with_loops: i32,
    corrector: Corrector,
    random: fastrand::Rng,
}

impl Reference {
    /// One that has seen nothing, with that seed for what is left to chance.
    pub fn new(seed: u64) -> Self {
        Self {
            history: Global::new(),
            tage: Tage::new(),
            loops: Loops::new(),
            with_loops: -1,
            corrector: Corrector::new(),
            random: fastrand::Rng::with_seed(seed),
        }
    }

    /// A branch was executed. Returns whether it is a conditional one whose direction was predicted wrongly.
    pub fn branch(&mut self, b: &Executed) -> bool {
        let conditional = b.kind == Kind::Conditional;
        let wrong = conditional && self.direction(b) != b.taken;
        if conditional {
            self.corrector.push(b.pc, b.target, b.taken);
        }
        let indirect = matches!(
            b.kind,
            Kind::IndirectJump | Kind::IndirectCall | Kind::Return
        );
        self.history
            .push(b.pc, b.taken, indirect.then_some(b.target));
        wrong
    }

    /// The direction that is predicted; all tables learn what it was.
    fn direction(&mut self, b: &Executed) -> bool {
        let found = self.tage.predict(b.pc, &self.history);
        let counted = self.loops.predict(b.pc);
        let before = match counted.taken {
            Some(taken) if self.with_loops >= 0 => taken,
            _ => found.taken,
        };
        let said = self
            .corrector
            .predict(b.pc, before, &found, self.history.path);
        if let Some(taken) = counted.taken
            && taken != said.taken
        {
            self.with_loops = toward(self.with_loops, 7, taken == b.taken);
        }
        let wrong = said.taken != b.taken;
        let needed = counted.taken.is_some_and(|taken| taken != found.taken);
        self.loops
            .update(counted, b.taken, (wrong, needed), &mut self.random);
        self.corrector.update(said, &found, b.taken);
        self.tage
            .update(&found, b.taken, said.taken, &mut self.random);
        said.taken
    }
}
