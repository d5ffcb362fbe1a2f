//! Forwarding a local source's events to a daemon elsewhere and taking its report back.
//!
//! A second thread reads what the daemon says. Sending waits for credit, so the daemon's pace is
//! the source's. When the daemon or the connection fails, or the daemon asks to stop, the source
//! is still drained: the traced program runs to its end.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, unbounded};
use mcad_proto::event::{EndReason, Event, SessionInfo};
use mcad_proto::wire::{
    Accepted, BatchBuilder, CreditWindow, FrameReader, Hello, Message, Problem, ReportAssembler,
    Role,
};
use mcad_proto::word::{Record, decode_word};
use mcad_report::Report;

use super::connection::{Stream, Writer};
use super::{Address, Connection, RemoteError};
use crate::recorder::{Recorder, RecordingError};
use crate::report_text;
use crate::session::State;
use crate::session::feed::{Downstream, Feeder};
use crate::source::Source;

/// A batch that was silent for so long goes out empty, so that the daemon sees that we live.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Version of the protocol that has processes.
const PROCESSES: u16 = 2;
/// First version that knows what system calls do to memory.
const KERNEL: u16 = 3;

/// What to send where.
pub struct Forward {
    /// The daemon.
    pub address: Address,
    /// Its secret, or nothing.
    pub token: String,
    /// What to analyse, as key and value.
    pub options: Vec<(String, String)>,
    /// Where to record on this side.
    pub record: Option<Recorder>,
}

/// What a forwarded session came to.
#[derive(Debug)]
pub struct Forwarded {
    /// The daemon's report.
    pub report: Result<Report, RemoteError>,
    /// What became of the recording, if there was one.
    pub recording: Option<Result<(), RecordingError>>,
    /// How the source ended.
    pub end: EndReason,
}

/// What the reading thread has to say.
enum Said {
    Credit(u32),
    Stop(String),
    Report(Vec<u8>),
    Over(RemoteError),
}

/// Runs a session to its end.
pub fn run(source: &mut dyn Source, forward: Forward, state: &Arc<State>) -> Forwarded {
    let mut feeder = Feeder::new(state, forward.record);
    let mut link = Link {
        address: forward.address,
        token: forward.token,
        options: forward.options,
        stage: Stage::Waiting,
        state: Arc::clone(state),
    };
    let end = feeder.run(source, &mut link);
    Forwarded {
        report: link.report(),
        recording: feeder.finish_recording(),
        end,
    }
}

struct Link {
    address: Address,
    token: String,
    options: Vec<(String, String)>,
    stage: Stage,
    state: Arc<State>,
}

enum Stage {
    /// No [`Event::Session`] yet, which the greeting needs.
    Waiting,
    Open(Box<Open>),
    Over(RemoteError),
}

struct Open {
    writer: Writer,
    terms: Accepted,
    said: Receiver<Said>,
    credit: CreditWindow,
    batch: BatchBuilder,
    bytes: Vec<u8>,
    sent_at: Instant,
    /// The daemon wants no more.
    stopped: Option<String>,
    ended: bool,
    report: Option<Vec<u8>>,
}

impl Link {
    fn open(&self, info: &SessionInfo) -> Result<Open, RemoteError> {
        let mut hello = Hello::new(Role::Trace, Some(info.arch));
        hello.features = Hello::MODULES | Hello::REPORT;
        if info.memory {
            hello.features |= Hello::MEMORY;
        }
        self.token.clone_into(&mut hello.token);
        info.producer.clone_into(&mut hello.producer);
        hello.command.clone_from(&info.command);
        hello.options.clone_from(&self.options);
        let Connection {
            reader,
            writer,
            terms,
        } = Connection::open(&self.address, &hello)?;
        let failed = |source| RemoteError::Connect {
            address: writer.address.clone(),
            source,
        };
        // The simulation may take long, with credit as with the report: wait without limit.
        writer.stream.set_timeouts(None, None).map_err(failed)?;
        let (say, said) = unbounded();
        let (state, address) = (Arc::clone(&self.state), writer.address.clone());
        thread::Builder::new()
            .name("daemon-reader".to_owned())
            .spawn(move || listen(reader, &address, &say, &state))
            .map_err(failed)?;
        Ok(Open {
            writer,
            terms,
            said,
            credit: CreditWindow::new(terms.credit),
            batch: BatchBuilder::new(),
            bytes: Vec::new(),
            sent_at: Instant::now(),
            stopped: None,
            ended: false,
            report: None,
        })
    }

