//! The feeding side of a session: pulls events, records them, queues them for the simulation.

use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};
use mcad_proto::event::{EndReason, Event};

use super::batch::Batch;
use super::state::State;
use crate::recorder::{Recorder, RecordingError};
use crate::source::Source;

/// How long the source may sleep before the feeder looks whether it should stop, and hands on
/// what it has.
const POLL: Duration = Duration::from_millis(50);

/// How long a source that was asked to end may stay silent.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// Notices kept when there is no report to carry them.
const MAX_NOTICES: usize = 100;

/// The way to the simulation: full batches out, empty ones back.
pub(super) struct Queue {
    out: Sender<Batch>,
    free: Receiver<Batch>,
    batch: Batch,
    /// Cleared when the simulation has gone.
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

    fn add(&mut self, event: Event<'_>, state: &State) {
        if !self.open {
            return;
        }
        if let Event::Records { stream, words } = event {
            let mut rest = words;
            while !rest.is_empty() && self.open {
                rest = self.batch.push_records(stream, rest);
                if self.batch.is_full() {
                    self.send(state);
                }
            }
        } else {
            self.batch.push(event);
            if self.batch.is_full() {
                self.send(state);
            }
        }
    }

    /// Hands the batch on; waits while the queue is full.
    fn send(&mut self, state: &State) {
        if self.batch.is_empty() || !self.open {
            return;
        }
        let empty = self.free.try_recv().unwrap_or_default();
        let full = std::mem::replace(&mut self.batch, empty);
        state.queued(full.bytes() as u64);
        self.open = self.out.send(full).is_ok();
    }
}

/// Pulls one source to its end.
pub(super) struct Feeder<'s> {
    state: &'s State,
    recorder: Option<Recorder>,
    recording_error: Option<RecordingError>,
    /// Notices of the source.
    pub notices: Vec<String>,
}

impl<'s> Feeder<'s> {
    pub(super) const fn new(state: &'s State, recorder: Option<Recorder>) -> Self {
        Self {
            state,
            recorder,
            recording_error: None,
            notices: Vec::new(),
        }
    }

    /// Pulls until the source ends and says how it did. The queue closes on return.
    pub(super) fn run(&mut self, source: &mut dyn Source, mut queue: Option<Queue>) -> EndReason {
        let mut stopped = None;
        let end = loop {
            if self.state.is_stopping() && stopped.is_none() {
                stopped = Some(Instant::now());
                source.stop();
            }
            match source.next(POLL) {
                Ok(Some(Event::End(reason))) => break reason,
                Ok(Some(event)) => {
                    if let Event::Records { words, .. } = &event {
                        self.state.received(words.len() as u64);
                    }
                    self.record(&event);
                    if let Event::Notice(text) = &event
                        && self.notices.len() < MAX_NOTICES
                    {
                        self.notices.push(text.clone());
                    }
                    if let Some(queue) = &mut queue {
                        queue.add(event, self.state);
                    }
                }
                Ok(None) => {
                    if stopped.is_some_and(|since| since.elapsed() > STOP_PATIENCE) {
                        let text = "stopped; the source did not end by itself";
                        break EndReason::Truncated(text.to_owned());
                    }
                    if let Some(queue) = &mut queue {
                        queue.send(self.state);
                    }
                }
                Err(reason) => break EndReason::Truncated(reason),
            }
        };
        self.record(&Event::End(end.clone()));
        if let Some(queue) = &mut queue {
            queue.add(Event::End(end.clone()), self.state);
            queue.send(self.state);
        }
        end
    }

    /// A recording that cannot go on is given up with one message; the analysis goes on.
    fn record(&mut self, event: &Event<'_>) {
        let Some(recorder) = &mut self.recorder else {
            return;
        };
        if let Err(error) = recorder.event(event) {
            tracing::error!("{error}");
            self.recording_error = Some(error);
            self.recorder = None;
        }
    }

    /// Completes the recording; `None` when none was asked for.
    pub(super) fn finish_recording(&mut self) -> Option<Result<(), RecordingError>> {
        match (self.recorder.take(), self.recording_error.take()) {
            (_, Some(error)) => Some(Err(error)),
            (Some(recorder), None) => Some(recorder.finish()),
            (None, None) => None,
        }
    }
}
