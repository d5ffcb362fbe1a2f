//! What the machine is like while a command runs: the core clock directly before and after, and in
//! between as a thread on the command's CPU sees it that wakes every five milliseconds for some
//! microseconds.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::lost::{Lost, spent};
use super::memory::PointerChase;
use super::priority::{self, Level};
use crate::clock::{Course, Cpu, Rate, Scope, UserCycles, cycles_per_tick};

/// From one moment to the next: no multiple of the kernel's tick, so that looking does not always
/// take the same ticks from the command.
const PERIOD: Duration = Duration::from_micros(4700);

/// Watches one run after the other.
#[derive(Debug)]
pub(super) struct Watcher {
    /// Whether to look during a run, too.
    during: bool,
    chase: Option<PointerChase>,
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
}

impl Watcher {
    /// Of runs on a CPU with so many ticks a second. There is nothing to see during them when they are on any CPU, and no
    /// need to where cycles are counted.
    pub(super) fn new(cpu: Option<Cpu>, ticks_per_second: f64) -> Self {
        let during = cpu.is_some() && UserCycles::open(Scope::Thread).is_err();
        Self {
            during,
            chase: during.then(PointerChase::new).flatten(),
            ticks_per_second,
            lost: Lost::default(),
            spent: 0.0,
            watched: 0.0,
        }
    }

    /// Does `work` and watches.
    pub(super) fn watch<T>(&mut self, work: impl FnOnce() -> T) -> (T, Seen) {
        let over = AtomicBool::new(false);
        self.lose();
        let before = Rate::measure();
        let started = Instant::now();
        let (during, chase) = (self.during, self.chase.as_mut());
        // The thread is on the CPUs that this one may use.
        let (result, looked) = thread::scope(|scope| {
            let look = || look(chase, &over);
            // Without another thread the clock has two ends, as without looking.
            let looking = during.then(|| thread::Builder::new().spawn_scoped(scope, look).ok());
            let looking = looking.flatten();
            let end = End(&over);
            let result = work();
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
        self.lose();
        let seen = Seen {
            clock: Course::new(&rates),
            load: (!looked.loads.is_empty()).then(|| Course::new(&looked.loads).mean()),
        };
        (result, seen)
    }

    fn lose(&mut self) {
        if self.during {
            self.lost.add(Lost::measure(self.ticks_per_second));
        }
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
    spent: f64,
}

fn look(mut chase: Option<&mut PointerChase>, over: &AtomicBool) -> Looked {
    // Where it may not go ahead, the moments are somewhat less evenly spread.
    let _ = priority::set(Level::Watch);
    let mut looked = Looked::default();
    loop {
        thread::park_timeout(PERIOD);
        if over.load(Ordering::Relaxed) {
            break;
        }
        looked.rates.push(cycles_per_tick());
        let load = chase.as_mut().map(|chase| chase.load());
        looked.loads.extend(load);
    }
    looked.spent = spent();
    looked
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watcher(during: bool, chase: Option<PointerChase>) -> Watcher {
        Watcher {
            during,
            chase,
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
