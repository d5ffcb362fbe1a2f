//! The rows of H with the place in the issue group from a Markov chain.
//!
//! The state is what the last two groups looked like: instructions in the current one, in the one
//! before, and the empty cycles between. The next instruction, whatever came before, is of each
//! row as often as that occurs; where its producer issued follows from the state, and with it how
//! many cycles later the instruction issues, and the next state. In the long run each state has
//! its share, and the slots lost per instruction follow.

use rustc_hash::FxHashMap;

use crate::kind::Kind;
use crate::machine::{MAX_WIDTH, Machine};
use crate::rows::Rows;
use crate::stack::Stack;

/// Empty cycles between groups that are told apart.
const MAX_GAP: usize = 24;

/// Rounds of the chain, and the change at which it has settled.
const ROUNDS: usize = 400;
const SETTLED: f64 = 1e-9;

/// What of a row matters to a core of a given width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Short {
    own: Kind,
    distance: u8,
    producer: Kind,
    /// Distances to the instructions of the same kind in the pattern, one bit each.
    like: u8,
    same: u8,
}

/// Rows of a profile, short: the same for all machines.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    rows: Vec<(Short, f64)>,
    total: f64,
}

/// Where the last two groups are.
#[derive(Clone, Copy)]
struct State {
    /// Instructions in the current group, at least 1.
    current: usize,
    /// Instructions in the group before.
    before: usize,
    /// Empty cycles between them.
    gap: usize,
}

impl State {
    fn number(self, width: usize) -> usize {
        ((self.current - 1) * width + self.before - 1) * (MAX_GAP + 1) + self.gap
    }

    fn of(number: usize, width: usize) -> Self {
        let groups = number / (MAX_GAP + 1);
        Self {
            current: groups / width + 1,
            before: groups % width + 1,
            gap: number % (MAX_GAP + 1),
        }
    }

    /// The state after an instruction that issues so many cycles after the last.
    fn after(self, delay: usize) -> Self {
        if delay == 0 {
            Self {
                current: self.current + 1,
                ..self
            }
        } else {
            Self {
                current: 1,
                before: self.current,
                gap: (delay - 1).min(MAX_GAP),
            }
        }
    }

    /// Cycles since the instruction at a distance issued, the last instruction's being 0.
    fn age(self, distance: usize, width: usize) -> usize {
        if distance <= self.current {
            0
        } else if distance <= self.current + self.before {
            1 + self.gap
        } else {
            1 + self.gap + (distance - self.current - self.before).div_ceil(width)
        }
    }
}

/// What makes an instruction wait.
enum Wait {
    Nothing,
    Dependence(Kind),
    Unit(Kind),
}

impl Short {
    /// Cycles after the last instruction that this one issues at the earliest.
    fn delay(&self, machine: &Machine, state: State) -> (usize, Wait) {
        let width = usize::from(machine.width);
        let mut delay = usize::from(state.current >= width);
        let mut wait = Wait::Nothing;
        if self.distance > 0 {
            let latency = usize::from(machine.units(self.producer).latency);
            let age = state.age(usize::from(self.distance), width);
            if latency > age + delay {
                delay = latency - age;
                wait = Wait::Dependence(self.producer);
            }
        }
        let units = machine.units(self.own);
        let count = usize::from(units.count);
        if units.pipelined {
            // Those of the kind in the current group.
            let mut like = 0;
            for back in 1..=state.current.min(MAX_WIDTH - 1) {
                like += usize::from(self.like >> back & 1);
            }
            if like >= count && delay == 0 {
                (delay, wait) = (1, Wait::Unit(self.own));
            }
        } else if self.same > 0 && count == 1 {
            let busy = usize::from(units.latency);
            let age = state.age(usize::from(self.same), width);
            if busy > age + delay {
                delay = busy - age;
                wait = Wait::Unit(self.own);
            }
        }
        (delay, wait)
    }
}

impl Chain {
    /// Shortens the rows of a profile.
    #[must_use]
    pub fn new(rows: &Rows) -> Self {
        let mut counts: FxHashMap<Short, f64> = FxHashMap::default();
        for (row, count) in &rows.rows {
            let own = row.pattern.last().copied().unwrap_or(Kind::Alu);
            let mut like = 0;
            for (back, kind) in row.pattern.iter().rev().enumerate().skip(1) {
                like |= u8::from(*kind == own) << back;
            }
            let short = Short {
                own,
                distance: row.distance,
                producer: row.producer,
                like,
                same: row.same,
            };
            *counts.entry(short).or_insert(0.0) += *count as f64;
        }
        let mut rows: Vec<(Short, f64)> = counts.into_iter().collect();
        rows.sort_by(|a, b| b.1.total_cmp(&a.1));
        Self {
            total: rows.iter().map(|r| r.1).sum(),
            rows,
        }
    }

    /// Cycles of the program on a machine.
    #[must_use]
    pub fn predict(&self, machine: &Machine) -> Stack {
        let width = usize::from(machine.width);
        let states = width * width * (MAX_GAP + 1);
        let mut shares = vec![0.0; states];
        let begin = State {
            current: width,
            before: width,
            gap: 0,
        };
        shares[begin.number(width)] = 1.0;
        // Only states that are reached have a row of the matrix.
        let mut moves: Vec<Option<Vec<(usize, f64)>>> = vec![None; states];
        let mut next = vec![0.0; states];
        for _ in 0..ROUNDS {
            next.fill(0.0);
            for number in 0..states {
                let share = shares[number];
                if share == 0.0 {
                    continue;
                }
                let moves = moves[number].get_or_insert_with(|| self.moves(machine, number));
                for &(to, chance) in moves.iter() {
                    next[to] += share * chance;
                }
            }
            let change: f64 = shares.iter().zip(&next).map(|(a, b)| (a - b).abs()).sum();
            // Half of the old share keeps chains that alternate from never settling.
            for (old, new) in shares.iter_mut().zip(&next) {
                *old = 0.5 * (*old + new);
            }
            if change < SETTLED {
                break;
            }
        }
        self.stack(machine, &shares)
    }

    /// Where a state leads, with which chance.
    fn moves(&self, machine: &Machine, number: usize) -> Vec<(usize, f64)> {
        let width = usize::from(machine.width);
        let state = State::of(number, width);
        let mut moves: Vec<(usize, f64)> = Vec::new();
        for (row, count) in &self.rows {
            let (delay, _) = row.delay(machine, state);
            let to = state.after(delay).number(width);
            let chance = count / self.total;
            match moves.iter_mut().find(|m| m.0 == to) {
                Some(known) => known.1 += chance,
                None => moves.push((to, chance)),
            }
        }
        moves
    }

    fn stack(&self, machine: &Machine, shares: &[f64]) -> Stack {
        let width = usize::from(machine.width);
        let mut stack = Stack {
            base: self.total / width as f64,
            ..Stack::default()
        };
        for (number, &share) in shares.iter().enumerate() {
            // Smaller shares all together are less than a millionth.
            if share < 1e-9 {
                continue;
            }
            let state = State::of(number, width);
            for (row, count) in &self.rows {
                let (delay, wait) = row.delay(machine, state);
                let lost = delay * width - delay.min(1) * state.current;
                let cycles = share * count * lost as f64 / width as f64;
                match wait {
                    Wait::Nothing => {}
                    Wait::Dependence(producer) => stack.dependences[producer as usize] += cycles,
                    Wait::Unit(own) => stack.units[own as usize] += cycles,
                }
            }
        }
        stack
    }
}
