//! Branch prediction: from one executed branch to what the core's predictors made of it.
//!
//! Branches come in program order with their outcome, and all tables but a target array learn at once: what the
//! right path left in the history is there for the next branch, as it is after the repair of a
//! speculative history. Directions come from [`tage`] with [`loops`] and [`corrector`], or a [`perceptron`], targets
//! from the branch target buffers ([`btb`]), [`indirect`] or a [`target_array`], and [`returns`]. Where fetch goes on as a [`quick`] predictor of
//! directions says, what that gets wrong and the others right is overridden: no wrong prediction, but a late one.
//!
//! Wrong paths are not followed: they change neither tables nor buffers here.

pub mod addresses;
pub mod btb;
mod contexts;
pub mod corrector;
pub mod foretell;
pub mod frames;
pub mod history;
mod hold;
pub mod indirect;
mod last_targets;
pub mod loops;
mod marks;
mod near_pages;
pub mod pace;
mod pairs;
pub mod perceptron;
pub mod quick;
mod register;
pub mod returns;
pub mod stream;
pub mod streamed;
pub mod tage;
pub mod target_array;
mod windows;

use crate::pipeline::fold::Folding;
use addresses::AddressRegisters;
use btb::{Btb, Sought};
use corrector::Corrector;
use history::{Path, geometric};
use indirect::IndirectTargets;
use loops::Loops;
use mcad_isa::machine::params::branch::{self, History};
pub use mcad_isa::program::BranchKind as Kind;
use perceptron::Perceptron;
use quick::Quick;
use returns::{LastReturns, ReturnStack};
use streamed::Streamed;
use tage::{Guess, Tage};
use target_array::PathTargets;

/// An executed branch.
#[derive(Clone, Copy, Debug)]
pub struct Executed {
    /// Its address.
    pub pc: u64,
    /// Address behind it.
    pub next: u64,
    /// Where it went.
    pub target: u64,
    /// It did not go on behind itself.
    pub taken: bool,
    /// What it is.
    pub kind: Kind,
}

/// What the front end knew of a branch when it fetched on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Steer {
    /// It was not taken, and predicted so.
    #[default]
    Straight,
    /// The same of a branch that has gone the other way before.
    Passed,
    /// Taken, predicted so, and its target was in that level of branch target buffer.
    Taken(u8),
    /// The same, of a conditional branch that has never gone the other way.
    Always(u8),
    /// The same, of an indirect branch or return whose target was chosen, not in the buffer.
    Chosen(u8),
    /// The same, where the branch before it has always led there.
    Led(u8),
    /// Taken, predicted so but not at once, and its target was in that level.
    Overridden(u8),
    /// Not taken, predicted so but not at once.
    OverriddenStraight,
    /// The same where it was the nearest branch target buffer that said otherwise.
    Held,
    /// Taken, and found out at decode: the target was in none.
    Decoded,
    /// The same of a conditional branch, of which the decoders had to ask where it goes.
    DecodedConditional,
    /// Its direction was predicted wrongly.
    WrongDirection,
    /// Its target was predicted wrongly.
    WrongTarget,
}

impl Steer {
    /// The right path begins when the branch has been executed.
    #[inline]
    #[must_use]
    pub fn is_wrong(self) -> bool {
        matches!(self, Self::WrongDirection | Self::WrongTarget)
    }

    /// The right path begins when the branch has been decoded.
    #[inline]
    #[must_use]
    pub fn is_decoded(self) -> bool {
        matches!(self, Self::Decoded | Self::DecodedConditional)
    }

    /// Fetch had gone on as the quick predictor said.
    #[inline]
    #[must_use]
    pub fn is_overridden(self) -> bool {
        matches!(
            self,
            Self::Overridden(_) | Self::OverriddenStraight | Self::Held
        )
    }

    /// The same branch had it been predicted at once.
    #[inline]
    #[must_use]
    pub fn at_once(self) -> Self {
        match self {
            Self::Overridden(level) => Self::Taken(level),
            Self::OverriddenStraight | Self::Held => Self::Straight,
            other => other,
        }
    }

    /// The same of one that the quick predictor had told to go on otherwise.
    #[inline]
    fn overridden(self) -> Self {
        match self {
            Self::Taken(level) => Self::Overridden(level),
            Self::Straight => Self::OverriddenStraight,
            other => other,
        }
    }
}

