//! Processes that are no children of ours: whether they live, and ending them.
//!
//! Their ids are what somebody wrote into shared memory. A process is killed only if it was seen to
//! have the rings mapped, through a descriptor that goes on meaning that process.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal};

use crate::ring::layout::Header;

/// The processes that may be killed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pack(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// ` device:inode ` of the rings' file, as a line of `/proc/PID/maps` has it.
    file: String,
    doomed: AtomicBool,
    members: Mutex<Vec<Arc<OwnedFd>>>,
}

impl Pack {
    /// Processes that have this file mapped.
    pub(crate) fn of(file: impl AsFd) -> Self {
        let file = rustix::fs::fstat(file).map_or_else(
            |_| String::new(),
            |about| line_of(about.st_dev, about.st_ino),
        );
        Self(Arc::new(Inner {
            file,
            ..Inner::default()
        }))
    }

    /// Kills all, and those that come later.
    pub(crate) fn kill(&self) {
        self.0.doomed.store(true, Ordering::SeqCst);
        let members = self.0.members.lock();
        for process in members.unwrap_or_else(PoisonError::into_inner).iter() {
            kill(process);
        }
    }

    fn join(&self, process: &Arc<OwnedFd>) {
        let members = self.0.members.lock();
        let mut members = members.unwrap_or_else(PoisonError::into_inner);
        members.retain(|member| Arc::strong_count(member) > 1);
        members.push(Arc::clone(process));
        drop(members);
        if self.0.doomed.load(Ordering::SeqCst) {
            kill(process);
        }
    }
}

fn kill(process: &OwnedFd) {
    // One that ended meanwhile needs no signal.
    let _ = rustix::process::pidfd_send_signal(process, Signal::KILL);
}

/// How the system's list of a process's mappings names a file.
pub(crate) fn line_of(device: u64, inode: u64) -> String {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    format!(" {major:02x}:{minor:02x} {inode} ")
}

/// What is known of a process's life.
#[derive(Debug)]
pub(crate) enum Life {
    /// It has not come.
    Expected,
    /// It was there.
    Known {
        /// The system's id.
        pid: u32,
        process: Arc<OwnedFd>,
        /// It was seen to have the rings mapped.
        joined: bool,
    },
    /// It is gone.
    Over {
        /// The system's id.
        pid: u32,
    },
}

impl Life {
    /// The system's id, 0 while it is unknown.
    pub(crate) const fn pid(&self) -> u32 {
        match self {
            Self::Expected => 0,
            Self::Known { pid, .. } | Self::Over { pid } => *pid,
        }
    }

    /// Whether it is gone. What it wrote before is visible afterwards.
    pub(crate) fn is_over(&mut self, header: &Header, pack: &Pack) -> bool {
        if matches!(self, Self::Expected) {
            if !header.is_attached() {
                return false;
            }
            let pid = header.producer_pid.load(Ordering::Relaxed);
            *self = open(pid);
        }
        let Self::Known {
            pid,
            process,
            joined,
        } = self
        else {
            return matches!(self, Self::Over { .. });
        };
        let pid = *pid;
        if has_ended(process) {
            *self = Self::Over { pid };
            return true;
        }
        // Asked behind the open, and before the process could end: so it is of this process.
        if !*joined && has_mapped(pid, &pack.0.file) && !has_ended(process) {
            *joined = true;
            pack.join(process);
        }
        false
    }
}

fn open(pid: u32) -> Life {
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let opened = number.map(|number| rustix::process::pidfd_open(number, PidfdFlags::empty()));
    match opened {
        Some(Ok(process)) => Life::Known {
            pid,
            process: Arc::new(process),
            joined: false,
        },
        // It ended and somebody waited for it; or the id is none that we can look at.
        _ => Life::Over { pid },
    }
}

/// Whether a process has a file mapped. Of one whose first thread has ended, only the others tell.
pub(crate) fn has_mapped(pid: u32, file: &str) -> bool {
    if file.is_empty() {
        return false;
    }
    let lists = |path: &Path| {
        std::fs::read_to_string(path.join("maps"))
            .is_ok_and(|maps| maps.lines().any(|line| line.contains(file)))
    };
    let process = PathBuf::from(format!("/proc/{pid}"));
    if lists(&process) {
        return true;
    }
    let threads = std::fs::read_dir(process.join("task"));
    let mut threads = threads.into_iter().flatten().flatten();
    threads.any(|thread| lists(&thread.path()))
}

fn has_ended(process: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(process, PollFlags::IN)];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // Whatever the system says against looking, it says forever.
    !matches!(rustix::event::poll(&mut polled, Some(&now)), Ok(0))
}
