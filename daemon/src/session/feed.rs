//! The feeding side of a session: pulls events, records them, passes them on.

use std::time::{Duration, Instant};

use mcad_proto::event::{EndReason, Event};

use super::state::State;
use crate::recorder::{Recorder, RecordingError};
use crate::source::Source;

/// How long the source may sleep before the feeder looks whether it should stop, and hands on
/// what it has.
const POLL: Duration = Duration::from_millis(50);

/// How long a source that was asked to end may stay silent.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// How long a source that was asked to end may go on giving events; what a broker's buffers hold is
/// simulated in far less.
const STOP_LIMIT: Duration = Duration::from_secs(30);

/// Notices kept when there is no report to carry them.
const MAX_NOTICES: usize = 100;

/// Where a feeder's events go: the queue to a simulation, or a daemon elsewhere.
pub(crate) trait Downstream {
    /// Takes an event; may wait, which makes the source wait.
    fn event(&mut self, event: Event<'_>, state: &State);

    /// Nothing came for a while: what is held back should go now.
    fn idle(&mut self, state: &State);
}

/// Takes nothing: for recording alone.
pub(crate) struct Nowhere;

impl Downstream for Nowhere {
    fn event(&mut self, _: Event<'_>, _: &State) {}
    fn idle(&mut self, _: &State) {}
}

/// Pulls one source to its end.
pub(crate) struct Feeder<'s> {
    state: &'s State,
    recorder: Option<Recorder>,
    recording_error: Option<RecordingError>,
    /// Notices of the source.
    pub notices: Vec<String>,
}

impl<'s> Feeder<'s> {
    pub(crate) const fn new(state: &'s State, recorder: Option<Recorder>) -> Self {
        Self {
            state,
            recorder,
            recording_error: None,
            notices: Vec::new(),
        }
    }

    /// Pulls until the source ends, passes its end on, and says how it ended.
    pub(crate) fn run(
        &mut self,
        source: &mut dyn Source,
        downstream: &mut dyn Downstream,
    ) -> EndReason {
        let mut stopped = None;
        let end = loop {
            if self.state.is_stopping() && stopped.is_none() {
                stopped = Some(Instant::now());
                source.stop();
            }
            let mut end = None;
            let mut came = false;
            let pulled = source.pull(POLL, &mut |event| {
                came = true;
                match event {
                    Event::End(reason) => end = Some(reason),
                    event => self.take(event, downstream),
                }
            });
            if let Some(end) = end {
                break end;
            }
            if let Err(reason) = pulled {
                break EndReason::Truncated(reason);
            }
            let patience = if came { STOP_LIMIT } else { STOP_PATIENCE };
            if stopped.is_some_and(|since: Instant| since.elapsed() > patience) {
                let text = "stopped; the source did not end by itself";
                break EndReason::Truncated(text.to_owned());
            }
            if !came {
                downstream.idle(self.state);
            }
        };
        self.record(&Event::End(end.clone()));
        downstream.event(Event::End(end.clone()), self.state);
        downstream.idle(self.state);
        end
    }

    fn take(&mut self, event: Event<'_>, downstream: &mut dyn Downstream) {
        if let Event::Records { words, .. } = &event {
            self.state.received(words.len() as u64);
        }
        if let Event::Notice(text) = &event
            && self.notices.len() < MAX_NOTICES
        {
            self.notices.push(text.clone());
        }
        self.record(&event);
        downstream.event(event, self.state);
    }

    /// A recording that cannot go on is given up with one message; the analysis goes on.
    fn record(&mut self, event: &Event<'_>) {
        let Some(recorder) = &mut self.recorder else {
            return;
        };
        if let Err(error) = recorder.event(event) {
            self.recording_error = Some(error);
            self.recorder = None;
        }
    }

    /// Completes the recording; `None` when none was asked for.
    pub(crate) fn finish_recording(&mut self) -> Option<Result<(), RecordingError>> {
        match (self.recorder.take(), self.recording_error.take()) {
            (_, Some(error)) => Some(Err(error)),
            (Some(recorder), None) => Some(recorder.finish()),
            (None, None) => None,
        }
    }
}
