//! Branch predictors of several kinds and sizes, all asked about every branch of a profile.
//!
//! Each has counters of two bits for conditional branches. Targets are the same for all: direct ones
//! are known, those of indirect jumps are what they were the last time, returns come from a stack
//! of [`RETURNS`] that wraps around. McFarling, "Combining branch predictors" (1993), has the
//! kinds.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// Entries of the return stack.
pub const RETURNS: usize = 16;

/// A predictor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Predictor {
    /// Always right.
    #[default]
    Perfect,
    /// Conditional branches are taken if they go backward.
    Static,
    /// 512 counters by address.
    Bimodal512,
    /// 4 096 counters by address.
    Bimodal4k,
    /// 1 024 counters by address and the last 10 branches.
    Gshare1k,
    /// 4 096 counters by address and the last 12 branches.
    Gshare4k,
    /// 16 384 counters by address and the last 14 branches.
    Gshare16k,
}

/// Predictors that can be wrong.
pub const FALLIBLE: usize = 6;

impl Predictor {
    /// All of them, the most simple last.
    pub const ALL: [Self; FALLIBLE + 1] = [
        Self::Perfect,
        Self::Gshare16k,
        Self::Gshare4k,
        Self::Gshare1k,
        Self::Bimodal4k,
        Self::Bimodal512,
        Self::Static,
    ];

    /// Name in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Perfect => "perfect",
            Self::Static => "static",
            Self::Bimodal512 => "bimodal512",
            Self::Bimodal4k => "bimodal4k",
            Self::Gshare1k => "gshare1k",
            Self::Gshare4k => "gshare4k",
            Self::Gshare16k => "gshare16k",
        }
    }

    /// Its place among those that can be wrong.
    #[must_use]
    pub fn fallible(self) -> Option<usize> {
        match self {
            Self::Perfect => None,
            Self::Static => Some(0),
            Self::Bimodal512 => Some(1),
            Self::Bimodal4k => Some(2),
            Self::Gshare1k => Some(3),
            Self::Gshare4k => Some(4),
            Self::Gshare16k => Some(5),
        }
    }
}

/// How control leaves a piece of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jump {
    /// A conditional branch.
    Conditional,
    /// A direct jump.
    Direct,
    /// A direct call.
    Call,
    /// A jump to anywhere.
    Indirect,
    /// A call of anywhere.
    IndirectCall,
    /// A return.
    Return,
}

/// The branch at the end of a piece of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// What it is.
    pub jump: Jump,
    /// Its address.
    pub address: u64,
    /// The address behind it.
    pub after: u64,
    /// Its target lies before it, if that is fixed.
    pub backward: bool,
}

/// Counters of two bits by some hash of address and history.
#[derive(Debug)]
struct Counters {
    counters: Vec<u8>,
    history: u32,
}

impl Counters {
    fn new(bits: u32, history: u32) -> Self {
        Self {
            counters: vec![1; 1 << bits],
            history,
        }
    }

    /// Whether the prediction was wrong.
    #[inline]
    fn wrong(&mut self, address: u64, history: u32, taken: bool) -> bool {
        let history = history & ((1 << self.history) - 1);
        let place = (address ^ address >> 12 ^ u64::from(history)) as usize;
        let mask = self.counters.len() - 1;
        let Some(counter) = self.counters.get_mut(place & mask) else {
            return false;
        };
        let wrong = (*counter >= 2) != taken;
        *counter = if taken {
            (*counter + 1).min(3)
        } else {
            counter.saturating_sub(1)
        };
        wrong
    }
}

/// All predictors at work.
#[derive(Debug)]
pub struct Predictors {
    /// Those behind [`Predictor::Static`], in the order of [`Predictor::fallible`].
    counters: [Counters; FALLIBLE - 1],
    history: u32,
    targets: FxHashMap<u64, u64>,
    returns: [u64; RETURNS],
    top: usize,
}

impl Default for Predictors {
    fn default() -> Self {
        Self {
            counters: [
                Counters::new(9, 0),
                Counters::new(12, 0),
                Counters::new(10, 10),
                Counters::new(12, 12),
                Counters::new(14, 14),
            ],
            history: 0,
            targets: FxHashMap::default(),
            returns: [0; RETURNS],
            top: 0,
        }
    }
}

/// How a branch went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Went {
    /// It did not go on behind itself.
    pub taken: bool,
    /// Who was wrong: a bit each, by [`Predictor::fallible`].
    pub wrong: u8,
}

impl Predictors {
    /// A branch goes to `next`.
    #[inline]
    pub fn branch(&mut self, ending: &Ending, next: u64) -> Went {
        let taken = next != ending.after;
        let all = (1u8 << FALLIBLE) - 1;
        let wrong = match ending.jump {
            Jump::Conditional => {
                let mut wrong = u8::from(ending.backward != taken);
                for (n, counters) in self.counters.iter_mut().enumerate() {
                    let is = counters.wrong(ending.address, self.history, taken);
                    wrong |= u8::from(is) << (n + 1);
                }
                self.history = self.history << 1 | u32::from(taken);
                wrong
            }
            Jump::Direct => 0,
            Jump::Call => {
                self.call(ending.after);
                0
            }
            Jump::Indirect | Jump::IndirectCall => {
                if ending.jump == Jump::IndirectCall {
                    self.call(ending.after);
                }
                let known = self.targets.insert(ending.address, next);
                if known == Some(next) { 0 } else { all }
            }
            Jump::Return => {
                let expected = self.returns[self.top % RETURNS];
                self.top = self.top.wrapping_sub(1);
                if expected == next { 0 } else { all }
            }
        };
        Went { taken, wrong }
    }

    fn call(&mut self, after: u64) {
        self.top = self.top.wrapping_add(1);
        self.returns[self.top % RETURNS] = after;
    }
}
