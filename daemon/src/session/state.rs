//! What others may see of a running session, and how they end it. Counters only; no locks.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A running session's counters.
#[derive(Debug, Default)]
pub struct State {
    instructions: AtomicU64,
    cycles: AtomicU64,
    records: AtomicU64,
    queued_bytes: AtomicU64,
    stop: AtomicBool,
}

/// The counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Guest instructions simulated.
    pub instructions: u64,
    /// Cycles on the first CPU model.
    pub cycles: u64,
    /// Record words received.
    pub records: u64,
    /// Bytes between the feeder and the simulation.
    pub queued_bytes: u64,
}

impl State {
    /// Asks the session to end soon with what it has.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// The counters now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            instructions: self.instructions.load(Ordering::Relaxed),
            cycles: self.cycles.load(Ordering::Relaxed),
            records: self.records.load(Ordering::Relaxed),
            queued_bytes: self.queued_bytes.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(crate) fn simulated(&self, progress: mcad_core::simulation::Progress) {
        self.instructions
            .store(progress.instructions, Ordering::Relaxed);
        self.cycles.store(progress.cycles, Ordering::Relaxed);
    }

    pub(super) fn received(&self, words: u64) {
        self.records.fetch_add(words, Ordering::Relaxed);
    }

    pub(super) fn queued(&self, bytes: u64) {
        self.queued_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn taken(&self, bytes: u64) {
        self.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}
