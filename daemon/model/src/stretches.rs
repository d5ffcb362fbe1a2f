//! Stretches of an execution, kept as they were: pieces of code in order, and what befell them.
//!
//! Sums over a program say how often something befalls an instruction; what that costs depends on what
//! else does at the same time: misses that overlap, one behind a mispredicted branch, a value that is not
//! read before the next miss is over. Stretches have that. They are spread over the execution without
//! knowing how long it will be: of periods of [`PERIOD`] instructions those are kept whose number times the
//! golden ratio has a fractional part below a share, which is halved whenever there are too many. So
//! they lie nearly evenly, at distances that no loop has.

use serde::{Deserialize, Serialize};

use crate::collect::Order;
use crate::events::{Costs, Counted, Event};
use crate::machine::Machine;
use crate::stack::Stack;
use crate::step::{StaticCode, Stepper};

/// Instructions of a stretch.
pub const PERIOD: u64 = 512;

/// Instructions at the end of a stretch of which nothing is kept that befalls them: it would be felt behind
/// the stretch.
const FELT: u64 = 64;

/// Most stretches that are kept.
const MOST: usize = 512;

/// The golden ratio, whose multiples are spread evenly.
const GOLDEN: f64 = 0.618_033_988_749_895;

/// One stretch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stretch {
    /// Its place among the periods of the execution.
    period: u64,
    /// What was executed.
    pub order: Order,
}

/// Keeps stretches of an execution as it comes.
#[derive(Debug)]
pub struct Keeper {
    kept: Vec<Stretch>,
    /// Which part of all periods is kept.
    share: f64,
    /// The first instruction behind the period that is being executed.
    end: u64,
    /// Whether the last of `kept` goes on.
    open: bool,
    /// Whether what befalls the piece executed last is kept.
    hears: bool,
}

impl Default for Keeper {
    fn default() -> Self {
        Self {
            kept: Vec::new(),
            share: 1.0,
            end: 0,
            open: false,
            hears: false,
        }
    }
}

impl Keeper {
    fn keeps(&self, period: u64) -> bool {
        (period as f64 * GOLDEN).fract() < self.share
    }

    /// A piece of code is executed, the first of which is instruction number `position`.
    #[inline]
    pub fn execute(&mut self, piece: u32, position: u64) {
        if position >= self.end {
            self.begin(position / PERIOD);
        }
        self.hears = self.open && position + FELT < self.end;
        if self.open
            && let Some(stretch) = self.kept.last_mut()
        {
            stretch.order.pieces.push(piece);
        }
    }

    fn begin(&mut self, period: u64) {
        self.end = (period + 1) * PERIOD;
        while self.kept.len() >= MOST {
            self.share /= 2.0;
            let kept = std::mem::take(&mut self.kept);
            let stay = kept.into_iter().filter(|s| self.keeps(s.period));
            self.kept = stay.collect();
        }
        self.open = self.keeps(period);
        if self.open {
            self.kept.push(Stretch {
                period,
                order: Order::default(),
            });
        }
    }

    /// Something befalls the piece executed last.
    #[inline]
    pub fn befall(&mut self, event: Event) {
        if self.hears
            && let Some(stretch) = self.kept.last_mut()
        {
            stretch.order.befall(event);
        }
    }

    /// Another thread goes on: what comes does not follow what was.
    pub fn switch(&mut self) {
        self.open = false;
        self.hears = false;
    }

    /// All stretches.
    #[must_use]
    pub fn finish(self) -> Vec<Stretch> {
        self.kept
    }
}

/// What the chain says that events cost a program, and how many these are.
#[derive(Debug)]
pub struct Said {
    /// Its cycles by cause.
    pub stack: Stack,
    /// All events of the program.
    pub of: Linear,
}

impl Said {
    fn all(&self) -> f64 {
        let s = &self.stack;
        s.data_cache + s.instruction_cache + s.misprediction + s.taken_branch
    }