    fn fail(&mut self, error: RemoteError) {
        self.stage = Stage::Over(error);
    }

    /// Waits for the report.
    fn report(self) -> Result<Report, RemoteError> {
        let mut open = match self.stage {
            Stage::Open(open) => open,
            Stage::Over(error) => return Err(error),
            Stage::Waiting => {
                return Err(RemoteError::Closed {
                    address: self.address.to_string(),
                    expected: "the source gave its first event",
                });
            }
        };
        while open.report.is_none() {
            open.hear(true)?;
        }
        let address = open.writer.address.clone();
        report_text::parse(&open.report.take().unwrap_or_default()).map_err(|error| {
            RemoteError::Failed {
                address,
                message: format!("its report cannot be read ({error}); are the versions the same?"),
            }
        })
    }
}

impl Downstream for Link {
    fn event(&mut self, event: Event<'_>, _: &State) {
        if let Event::Session(info) = &event
            && matches!(self.stage, Stage::Waiting)
        {
            match self.open(info) {
                Ok(open) => self.stage = Stage::Open(Box::new(open)),
                Err(error) => self.fail(error),
            }
            return;
        }
        if let (Stage::Open(open), Event::Process { .. }) = (&self.stage, &event)
            && open.terms.version < PROCESSES
        {
            let address = open.writer.address.clone();
            let message = "it is too old for programs that make processes or replace themselves; \
                           trace the first process alone with --no-follow";
            let message = message.to_owned();
            self.fail(RemoteError::Failed { address, message });
            return;
        }
        let Stage::Open(open) = &mut self.stage else {
            return;
        };
        let result = match &event {
            Event::Records { stream, words } if open.terms.version < KERNEL => {
                let known = |word: &u64| !matches!(decode_word(*word), Ok(Record::Kernel(_)));
                let words: Vec<u64> = words.iter().copied().filter(known).collect();
                open.event(&Event::Records {
                    stream: *stream,
                    words: &words,
                })
            }
            event => open.event(event),
        };
        if let Err(error) = result {
            self.fail(error);
        }
    }

    fn idle(&mut self, _: &State) {
        if let Stage::Open(open) = &mut self.stage
            && let Err(error) = open.idle()
        {
            self.fail(error);
        }
    }
}

impl Open {
    fn event(&mut self, event: &Event<'_>) -> Result<(), RemoteError> {
        if self.ended {
            return Ok(());
        }
        let max_words = self.terms.max_words as usize;
        match event {
            Event::End(reason) => {
                self.flush()?;
                return self.end(reason.clone());
            }
            Event::Records { stream, words } => {
                let mut rest = *words;
                while !rest.is_empty() && !self.ended {
                    let part = Event::Records {
                        stream: *stream,
                        words: rest,
                    };
                    let taken = self.batch.push(&part, max_words);
                    rest = &rest[taken..];
                    if self.is_full() {
                        self.flush()?;
                    }
                }
            }
            event => {
                self.batch.push(event, max_words);
                if self.is_full() {
                    self.flush()?;
                }
            }
        }
        Ok(())
    }

    fn is_full(&self) -> bool {
        let terms = &self.terms;
        self.batch.is_full(terms.max_words as usize)
            || self.batch.payload_bytes() >= terms.max_frame as usize / 2
    }

