//! A daemon for tests.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::mcad;
use crate::run::{Finished, Running, eventually};

/// A daemon on a socket file of its own.
#[derive(Debug)]
pub struct Daemon {
    /// The running program.
    pub process: Running,
    socket: PathBuf,
}

impl Daemon {
    /// Starts one in `directory` and waits until it listens.
    #[must_use]
    pub fn start(directory: &Path, options: &[&str]) -> Self {
        let socket = directory.join("mcad.sock");
        let address = format!("unix:{}", socket.display());
        let process = mcad(["daemon", "--listen", &address])
            .args(options)
            .limit(Duration::from_secs(300))
            .start();
        eventually("the daemon's listening", || {
            UnixStream::connect(&socket).is_ok()
        });
        Self { process, socket }
    }

    /// What clients give as `--daemon`.
    #[must_use]
    pub fn address(&self) -> String {
        format!("unix:{}", self.socket.display())
    }

    /// A bare connection.
    #[must_use]
    pub fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(&self.socket).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        stream
    }

    /// What `mcad status` prints.
    #[must_use]
    pub fn status(&self) -> String {
        mcad(["status", "--daemon", &self.address()])
            .run()
            .expect(0)
            .text()
    }

    /// Ends it with SIGTERM and gives its log.
    #[must_use]
    pub fn finish(self) -> Finished {
        self.process.signal(libc::SIGTERM);
        self.process.wait().expect(0)
    }
}

/// Everything until the peer closes or half a minute passed.
#[must_use]
pub fn read_to_end(stream: &mut UnixStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A reset says the same as an end here.
    let _ = stream.read_to_end(&mut bytes);
    bytes
}
