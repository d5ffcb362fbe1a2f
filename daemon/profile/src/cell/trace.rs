//! A traced process: what a cell needs of `ptrace` and `waitpid`.

use std::cell::Cell;
use std::io;

use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// Registers of a stopped cell.
pub(crate) type Registers = libc::user_regs_struct;

/// A process that this thread traces; it is killed and waited for with it.
#[derive(Debug)]
pub(super) struct Tracee {
    pid: Pid,
    /// It has been waited for, so that its number may be another process's by now.
    gone: Cell<bool>,
}

/// Why a tracee stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stopped {
    /// A signal is about to be delivered.
    Signal(Signal),
    /// It is gone.
    Gone,
}

/// What a signal says of its cause.
#[derive(Clone, Copy, Debug)]
pub(super) struct SignalInfo {
    pub(super) code: i32,
    pub(super) address: u64,
}

impl Tracee {
    /// A child that asked to be traced and has not been waited for.
    pub(super) fn child(pid: u32) -> Self {
        Self {
            pid: Pid::from_raw(pid as i32),
            gone: Cell::new(false),
        }
    }

    pub(super) fn pid(&self) -> Option<rustix::process::Pid> {
        rustix::process::Pid::from_raw(self.pid.as_raw())
    }

    /// The tracee dies with this thread.
    pub(super) fn bind(&self) -> io::Result<()> {
        Ok(ptrace::setoptions(self.pid, Options::PTRACE_O_EXITKILL)?)
    }

    /// Goes on; a pending signal is dropped.
    pub(super) fn go_on(&self) -> io::Result<()> {
        Ok(ptrace::cont(self.pid, None)?)
    }

    /// Goes on for one instruction.
    pub(super) fn step(&self) -> io::Result<()> {
        Ok(ptrace::step(self.pid, None)?)
    }

    pub(super) fn registers(&self) -> io::Result<Registers> {
        Ok(ptrace::getregs(self.pid)?)
    }

    pub(super) fn set_registers(&self, registers: &Registers) -> io::Result<()> {
        Ok(ptrace::setregs(self.pid, *registers)?)
    }

    /// The eight bytes at an address.
    pub(super) fn peek(&self, address: u64) -> io::Result<u64> {
        let word = ptrace::read(self.pid, address as ptrace::AddressType)?;
        Ok(word as u64)
    }

    pub(super) fn signal_info(&self) -> io::Result<SignalInfo> {
        let info = ptrace::getsiginfo(self.pid)?;
        Ok(SignalInfo {
            code: info.si_code,
            // SAFETY: for the signals asked about, the address is valid or zero.
            address: unsafe { info.si_addr() } as u64,
        })
    }

    /// Waits for the next stop.
    pub(super) fn wait(&self) -> io::Result<Stopped> {
        if self.gone.get() {
            return Ok(Stopped::Gone);
        }
        loop {
            match waitpid(self.pid, Some(WaitPidFlag::__WALL)) {
                Ok(WaitStatus::Stopped(_, signal)) => return Ok(Stopped::Signal(signal)),
                Ok(_) => {
                    self.gone.set(true);
                    return Ok(Stopped::Gone);
                }
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Drop for Tracee {
    fn drop(&mut self) {
        if !self.gone.get() {
            // Without the process there is nothing left to do.
            let _ = kill(self.pid, Signal::SIGKILL);
            while !matches!(self.wait(), Ok(Stopped::Gone) | Err(_)) {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;
    use std::process::Command;

    use super::*;

    fn traced() -> Tracee {
        let mut command = Command::new("/bin/sleep");
        command.arg("1000");
        // SAFETY: one system call between fork and exec.
        unsafe { command.pre_exec(|| Ok(ptrace::traceme()?)) };
        let tracee = Tracee::child(command.spawn().unwrap().id());
        assert_eq!(tracee.wait().unwrap(), Stopped::Signal(Signal::SIGTRAP));
        tracee
    }

    #[test]
    fn a_tracee_ends_with_its_handle() {
        let tracee = traced();
        let pid = tracee.pid;
        assert!(kill(pid, None).is_ok());
        drop(tracee);
        assert_eq!(kill(pid, None), Err(Errno::ESRCH));
    }

    #[test]
    fn who_is_gone_is_neither_waited_for_nor_killed_again() {
        let tracee = traced();
        kill(tracee.pid, Signal::SIGKILL).unwrap();
        assert_eq!(tracee.wait().unwrap(), Stopped::Gone);
        assert!(tracee.gone.get());
        assert_eq!(tracee.wait().unwrap(), Stopped::Gone);
    }
}
