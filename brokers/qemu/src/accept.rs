//! An emulator that someone else starts: it finds the ring under its file name.
//!
//! It is no child of ours, so a pid descriptor says when it is gone, and how it ended is what the
//! plugin wrote down.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal};

use crate::ring::RingError;
use crate::ring::memory::Memory;

/// A ring that waits for its emulator. Dropping it removes the file.
#[derive(Debug)]
pub struct Accepted {
    path: PathBuf,
    memory: Arc<Memory>,
    process: Arc<OnceLock<Process>>,
}

#[derive(Debug)]
enum Process {
    Known(Pid, OwnedFd),
    /// It was gone before we looked.
    Gone,
}

/// Ends the emulator from any thread.
#[derive(Clone, Debug)]
pub struct Killer(Arc<OnceLock<Process>>);

impl Killer {
    /// Kills it, if it has come and still runs.
    pub fn kill(&self) {
        if let Some(Process::Known(_, fd)) = self.0.get() {
            // One that ended meanwhile needs no signal.
            let _ = rustix::process::pidfd_send_signal(fd, Signal::KILL);
        }
    }
}

impl Accepted {
    /// Creates the ring under a new name.
    ///
    /// # Errors
    /// [`RingError`].
    pub fn create(path: &Path, mib: u64, options: u32) -> Result<Self, RingError> {
        Ok(Self {
            memory: Arc::new(Memory::create_at(path, mib, options)?),
            path: path.to_owned(),
            process: Arc::default(),
        })
    }

    /// The ring.
    #[must_use]
    pub fn memory(&self) -> Arc<Memory> {
        Arc::clone(&self.memory)
    }

    /// Whether the emulator has come and gone. What it wrote before is visible afterwards.
    ///
    /// # Errors
    /// What the system says when it does not let us watch the process.
    pub fn ended(&self) -> io::Result<bool> {
        let header = self.memory.header();
        if !header.is_attached() {
            return Ok(false);
        }
        let process = match self.process.get() {
            Some(process) => process,
            None => {
                let found = open(header.producer_pid.load(Ordering::Relaxed), &self.path)?;
                self.process.get_or_init(|| found)
            }
        };
        let Process::Known(_, fd) = process else {
            return Ok(true);
        };
        let mut polled = [PollFd::new(fd, PollFlags::IN)];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let ready = rustix::event::poll(&mut polled, Some(&now))?;
        Ok(ready > 0)
    }

    /// The exit status that the program asked for, if it ended regularly.
    #[must_use]
    pub fn exit_status(&self) -> Option<i32> {
        let header = self.memory.header();
        let regular = header.ended.load(Ordering::Acquire) != 0;
        regular.then(|| header.exit_status.load(Ordering::Relaxed) as i32)
    }

    /// The emulator's command line, as far as the system tells. Its version stays unknown: the
    /// ring says which process it is, anybody who can write there may have put another one, and
    /// asking a program for its version is running it.
    #[must_use]
    pub fn describe(&self) -> (String, Vec<String>) {
        let version = "of unknown version".to_owned();
        let Some(Process::Known(pid, _)) = self.process.get() else {
            return (version, Vec::new());
        };
        let directory = PathBuf::from(format!("/proc/{}", pid.as_raw_pid()));
        let command = std::fs::read(directory.join("cmdline")).unwrap_or_default();
        let words = command.split(|&byte| byte == 0);
        let mut command: Vec<String> = words
            .map(|word| String::from_utf8_lossy(word).into_owned())
            .collect();
        // Every word is terminated, so the last piece is empty.
        command.pop();
        (version, command)
    }

    /// A handle that kills it.
    #[must_use]
    pub fn killer(&self) -> Killer {
        Killer(Arc::clone(&self.process))
    }
}

/// Whether a process has the ring's file mapped: the pid is what somebody wrote into the ring, and
/// another process is neither to be watched nor to be killed.
fn maps(pid: Pid, ring: &Path) -> bool {
    let Ok(about) = std::fs::metadata(ring) else {
        return false;
    };
    let own = crate::pack::line_of(about.dev(), about.ino());
    crate::pack::has_mapped(pid.as_raw_pid().unsigned_abs(), &own)
}

fn open(pid: u32, ring: &Path) -> io::Result<Process> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let Some(pid) = pid else {
        return Err(io::Error::other("the ring names no process"));
    };
    match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
        // Looked at behind the open: the descriptor and the pid are of the same process as long as
        // it lives, and one that has ended maps nothing.
        Ok(fd) if maps(pid, ring) => Ok(Process::Known(pid, fd)),
        Ok(fd) => {
            // One that is about to end has nothing mapped any more.
            let mut polled = [PollFd::new(&fd, PollFlags::IN)];
            let patience = Timespec {
                tv_sec: 5,
                tv_nsec: 0,
            };
            if rustix::event::poll(&mut polled, Some(&patience))? > 0 {
                return Ok(Process::Gone);
            }
            Err(io::Error::other(format!(
                "the ring names process {}, which does not have it mapped",
                pid.as_raw_pid()
            )))
        }
        Err(rustix::io::Errno::SRCH) => Ok(Process::Gone),
        Err(error) => Err(error.into()),
    }
}

impl Drop for Accepted {
    fn drop(&mut self) {
        // The emulator has it mapped or will never come; a file that is gone is gone.
        let _ = std::fs::remove_file(&self.path);
    }
}
