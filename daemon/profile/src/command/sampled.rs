//! How a command's processor time divides into the program's own and the kernel's, by samples.
//!
//! The kernel says exactly how long a process ran, but mostly finds what of it was user time by its timer's ticks, a few
//! milliseconds apart. A clock of the command's own (`PERF_COUNT_SW_CPU_CLOCK`, perf_event_open(2)) looks a hundred times as
//! often at what runs. That takes time itself, so runs with it are not those whose time is taken.
//!
//! A sample lies behind the instruction that was under way. So those behind a `cpuid` say what a hypervisor took that
//! intercepts it ([`super::intercepted`]), where that cannot be made to fault and be counted.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use perf_event::data::{Mmap2, Record};
use perf_event::events::Software;
use perf_event::{Builder, SampleFlag, Sampler};

use super::intercepted::CPUID;
use crate::clock::Cpu;

/// Samples that are asked for, over all runs: they give a share of 80 % within half a point, 95 of 100 times.
const WANTED: u64 = 24_000;
/// Samples of a run at most: of so many there is room.
const MOST: f64 = 6000.0;
/// Bytes that the kernel lets any process lock for what it has not yet read (`kernel.perf_event_mlock_kb`), half of them.
const ROOM: usize = 256 << 10;
/// Bits of a record's header that say in which mode a sample was taken (`PERF_RECORD_MISC_CPUMODE_MASK`), and of the kernel's.
const MODE: u16 = 7;
const KERNEL: u16 = 1;
/// From one sample to the next, at least: so that samples take no more than a few per cent of the time.
const LEAST: Duration = Duration::from_micros(50);

/// Samples of runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Samples {
    /// Runs that were sampled.
    pub runs: u32,
    /// In user mode.
    pub user: u64,
    /// In the kernel.
    pub kernel: u64,
    /// Of those in user mode, behind a `cpuid`.
    pub behind_cpuid: u64,
    /// Samples for which there was no room, in neither of the above.
    pub lost: u64,
}

impl Samples {
    /// In either mode.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.user + self.kernel
    }

    /// Share of user time; none without a sample.
    #[must_use]
    pub fn user_share(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.user as f64 / self.count() as f64)
    }

    /// Share of the user time that went by in `cpuid`.
    #[must_use]
    pub fn cpuid_share(&self) -> f64 {
        self.behind_cpuid as f64 / self.user.max(1) as f64
    }

    /// Whether there are as many as are asked for.
    pub(super) fn are_enough(&self) -> bool {
        self.count() >= WANTED
    }

    pub(super) fn add(&mut self, other: Self) {
        self.runs += other.runs;
        self.user += other.user;
        self.kernel += other.kernel;
        self.behind_cpuid += other.behind_cpuid;
        self.lost += other.lost;
    }
}

/// From one sample to the next of a run that takes so many seconds.
pub(super) fn period(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds.clamp(0.0, 1e6) / MOST).max(LEAST)
}

/// A clock that samples a command and all that it starts, on one CPU.
pub(super) struct Clock(Sampler);

impl Clock {
    /// Samples process `pid` from its next `exec` on.
    ///
    /// # Errors
    /// When the kernel does not let this process sample what the kernel does (`kernel.perf_event_paranoid` above 1 without
    /// `CAP_PERFMON`), or has no such events.
    pub(super) fn open(pid: libc::pid_t, cpu: Cpu, period: Duration) -> io::Result<Self> {
        let counter = Builder::new(Software::CPU_CLOCK)
            .observe_pid(pid)
            .one_cpu(cpu.0 as usize)
            .include_kernel()
            .inherit(true)
            .enable_on_exec(true)
            .mmap(true)
            .mmap2(true)
            .sample(SampleFlag::IP | SampleFlag::TID)
            .sample_period(period.as_nanos().try_into().unwrap_or(u64::MAX))
            .build()?;
        Ok(Self(counter.sampled(ROOM)?))
    }

    /// What it saw of a run that is over.
    pub(super) fn samples(mut self) -> Samples {
        let mut seen = Seen {
            samples: Samples {
                runs: 1,
                ..Samples::default()
            },
            ..Seen::default()
        };
        while let Some(record) = self.0.next_record() {
            let in_kernel = record.misc() & MODE == KERNEL;
            // What cannot be read is as good as lost.
            match record.parse_record() {
                Ok(record) => seen.take(&record, in_kernel),
                Err(_) => seen.samples.lost += 1,
            }
        }
        seen.samples
    }
}

