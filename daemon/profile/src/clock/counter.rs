//! The CPU's counter of user cycles, through `perf_event_open`.
//!
//! Not in virtual machines without a virtual performance-monitoring unit, nor where
//! `kernel.perf_event_paranoid` or a container's filter forbids it; that is an ordinary answer
//! here, and the time-stamp counter the way out.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};

/// Why there is no counter.
#[derive(Debug, thiserror::Error)]
#[error("no counter of cycles: {cause}{hint}")]
pub struct CounterError {
    cause: io::Error,
    hint: &'static str,
}

/// Whose cycles are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The calling thread, at once.
    Thread,
    /// A process and all that it starts, from its next `exec` on.
    Command {
        /// Its id.
        pid: libc::pid_t,
    },
}

/// `struct perf_event_attr` as of its second version (`PERF_ATTR_SIZE_VER1`); perf_event_open(2).
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    config1: u64,
    config2: u64,
}

const TYPE_HARDWARE: u32 = 0;
const COUNT_CPU_CYCLES: u64 = 0;
const FORMAT_TOTAL_TIME_ENABLED: u64 = 1;
const FORMAT_TOTAL_TIME_RUNNING: u64 = 1 << 1;
const FLAG_DISABLED: u64 = 1;
const FLAG_INHERIT: u64 = 1 << 1;
const FLAG_PINNED: u64 = 1 << 2;
const FLAG_EXCLUDE_KERNEL: u64 = 1 << 5;
const FLAG_EXCLUDE_HV: u64 = 1 << 6;
const FLAG_ENABLE_ON_EXEC: u64 = 1 << 12;
const FLAG_FD_CLOEXEC: libc::c_ulong = 1 << 3;

/// A running counter of user cycles.
#[derive(Debug)]
pub struct UserCycles {
    file: File,
}

impl UserCycles {
    /// Opens a counter.
    ///
    /// # Errors
    /// When the CPU, the hypervisor or the kernel gives none.
    pub fn open(scope: Scope) -> Result<Self, CounterError> {
        let (pid, flags) = match scope {
            Scope::Thread => (0, FLAG_PINNED),
            Scope::Command { pid } => (pid, FLAG_DISABLED | FLAG_INHERIT | FLAG_ENABLE_ON_EXEC),
        };
        let attributes = Attributes {
            kind: TYPE_HARDWARE,
            size: size_of::<Attributes>() as u32,
            config: COUNT_CPU_CYCLES,
            read_format: FORMAT_TOTAL_TIME_ENABLED | FORMAT_TOTAL_TIME_RUNNING,
            flags: flags | FLAG_EXCLUDE_KERNEL | FLAG_EXCLUDE_HV,
            ..Attributes::default()
        };
        // SAFETY: the attributes live through the call and say their size; -1: any CPU, no group.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attributes,
                pid,
                -1,
                -1,
                FLAG_FD_CLOEXEC,
            )
        };
        match RawFd::try_from(fd) {
            Ok(fd) if fd >= 0 => {
                // SAFETY: the descriptor is new and nobody else's.
                let file = unsafe { File::from_raw_fd(fd) };
                Ok(Self { file })
            }
            _ => Err(CounterError::new(io::Error::last_os_error())),
        }
    }

    /// Cycles so far; scaled up when the counter had to be shared.
    ///
    /// # Errors
    /// When the counter was never running.
    pub fn read(&mut self) -> Result<f64, CounterError> {
        let mut bytes = [0; 24];
        self.file
            .read_exact(&mut bytes)
            .map_err(CounterError::new)?;
        let mut words = bytes.chunks_exact(8).map(|word| {
            let mut value = [0; 8];
            value.copy_from_slice(word);
            u64::from_ne_bytes(value) as f64
        });
        let mut next = || words.next().unwrap_or(0.0);
        let (count, enabled, running) = (next(), next(), next());
        if running == 0.0 {
            let never = io::Error::other("it never ran; others use all counters");
            return Err(CounterError::new(never));
        }
        Ok(count * enabled / running)
    }

    /// The descriptor, for mapping its page.
    #[must_use]
    pub fn descriptor(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

impl CounterError {
    fn new(cause: io::Error) -> Self {
        let hint = match cause.raw_os_error() {
            Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV) => {
                " (this CPU or hypervisor has none)"
            }
            Some(libc::EACCES | libc::EPERM) => {
                " (kernel.perf_event_paranoid above 2, or a container's seccomp filter; \
                 sysctl kernel.perf_event_paranoid=2 allows it)"
            }
            Some(libc::ENOSYS) => " (this kernel has no performance events)",
            _ => "",
        };
        Self { cause, hint }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_counts_or_says_why_it_does_not() {
        match UserCycles::open(Scope::Thread) {
            Ok(mut counter) => {
                let first = counter.read().unwrap();
                assert!(counter.read().unwrap() > first);
            }
            Err(error) => assert!(error.to_string().starts_with("no counter of cycles: ")),
        }
    }
}
