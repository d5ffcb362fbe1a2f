//! Whether the iterations of a block have settled, though the core's state does not recur.
//!
//! Where ports have slack, which of them a µop takes depends on all choices before it, so that the
//! state of the core seldom recurs; but what paces the block — the front end, a chain, one port —
//! does not care. Iterations have settled when they retire in a period, or at a rate that stays the
//! same, and nothing piles up any more: as long as the scheduler, the re-order buffer or the store
//! buffer fill, the pace can still change.
//!
//! That is no proof. docs/BLOCK.md has figures for how often, and how far, a block goes another way
//! later.

use super::rate;
use super::rounds::{Recurrence, Round};
use crate::pipeline::observer::Backlog;

/// Cycles that must be alike at least.
const MIN_CYCLES: u64 = 40;
/// Periods that must be alike at least.
const MIN_PERIODS: usize = 4;
/// Growth of the scheduler's or the re-order buffer's backlog that counts as none, in µops or
/// cycles: choices of ports make them swing.
const SWING: u64 = 8;
/// Looks in a row that must find the same rate; meanwhile the simulation goes on for more than half
/// as long again.
const SAME_RATES: u32 = 5;

/// Looks at iterations from time to time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settling {
    /// First iteration that may count.
    from: usize,
    /// Iterations that lie alike are so many apart.
    stride: usize,
    /// Cycle in which to look again.
    next: u64,
    /// The rate found last, and how often in a row.
    rate: (f64, u32),
}

impl Settling {
    /// Iterations count from `from` on; those that lie alike are `stride` apart.
    pub(super) fn new(from: u32, stride: u32) -> Self {
        Self {
            from: from as usize,
            stride: stride as usize,
            next: MIN_CYCLES * 4 / 3,
            rate: (0.0, 0),
        }
    }

    /// How iterations will go on, if they have settled; all of `rounds` are complete.
    pub(super) fn settled(&mut self, rounds: &[Round]) -> Option<Recurrence> {
        let last = rounds.last()?.last;
        if last < self.next {
            return None;
        }
        self.next = last + last / 8;
        // The second half of what has been simulated, with the iteration before it.
        let window = MIN_CYCLES.max(last / 2);
        let start = rounds.partition_point(|r| r.last + window < last);
        let rounds_seen = rounds.get(start.max(self.from)..)?;
        let count = rounds_seen.len().checked_sub(1)?;
        if last - rounds_seen.first()?.last < MIN_CYCLES || count < self.stride.max(MIN_PERIODS) {
            return None;
        }
        let (seen, times) = std::mem::take(&mut self.rate);
        if piles_up(rounds_seen) {
            return None;
        }
        let (period, same_rate) = match period(rounds_seen, count / MIN_PERIODS) {
            Some(period) => (period, None),
            None => {
                let rate = rate::steady(rounds_seen.iter().map(|r| r.last))?;
                self.rate = (rate, if rate == seen { times + 1 } else { 1 });
                if self.rate.1 < SAME_RATES {
                    return None;
                }
                (self.stride, Some(rate))
            }
        };
        let cycles = last - rounds_seen.get(count - period)?.last;
        Some(Recurrence {
            round: rounds.len() as u32,
            period: period as u32,
            cycles,
            rate: Some(same_rate.unwrap_or(cycles as f64 / period as f64)),
        })
    }
}

/// Whether more waits in the second half of `rounds` than in the first.
fn piles_up(rounds: &[Round]) -> bool {
    let most = |rounds: &[Round]| {
        rounds.iter().fold(Backlog::default(), |most, r| Backlog {
            scheduler: most.scheduler.max(r.backlog.scheduler),
            retirement: most.retirement.max(r.backlog.retirement),
            stores: most.stores.max(r.backlog.stores),
        })
    };
    let (early, late) = rounds.split_at(rounds.len() / 2);
    let (early, late) = (most(early), most(late));
    late.scheduler > early.scheduler + SWING
        || late.retirement > early.retirement + SWING
        || late.stores > early.stores
}

