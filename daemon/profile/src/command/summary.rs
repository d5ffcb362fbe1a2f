//! From runs to figures.

use super::interval::{self, Division, Doubt, Interval};
use super::memory::Memory;
use super::run::Ran;
use super::sampled::Samples;
use super::watch::Seen;
use crate::clock::{Quartiles, Source};

/// How many interquartile ranges beyond the quartiles a run must be to be rejected (Tukey's "far
/// out"): what an interrupt storm does, not what noise does.
const FAR_OUT: f64 = 3.0;
/// Half the width of the median's confidence interval, over the median, at which it is steady.
const STEADY: f64 = 0.005;
/// Fewer runs than this say nothing about outliers.
const LEAST: usize = 5;

/// How long a run may wait for the core to itself, over its processor time: who is there for longer is there between two looks, too.
const CROWDED: f64 = 0.2;

/// What became of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    /// It counts.
    Counts,
    /// The mean of the core clock was not certain enough.
    ClockDrifted,
    /// Somebody was on the core's other hardware thread for long.
    CoreShared,
    /// It is far from all others.
    Outlier,
}

/// One run.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct Sample {
    /// User cycles.
    pub cycles: f64,
    /// Whether they were counted.
    #[serde(skip)]
    pub(super) counted: bool,
    /// Processor time in seconds, user and kernel.
    pub cpu_seconds: f64,
    /// The part that the kernel says was spent in user mode; coarse, see [`super`].
    pub user_seconds: f64,
    /// Seconds from start to end.
    pub wall_seconds: f64,
    /// Megahertz of the core, the mean over the run.
    pub core_mhz: f64,
    /// How uncertain that is, relative: [`crate::clock::Course::error`].
    pub clock_error: f64,
    /// Nanoseconds of a load from memory during the run, the mean; none when that was not seen.
    pub load_ns: Option<f64>,
    /// By how much longer independent instructions took than they do alone on the core, the mean over the run, relative: for what is
    /// on the core's other hardware thread. None when that was not seen.
    pub slowed: Option<f64>,
    /// Seconds that the run was kept waiting until nobody was there.
    pub waited_seconds: f64,
    /// How often something else took the CPU away.
    pub preempted: i64,
    /// What became of it.
    pub fate: Fate,
}

/// User cycles over several runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Cycles {
    /// Runs that count.
    pub runs: usize,
    /// Quartiles.
    #[serde(flatten)]
    pub quartiles: Quartiles,
    /// Interquartile range over the median.
    pub spread: f64,
    /// Fewest.
    pub min: f64,
    /// Most.
    pub max: f64,
    /// Confidence interval of the median from the order of the runs alone: 95 % from six runs on.
    pub confidence: (f64, f64),
}

impl Cycles {
    fn of(mut values: Vec<f64>) -> Self {
        let quartiles = Quartiles::of(&mut values);
        let runs = values.len();
        let (low, high, _) = interval::of_median(&values);
        let at = |place: usize| values.get(place).copied().unwrap_or(0.0);
        let last = runs.saturating_sub(1);
        Self {
            runs,
            quartiles,
            spread: quartiles.relative(),
            min: at(0),
            max: at(last),
            confidence: (low, high),
        }
    }

    /// Whether the median is known within half a per cent.
    #[must_use]
    pub fn steady(&self) -> bool {
        let (low, high) = self.confidence;
        self.runs > 1 && high - low <= 2.0 * STEADY * self.quartiles.median
    }
}

/// What is no cycle of the program's, where cycles come from time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Beside {
    /// Share of all time: [`super::lost`].
    pub(super) lost: f64,
    /// Cycles of a run: [`super::intercepted`].
    pub(super) intercepted: f64,
    /// The same as a share of user time, where only that is known.
    pub(super) intercepted_share: f64,
}

impl Beside {
    /// What is left of the cycles of a run's user time.
    fn left(self, cycles: f64) -> f64 {
        (cycles * (1.0 - self.lost) * (1.0 - self.intercepted_share) - self.intercepted).max(0.0)
    }
}

