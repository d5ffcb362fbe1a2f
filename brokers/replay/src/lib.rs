//! Broker that reads recorded traces, from a file or from standard input.
//!
//! Damage inside the file comes as `Lost` events, a file that ends early as a `Truncated` end; see
//! `mcad_proto::trace`.

mod source;

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mcad_broker_abi::{Broker, Config, Features, StopFn};
use mcad_proto::event::{EndReason, Event};
use mcad_proto::trace::{TraceError, TraceReader};

use source::Source;

mcad_broker_abi::export_broker!(Replay);

/// How long the header may take once its first byte came.
const HEADER_TIME: Duration = Duration::from_secs(5);

/// A trace that is being delivered.
pub struct Replay {
    /// Name in messages.
    file: String,
    state: State,
    stopped: Arc<AtomicBool>,
}

enum State {
    /// Nothing was read yet: a pipe may be slow to begin.
    Waiting(Source),
    Reading(Box<TraceReader<Source>>),
    Failed,
}

impl Broker for Replay {
    const NAME: &'static str = "replay";
    const HELP: &'static str = "file=PATH  the trace file, - for standard input";
    const FEATURES: Features = Features::MEMORY.and(Features::MODULES);

    fn open(config: &Config) -> Result<Self, String> {
        config.expect_keys(&["file"])?;
        let (file, source) = match config.get("file") {
            None | Some("") => return Err("no trace file given: set file=PATH or file=-".into()),
            Some("-") => ("standard input", Source::stdin()?),
            Some(file) => (file, Source::open(file)?),
        };
        let mut replay = Self {
            file: file.to_owned(),
            state: State::Waiting(source),
            stopped: Arc::default(),
        };
        if let State::Waiting(source) = &replay.state
            && source.is_regular()
        {
            // A foreign file is a refusal to open, not a session that fails.
            replay.start()?;
        }
        Ok(replay)
    }

    fn next(&mut self, timeout: Duration) -> Result<Option<Event<'_>>, String> {
        let deadline = Instant::now().checked_add(timeout);
        if let State::Waiting(source) = &self.state {
            if self.stopped.load(Ordering::Relaxed) {
                return Err(format!("{}: stopped before anything came", self.file));
            }
            if !source.wait(deadline).map_err(|e| self.failed(&e))? {
                return Ok(None);
            }
            self.start()?;
            // The session's start is delivered even when a stop is asked for now.
        } else if self.stopped.load(Ordering::Relaxed) {
            let what = format!("{}: stopped on request before its end", self.file);
            return Ok(Some(Event::End(EndReason::Truncated(what))));
        }
        let State::Reading(reader) = &mut self.state else {
            return Err(format!("{}: the session failed before", self.file));
        };
        reader.source_mut().set_deadline(deadline);
        match reader.next() {
            Ok(Some(event)) => Ok(Some(event)),
            Ok(None) => Err(format!("{}: nothing follows the end", self.file)),
            Err(TraceError::Read { source, .. }) if source.kind() == ErrorKind::TimedOut => {
                Ok(None)
            }
            Err(error) => Err(error.to_string()),
        }
    }

    fn stopper(&self) -> Option<StopFn> {
        let stopped = Arc::clone(&self.stopped);
        Some(Arc::new(move || stopped.store(true, Ordering::Relaxed)))
    }
}

impl Replay {
    /// Reads the header, which its writer writes at once.
    fn start(&mut self) -> Result<(), String> {
        if let State::Waiting(mut source) = std::mem::replace(&mut self.state, State::Failed) {
            source.set_deadline(Instant::now().checked_add(HEADER_TIME));
            let reader = TraceReader::new(source, &*self.file).map_err(|e| e.to_string())?;
            self.state = State::Reading(Box::new(reader));
        }
        Ok(())
    }

    fn failed(&self, error: &std::io::Error) -> String {
        format!("cannot read {}: {error}", self.file)
    }
}

#[cfg(test)]
mod tests;
