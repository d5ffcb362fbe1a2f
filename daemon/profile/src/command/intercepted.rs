//! Executions of `cpuid`, which a hypervisor intercepts: some twenty thousand cycles each in place of a hundred, which the
//! kernel takes for the program's own. The loader and the libraries of a program execute it some sixty times.
//!
//! How often a command does is counted in a run that is not measured, under `ptrace`, in which the instruction faults
//! (arch_prctl(2), `ARCH_SET_CPUID`) and is done here in its stead. Where it cannot be made to fault, samples say how long it
//! took ([`super::sampled`]).

use std::arch::x86_64::__cpuid_count;
use std::collections::BTreeSet;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};

use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::clock::{Quartiles, Rate, ticks};

/// Times that the instruction is timed.
const TIMED: usize = 65;
/// Cycles from which on it is taken to be intercepted: natively it takes 100 to 250 (uops.info).
const INTERCEPTED: f64 = 1000.0;
/// A leaf that all CPUs with one have, and that loaders ask for most often: deterministic cache parameters.
const LEAF: u32 = 4;
/// `cpuid` and `syscall`.
pub(super) const CPUID: [u8; 2] = [0x0f, 0xa2];
const SYSCALL: [u8; 2] = [0x0f, 0x05];
/// arch_prctl(2).
const ARCH_SET_CPUID: u64 = 0x1012;

/// What of a run the hypervisor took when it intercepted `cpuid`.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Intercepted {
    /// Executions in a run.
    pub executions: u64,
    /// Cycles of each.
    pub cycles_each: f64,
    /// Whether executions were counted; else samples say how many there must have been.
    pub counted: bool,
}

impl Intercepted {
    /// Cycles of a run.
    #[must_use]
    pub fn cycles(&self) -> f64 {
        self.executions as f64 * self.cycles_each
    }

    /// As many as took so many cycles in a run.
    pub(super) fn sampled(cycles: f64, cycles_each: f64) -> Self {
        Self {
            executions: (cycles / cycles_each).round() as u64,
            cycles_each,
            counted: false,
        }
    }
}

/// Cycles that one takes on the CPU at hand, where it is intercepted.
pub(super) fn cycles_each() -> Option<f64> {
    let mut times = [0.0; TIMED];
    for time in &mut times {
        let started = ticks();
        std::hint::black_box(__cpuid_count(LEAF, 0));
        *time = ticks().wrapping_sub(started) as f64;
    }
    let cycles = Rate::measure().cycles(Quartiles::of(&mut times).median);
    (cycles >= INTERCEPTED).then_some(cycles)
}

/// Runs a command and counts how often it, and all that it starts, executes `cpuid`; none where the CPU or the
/// hypervisor does not let the instruction fault.
///
/// # Errors
/// When it does not start or cannot be traced.
pub(super) fn count(mut command: Command) -> io::Result<(ExitStatus, Option<u64>)> {
    // SAFETY: one system call between fork and exec.
    unsafe { command.pre_exec(|| Ok(ptrace::traceme()?)) };
    // It is waited for below; the handle does not.
    let child = command.spawn()?;
    let first = Pid::from_raw(child.id() as i32);
    let mut traced = Traced {
        alive: BTreeSet::from([first]),
        ..Traced::default()
    };
    let counted = traced.run(first);
    if counted.is_err() {
        traced.end();
    }
    Ok((traced.status, counted?))
}

/// The processes and threads that are traced.
#[derive(Default)]
struct Traced {
    alive: BTreeSet<Pid>,
    /// Those that have begun, whose further stops are their own.
    begun: BTreeSet<Pid>,
    over: BTreeSet<Pid>,
    /// How the first one ended.
    status: ExitStatus,
}

impl Traced {
    /// Until all are over.
    fn run(&mut self, first: Pid) -> nix::Result<Option<u64>> {
        let (mut count, mut all) = (0, true);
        self.begun.insert(first);
        // Those of other threads of this process are none of ours.
        let flags = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD;
        while !self.alive.is_empty() {
            let status = match waitpid(Pid::from_raw(-1), Some(flags)) {
                Err(Errno::EINTR) => continue,
                status => status?,
            };
            match status {
                WaitStatus::Exited(pid, code) => {
                    self.ended(pid, first, code << 8);
                }
                WaitStatus::Signaled(pid, signal, _) => {
                    self.ended(pid, first, signal as i32);
                }
                WaitStatus::Stopped(pid, Signal::SIGTRAP) if replaced(pid)? => {
                    if pid == first {
                        let children = Options::PTRACE_O_TRACEFORK
                            | Options::PTRACE_O_TRACEVFORK
                            | Options::PTRACE_O_TRACECLONE
                            | Options::PTRACE_O_EXITKILL;
                        ptrace::setoptions(pid, children)?;
                    }
                    all &= let_fault(pid)?;
                    ptrace::cont(pid, None)?;
                }
                WaitStatus::Stopped(pid, Signal::SIGSEGV) if answer(pid)? => {
                    count += 1;
                    ptrace::cont(pid, None)?;
                }
                WaitStatus::Stopped(pid, Signal::SIGSTOP) if self.begun.insert(pid) => {
                    self.alive.insert(pid);
                    ptrace::cont(pid, None)?;
                }
                WaitStatus::Stopped(pid, signal) => ptrace::cont(pid, signal)?,
                WaitStatus::PtraceEvent(pid, _, _) => {
                    // What it has made may be seen before or after this.
                    let made = Pid::from_raw(ptrace::getevent(pid)? as i32);
                    if !self.over.contains(&made) {
                        self.alive.insert(made);
                    }
                    ptrace::cont(pid, None)?;
                }
                _ => {}
            }
        }
        Ok(all.then_some(count))
    }