impl Sample {
    /// A run and what was seen during it, on a machine with so many ticks a second. Its cycles are
    /// final only when all runs are there ([`settle`]).
    pub(super) fn new(ran: &Ran, ticks_per_second: f64, seen: &Seen, most_error: f64) -> Self {
        let (rate, clock_error) = (seen.clock.mean(), seen.clock.error());
        let hertz = ticks_per_second * rate;
        let mut sample = Self {
            cycles: ran.counted.unwrap_or(ran.user * hertz),
            counted: ran.counted.is_some(),
            cpu_seconds: ran.user + ran.system,
            user_seconds: ran.user,
            wall_seconds: ran.wall,
            core_mhz: hertz / 1e6,
            clock_error,
            load_ns: seen.load.map(|ticks| ticks / ticks_per_second * 1e9),
            slowed: seen.shared.map(|shared| shared.slowed),
            waited_seconds: seen.shared.map_or(0.0, |shared| shared.waited),
            preempted: ran.preempted,
            // A counter does not care about the clock.
            fate: if ran.counted.is_none() && clock_error > most_error {
                Fate::ClockDrifted
            } else {
                Fate::Counts
            },
        };
        if sample.is_beside_somebody() {
            sample.fate = Fate::CoreShared;
        }
        sample
    }

    /// How long it waited, over its processor time.
    fn waits(&self) -> f64 {
        self.waited_seconds / self.cpu_seconds.max(1e-9)
    }

    /// Whether it counts although somebody was on the core's other hardware thread for long.
    #[must_use]
    pub fn is_beside_somebody(&self) -> bool {
        self.fate == Fate::Counts && self.waits() > CROWDED
    }
}

/// Where the cycles of these runs come from: they were counted in all of them, or are not used.
pub(super) fn source(samples: &[Sample]) -> Source {
    if samples.iter().all(|s| s.counted) {
        Source::Counter
    } else {
        Source::TimeStamp
    }
}

/// Lets runs beside somebody count where there are too few others of the `least` that are asked for: those that waited least.
pub(super) fn accept_shared(samples: &mut [Sample], least: u32) {
    let counting = samples.iter().filter(|s| s.fate == Fate::Counts).count();
    let missing = (least as usize).min(LEAST).saturating_sub(counting);
    let shared = samples.iter_mut().filter(|s| s.fate == Fate::CoreShared);
    let mut shared: Vec<&mut Sample> = shared.collect();
    shared.sort_by(|a, b| a.waits().total_cmp(&b.waits()));
    for sample in shared.into_iter().take(missing) {
        sample.fate = Fate::Counts;
    }
}

/// Gives each run the common share of user time, where cycles were not counted, and rejects outliers. Returns the figures.
pub(super) fn settle(samples: &mut [Sample], division: Option<Division>, beside: Beside) -> Cycles {
    if let Some(division) = division {
        for sample in samples.iter_mut() {
            sample.cycles = pooled(sample, division.share, beside);
        }
    }
    let counting = |samples: &[Sample]| -> Vec<f64> {
        let counting = samples.iter().filter(|s| s.fate == Fate::Counts);
        counting.map(|s| s.cycles).collect()
    };
    let mut all = counting(samples);
    if all.len() >= LEAST {
        let quartiles = Quartiles::of(&mut all);
        let far = FAR_OUT * (quartiles.high - quartiles.low);
        let inside = quartiles.low - far..=quartiles.high + far;
        for sample in samples.iter_mut().filter(|s| s.fate == Fate::Counts) {
            if !inside.contains(&sample.cycles) {
                sample.fate = Fate::Outlier;
            }
        }
    }
    Cycles::of(counting(samples))
}

/// The figures over the runs so far, outliers included.
pub(super) fn settled(samples: &[Sample], division: Option<Division>, beside: Beside) -> Cycles {
    let counting = samples.iter().filter(|s| s.fate == Fate::Counts);
    let cycles = counting.map(|s| match division {
        None => s.cycles,
        Some(division) => pooled(s, division.share, beside),
    });
    Cycles::of(cycles.collect())
}

/// Share of user time over the runs that count, as the kernel says.
pub(super) fn user_share(samples: &[Sample]) -> f64 {
    let counting = || samples.iter().filter(|s| s.fate == Fate::Counts);
    let user: f64 = counting().map(|s| s.user_seconds).sum();
    let all: f64 = counting().map(|s| s.cpu_seconds).sum();
    if all > 0.0 { user / all } else { 0.0 }
}

/// Cycles of a run if the share of user time is that of all runs.
fn pooled(sample: &Sample, share: f64, beside: Beside) -> f64 {
    beside.left(sample.cpu_seconds * share * sample.core_mhz * 1e6)
}

