//! `ptrace` and `waitpid`, as far as a cell needs them.

use std::io;
use std::mem;
use std::ptr;

/// Registers of a stopped cell.
pub(crate) type Registers = libc::user_regs_struct;

/// A process that this thread traces.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tracee(pub(super) libc::pid_t);

/// Why a tracee stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stopped {
    /// A signal is about to be delivered.
    Signal(i32),
    /// It is gone.
    Gone,
}

/// What a signal says of its cause.
#[derive(Clone, Copy, Debug)]
pub(super) struct SignalInfo {
    pub(super) code: i32,
    pub(super) address: u64,
}

fn check(result: libc::c_long) -> io::Result<()> {
    if result == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

impl Tracee {
    fn request(self, request: libc::c_uint, data: usize) -> io::Result<()> {
        // SAFETY: these requests take a number or nothing.
        check(unsafe { libc::ptrace(request, self.0, ptr::null_mut::<u8>(), data) })
    }

    /// The tracee dies with this thread.
    pub(super) fn bind(self) -> io::Result<()> {
        self.request(libc::PTRACE_SETOPTIONS, libc::PTRACE_O_EXITKILL as usize)
    }

    /// Goes on; a pending signal is dropped.
    pub(super) fn go_on(self) -> io::Result<()> {
        self.request(libc::PTRACE_CONT, 0)
    }

    /// Goes on for one instruction.
    pub(super) fn step(self) -> io::Result<()> {
        self.request(libc::PTRACE_SINGLESTEP, 0)
    }

    pub(super) fn registers(self) -> io::Result<Registers> {
        // SAFETY: the structure is plain numbers and filled by the call.
        unsafe {
            let mut registers: Registers = mem::zeroed();
            check(libc::ptrace(
                libc::PTRACE_GETREGS,
                self.0,
                ptr::null_mut::<u8>(),
                &raw mut registers,
            ))?;
            Ok(registers)
        }
    }

    pub(super) fn set_registers(self, registers: &Registers) -> io::Result<()> {
        // SAFETY: the structure lives through the call.
        check(unsafe {
            libc::ptrace(
                libc::PTRACE_SETREGS,
                self.0,
                ptr::null_mut::<u8>(),
                ptr::from_ref(registers),
            )
        })
    }

    /// The eight bytes at an address.
    pub(super) fn peek(self, address: u64) -> io::Result<u64> {
        // SAFETY: the raw system call stores the word at `word`.
        unsafe {
            let mut word = 0_u64;
            check(libc::syscall(
                libc::SYS_ptrace,
                libc::PTRACE_PEEKDATA,
                self.0,
                address,
                &raw mut word,
            ))?;
            Ok(word)
        }
    }

    pub(super) fn signal_info(self) -> io::Result<SignalInfo> {
        // SAFETY: the structure is filled by the call; for the signals asked about, the address is
        // valid or zero.
        unsafe {
            let mut info: libc::siginfo_t = mem::zeroed();
            check(libc::ptrace(
                libc::PTRACE_GETSIGINFO,
                self.0,
                ptr::null_mut::<u8>(),
                &raw mut info,
            ))?;
            Ok(SignalInfo {
                code: info.si_code,
                address: info.si_addr() as u64,
            })
        }
    }

    /// Waits for the next stop.
    pub(super) fn wait(self) -> io::Result<Stopped> {
        let mut status = 0;
        loop {
            // SAFETY: the status is written by the call.
            let pid = unsafe { libc::waitpid(self.0, &raw mut status, libc::__WALL) };
            if pid == self.0 {
                break;
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        if libc::WIFSTOPPED(status) {
            return Ok(Stopped::Signal(libc::WSTOPSIG(status)));
        }
        Ok(Stopped::Gone)
    }
}
