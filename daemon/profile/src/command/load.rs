//! What else ran on the machine while a command was measured.
//!
//! The kernel counts in `/proc/stat` how long all CPUs together were busy, with whatever, and how
//! long the host of a virtual machine kept them from it (`steal`). What this process and those that
//! it waited for took of that is their own; the rest is others', and takes caches, memory, the clock
//! and the other thread of a core from what is measured. In a container it is what the container is
//! shown of it.

use std::fs;
use std::time::Instant;

/// Others' CPUs from which on a machine is called busy. A quiet system's services take a few
/// hundredths.
const BUSY: f64 = 0.25;

/// What else ran.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Load {
    /// CPUs that others kept busy, the mean.
    pub others: f64,
    /// CPUs that there are.
    pub cpus: usize,
    /// How often something else took the CPU away from the command, in all runs that count.
    pub preempted: i64,
}

impl Load {
    /// Whether figures measured beside it are to be doubted.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.others >= BUSY
    }
}

/// From when on the machine is watched.
#[derive(Debug)]
pub(super) struct Since {
    at: Instant,
    busy: Option<Busy>,
    own: f64,
}

impl Since {
    pub(super) fn now() -> Self {
        Self {
            at: Instant::now(),
            busy: Busy::now(),
            own: own(),
        }
    }

    /// What ran since then; none where the system does not tell.
    pub(super) fn load(&self, preempted: i64) -> Option<Load> {
        let (before, now) = (self.busy?, Busy::now()?);
        let elapsed = self.at.elapsed().as_secs_f64();
        let busy = (now.seconds - before.seconds).max(0.0);
        let others = (busy - (own() - self.own)).max(0.0) / elapsed.max(1e-3);
        Some(Load {
            others: others.min(now.cpus as f64),
            cpus: now.cpus,
            preempted,
        })
    }
}

/// How long all CPUs were busy since the start.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Busy {
    seconds: f64,
    cpus: usize,
}

impl Busy {
    fn now() -> Option<Self> {
        // SAFETY: asks for a number.
        let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
        let text = fs::read_to_string("/proc/stat").ok()?;
        Self::parse(&text, per_second.max(1) as f64)
    }

    /// proc(5): user, nice, system, idle, iowait, irq, softirq, steal; guests' time is in user's.
    fn parse(text: &str, per_second: f64) -> Option<Self> {
        let all = text.lines().find(|line| line.starts_with("cpu "))?;
        let fields: Vec<f64> = all
            .split_ascii_whitespace()
            .skip(1)
            .map_while(|field| field.parse().ok())
            .collect();
        let [user, nice, system, _, _, rest @ ..] = fields.as_slice() else {
            return None;
        };
        let busy = user + nice + system + rest.iter().take(3).sum::<f64>();
        let one = |line: &&str| line.starts_with("cpu") && !line.starts_with("cpu ");
        Some(Self {
            seconds: busy / per_second,
            cpus: text.lines().filter(one).count().max(1),
        })
    }
}

/// Processor time in seconds of this process and of those that it has waited for.
fn own() -> f64 {
    [libc::RUSAGE_SELF, libc::RUSAGE_CHILDREN]
        .into_iter()
        .map(|who| {
            // SAFETY: plain data, filled in by the call.
            let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
            // SAFETY: the place lives through the call; it cannot fail for these.
            unsafe { libc::getrusage(who, &raw mut usage) };
            let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
            seconds(usage.ru_utime) + seconds(usage.ru_stime)
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_is_not_busy_and_stolen_time_is() {
        let text = "cpu  100 20 30 4000 50 6 7 8 9 0\ncpu0 50 1 1 1\ncpu1 50 1 1 1\nintr 5\n";
        let busy = Busy::parse(text, 100.0).unwrap();
        assert_eq!(busy.cpus, 2);
        assert!((busy.seconds - 1.71).abs() < 1e-9);
        for strange in ["", "cpu\n", "cpu  1 2\n", "cpu x y z\n"] {
            assert_eq!(Busy::parse(strange, 100.0), None);
        }
        // Kernels before 2.6.11 have no steal.
        assert!(Busy::parse("cpu 1 2 3 4 5\n", 100.0).is_some());
    }

    #[test]
    fn a_machine_is_busy_by_what_others_take() {
        let load = |others| Load {
            others,
            cpus: 4,
            preempted: 0,
        };
        assert!(!load(0.05).is_busy() && load(2.9).is_busy());
    }
}