/// What divides the time of the runs that count: samples, or else the kernel's ticks, so many seconds apart; none where
/// cycles were counted.
pub(super) fn division(samples: &[Sample], sampled: &Samples, tick: f64) -> Option<Division> {
    let counting = samples.iter().filter(|s| s.fate == Fate::Counts);
    let seconds: f64 = counting.map(|s| s.cpu_seconds).sum();
    (source(samples) == Source::TimeStamp).then(|| match sampled.user_share() {
        Some(share) => Division {
            share,
            count: sampled.count() as f64,
            by: Doubt::Samples,
        },
        None => Division {
            share: user_share(samples),
            count: seconds / tick,
            by: Doubt::Ticks,
        },
    })
}

/// Where the cycles are, by the runs that count.
pub(super) fn interval(samples: &[Sample], division: Option<Division>, beside: Beside) -> Interval {
    let counting = || samples.iter().filter(|s| s.fate == Fate::Counts);
    let runs: Vec<f64> = counting()
        .map(|s| match division {
            None => s.cycles,
            // The share divides all of it.
            Some(division) => pooled(s, division.share, beside) / division.share.max(1e-9),
        })
        .collect();
    let clock = counting().map(|s| s.clock_error).fold(0.0, f64::max);
    Interval::of(&runs, division, clock)
}

/// What memory had to do with the cycles of the runs that count; none where it was not watched.
pub(super) fn memory(samples: &[Sample]) -> Option<Memory> {
    let counting = samples.iter().filter(|s| s.fate == Fate::Counts);
    let runs: Option<Vec<_>> = counting.map(|s| Some((s.load_ns?, s.cycles))).collect();
    Memory::of(&runs?)
}

/// The median of something over the runs that count.
pub(super) fn median(samples: &[Sample], of: impl Fn(&Sample) -> f64) -> f64 {
    let counting = samples.iter().filter(|s| s.fate == Fate::Counts);
    let mut values: Vec<f64> = counting.map(of).collect();
    Quartiles::of(&mut values).median
}

#[cfg(test)]
mod tests {
    use super::super::neighbour::Shared;
    use super::*;
    use crate::clock::Course;

    /// As all runs are there, without samples.
    fn settle_by_ticks(samples: &mut [Sample], beside: Beside) -> (Cycles, f64) {
        let division = division(samples, &Samples::default(), 1e-9);
        (settle(samples, division, beside), user_share(samples))
    }

    fn seen(drift: f64) -> Seen {
        Seen {
            clock: Course::new(&[1.0 - drift / 2.0, 1.0 + drift / 2.0]),
            load: None,
            shared: None,
        }
    }

    fn sample(user: f64, system: f64, drift: f64) -> Sample {
        let ran = Ran {
            user,
            system,
            ..Ran::default()
        };
        Sample::new(&ran, 1e9, &seen(drift), 0.01)
    }

    #[test]
    fn the_share_of_user_time_is_that_of_all_runs() {
        // The kernel's division of 100 ms goes to and fro; its sum is right.
        let mut samples: Vec<Sample> = (0..10)
            .map(|n| match n % 2 {
                0 => sample(0.100, 0.000, 0.0),
                _ => sample(0.080, 0.020, 0.0),
            })
            .collect();
        let (cycles, share) = settle_by_ticks(&mut samples, Beside::default());
        assert!((share - 0.9).abs() < 1e-12);
        assert!((cycles.quartiles.median - 0.09e9).abs() < 1.0);
        assert!(cycles.spread < 1e-9 && cycles.steady());
    }

    #[test]
    fn what_is_not_the_programs_is_taken_off() {
        let beside = Beside {
            lost: 0.02,
            intercepted: 3e6,
            intercepted_share: 0.0,
        };
        let mut samples = [sample(0.1, 0.0, 0.0); 10];
        let (cycles, _) = settle_by_ticks(&mut samples, beside);
        assert!((cycles.quartiles.median - 95e6).abs() < 1.0);
        let division = division(&samples, &Samples::default(), 1e-9);
        let interval = interval(&samples, division, beside);
        assert!(interval.low <= 95e6 && interval.high >= 95e6);
        assert!(interval.high - interval.low < 1e5, "{interval:?}");
        // Less than nothing is nothing.
        let more = Beside {
            intercepted: 1e9,
            ..beside
        };
        assert_eq!(settle_by_ticks(&mut samples, more).0.quartiles.median, 0.0);
        // A share of what is left by the rest.
        let share = Beside {
            intercepted: 0.0,
            intercepted_share: 0.01,
            ..beside
        };
        let cycles = settle_by_ticks(&mut samples, share).0.quartiles.median;
        assert!((cycles - 98e6 * 0.99).abs() < 1.0);
    }

