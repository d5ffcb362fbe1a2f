//! Recording a session's events into a trace file while they are analysed.

use std::path::{Path, PathBuf};

use mcad_proto::event::Event;

/// A recording that had to be given up. What was written before stays readable.
#[derive(Debug, thiserror::Error)]
#[error("{reason} (all else went on without the recording {})", path.display())]
pub struct RecordingError {
    /// Where the recording was to go.
    pub path: PathBuf,
    /// What went wrong.
    pub reason: String,
}

/// Something that stores events in order.
pub trait Sink: Send {
    /// Stores an event.
    ///
    /// # Errors
    /// A text when it cannot; the sink is not used again.
    fn event(&mut self, event: &Event<'_>) -> Result<(), String>;

    /// Completes the file.
    ///
    /// # Errors
    /// As [`Sink::event`].
    fn finish(self: Box<Self>) -> Result<(), String>;
}

/// A sink with the name that messages use.
pub struct Recorder {
    path: PathBuf,
    sink: Box<dyn Sink>,
}

impl Recorder {
    /// Records into a sink.
    pub fn new(path: &Path, sink: impl Sink + 'static) -> Self {
        Self {
            path: path.to_owned(),
            sink: Box::new(sink),
        }
    }

    pub(crate) fn event(&mut self, event: &Event<'_>) -> Result<(), RecordingError> {
        let stored = self.sink.event(event);
        stored.map_err(|reason| RecordingError {
            path: self.path.clone(),
            reason,
        })
    }

    pub(crate) fn finish(self) -> Result<(), RecordingError> {
        let Self { path, sink } = self;
        sink.finish()
            .map_err(|reason| RecordingError { path, reason })
    }
}
