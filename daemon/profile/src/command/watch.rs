//! What the machine is like while a command runs: the core clock directly before and after, and in
//! between as a thread on the command's CPU sees it that wakes every millisecond for some
//! microseconds, and keeps the command waiting while another guest is on the core ([`super::neighbour`]).

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::lost::{Lost, spent};
use super::memory::PointerChase;
use super::neighbour::{Gate, Neighbour, Shared};
use super::priority::{self, Level};
use crate::clock::{Course, Cpu, Rate, Scope, UserCycles, cycles_per_tick};

/// From one moment to the next: no part of the kernel's tick, so that looking does not always
/// take the same ticks from the command.
const PERIOD: Duration = Duration::from_micros(940);
/// Moments from one at which the clock is timed to the next.
const CLOCK: usize = 5;

/// Watches one run after the other.
#[derive(Debug)]
pub(super) struct Watcher {
    /// Whether to look during a run, too.
    during: bool,
    chase: Option<PointerChase>,
    neighbour: Option<Neighbour>,
    /// Whether the command is kept waiting for the core to itself.
    alone: bool,
    ticks_per_second: f64,
    /// What of the CPU's time is lost to whatever runs there.
    lost: Lost,
    /// Seconds of processor time that looking took, and how long there was something to look at.
    spent: f64,
    watched: f64,
}

/// What was seen during a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// The clock.
    pub(super) clock: Course,
    /// Ticks of the time-stamp counter that a load from memory took, the mean.
    pub(super) load: Option<f64>,
    /// What another hardware thread of the core did.
    pub(super) shared: Option<Shared>,
}

impl Watcher {
    /// Of runs on a CPU with so many ticks a second. There is nothing to see during them when they are on any CPU, and no
    /// need to where cycles are counted.
    pub(super) fn new(cpu: Option<Cpu>, ticks_per_second: f64, alone: bool) -> Self {
        let during = cpu.is_some() && UserCycles::open(Scope::Thread).is_err();
        Self {
            during,
            chase: during.then(PointerChase::new).flatten(),
            neighbour: during.then(Neighbour::new),
            alone,
            ticks_per_second,
            lost: Lost::default(),
            spent: 0.0,
            watched: 0.0,
        }
    }

    /// Does `work` and watches.
    pub(super) fn watch<T>(&mut self, work: impl FnOnce() -> T) -> (T, Seen) {
        let over = AtomicBool::new(false);
        if let Some(neighbour) = &mut self.neighbour {
            neighbour.learn();
        }
        let before = Rate::measure();
        let started = Instant::now();
        let (during, chase, lost) = (self.during, self.chase.as_mut(), &mut self.lost);
        let (neighbour, alone, ticks_per_second) =
            (self.neighbour, self.alone, self.ticks_per_second);
        // The thread is on the CPUs that this one may use.
        let (result, looked) = thread::scope(|scope| {
            let look = || look(chase, neighbour, alone, &over);
            // Without another thread the clock has two ends, as without looking.
            let looking = during.then(|| thread::Builder::new().spawn_scoped(scope, look).ok());
            let looking = looking.flatten();
            let end = End(&over);
            // What looking takes from whatever runs there is lost to it, too.
            let mut lose = || {
                if during {
                    lost.add(Lost::measure(ticks_per_second));
                }
            };
            lose();
            let result = work();
            lose();
            drop(end);
            let looked = looking.map(|looking| {
                looking.thread().unpark();
                looking.join().unwrap_or_default()
            });
            (result, looked.unwrap_or_default())
        });
        self.watched += started.elapsed().as_secs_f64();
        self.spent += looked.spent;
        let mut rates = vec![before.cycles_per_tick];
        rates.extend(looked.rates);
        rates.push(Rate::measure().cycles_per_tick);
        let seen = Seen {
            clock: Course::new(&rates),
            load: (!looked.loads.is_empty()).then(|| Course::new(&looked.loads).mean()),
            shared: looked.shared,
        };
        (result, seen)
    }

    /// Share of the CPU's time that is lost to whatever runs there; none where cycles are counted, or on any CPU.
    pub(super) fn lost(&self) -> Option<f64> {
        self.during.then(|| self.lost.share())
    }

    /// Share of the time that looking took.
    pub(super) fn share(&self) -> f64 {
        self.spent / self.watched.max(1e-9)
    }
}

/// Says that the work is over, also when it panics: else the scope would wait for ever.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[derive(Debug, Default)]
struct Looked {
    rates: Vec<f64>,
    loads: Vec<f64>,
    shared: Option<Shared>,
    spent: f64,
}

fn look(
    mut chase: Option<&mut PointerChase>,
    neighbour: Option<Neighbour>,
    alone: bool,
    over: &AtomicBool,
) -> Looked {
    // Where it may not go ahead, the moments are somewhat less evenly spread, and the command does not wait.
    let is_ahead = priority::set(Level::Watch).is_ok();
    let mut looked = Looked::default();
    let mut gate = neighbour.map(Gate::new);
    for moment in 1.. {
        thread::park_timeout(PERIOD);
        if over.load(Ordering::Relaxed) {
            break;
        }
        if let Some(gate) = &mut gate
            && gate.look()
            && (alone && is_ahead)
        {
            gate.wait();
        }
        if moment % CLOCK == 0 {
            looked.rates.push(cycles_per_tick());
            let load = chase.as_mut().map(|chase| chase.load());
            looked.loads.extend(load);
        }
    }
    looked.shared = gate.map(|gate| gate.shared());
    let waited = looked.shared.map_or(0.0, |shared| shared.waited);
    looked.spent = (spent() - waited).max(0.0);
    looked
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watcher(during: bool, chase: Option<PointerChase>) -> Watcher {
        Watcher {
            during,
            chase,
            neighbour: during.then(Neighbour::new),
            alone: true,
            ticks_per_second: 1e9,
            lost: Lost::default(),
            spent: 0.0,
            watched: 0.0,
        }
    }

    #[test]
    fn it_looks_for_as_long_as_the_work_takes() {
        let mut watcher = watcher(true, PointerChase::new());
        let pause = Duration::from_millis(50);
        let (result, seen) = watcher.watch(|| {
            std::thread::sleep(pause);
            7
        });
        assert_eq!(result, 7);
        assert!(seen.clock.mean() > 0.0 && seen.load.is_some_and(|load| load > 0.0));
        assert!(watcher.share() > 0.0 && watcher.watched >= pause.as_secs_f64());
    }

    #[test]
    fn a_panic_of_the_work_ends_the_looking() {
        let mut watcher = watcher(true, None);
        let work = || watcher.watch(|| -> () { panic!("as a test") });
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        assert!(result.is_err());
    }

    #[test]
    fn without_looking_the_clock_has_two_ends() {
        let mut watcher = watcher(false, None);
        let ((), seen) = watcher.watch(|| ());
        assert!(seen.clock.mean() > 0.0 && seen.load.is_none());
        assert_eq!(watcher.share(), 0.0);
    }
}