/// Code that a process has mapped from a file.
struct Mapping {
    pid: u32,
    from: u64,
    to: u64,
    /// Where in the file it begins.
    offset: u64,
    file: Option<File>,
}

/// What records say, in their order.
#[derive(Default)]
struct Seen {
    samples: Samples,
    mappings: Vec<Mapping>,
    /// Whether what lies before an address of a process is a `cpuid`, as far as it was asked.
    known: HashMap<(u32, u64), bool>,
}

impl Seen {
    fn take(&mut self, record: &Record<'_>, in_kernel: bool) {
        match record {
            Record::Sample(_) if in_kernel => self.samples.kernel += 1,
            Record::Sample(sample) => {
                self.samples.user += 1;
                let place = sample.pid().zip(sample.ip());
                let behind = place.is_some_and(|(pid, address)| self.is_behind_cpuid(pid, address));
                self.samples.behind_cpuid += u64::from(behind);
            }
            Record::Mmap2(map) => self.map(map),
            Record::Lost(lost) => self.samples.lost += lost.lost,
            _ => {}
        }
    }

    fn map(&mut self, map: &Mmap2<'_>) {
        // What cannot be opened, as what is no file, has no `cpuid` that is looked for.
        let file = File::open(Path::new(std::ffi::OsStr::from_bytes(&map.filename))).ok();
        self.mappings.push(Mapping {
            pid: map.pid,
            from: map.addr,
            to: map.addr.saturating_add(map.len),
            offset: map.pgoff,
            file,
        });
        // Another program may be there now.
        self.known.clear();
    }

    fn is_behind_cpuid(&mut self, pid: u32, address: u64) -> bool {
        let mappings = &self.mappings;
        *(self.known.entry((pid, address)))
            .or_insert_with(|| code_before(mappings, pid, address) == Some(CPUID))
    }
}

/// The two bytes of code before an address.
fn code_before(mappings: &[Mapping], pid: u32, address: u64) -> Option<[u8; 2]> {
    let first = address.checked_sub(CPUID.len() as u64)?;
    // The latest one is what is there.
    let mut latest = mappings.iter().rev();
    let mapping = latest.find(|m| m.pid == pid && (m.from..m.to).contains(&first))?;
    let mut code = CPUID.map(|_| 0);
    let file = mapping.file.as_ref()?;
    file.read_exact_at(&mut code, first - mapping.from + mapping.offset)
        .ok()?;
    Some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_sampled_as_often_as_there_is_room_for() {
        assert_eq!(period(0.01), LEAST);
        assert_eq!(period(6.0), Duration::from_millis(1));
        assert_eq!(period(f64::NAN.max(0.0)), LEAST);
    }

    #[test]
    fn shares_are_of_all_runs() {
        let mut samples = Samples::default();
        assert_eq!((samples.user_share(), samples.cpuid_share()), (None, 0.0));
        for kernel in [10, 30] {
            samples.add(Samples {
                runs: 1,
                user: 80,
                kernel,
                behind_cpuid: 4,
                lost: 0,
            });
        }
        assert_eq!(samples.user_share(), Some(0.8));
        assert_eq!(samples.cpuid_share(), 0.05);
        assert!(!samples.are_enough());
    }

    #[test]
    fn code_is_read_where_it_was_mapped_last() {
        use std::io::Write;
        let file = |code: &[u8]| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(code).unwrap();
            Some(file)
        };
        let mapping = |pid, file| Mapping {
            pid,
            from: 0x1000,
            to: 0x2000,
            offset: 4,
            file,
        };
        let code = [0, 0, 0, 0, 0x90, 0x0f, 0xa2, 0x90];
        let mut mappings = vec![mapping(1, file(&code))];
        assert_eq!(code_before(&mappings, 1, 0x1003), Some(CPUID));
        assert_eq!(code_before(&mappings, 1, 0x1004), Some([0xa2, 0x90]));
        // Another process, no code, none that is that long.
        for (pid, address) in [(2, 0x1003), (1, 0x3000), (1, 1), (1, 0x1800)] {
            assert_eq!(code_before(&mappings, pid, address), None);
        }
        mappings.push(mapping(1, None));
        assert_eq!(code_before(&mappings, 1, 0x1003), None);
    }
}
