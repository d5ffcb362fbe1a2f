//! The running sessions: how many there may be, what they do, how they are all stopped.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use mcad_proto::wire::{SessionStatus, Status};
use tokio::sync::Notify;

use crate::memory;
use crate::session::State;

/// What is known of a running session.
struct Running {
    peer: String,
    command: String,
    state: Arc<State>,
    started: Instant,
}

#[derive(Default)]
struct Inner {
    sessions: BTreeMap<u64, Running>,
    next: u64,
    finished: u64,
    failed: u64,
    /// No new session is taken any more.
    closed: bool,
}

/// All sessions of a daemon.
pub(super) struct Registry {
    inner: Mutex<Inner>,
    max: u32,
    started: Instant,
    left: Notify,
}

/// A session's place; leaving is what dropping it does.
pub(super) struct Place {
    shared: Arc<super::Shared>,
    /// Number of the session.
    pub id: u64,
    /// Set when the session ended well.
    pub well: bool,
}

/// No place.
pub(super) enum Full {
    Busy,
    Closed,
}

impl Registry {
    pub(super) fn new(max: u32) -> Self {
        Self {
            inner: Mutex::default(),
            max,
            started: Instant::now(),
            left: Notify::new(),
        }
    }

    /// The data stays usable whatever a thread that held it did.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place for a session.
    pub(super) fn enter(
        shared: &Arc<super::Shared>,
        peer: &str,
        command: &[String],
        state: &Arc<State>,
    ) -> Result<Place, Full> {
        let registry = &shared.registry;
        let mut inner = registry.lock();
        if inner.closed {
            return Err(Full::Closed);
        }
        if inner.sessions.len() >= registry.max as usize {
            return Err(Full::Busy);
        }
        inner.next += 1;
        let id = inner.next;
        inner.sessions.insert(
            id,
            Running {
                peer: peer.to_owned(),
                command: command.join(" "),
                state: Arc::clone(state),
                started: Instant::now(),
            },
        );
        Ok(Place {
            shared: Arc::clone(shared),
            id,
            well: false,
        })
    }

    /// Takes no new sessions and asks the running ones to stop; returns how many there are.
    pub(super) fn stop_all(&self) -> usize {
        let mut inner = self.lock();
        inner.closed = true;
        for entry in inner.sessions.values() {
            entry.state.stop();
        }
        inner.sessions.len()
    }

    /// How many sessions run.
    pub(super) fn running(&self) -> usize {
        self.lock().sessions.len()
    }

    /// Waits until no session runs.
    pub(super) async fn wait_until_empty(&self) {
        loop {
            let left = self.left.notified();
            if self.running() == 0 {
                return;
            }
            left.await;
        }
    }

    /// The daemon's state for a control client.
    pub(super) fn status(&self) -> Status {
        let inner = self.lock();
        let sessions = inner.sessions.iter().map(|(id, entry)| {
            let counters = entry.state.snapshot();
            SessionStatus {
                id: *id,
                peer: entry.peer.clone(),
                command: entry.command.clone(),
                state: if entry.state.is_stopping() {
                    "stopping".to_owned()
                } else {
                    "running".to_owned()
                },
                seconds: entry.started.elapsed().as_secs(),
                instructions: counters.instructions,
                records: counters.records,
                queued_bytes: counters.queued_bytes,
            }
        });
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_seconds: self.started.elapsed().as_secs(),
            max_sessions: self.max,
            finished_sessions: inner.finished,
            failed_sessions: inner.failed,
            resident_bytes: memory::resident(),
            sessions: sessions.collect(),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let registry = &self.shared.registry;
        let mut inner = registry.lock();
        inner.sessions.remove(&self.id);
        if self.well {
            inner.finished += 1;
        } else {
            inner.failed += 1;
        }
        drop(inner);
        registry.left.notify_waiters();
    }
}