    fn idle(&mut self) -> Result<(), RemoteError> {
        if !self.ended && (!self.batch.is_empty() || self.sent_at.elapsed() > KEEP_ALIVE) {
            self.flush()?;
        }
        self.hear(false)
    }

    /// Sends the batch when there is credit, and waits for it.
    fn flush(&mut self) -> Result<(), RemoteError> {
        self.hear(false)?;
        loop {
            if let Some(reason) = self.stopped.take() {
                self.batch.clear();
                return self.end(EndReason::Truncated(reason));
            }
            if self.ended {
                self.batch.clear();
                return Ok(());
            }
            if let Some(sequence) = self.credit.spend() {
                self.bytes.clear();
                self.batch.encode(sequence, &mut self.bytes);
                self.batch.clear();
                self.sent_at = Instant::now();
                return self.writer.send_bytes(&self.bytes);
            }
            self.hear(true)?;
        }
    }

    fn end(&mut self, reason: EndReason) -> Result<(), RemoteError> {
        if self.ended {
            return Ok(());
        }
        self.ended = true;
        let batches = self.credit.sent();
        self.writer.send(&Message::End { reason, batches })
    }

    /// Takes what the daemon said; waits for something if asked to.
    fn hear(&mut self, wait: bool) -> Result<(), RemoteError> {
        let mut wait = wait;
        loop {
            let said = if wait {
                self.said.recv().map_err(|_| self.closed())?
            } else {
                match self.said.try_recv() {
                    Ok(said) => said,
                    Err(_) => return Ok(()),
                }
            };
            wait = false;
            match said {
                Said::Credit(credit) => self.credit.grant(credit),
                Said::Stop(reason) => self.stopped = Some(reason),
                Said::Report(report) => self.report = Some(report),
                Said::Over(_) if self.report.is_some() => return Ok(()),
                Said::Over(error) => return Err(error),
            }
        }
    }

    fn closed(&self) -> RemoteError {
        RemoteError::Closed {
            address: self.writer.address.clone(),
            expected: "the report came",
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // Ends the reading thread.
        self.writer.stream.close();
    }
}

/// Reads until the connection ends; the last thing said is how.
fn listen(mut reader: FrameReader<Stream>, address: &str, say: &Sender<Said>, state: &State) {
    let mut report = ReportAssembler::default();
    let error = loop {
        match hear_one(&mut reader, address, &mut report, state) {
            Ok(Some(said)) => {
                if say.send(said).is_err() {
                    return;
                }
            }
            Ok(None) => {}
            Err(error) => break error,
        }
    };
    // Nobody listens any more when this fails.
    let _ = say.send(Said::Over(error));
}

fn hear_one(
    reader: &mut FrameReader<Stream>,
    address: &str,
    report: &mut ReportAssembler,
    state: &State,
) -> Result<Option<Said>, RemoteError> {
    let closed = || RemoteError::Closed {
        address: address.to_owned(),
        expected: "the report came",
    };
    let opened = reader.next_frame()?.ok_or_else(closed)?.open()?;
    Ok(match opened.message()? {
        Message::Credit(credit) => Some(Said::Credit(credit)),
        Message::Stop(reason) => Some(Said::Stop(reason)),
        Message::Progress(progress) => {
            state.simulated(mcad_core::simulation::Progress {
                instructions: progress.instructions,
                cycles: progress.cycles,
            });
            None
        }
        Message::ReportPart(part) => {
            let whole = report
                .push(&part)
                .map_err(|problem| opened.error(problem))?;
            whole.map(Said::Report)
        }
        Message::Failure(message) => Some(Said::Over(RemoteError::Failed {
            address: address.to_owned(),
            message,
        })),
        other => {
            let found = other.name();
            let expected = "Credit, Progress, Stop, ReportPart or Failure";
            return Err(opened.error(Problem::Unexpected { found, expected }).into());
        }
    })
}
