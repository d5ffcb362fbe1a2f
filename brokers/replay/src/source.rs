//! A file or pipe that is read with a time limit, so that a host which waits for events of a slow
//! pipe stays responsive.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsFd;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// What a trace is read from.
pub struct Source {
    file: File,
    regular: bool,
    deadline: Option<Instant>,
}

impl Source {
    /// Opens a file, named pipes too.
    ///
    /// # Errors
    /// A text with the system's reason.
    pub fn open(path: &str) -> Result<Self, String> {
        let file = File::open(path).map_err(|e| format!("cannot open {path}: {e}"))?;
        let about = file.metadata().map_err(|e| format!("{path}: {e}"))?;
        if about.is_dir() {
            return Err(format!("{path} is a directory; name a trace file"));
        }
        Ok(Self {
            file,
            regular: about.is_file(),
            deadline: None,
        })
    }

    /// This process's standard input.
    ///
    /// # Errors
    /// A text with the system's reason.
    pub fn stdin() -> Result<Self, String> {
        let file = io::stdin().as_fd().try_clone_to_owned();
        let file = File::from(file.map_err(|e| format!("standard input: {e}"))?);
        let regular = file.metadata().is_ok_and(|about| about.is_file());
        Ok(Self {
            file,
            regular,
            deadline: None,
        })
    }

    /// Whether reading never waits for anybody.
    pub fn is_regular(&self) -> bool {
        self.regular
    }

    /// Until when reads may wait; for ever without one.
    pub fn set_deadline(&mut self, deadline: Option<Instant>) {
        self.deadline = deadline;
    }

    /// Waits until there is something to read or the deadline passed; whether there is.
    pub fn wait(&self, deadline: Option<Instant>) -> io::Result<bool> {
        if self.regular {
            return Ok(true);
        }
        loop {
            let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
            // A wait too long for the system's clock is a wait for ever.
            let limit = left.and_then(|left| Timespec::try_from(left).ok());
            let mut fds = [PollFd::new(&self.file, PollFlags::IN)];
            match poll(&mut fds, limit.as_ref()) {
                Ok(ready) => return Ok(ready > 0),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Read for Source {
    /// # Errors
    /// [`ErrorKind::TimedOut`] when the deadline passed; nothing was read then.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.wait(self.deadline)? {
            return Err(ErrorKind::TimedOut.into());
        }
        self.file.read(buffer)
    }
}
