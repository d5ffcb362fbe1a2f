//! Watches iterations retire and reads the throughput off.

use rustc_hash::FxHashMap;

use super::rate;
use super::settled::{self, Settling};
use crate::pipeline::inst::Inst;
use crate::pipeline::observer::{Backlog, Observer, Retired};
use crate::pipeline::state::{Fingerprint, State};

/// States that are kept to find one again.
const MAX_STATES: usize = 1 << 12;

/// Iterations that will go on as they do: the core was in one state at the start of two of them,
/// or they have settled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recurrence {
    /// The later iteration.
    pub round: u32,
    /// Iterations between the two.
    pub period: u32,
    /// Cycles between the two.
    pub cycles: u64,
    /// Cycles per iteration, where only these are known to stay the same.
    pub rate: Option<f64>,
}

/// When an iteration retired.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Round {
    /// Cycle of its first µop.
    pub(super) first: u64,
    /// Cycle of its last µop.
    pub(super) last: u64,
    /// µops that retired before the last one in its cycle.
    pub(super) slot: u32,
    /// What had piled up as the last instruction issued.
    pub(super) backlog: Backlog,
}

/// Retirement of each iteration.
pub struct Rounds {
    first_instr: u32,
    last_instr: u32,
    min_iterations: usize,
    min_cycles: u64,
    rounds: Vec<Round>,
    /// What had piled up as the last instruction of an iteration issued that is to retire next.
    backlog: Backlog,
    /// First iteration whose state may be compared, and how many iterations lie between two that
    /// may; `None`: none may.
    comparable: Option<(u32, u32)>,
    /// An iteration after which the state is wanted was completed.
    wanted: bool,
    states: FxHashMap<Fingerprint, (u32, u64)>,
    settling: Option<Settling>,
    found: Option<Recurrence>,
    /// Cycles per iteration, when they are known already.
    rate: Option<f64>,
    /// There are enough iterations.
    enough: bool,
}

impl Rounds {
    /// Watches blocks from static instruction `first` to `last`.
    #[must_use]
    pub fn new(first: u32, last: u32, min_iterations: usize, min_cycles: u64) -> Self {
        Self {
            first_instr: first,
            last_instr: last,
            min_iterations,
            min_cycles,
            rounds: Vec::new(),
            backlog: Backlog::default(),
            comparable: None,
            wanted: false,
            states: FxHashMap::default(),
            settling: None,
            found: None,
            rate: None,
            enough: false,
        }
    }

    /// Makes it look for recurring states at every `stride`-th iteration from `round` on.
    #[must_use]
    pub fn recurring_from(mut self, round: u32, stride: u32) -> Self {
        self.comparable = Some((round, stride));
        self
    }

    /// Makes it also look whether iterations have settled, from iteration `round` on, where those
    /// that lie alike are `stride` apart.
    #[must_use]
    pub fn settling_from(mut self, round: u32, stride: u32) -> Self {
        self.settling = Some(Settling::new(round, stride));
        self
    }

    /// Takes over the memory of one that is not needed any more.
    #[must_use]
    pub fn recycling(mut self, old: Self) -> Self {
        self.rounds = old.rounds;
        self.rounds.clear();
        self.states = old.states;
        self.states.clear();
        self
    }

    /// The recurrence found, once.
    pub fn take_recurrence(&mut self) -> Option<Recurrence> {
        self.found.take()
    }

    /// Upper bound of the iterations that [`Rounds::extrapolate`] will need.
    #[must_use]
    pub fn rounds_needed(&self, r: Recurrence) -> u32 {
        let cycles = self.min_cycles + r.cycles + 2;
        let periods = cycles / r.cycles.max(1) + 2;
        let rounds = u64::from(r.period) * periods + u64::from(r.round);
        u32::try_from(rounds.max(self.min_iterations as u64 + 2)).unwrap_or(u32::MAX)
    }

    /// Takes the rate of `r`, or fills in the iterations from `r` on until there are enough.
    pub fn extrapolate(&mut self, r: Recurrence) {
        self.rate = r.rate;
        self.rounds.truncate(r.round as usize);
        while !self.done() {
            let before = self.rounds.len().checked_sub(r.period as usize);
            let Some(&round) = before.and_then(|n| self.rounds.get(n)) else {
                return;
            };
            self.rounds.push(Round {
                first: round.first + r.cycles,
                last: round.last + r.cycles,
                ..round
            });
        }
    }

    /// The cycle at which a cycle-by-cycle simulation would have stopped, when it is known.
    fn stop(&self) -> Option<u64> {
        let tenth = self.rounds.get(self.min_iterations)?;
        Some(tenth.first.max(self.min_cycles + 1))
    }

    /// Whether enough iterations are known.
    #[must_use]
    pub fn done(&self) -> bool {
        if self.rate.is_some() {
            return true;
        }
        match (self.stop(), self.rounds.last()) {
            (Some(stop), Some(last)) => last.first > stop,
            _ => false,
        }
    }

