//! Trace files as a session's recording.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use mcad_proto::event::Event;
use mcad_proto::trace::TraceWriter;

use crate::recorder::{Recorder, Sink};

/// Opens a trace file for writing; `-` is stdout.
///
/// # Errors
/// What the system said.
pub fn create(path: &Path) -> io::Result<Recorder> {
    let (out, name): (Box<dyn Write + Send>, _) = if path.as_os_str() == "-" {
        (Box::new(io::stdout()), "stdout".to_owned())
    } else {
        (Box::new(File::create(path)?), path.display().to_string())
    };
    let sink = TraceSink::Waiting { out, name };
    Ok(Recorder::new(path, sink))
}

type Out = BufWriter<Box<dyn Write + Send>>;

/// The file's header needs the first event.
enum TraceSink {
    Waiting {
        out: Box<dyn Write + Send>,
        name: String,
    },
    Open(Box<TraceWriter<Out>>),
    /// Between the two, and after a header that could not be written.
    Over,
}

impl Sink for TraceSink {
    fn event(&mut self, event: &Event<'_>) -> Result<(), String> {
        if let (Event::Session(info), Self::Waiting { .. }) = (event, &self)
            && let Self::Waiting { out, name } = std::mem::replace(self, Self::Over)
        {
            let writer = TraceWriter::new(BufWriter::new(out), name, info);
            let mut writer = writer.map_err(|error| error.to_string())?;
            // One that is killed early leaves a trace without records, and no empty file.
            writer.flush().map_err(|error| error.to_string())?;
            *self = Self::Open(Box::new(writer));
            return Ok(());
        }
        match self {
            Self::Open(writer) => writer.event(event).map_err(|error| error.to_string()),
            Self::Waiting { .. } => Err("the session has no start".to_owned()),
            Self::Over => Err("the recording is over".to_owned()),
        }
    }

    fn finish(self: Box<Self>) -> Result<(), String> {
        match *self {
            Self::Open(writer) => writer.finish().map(drop).map_err(|error| error.to_string()),
            Self::Waiting { .. } | Self::Over => Err("nothing was recorded".to_owned()),
        }
    }
}
