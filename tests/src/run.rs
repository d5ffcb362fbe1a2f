//! Running programs with a time limit and everything captured.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::programs;

/// Longest run of one program. Tests run beside each other on few cores.
const LIMIT: Duration = Duration::from_secs(240);

/// A finished run.
#[derive(Debug)]
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// What it wrote to stdout.
    pub stdout: Vec<u8>,
    /// What it wrote to stderr, readable.
    pub stderr: String,
}

impl Finished {
    /// The exit status; a signal is 128 plus its number.
    #[must_use]
    pub fn code(&self) -> i32 {
        let signal = || 128 + self.status.signal().unwrap_or(0);
        self.status.code().unwrap_or_else(signal)
    }

    /// Fails the test unless the status is this.
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code(), code, "stderr: {}", self.stderr);
        self
    }

    /// Fails the test unless stderr holds this.
    #[track_caller]
    pub fn says(self, text: &str) -> Self {
        assert!(
            self.stderr.contains(text),
            "no {text:?} in stderr: {}",
            self.stderr
        );
        self
    }

    /// Stdout as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
}

/// A run to be.
#[derive(Debug)]
pub struct Run {
    command: Command,
    input: Vec<u8>,
    limit: Duration,
}

/// `mcad-run` with these arguments.
#[must_use]
pub fn mcad_run<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Run {
    Run::of(&programs().file("mcad-run")).args(arguments)
}

/// `mcad` with these arguments.
#[must_use]
pub fn mcad<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Run {
    Run::of(&programs().file("mcad")).args(arguments)
}

impl Run {
    /// Any program.
    #[must_use]
    pub fn of(program: &Path) -> Self {
        let mut command = Command::new(program);
        // The caller's settings are not the tests'.
        for variable in [
            "MCAD_DAEMON",
            "MCAD_TOKEN",
            "MCAD_QEMU",
            "MCAD_BROKERS",
            "MCAD_LOG",
        ] {
            command.env_remove(variable);
        }
        Self {
            command,
            input: Vec::new(),
            limit: LIMIT,
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<S: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.command.args(arguments);
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Runs in this directory.
    #[must_use]
    pub fn within(mut self, directory: &Path) -> Self {
        self.command.current_dir(directory);
        self
    }

    /// Gives it this on stdin.
    #[must_use]
    pub fn input(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = bytes.into();
        self
    }

    /// Sets the time limit.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Starts it and leaves it running.
    #[must_use]
    pub fn start(mut self) -> Running {
        self.command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = self
            .command
            .spawn()
            .unwrap_or_else(|error| panic!("{:?}: {error}", self.command));
        let mut stdin = child.stdin.take().unwrap();
        let input = self.input;
        // A program that does not read its input closes the pipe, which is its right.
        thread::spawn(move || drop(stdin.write_all(&input)));
        let stdout = collect(child.stdout.take().unwrap());
        let stderr = collect(child.stderr.take().unwrap());
        Running {
            child,
            stdout: Some(stdout),
            stderr: Some(stderr),
            deadline: Instant::now() + self.limit,
        }
    }

    /// Runs it to its end.
    #[must_use]
    pub fn run(self) -> Finished {
        self.start().wait()
    }
}

type Collected = thread::JoinHandle<Vec<u8>>;

fn collect(mut from: impl Read + Send + 'static) -> Collected {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // What came before a broken pipe is what the test looks at.
        let _ = from.read_to_end(&mut bytes);
        bytes
    })
}

/// A running program; killed when dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    stdout: Option<Collected>,
    stderr: Option<Collected>,
    deadline: Instant,
}

impl Running {
    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.child.id().try_into().unwrap()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: i32) {
        // SAFETY: the child is ours and not yet waited for, so the pid is its.
        let sent = unsafe { libc::kill(self.pid(), signal) };
        assert_eq!(sent, 0, "signal {signal}");
    }

    /// The process ids of its children.
    #[must_use]
    pub fn children(&self) -> Vec<i32> {
        let path = format!("/proc/{0}/task", self.pid());
        let tasks = std::fs::read_dir(path).into_iter().flatten().flatten();
        let lists =
            tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
        lists
            .flat_map(|list| {
                let ids = list.split_whitespace().filter_map(|id| id.parse().ok());
                ids.collect::<Vec<_>>()
            })
            .collect()
    }

    /// Waits for its end, or fails the test when the time is over.
    #[must_use]
    pub fn wait(mut self) -> Finished {
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if Instant::now() > self.deadline {
                self.end();
                panic!("timed out; stderr: {}", text(self.stderr.take()));
            }
            thread::sleep(Duration::from_millis(5));
        };
        Finished {
            status,
            stdout: self.stdout.take().unwrap().join().unwrap(),
            stderr: text(self.stderr.take()),
        }
    }

    /// Kills it, unless it has ended.
    fn end(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.child.kill().unwrap();
            self.child.wait().unwrap();
        }
    }
}

fn text(collected: Option<Collected>) -> String {
    String::from_utf8_lossy(&collected.unwrap().join().unwrap()).into_owned()
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// Waits until something holds; fails the test after half a minute.
#[track_caller]
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < deadline, "{what} did not happen");
        thread::sleep(Duration::from_millis(10));
    }
}

/// A path as an argument.
#[must_use]
pub fn arg(path: &Path) -> &str {
    path.to_str().unwrap()
}