    #[test]
    fn samples_divide_better_than_ticks() {
        let mut samples = [sample(0.1, 0.0, 0.0); 10];
        let sampled = Samples {
            runs: 2,
            user: 750,
            kernel: 250,
            ..Samples::default()
        };
        let found = division(&samples, &sampled, 0.004).unwrap();
        assert_eq!((found.share, found.count), (0.75, 1000.0));
        let cycles = settle(&mut samples, Some(found), Beside::default());
        assert!((cycles.quartiles.median - 75e6).abs() < 1.0);
        assert_eq!(
            interval(&samples, Some(found), Beside::default()).mostly,
            Doubt::Samples
        );
    }

    #[test]
    fn counted_cycles_stay_as_they_are_and_do_not_drift() {
        let counted = |cycles| {
            let ran = Ran {
                counted: Some(cycles),
                user: 0.5,
                system: 0.5,
                ..Ran::default()
            };
            Sample::new(&ran, 1e9, &seen(1.0), 0.01)
        };
        let mut samples: Vec<Sample> = [1.0, 2.0, 4.0].map(counted).to_vec();
        let (cycles, _) = settle_by_ticks(&mut samples, Beside::default());
        assert_eq!(source(&samples), Source::Counter);
        assert_eq!((cycles.runs, cycles.quartiles.median), (3, 2.0));
        assert_eq!((cycles.min, cycles.max), (1.0, 4.0));
        assert_eq!(cycles.confidence, (1.0, 4.0));
        assert!(!cycles.steady());
    }

    #[test]
    fn runs_are_rejected_for_a_reason() {
        let mut samples: Vec<Sample> = (0..20)
            .map(|n| sample(0.1 + f64::from(n) * 1e-5, 0.0, 0.0))
            .collect();
        samples.push(sample(0.2, 0.0, 0.0));
        samples.push(sample(0.1, 0.0, 0.02));
        let (cycles, _) = settle_by_ticks(&mut samples, Beside::default());
        assert_eq!(cycles.runs, 20);
        assert_eq!(samples[20].fate, Fate::Outlier);
        assert_eq!(samples[21].fate, Fate::ClockDrifted);
        assert!(samples[..20].iter().all(|s| s.fate == Fate::Counts));
        // Ranks 6 and 15 of 20.
        let (low, high) = cycles.confidence;
        assert!((low - 100.05e6).abs() < 1.0 && (high - 100.14e6).abs() < 1.0);
    }

    #[test]
    fn runs_beside_somebody_count_only_where_there_are_no_others() {
        let beside_somebody = |waited| {
            let seen = Seen {
                shared: Some(Shared {
                    slowed: 0.3,
                    waited,
                }),
                ..seen(0.0)
            };
            let ran = Ran {
                user: 0.09,
                system: 0.01,
                ..Ran::default()
            };
            Sample::new(&ran, 1e9, &seen, 0.01)
        };
        assert_eq!(beside_somebody(0.019).fate, Fate::Counts);
        assert_eq!(beside_somebody(0.021).fate, Fate::CoreShared);
        // Five are enough, and fewer where no more are asked for.
        for (alone, least, accepted) in [(5, 10, 0), (4, 10, 1), (1, 10, 2), (2, 2, 0), (1, 2, 1)] {
            let mut samples = vec![beside_somebody(0.2), beside_somebody(0.1)];
            samples.extend(vec![beside_somebody(0.0); alone]);
            accept_shared(&mut samples, least);
            let counts = |n: usize| samples[n].is_beside_somebody();
            assert_eq!((counts(1), counts(0)), (accepted > 0, accepted > 1));
        }
    }

    #[test]
    fn a_share_is_as_certain_as_ticks_are_many() {
        let samples = [sample(0.8, 0.2, 0.0); 4];
        // 400 ticks: a standard error of 0.02.
        let found = division(&samples, &Samples::default(), 0.01).unwrap();
        let (low, high) = found.interval();
        assert!((high - low - 4.0 * 0.02).abs() < 0.002, "{low} {high}");
        let interval = interval(&samples, Some(found), Beside::default());
        assert!((interval.low - low * 1e9).abs() < 1e3, "{interval:?}");
        let counted = Sample {
            counted: true,
            ..samples[0]
        };
        assert!(division(&[counted], &Samples::default(), 0.01).is_none());
    }

    #[test]
    fn nothing_is_nothing() {
        let (cycles, share) = settle_by_ticks(&mut [], Beside::default());
        assert_eq!((cycles, share), (Cycles::default(), 0.0));
        assert!(!cycles.steady());
    }
}