    /// One is over, with a status as `wait` has it.
    fn ended(&mut self, pid: Pid, first: Pid, status: i32) {
        self.alive.remove(&pid);
        self.over.insert(pid);
        if pid == first {
            self.status = ExitStatus::from_raw(status);
        }
    }

    /// Ends those that are left.
    fn end(&mut self) {
        for pid in &self.alive {
            // Who is gone needs no end.
            let _ = nix::sys::signal::kill(*pid, Signal::SIGKILL);
        }
        for pid in &self.alive {
            while matches!(
                waitpid(*pid, Some(WaitPidFlag::__WALL)),
                Err(Errno::EINTR) | Ok(WaitStatus::Stopped(..) | WaitStatus::PtraceEvent(..))
            ) {}
        }
    }
}

/// Whether a process has stopped since it became another program, for which the kernel sends a signal itself.
fn replaced(pid: Pid) -> nix::Result<bool> {
    Ok(ptrace::getsiginfo(pid)?.si_code == libc::SI_USER)
}

/// Has a process that has not yet begun make `cpuid` fault; whether that can be.
fn let_fault(pid: Pid) -> nix::Result<bool> {
    let before = ptrace::getregs(pid)?;
    let place = before.rip as ptrace::AddressType;
    let code = ptrace::read(pid, place)?;
    let [first, second] = SYSCALL;
    let mut call = code.to_ne_bytes();
    [call[0], call[1]] = [first, second];
    ptrace::write(pid, place, libc::c_long::from_ne_bytes(call))?;
    let registers = libc::user_regs_struct {
        rax: libc::SYS_arch_prctl as u64,
        orig_rax: u64::MAX,
        rdi: ARCH_SET_CPUID,
        rsi: 0,
        ..before
    };
    ptrace::setregs(pid, registers)?;
    ptrace::step(pid, None)?;
    waitpid(pid, Some(WaitPidFlag::__WALL))?;
    let answer = ptrace::getregs(pid)?.rax;
    ptrace::write(pid, place, code)?;
    ptrace::setregs(pid, before)?;
    Ok(answer == 0)
}

/// Does what a faulting `cpuid` was to do; false: the fault is another instruction's.
fn answer(pid: Pid) -> nix::Result<bool> {
    let mut registers = ptrace::getregs(pid)?;
    let code = match ptrace::read(pid, registers.rip as ptrace::AddressType) {
        // Where nothing can be read nothing was executed.
        Err(Errno::EIO | Errno::EFAULT) => return Ok(false),
        code => code?,
    };
    if !code.to_ne_bytes().starts_with(&CPUID) {
        return Ok(false);
    }
    let found = __cpuid_count(registers.rax as u32, registers.rcx as u32);
    registers.rax = found.eax.into();
    registers.rbx = found.ebx.into();
    registers.rcx = found.ecx.into();
    registers.rdx = found.edx.into();
    registers.rip += CPUID.len() as u64;
    ptrace::setregs(pid, registers)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Linux lists whether it can be made to.
    fn cannot_fault() {
        let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap();
        assert!(!cpu.contains("cpuid_fault"));
    }

    /// The loader of the C library asks the CPU what it can do, whatever the program.
    #[test]
    fn a_program_executes_it_as_often_each_time() {
        let counted = || count(Command::new("/bin/true")).unwrap().1;
        let Some(first) = counted() else {
            return cannot_fault();
        };
        assert!((1..1000).contains(&first), "{first}");
        assert_eq!(counted(), Some(first));
    }

    #[test]
    fn what_a_program_starts_is_counted_and_its_signals_reach_it() {
        let Some(one) = count(Command::new("/bin/true")).unwrap().1 else {
            return cannot_fault();
        };
        let mut command = Command::new("/bin/sh");
        command.args([
            "-c",
            "trap : USR1; kill -USR1 $$; /bin/true; /bin/true; exit 7",
        ]);
        let (status, three) = count(command).unwrap();
        assert_eq!(status.code(), Some(7));
        assert!(three.is_some_and(|three| three >= 3 * one - one / 2));
    }

    #[test]
    fn what_cannot_be_run_is_not_counted() {
        assert!(count(Command::new("/nowhere/nothing")).is_err());
        let mut killed = Command::new("/bin/sh");
        killed.args(["-c", "kill -9 $$"]);
        assert_eq!(count(killed).unwrap().0.signal(), Some(9));
    }
}