/// The shortest period, of at most `longest` iterations, with which all of `rounds` retire.
pub(super) fn period(rounds: &[Round], longest: usize) -> Option<usize> {
    let alike = |(later, earlier): (&[Round], &[Round])| match (later, earlier) {
        ([a, b], [c, d]) => b.last - a.last == d.last - c.last && b.slot == d.slot,
        _ => false,
    };
    (1..=longest).find(|p| {
        let later = rounds.get(*p..).unwrap_or_default();
        let earlier = rounds.get(..later.len()).unwrap_or_default();
        let steps = later.windows(2).rev().zip(earlier.windows(2).rev());
        steps.into_iter().all(alike)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Iterations that take the given cycles in turn.
    fn rounds(count: usize, cycles: &[u64]) -> Vec<Round> {
        let mut last = 10;
        let round = |n: usize| {
            last += cycles[n % cycles.len()];
            Round {
                first: last,
                last,
                ..Round::default()
            }
        };
        (0..count).map(round).collect()
    }

    fn settled(rounds: &[Round]) -> Option<Recurrence> {
        Settling::new(2, 1).settled(rounds)
    }

    #[test]
    fn the_shortest_period_is_found() {
        for cycles in [&[7u64][..], &[3, 4], &[1, 2, 1, 3], &[2, 2, 2, 2, 5]] {
            let period = cycles.len() as u32;
            let found = settled(&rounds(60, cycles)).unwrap();
            assert_eq!((found.round, found.period), (60, period));
            assert_eq!(found.cycles, cycles.iter().sum::<u64>());
        }
    }

    #[test]
    fn a_rate_must_be_found_five_times() {
        // Three cycles for two iterations, disturbed now and then.
        let mut irregular = rounds(400, &[1, 2]);
        for (n, round) in irregular.iter_mut().enumerate() {
            round.last += u64::from(n % 13 == 0 || n % 29 == 0);
        }
        let mut settling = Settling::new(2, 2);
        let found: Vec<_> = (40..400)
            .filter_map(|n| settling.settled(irregular.get(..n)?))
            .collect();
        let first = found.first().unwrap();
        assert_eq!((first.rate, first.period), (Some(1.5), 2));
        assert!(first.round > 60, "{first:?}");
    }

    #[test]
    fn few_cycles_few_periods_and_late_changes_say_nothing() {
        assert_eq!(settled(&rounds(40, &[1])), None);
        assert_eq!(settled(&rounds(5, &[20])), None);
        let mut late = rounds(60, &[3]);
        late[59].last += 1;
        assert_eq!(settled(&late), None);
        let mut slots = rounds(60, &[3]);
        slots[58].slot = 1;
        assert_eq!(settled(&slots), None);
    }

    #[test]
    fn what_piles_up_has_not_settled() {
        let swinging = |n: usize| Backlog {
            scheduler: 20 + n as u64 % 3,
            ..Backlog::default()
        };
        let filling: [fn(usize) -> Backlog; 3] = [
            |n| Backlog {
                scheduler: n as u64,
                ..Backlog::default()
            },
            |n| Backlog {
                retirement: 2 * n as u64,
                ..Backlog::default()
            },
            |n| Backlog {
                stores: n as u64 / 8,
                ..Backlog::default()
            },
        ];
        let with = |backlog: &dyn Fn(usize) -> Backlog| {
            let mut rounds = rounds(60, &[3]);
            for (n, round) in rounds.iter_mut().enumerate() {
                round.backlog = backlog(n);
            }
            settled(&rounds)
        };
        assert!(with(&swinging).is_some());
        assert!(filling.iter().all(|f| with(f).is_none()));
    }

    #[test]
    fn it_looks_again_only_after_a_while() {
        let mut settling = Settling::new(2, 1);
        assert_eq!(settling.settled(&rounds(5, &[20])), None);
        assert_eq!(settling.settled(&rounds(6, &[20])), None);
        assert!(settling.settled(&rounds(40, &[20])).is_some());
    }
}
