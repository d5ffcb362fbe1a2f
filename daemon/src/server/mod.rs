//! `mcad daemon`: sessions of several clients at once.
//!
//! One tokio task accepts connections and greets each in a task of its own, with time limits. A
//! greeted session moves to a thread with its socket, where [`crate::session`] runs as it does for
//! a local program; the socket is read only as fast as the simulation goes. Whatever a client
//! does ends its own session at most, with a line in the log.

mod control;
mod handshake;
mod listen;
mod registry;
mod serve;

use std::collections::VecDeque;
use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::remote::Address;
pub use listen::ListenError;
use listen::Listener;
use registry::Registry;

/// Connections that may be in the greeting or in a control conversation at once, beside the
/// running sessions.
const GREETINGS: usize = 64;

/// Control clients: a conversation may take this many times what a greeting may.
const CONTROL_TIMES: u32 = 3;

/// How a daemon runs.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where to listen.
    pub listen: Address,
    /// Whether an address that other machines reach is meant.
    pub allow_remote: bool,
    /// Secret that clients must know; needed for TCP.
    pub token: Option<String>,
    /// Most sessions at once.
    pub max_sessions: u32,
    /// Bytes that all sessions together may keep.
    pub max_memory: u64,
    /// Longest wait for a greeting.
    pub handshake_timeout: Duration,
    /// Longest silence of a client.
    pub idle_timeout: Duration,
    /// Directory for the reports of all sessions.
    pub reports: Option<PathBuf>,
}

/// How the daemon is asked to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ending {
    /// It is not.
    No,
    /// Running sessions are asked to stop and are finished with what they have.
    Gently,
    /// At once.
    Now,
}

/// What all tasks share.
struct Shared {
    config: Config,
    registry: Registry,
    ending: watch::Sender<Ending>,
    complaints: Complaints,
}

impl Shared {
    fn end(&self, how: Ending) {
        self.ending.send_modify(|now| *now = how.max(*now));
    }
}

/// Runs until SIGTERM, SIGINT or a client's request ends it. `ready` is told the address listened
/// on, with the port that the system chose.
///
/// # Errors
/// [`ListenError`] when the address cannot be listened on.
pub async fn run(config: Config, ready: impl FnOnce(&Address)) -> Result<(), ListenError> {
    let listener = Listener::bind(&config).await?;
    ready(listener.address());
    let (ending, mut asked) = watch::channel(Ending::No);
    let shared = Arc::new(Shared {
        registry: Registry::new(config.max_sessions),
        config,
        ending,
        complaints: Complaints::default(),
    });
    let signals = tokio::spawn(watch_signals(Arc::clone(&shared)));
    let mut greetings = Greetings::default();
    let refused = Complaints::default();
    loop {
        tokio::select! {
            _ = asked.wait_for(|ending| *ending != Ending::No) => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    if greetings.make_room() {
                        refused.tell(|since| {
                            let text = "too many connections at once: the oldest is closed";
                            tracing::warn!(%peer, since, "{text}");
                        });
                    }
                    let shared = Arc::clone(&shared);
                    let greeting = tokio::spawn(handshake::greet(shared, stream, peer));
                    greetings.0.push_back(greeting.abort_handle());
                }
                Err(error) => {
                    // Out of descriptors, most often; trying at once again would only spin.
                    tracing::error!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }
    drop(listener);
    let running = shared.registry.stop_all();
    tracing::info!(
        running,
        "ending: running sessions are finished with what they have"
    );
    tokio::select! {
        () = shared.registry.wait_until_empty() => {}
        _ = asked.wait_for(|ending| *ending == Ending::Now) => {
            tracing::warn!(running = shared.registry.running(), "sessions were cut off");
        }
    }
    signals.abort();
    Ok(())
}

/// The connections that are not sessions yet, oldest first.
///
/// A client that means it says what it wants at once. So when all places are taken the oldest
/// connection is closed, and silent ones keep nobody out.
#[derive(Default)]
struct Greetings(VecDeque<AbortHandle>);

impl Greetings {
    /// Makes room for another; `true` when a connection had to go for it.
    fn make_room(&mut self) -> bool {
        if self.0.len() < GREETINGS {
            return false;
        }
        self.0.retain(|greeting| !greeting.is_finished());
        if self.0.len() < GREETINGS {
            return false;
        }
        if let Some(oldest) = self.0.pop_front() {
            oldest.abort();
        }
        true
    }
}

/// Lines of one kind in the log that clients can cause without end: some a second, and how many
/// were left out.
#[derive(Default)]
struct Complaints(Mutex<Told>);

#[derive(Default)]
struct Told {
    second: Option<Instant>,
    lines: u32,
    left_out: u64,
}

/// Lines in a second.
const COMPLAINTS: u32 = 5;

impl Complaints {
    /// Calls `tell` with how many lines were left out before, unless it is left out, too.
    fn tell(&self, tell: impl FnOnce(u64)) {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = told
            .second
            .is_none_or(|second| second.elapsed() > Duration::from_secs(1));
        if fresh {
            told.second = Some(Instant::now());
            told.lines = 0;
        }
        if told.lines == COMPLAINTS {
            told.left_out += 1;
            return;
        }
        told.lines += 1;
        tell(std::mem::take(&mut told.left_out));
    }
}

/// The first signal ends gently, the second at once.
async fn watch_signals(shared: Arc<Shared>) {
    let (Ok(mut terminate), Ok(mut interrupt), Ok(mut hangup)) = (
        signal(SignalKind::terminate()),
        signal(SignalKind::interrupt()),
        signal(SignalKind::hangup()),
    ) else {
        tracing::warn!("signals are not watched");
        return;
    };
    let mut how = Ending::Gently;
    loop {
        tokio::select! {
            _ = terminate.recv() => shared.end(how),
            _ = interrupt.recv() => shared.end(how),
            // Its terminal is gone: nobody will send another.
            _ = hangup.recv() => shared.end(how),
        }
        how = Ending::Now;
    }
}

/// A future's value, or `None` when the time is over.
async fn in_time<T>(limit: Duration, future: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(limit, future).await.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_complaints_are_some_lines_a_second() {
        let complaints = Complaints::default();
        let started = Instant::now();
        let (mut lines, mut left_out) = (0, 0);
        for _ in 0..1_000_000 {
            complaints.tell(|since| {
                lines += 1;
                left_out += since;
            });
        }
        // However long that took: the first of a second and those that follow it.
        let most = u64::from(COMPLAINTS) * (started.elapsed().as_secs() + 2);
        assert!((1..=most).contains(&lines), "{lines} lines");
        assert!(lines + left_out <= 1_000_000);
    }
}
