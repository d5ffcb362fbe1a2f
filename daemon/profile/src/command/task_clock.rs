//! The processor time of a command from its `exec` on.
//!
//! What the kernel says of a process when it ends (wait4(2)) counts from `fork` on. Until it becomes another program it is a
//! copy of the one that starts it, whose pages it has to copy and to give back: 0.4 ms beside a small program, 2 ms
//! beside one of 150 MB, as much as some commands take in all. A clock of its own (`PERF_COUNT_SW_TASK_CLOCK`,
//! perf_event_open(2)) starts with `exec`, as the samples do ([`super::sampled`]).

use std::io;

use perf_event::events::Software;
use perf_event::{Builder, Counter};

/// Counts a process's time and that of all that it starts.
pub(super) struct TaskClock(Counter);

impl TaskClock {
    /// Of process `pid` from its next `exec` on.
    ///
    /// # Errors
    /// When the kernel or a container's filter allows no such clocks.
    pub(super) fn open(pid: libc::pid_t) -> io::Result<Self> {
        let clock = Builder::new(Software::TASK_CLOCK)
            .observe_pid(pid)
            .any_cpu()
            .inherit(true)
            .enable_on_exec(true)
            .build()?;
        Ok(Self(clock))
    }

    /// Seconds, of a process that is over.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) fn seconds(mut self) -> io::Result<f64> {
        Ok(self.0.read()? as f64 / 1e9)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use super::*;
    use crate::command::lost::spent;

    /// Seconds of processor time before the program begins, far more than it takes.
    const BEFORE: f64 = 0.1;

    #[test]
    fn what_comes_before_exec_is_not_counted() -> io::Result<()> {
        let ((mut hear, mut say), (mut wait, mut go)) = (io::pipe()?, io::pipe()?);
        let before = move || {
            // SAFETY: no arguments.
            say.write_all(&unsafe { libc::getpid() }.to_ne_bytes())?;
            wait.read_exact(&mut [0])?;
            while spent() < BEFORE {}
            Ok(())
        };
        let mut command = Command::new("true");
        // SAFETY: what it calls is allowed between fork and exec.
        unsafe { command.pre_exec(before) };
        let running = std::thread::spawn(move || command.status());
        let mut pid = [0; 4];
        hear.read_exact(&mut pid)?;
        let clock = TaskClock::open(libc::pid_t::from_ne_bytes(pid));
        go.write_all(&[1])?;
        let status = running.join().map_err(|_| io::Error::other("panicked"))??;
        assert!(status.success());
        // Where the kernel allows no such clock there is nothing to test.
        if let Ok(clock) = clock {
            let seconds = clock.seconds()?;
            assert!((1e-6..BEFORE / 2.0).contains(&seconds), "{seconds}");
        }
        Ok(())
    }
}
