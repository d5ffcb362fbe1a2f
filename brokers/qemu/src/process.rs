//! The emulator as a child process: started with the ring inherited, watched, killed on request.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use rustix::io::FdFlags;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

use crate::executable::Executable;
use crate::ring::memory::Memory;
use crate::ring::reader;

/// A running emulator. Dropping it kills and reaps it.
#[derive(Debug)]
pub struct Emulator {
    child: Child,
    shared: Arc<Shared>,
    /// Open as long as the program may want to attach again after an `execve`.
    _ring: OwnedFd,
}

#[derive(Debug)]
struct Shared {
    pid: Pid,
    /// Set once the process has ended; it stays a zombie, so its pid is not reused before `reap`.
    ended: AtomicBool,
    /// Set before it is reaped: from then on the pid may belong to someone else.
    reaped: Mutex<bool>,
}

/// Kills the emulator from any thread.
#[derive(Clone, Debug)]
pub struct Killer(Arc<Shared>);

impl Killer {
    /// Kills it, if it still runs.
    pub fn kill(&self) {
        let reaped = self.0.reaped.lock().unwrap_or_else(PoisonError::into_inner);
        if !*reaped {
            // A process that ended meanwhile needs no signal.
            let _ = rustix::process::kill_process(self.0.pid, Signal::KILL);
        }
    }
}

/// How to start the emulator.
#[derive(Debug)]
pub struct Start<'a> {
    /// The emulator.
    pub qemu: &'a Path,
    /// The plugin.
    pub plugin: &'a Path,
    /// What it runs.
    pub program: &'a Executable,
    /// Where the program's own loader and libraries are.
    pub sysroot: Option<&'a Path>,
    /// CPU that it shows the program.
    pub cpu: Option<&'a str>,
    /// Whether what the program writes to stdout goes to stderr: the caller has a use for stdout.
    pub stdout_to_stderr: bool,
}

impl Start<'_> {
    /// The emulator's arguments up to and with the program's.
    #[must_use]
    pub fn arguments(&self, ring_fd: i32) -> Vec<OsString> {
        // QEMU's option syntax: a comma ends a value, two stand for one.
        let mut plugin = OsString::from("file=");
        plugin.push(double_commas(self.plugin));
        plugin.push(format!(",ring-fd={ring_fd}"));
        let mut file = self.program.file.clone();
        if file.is_relative() {
            // Not an option, whatever its first character.
            file = Path::new(".").join(file);
        }
        let mut arguments: Vec<OsString> = vec!["-plugin".into(), plugin];
        if let Some(sysroot) = self.sysroot {
            arguments.extend(["-L".into(), sysroot.into()]);
        }
        if let Some(cpu) = self.cpu {
            arguments.extend(["-cpu".into(), cpu.into()]);
        }
        arguments.extend(["-0".into(), self.program.name.clone(), file.into()]);
        arguments.extend(self.program.arguments.iter().cloned());
        arguments
    }

    /// Starts it with the caller's stdin, stdout (or not) and stderr and the ring's descriptor. `memory` is
    /// the same ring: its reader is woken when the process ends.
    ///
    /// # Errors
    /// What the system said.
    pub fn spawn(&self, ring: OwnedFd, memory: Arc<Memory>) -> io::Result<Emulator> {
        // Above the standard three, which may be closed here.
        let inherited = rustix::io::fcntl_dupfd_cloexec(&ring, 10)?;
        let raw = inherited.as_raw_fd();
        let mut command = Command::new(self.qemu);
        for (name, value) in loader_variables() {
            let mut assignment = name.clone();
            assignment.push("=");
            assignment.push(value);
            command.env_remove(name).arg("-E").arg(assignment);
        }
        command.args(self.arguments(raw));
        if self.stdout_to_stderr {
            command.stdout(io::stderr().as_fd().try_clone_to_owned()?);
        }
        let reader = rustix::process::getpid();
        // SAFETY: the closure makes async-signal-safe system calls, one of them on a descriptor
        // that stays open until spawn returned.
        unsafe {
            command.pre_exec(move || {
                let ring = BorrowedFd::borrow_raw(raw);
                rustix::io::fcntl_setfd(ring.as_fd(), FdFlags::empty())?;
                // Nobody is left to read when the reader is killed.
                rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
                // It may have been before the call.
                if rustix::process::getppid() != Some(reader) {
                    return Err(io::Error::other("the reader has ended"));
                }
                Ok(())
            });
        }
        // For the system a child's parent is the thread that started it, and the death signal
        // comes with that one's end: so the thread that waits for it starts it, too.
        let (tell, told) = mpsc::channel();
        std::thread::Builder::new()
            .name("mcad-qemu-wait".into())
            .spawn(move || start_and_wait(command, &memory, &tell))?;
        let started = told.recv().map_err(io::Error::other)?;
        let (child, shared) = started?;
        // The closure of the command, which borrows it, is gone.
        drop(inherited);
        Ok(Emulator {
            child,
            shared,
            _ring: ring,
        })
    }
}

/// Starts the emulator, tells of it, and wakes the ring's reader when it has ended.
fn start_and_wait(
    mut command: Command,
    memory: &Memory,
    tell: &mpsc::Sender<io::Result<(Child, Arc<Shared>)>>,
) {
    let child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            // The one who asked waits for this answer.
            let _ = tell.send(Err(error));
            return;
        }
    };
    let shared = Arc::new(Shared {
        pid: Pid::from_child(&child),
        ended: AtomicBool::new(false),
        reaped: Mutex::new(false),
    });
    if tell.send(Ok((child, Arc::clone(&shared)))).is_err() {
        return;
    }
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while let Err(rustix::io::Errno::INTR) =
        rustix::process::waitid(WaitId::Pid(shared.pid), options)
    {}
    shared.ended.store(true, Ordering::Release);
    reader::wake(memory);
}

/// Variables of the dynamic loader: meant for the program, not for the emulator, which would load
/// the wrong libraries. Those with commas stay, for QEMU's `-E` cuts its argument there.
fn loader_variables() -> impl Iterator<Item = (OsString, OsString)> {
    use std::os::unix::ffi::OsStrExt;
    std::env::vars_os().filter(|(name, value)| {
        name.as_bytes().starts_with(b"LD_") && !value.as_bytes().contains(&b',')
    })
}

fn double_commas(path: &Path) -> OsString {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let mut out = Vec::new();
    for &byte in path.as_os_str().as_bytes() {
        out.push(byte);
        if byte == b',' {
            out.push(byte);
        }
    }
    OsString::from_vec(out)
}

impl Emulator {
    /// Whether it has ended. What it wrote to the ring before is visible afterwards.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.shared.ended.load(Ordering::Acquire)
    }

    /// A handle that kills it.
    #[must_use]
    pub fn killer(&self) -> Killer {
        Killer(Arc::clone(&self.shared))
    }

    /// Process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// What the system said.
    pub fn reap(&mut self) -> io::Result<ExitStatus> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while let Err(rustix::io::Errno::INTR) =
            rustix::process::waitid(WaitId::Pid(self.shared.pid), options)
        {}
        let mut reaped = self
            .shared
            .reaped
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *reaped = true;
        self.child.wait()
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.killer().kill();
        // Nothing can be done about a child that cannot be waited for.
        let _ = self.reap();
    }
}

/// A status as shells give it: 128 plus the number for a signal.
#[must_use]
pub fn shell_status(status: ExitStatus) -> i32 {
    status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}