/// A predicted direction.
#[derive(Clone, Copy, Debug)]
struct Direction {
    taken: bool,
    /// The branch has never gone the other way.
    settled: bool,
    /// The quick predictor, if there is one, says otherwise.
    overridden: bool,
}

/// What predicts directions first.
#[derive(Clone)]
enum Directions {
    Tage(Tage),
    Perceptron(Perceptron),
}

impl Directions {
    fn new(p: &branch::Direction) -> Self {
        match p.weights {
            Some(weights) => Self::Perceptron(Perceptron::new(p, weights)),
            None => Self::Tage(Tage::new(p, 0)),
        }
    }

    fn fold(&mut self, folding: &mut Folding) {
        match self {
            Self::Tage(tage) => tage.fold(folding),
            Self::Perceptron(perceptron) => perceptron.fold(folding),
        }
    }

    /// Of the branch at `pc`.
    #[inline]
    fn predict(&mut self, pc: u64, history: &Path, addresses: &AddressRegisters) -> Guess {
        match self {
            Self::Tage(tage) => tage.predict(pc, history),
            Self::Perceptron(perceptron) => perceptron.predict(pc, addresses),
        }
    }

    /// The branch predicted last went `taken`; `predicted` is what all predictors together said.
    #[inline]
    fn update(&mut self, taken: bool, predicted: bool, history: &Path) {
        match self {
            Self::Tage(tage) => tage.update(taken, predicted, history),
            Self::Perceptron(perceptron) => perceptron.update(taken),
        }
    }
}

/// What predicts targets of indirect branches.
#[derive(Clone)]
enum Targets {
    Tagged(Box<IndirectTargets>, Option<OwnHistory>),
    Array(PathTargets),
}

/// What the tables of targets see, where that is nothing of what the others do.
#[derive(Clone)]
struct OwnHistory {
    path: Path,
    /// Of the address of a taken branch's last byte.
    seen: u64,
}

impl OwnHistory {
    fn new(p: &branch::Indirect) -> Option<Self> {
        let bits = p.address_bits;
        (bits > 0).then(|| Self {
            path: Path::new(History::Taken, &p.histories, 0..0),
            seen: u64::MAX >> (64 - bits.min(64)) & !1,
        })
    }
}

impl Targets {
    fn fold(&mut self, folding: &mut Folding) {
        match self {
            Self::Tagged(tagged, own) => {
                tagged.fold(folding);
                if let Some(own) = own {
                    own.path.fold(folding);
                }
            }
            Self::Array(array) => array.fold(folding),
        }
    }

    /// The kernel ran.
    fn forget(&mut self) {
        if let Self::Tagged(_, Some(own)) = self {
            own.path.forget();
        }
    }

    /// A branch whose last byte is there was taken.
    #[inline]
    fn take(&mut self, last_byte: u64) {
        match self {
            Self::Tagged(tagged, own) => {
                tagged.take(last_byte);
                if let Some(own) = own {
                    own.path.take_bits(last_byte & own.seen);
                }
            }
            Self::Array(array) => array.take(),
        }
    }

    /// Predicts where the branch goes, and learns where it went.
    fn guess(
        &mut self,
        b: &Executed,
        history: &Path,
        addresses: &AddressRegisters,
    ) -> indirect::Guess {
        match self {
            Self::Tagged(tagged, own) => {
                let history = own.as_ref().map_or(history, |own| &own.path);
                let guess = tagged.predict(b.pc, history);
                tagged.update(b.target);
                guess
            }
            Self::Array(array) => {
                let guess = array.predict(b.pc, addresses);
                array.update(b.target);
                guess
            }
        }
    }
}

/// A core's predictors.
#[derive(Clone)]
pub struct Predictor {
    unknown_not_taken: bool,
    returns_fall_back: bool,
    kernel_in_history: bool,
    path: Path,
    addresses: AddressRegisters,
    directions: Directions,
    loops: Loops,
    /// Whether loop predictions have been better than the others.
    with_loops: i8,
    corrector: Option<Corrector>,
    quick: Option<Quick>,
    /// What the base table says counts at once.
    quick_is_base: bool,
    targets: Targets,
    returns: ReturnStack,
    /// Where it matters.
    last_returns: Option<LastReturns>,
    btb: Btb,
    streamed: Option<Streamed>,
}