    /// The iterations over which the throughput is taken: from the end of the first to the end of
    /// the last.
    #[must_use]
    pub fn window(&self) -> Option<(usize, usize)> {
        let stop = self.stop().unwrap_or(u64::MAX);
        let seen = self.rounds.iter().take_while(|r| r.first <= stop).count();
        let mut last = seen.saturating_sub(2);
        let first = last.min(seen / 2);
        let from = self.rounds.get(first)?;
        if last - first > 10 {
            // Iterations that end in the same retirement slot make the slope exact.
            for n in (last - 4..=last).rev() {
                if self.rounds.get(n).is_some_and(|r| r.slot == from.slot) {
                    last = n;
                    break;
                }
            }
        }
        Some((first, last))
    }

    /// Cycles per iteration of the shortest period with which the iterations `first` to `last`
    /// retire, if they go through it twice at least.
    fn periodic(&self, first: usize, last: usize) -> Option<f64> {
        let rounds = self.rounds.get(first..=last)?;
        let period = settled::period(rounds, (rounds.len() - 1) / 2)?;
        let cycles = rounds.get(period)?.last - rounds.first()?.last;
        Some(cycles as f64 / period as f64)
    }

    /// Cycles per iteration: how fast they retire, or how fast their stores are written, if these still pile up: iterations will have to
    /// wait for them.
    #[must_use]
    pub fn throughput(&self) -> f64 {
        if let Some(rate) = self.rate {
            return rate;
        }
        let Some((first, last)) = self.window() else {
            return 0.0;
        };
        let retired = self.retired(first, last);
        retired.max(self.written(first, last).unwrap_or(retired))
    }

    /// Cycles in which the stores of an iteration are written, if more of them wait at the end of the iterations `first` to `last` than in
    /// their midst, and than at their beginning.
    fn written(&self, first: usize, last: usize) -> Option<f64> {
        let rounds = self.rounds.get(first..=last)?;
        let at = |n: usize| rounds.get(n).map(|r| (r.backlog.stores, r.last));
        let [from, midst, to] = [at(0)?, at(rounds.len() / 2)?, at(rounds.len() - 1)?];
        let written = |(stores, retired): (u64, u64)| retired + stores;
        (from.0 < midst.0 && midst.0 < to.0)
            .then(|| (written(to) - written(from)) as f64 / (last - first) as f64)
    }

    /// Cycles per iteration over the second half: of the period with which they retire, else the
    /// steady rate, else between the first and the last.
    fn retired(&self, first: usize, last: usize) -> f64 {
        let (Some(from), Some(to)) = (self.rounds.get(first), self.rounds.get(last)) else {
            return 0.0;
        };
        if first == last {
            return from.last as f64;
        }
        if let Some(exact) = self.periodic(first, last) {
            return exact;
        }
        let half = self.rounds.get(first..=last).unwrap_or_default();
        if let Some(rate) = rate::steady(half.iter().map(|r| r.last)) {
            return rate;
        }
        (to.last - from.last) as f64 / (last - first) as f64
    }
}

impl Rounds {
    /// The first or the last instruction of an iteration retired.
    fn round_retired(&mut self, inst: &Inst, retired: Retired) {
        if inst.instr == self.first_instr {
            self.rounds.push(Round {
                first: retired.first,
                ..Round::default()
            });
            self.enough = self.done();
        }
        if inst.instr == self.last_instr
            && let Some(round) = self.rounds.get_mut(inst.tag as usize)
        {
            round.last = retired.last;
            round.slot = retired.slot;
            round.backlog = self.backlog;
            if self.found.is_none()
                && let Some(settling) = &mut self.settling
            {
                self.found = settling.settled(&self.rounds);
            }
            self.wanted = self.comparable.is_some_and(|(from, stride)| {
                inst.tag >= from && (inst.tag + 1).is_multiple_of(stride)
            });
        }
    }
}

impl Observer for Rounds {
    #[inline]
    fn retired(&mut self, inst: &Inst, retired: Retired) {
        if inst.instr == self.first_instr || inst.instr == self.last_instr {
            self.round_retired(inst, retired);
        }
    }

    const STATES: bool = true;

    #[inline]
    fn wants_state(&mut self) -> bool {
        self.wanted
    }

    fn state(&mut self, state: State) {
        self.wanted = false;
        if self.found.is_some() || self.states.len() >= MAX_STATES {
            return;
        }
        let here = (state.tag, state.cycle);
        match self.states.insert(state.fingerprint, here) {
            Some((tag, cycle)) if tag < state.tag && cycle < state.cycle => {
                self.found = Some(Recurrence {
                    round: state.tag,
                    period: state.tag - tag,
                    cycles: state.cycle - cycle,
                    rate: None,
                });
            }
            _ => {}
        }
    }

    #[inline]
    fn satisfied(&self) -> bool {
        self.found.is_some() || self.enough
    }

    #[inline]
    fn backlog(&mut self, inst: &Inst, backlog: impl FnOnce() -> Backlog) {
        // Its round may begin with this instruction, and is not there yet.
        if inst.instr == self.last_instr {
            self.backlog = backlog();
        }
    }
}