    /// Its part for some of the events.
    fn part(&self, some: &Linear) -> f64 {
        let part = |cycles: f64, all: f64, some: f64| match all > 0.0 {
            true => cycles * some / all,
            false => 0.0,
        };
        let (s, of) = (&self.stack, &self.of);
        part(s.data_cache, of.data, some.data)
            + part(s.instruction_cache, of.fetch, some.fetch)
            + part(s.misprediction, of.mispredicted, some.mispredicted)
            + part(s.taken_branch, of.taken, some.taken)
    }
}

/// What misses, mispredictions and taken branches cost a program on a machine: as many times what the
/// chain has `said` of the whole as stepping the stretches gives of what it has said of these. Each
/// comes with its cycles without events.
#[must_use]
pub fn cost<'a>(
    machine: &Machine,
    code: &StaticCode,
    stretches: impl Iterator<Item = (&'a Stretch, u64)>,
    said: &Said,
) -> f64 {
    let costs = Costs::new(machine);
    let mut stepper = Stepper::new(machine);
    let (mut stepped, mut of_these) = (0.0, 0.0);
    for (Stretch { order, .. }, without) in stretches {
        let befell = Linear::of(&costs, &order.events);
        if befell != Linear::default() {
            stepped += stepper.with_events(code, order) as f64 - without as f64;
            of_these += said.part(&befell);
        }
    }
    match of_these > 0.0 {
        true => said.all() * stepped / of_these,
        false => said.all(),
    }
}

/// Sums of events as if none overlapped another: cycles of misses, and numbers of branches.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Linear {
    /// Cycles by which data come later.
    pub data: f64,
    /// Cycles by which code comes later.
    pub fetch: f64,
    /// Mispredicted branches.
    pub mispredicted: f64,
    /// Branches that were taken and foreseen.
    pub taken: f64,
}

impl Linear {
    /// Of all executions together.
    #[must_use]
    pub fn counted(costs: &Costs, counted: &Counted) -> Self {
        let all = costs.events(counted);
        let (second, memory) = costs.latencies();
        let (second, memory) = (f64::from(second), f64::from(memory));
        Self {
            data: all.data_second * second + all.data_memory * memory,
            fetch: all.fetch_second * second + all.fetch_memory * memory,
            mispredicted: all.mispredicted,
            taken: all.taken,
        }
    }

    fn of(costs: &Costs, events: &[Event]) -> Self {
        let mut sum = Self::default();
        for event in events {
            let cost = costs.of(event);
            sum.data += f64::from(cost.load);
            sum.fetch += f64::from(cost.before);
            if cost.behind.is_some() {
                let branches = match cost.mispredicted {
                    true => &mut sum.mispredicted,
                    false => &mut sum.taken,
                };
                *branches += 1.0;
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_lie_evenly_however_long_the_execution_is() {
        for periods in [3u64, 512, 513, 10_000, 300_000] {
            let mut keeper = Keeper::default();
            for n in 0..periods * 8 {
                keeper.execute(n as u32, n * PERIOD / 8);
            }
            let kept = keeper.finish();
            let count = kept.len() as u64;
            assert!(
                count <= 512 && count >= periods.min(200),
                "{periods}: {count}"
            );
            let mut before = 0;
            for stretch in &kept {
                assert!(
                    stretch.period - before <= 3 * periods.div_ceil(count),
                    "{periods}"
                );
                before = stretch.period;
                let first = stretch.period * 8;
                let whole: Vec<u32> = (first..first + 8).map(|n| n as u32).collect();
                assert_eq!(stretch.order.pieces, whole);
            }
        }
    }

    #[test]
    fn what_befalls_the_end_of_a_stretch_is_left_out() {
        let mut keeper = Keeper::default();
        for n in 0..2 * PERIOD {
            keeper.execute(n as u32, n);
            keeper.befall(Event {
                taken: true,
                ..Event::default()
            });
        }
        keeper.switch();
        keeper.befall(Event::default());
        for stretch in keeper.finish() {
            let events = &stretch.order.events;
            assert_eq!(events.len() as u64, PERIOD - FELT);
            assert!((0..).zip(events).all(|(n, event)| event.execution == n));
        }
    }
}