impl Predictor {
    /// Predictors that have seen nothing.
    #[must_use]
    pub fn new(p: &branch::Branch) -> Self {
        let (d, i) = (&p.direction, &p.indirect);
        let mut lengths = lengths_of(d);
        // Those of indirect branches come behind, where they have lengths of their own.
        let own = OwnHistory::new(i);
        let (first, every) = match (i.histories.is_empty(), &own) {
            (true, _) => (0, 2),
            (false, None) => (lengths.len(), 1),
            (false, Some(_)) => (0, 1),
        };
        if own.is_none() {
            lengths.extend(&i.histories);
        }
        let registered = match d.path_register {
            true => d.hashed_tables as usize..lengths.len(),
            false => 0..0,
        };
        let first_quick = lengths.len();
        if let Some(quick) = &p.quick {
            lengths.extend(quick.direction.iter().flat_map(lengths_of));
            lengths.extend(
                quick
                    .contexts
                    .iter()
                    .flat_map(|contexts| &contexts.histories),
            );
        }
        Self {
            unknown_not_taken: p.unknown_not_taken,
            returns_fall_back: p.returns_fall_back,
            kernel_in_history: p.kernel_in_history,
            path: Path::new(p.history, &lengths, registered),
            addresses: AddressRegisters::new(p.address_path),
            directions: Directions::new(d),
            loops: Loops::new(d.loops),
            with_loops: -1,
            corrector: (d.corrector_entries > 0).then(|| Corrector::new(d.corrector_entries)),
            quick: (p.quick.as_ref()).and_then(|quick| Quick::new(quick, first_quick)),
            quick_is_base: p.quick.as_ref().is_some_and(|quick| quick.base),
            targets: match i.array {
                Some(array) => Targets::Array(PathTargets::new(i, array)),
                None => {
                    let tagged = IndirectTargets::new(i, first, every, p.chosen);
                    Targets::Tagged(Box::new(tagged), own)
                }
            },
            returns: ReturnStack::new(p.return_stack),
            last_returns: (p.changed_return_bubbles > 0).then(LastReturns::default),
            btb: Btb::new(&p.btb),
            streamed: p.streamed_loops.map(Streamed::new),
        }
    }

    /// Shows the tables of those that have large ones.
    pub fn fold(&mut self, folding: &mut Folding) {
        self.path.fold(folding);
        self.directions.fold(folding);
        if let Some(corrector) = &mut self.corrector {
            corrector.fold(folding);
        }
        if let Some(quick) = &mut self.quick {
            quick.fold(folding);
        }
        self.targets.fold(folding);
        if let Some(last) = &mut self.last_returns {
            last.fold(folding);
        }
        self.btb.fold(folding);
    }

    /// The kernel ran, and did something.
    pub fn kernel_ran(&mut self) {
        if self.kernel_in_history {
            self.path.forget();
            self.targets.forget();
        }
    }

    /// Predicts a branch and learns from it.
    #[inline]
    pub fn branch(&mut self, b: &Executed) -> Steer {
        let mut settled = false;
        let steer = match b.kind {
            Kind::Conditional => {
                let direction = self.direction(b);
                settled = direction.settled;
                let held = !settled && self.btb.conditional(Sought::conditional(b), b.taken);
                match self.conditional(b, direction.taken) {
                    Steer::Taken(level) if settled => Steer::Always(level),
                    steer if direction.overridden => steer.overridden(),
                    Steer::Straight if held => Steer::Held,
                    Steer::Straight if !settled => Steer::Passed,
                    steer => steer,
                }
            }
            Kind::Jump | Kind::Call => match self.find(b) {
                Some(level) => Steer::Taken(level),
                None => Steer::Decoded,
            },
            Kind::IndirectJump | Kind::IndirectCall => self.indirect(b),
            Kind::Return => self.returned(b),
        };
        if matches!(b.kind, Kind::Call | Kind::IndirectCall) {
            self.returns.push(b.next);
        }
        self.path.take(b, settled);
        if b.taken {
            let last_byte = b.next.wrapping_sub(1);
            self.addresses.take(last_byte);
            self.targets.take(last_byte);
        }
        match &mut self.streamed {
            Some(streamed) => streamed.branch(b, steer),
            None => steer,
        }
    }

