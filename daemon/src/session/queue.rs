//! The bounded way from the feeder to the simulation thread: full batches out, empty ones back.

use crossbeam_channel::{Receiver, Sender};
use mcad_proto::event::Event;

use super::batch::Batch;
use super::feed::Downstream;
use super::state::State;

/// The feeder's end.
pub(super) struct Queue {
    out: Sender<Batch>,
    free: Receiver<Batch>,
    batch: Batch,
    /// Cleared when the simulation has gone; events are then dropped, and the source still
    /// drained.
    open: bool,
}

impl Queue {
    pub(super) fn new(out: Sender<Batch>, free: Receiver<Batch>) -> Self {
        Self {
            out,
            free,
            batch: Batch::default(),
            open: true,
        }
    }
}

impl Downstream for Queue {
    fn event(&mut self, event: Event<'_>, state: &State) {
        if !self.open {
            return;
        }
        if let Event::Records { stream, words } = event {
            let mut rest = words;
            while !rest.is_empty() && self.open {
                rest = self.batch.push_records(stream, rest);
                if self.batch.is_full() {
                    self.idle(state);
                }
            }
        } else {
            self.batch.push(&event);
            if self.batch.is_full() {
                self.idle(state);
            }
        }
    }

    /// Hands the batch on; waits while the queue is full.
    fn idle(&mut self, state: &State) {
        if self.batch.is_empty() || !self.open {
            return;
        }
        let empty = self.free.try_recv().unwrap_or_default();
        let full = std::mem::replace(&mut self.batch, empty);
        state.queued(full.bytes() as u64);
        self.open = self.out.send(full).is_ok();
    }
}