    /// Level that has a taken branch; all have it afterwards.
    #[inline]
    fn find(&mut self, b: &Executed) -> Option<u8> {
        let branch = Sought {
            pc: b.pc,
            // Where a return goes is not in the buffer.
            other_page: b.kind != Kind::Return && btb::is_other_page(b.pc, b.target),
            links: matches!(b.kind, Kind::Call | Kind::IndirectCall | Kind::Return),
            back: b.target <= b.pc,
            near: btb::is_near(b, self.btb.near_bytes()),
        };
        let found = self.btb.find(branch);
        self.btb.take(branch, found);
        found
    }

    #[inline]
    fn conditional(&mut self, b: &Executed, direction: bool) -> Steer {
        if !b.taken {
            let branch = Sought::conditional(b);
            let known = !direction || (self.unknown_not_taken && self.btb.find(branch).is_none());
            return if known {
                Steer::Straight
            } else {
                Steer::WrongDirection
            };
        }
        match self.find(b) {
            _ if !direction => Steer::WrongDirection,
            Some(level) => Steer::Taken(level),
            None if self.unknown_not_taken => Steer::WrongDirection,
            None => Steer::DecodedConditional,
        }
    }

    /// The direction that is predicted.
    #[inline]
    fn direction(&mut self, b: &Executed) -> Direction {
        let guess = (self.directions).predict(b.pc, &self.path, &self.addresses);
        if guess.settled {
            self.directions.update(b.taken, guess.taken, &self.path);
            if let Some(corrector) = &mut self.corrector {
                corrector.pass(b.taken);
            }
            return Direction {
                taken: guess.taken,
                settled: true,
                overridden: false,
            };
        }
        let counted = self.loops.predict(b.pc);
        let quick = match (&mut self.quick, self.quick_is_base) {
            (Some(quick), _) => Some(quick.predicts(b.pc, b.taken, &self.path, &self.addresses)),
            (None, true) => Some(guess.base),
            (None, false) => None,
        };
        let base = match counted {
            Some(counted) if self.with_loops >= 0 => counted,
            _ => guess.taken,
        };
        let predicted = match &mut self.corrector {
            Some(corrector) => corrector.predict(b.pc, base, &guess, &self.path),
            None => base,
        };
        if let Some(counted) = counted
            && counted != predicted
        {
            let step = if counted == b.taken { 1 } else { -1 };
            self.with_loops = (self.with_loops + step).clamp(-64, 63);
        }
        self.loops.update(
            b.taken,
            predicted != b.taken,
            counted.is_some_and(|c| c != guess.taken),
        );
        if let Some(corrector) = &mut self.corrector {
            corrector.update(b.taken, b.target <= b.pc);
        }
        self.directions.update(b.taken, predicted, &self.path);
        Direction {
            taken: predicted,
            settled: false,
            overridden: quick.is_some_and(|quick| quick != predicted),
        }
    }

    fn indirect(&mut self, b: &Executed) -> Steer {
        let guess = (self.targets).guess(b, &self.path, &self.addresses);
        match self.find(b) {
            Some(level) if guess.target == b.target => match (guess.chosen, guess.led) {
                (true, true) => Steer::Led(level),
                (true, false) => Steer::Chosen(level),
                (false, _) => Steer::Taken(level),
            },
            // Where no buffer has it, nothing says that there is a branch.
            _ => Steer::WrongTarget,
        }
    }

    fn returned(&mut self, b: &Executed) -> Steer {
        let target = self.returns.pop();
        let found = self.find(b);
        let target = match target {
            None if self.returns_fall_back => {
                let guess = (self.targets).guess(b, &self.path, &self.addresses);
                Some(guess.target)
            }
            other => other,
        };
        let last = self.last_returns.as_mut();
        let changed = last.is_some_and(|last| last.changes(b.pc, b.target));
        match found {
            _ if target != Some(b.target) => Steer::WrongTarget,
            Some(0) if changed => Steer::Chosen(0),
            Some(level) => Steer::Taken(level),
            None => Steer::Decoded,
        }
    }
}

/// Lengths of history of a predictor of directions, in taken branches.
fn lengths_of(d: &branch::Direction) -> Vec<u32> {
    match d.histories.is_empty() {
        true => geometric(d.shortest_history, d.longest_history, d.tables),
        false => d.histories.clone(),
    }
}

/// Branch prediction of a CPU that has some, for tests.
#[cfg(test)]
pub fn branches_of(cpu: &str) -> branch::Branch {
    mcad_isa::machine::cpu(cpu)
        .ok()
        .and_then(|model| model.core.branch.clone())
        .expect("the CPU has branch prediction")
}
