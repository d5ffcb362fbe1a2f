//! One client's session, on threads of its own.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use mcad_proto::event::{Event, SessionInfo};
use mcad_proto::wire::{
    CreditGrant, FrameDecoder, Message, Problem, Progress, encode, report_parts,
};
use mcad_report::Report;

use mcad_viewers::escape::escape;

use super::Shared;
use super::handshake::{MAX_FRAME, WINDOW};
use super::registry::Place;
use crate::cli::analysis::Analysis;
use crate::remote::Stream;
use crate::session::{self, Job, MemoryLimit, State};
use crate::source::Source;

/// How often a client hears how far its session is.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);

/// Longest wait for a client to take what it is sent.
const WRITE_PATIENCE: Duration = Duration::from_secs(20);

/// An admitted session.
pub(super) struct Session {
    pub place: Place,
    pub shared: Arc<Shared>,
    pub state: Arc<State>,
    pub peer: String,
    pub info: SessionInfo,
    pub wants_report: bool,
    pub analysis: Analysis,
}

/// Starts the session's thread; the session ends by itself.
pub(super) fn start(session: Session, stream: Stream, decoder: FrameDecoder) {
    let (id, peer) = (session.place.id, session.peer.clone());
    let spawned = thread::Builder::new()
        .name(format!("session-{id}"))
        .spawn(move || serve(session, stream, decoder));
    if let Err(error) = spawned {
        tracing::error!(session = id, %peer, %error, "no thread for the session");
    }
}

fn serve(mut session: Session, stream: Stream, decoder: FrameDecoder) {
    let (id, peer) = (session.place.id, session.peer.clone());
    let command: String = session.info.command.join(" ").chars().take(SHOWN).collect();
    tracing::info!(session = id, %peer, command, "started");
    match run(&mut session, stream, decoder) {
        Ok(summary) => tracing::info!(session = id, %peer, "{}", escape(&summary)),
        Err(error) => tracing::warn!(session = id, %peer, "{}", escape(&format!("{error:#}"))),
    }
}

fn run(session: &mut Session, stream: Stream, decoder: FrameDecoder) -> anyhow::Result<String> {
    let config = &session.shared.config;
    if let Stream::Unix(socket) = &stream {
        socket.set_nonblocking(false)?;
    } else if let Stream::Tcp(socket) = &stream {
        socket.set_nonblocking(false)?;
    }
    stream.set_timeouts(None, Some(WRITE_PATIENCE))?;
    let job = Job {
        analyse: Some(session.analysis.options.clone()),
        // Sessions of several peers share the machine.
        parallel: None,
        regions: session.analysis.regions.clone(),
        record: None,
        timeline: None,
        memory: MemoryLimit(config.max_memory / u64::from(config.max_sessions.max(1))),
        source: format!("{} at {}", session.info.producer, session.peer),
    };
    let mut client = Client {
        stream,
        decoder,
        credit: CreditGrant::new(WINDOW),
        state: Arc::clone(&session.state),
        wants_report: session.wants_report,
        info: Some(session.info.clone()),
        idle_limit: config.idle_timeout,
        heard: Instant::now(),
        told: Instant::now(),
        bytes: Vec::new(),
    };
    client.decoder.set_max_frame(MAX_FRAME as usize);
    let outcome = session::run(&mut client, job, &session.state);
    let complete = outcome.failure.is_none()
        && outcome
            .report
            .as_ref()
            .is_some_and(|report| report.program.complete);
    session.place.well = complete;
    let delivered = match (&outcome.report, session.wants_report) {
        (Some(report), true) => client.send_report(report),
        (None, true) => {
            let message = outcome
                .failure
                .as_ref()
                .map_or_else(String::new, ToString::to_string);
            client.send(&Message::Failure(message))
        }
        (_, false) => Ok(()),
    };
    client.stream.close();
    if let (Some(directory), Some(report)) = (&config.reports, &outcome.report) {
        keep(directory, session.place.id, report)?;
    }
    if let Some(failure) = outcome.failure {
        return Err(failure.into());
    }
    let report = outcome.report.context("the session left no report")?;
    let end = if complete { "complete" } else { "incomplete" };
    let summary = format!(
        "{end} ({}): {} instructions, {:.1} s",
        report.program.end, report.trace.instructions, report.run.seconds
    );
    delivered.with_context(|| format!("{summary}, but the client did not take its report"))?;
    Ok(summary)
}

/// Most reports of one session's number: each start of the daemon counts from 1.
const MAX_KEPT: u32 = 100_000;

/// Writes a report to a file that was not there before.
fn keep(directory: &Path, id: u64, report: &Report) -> anyhow::Result<()> {
    let text = serde_json::to_vec_pretty(report)?;
    for time in 1..=MAX_KEPT {
        let name = match time {
            1 => format!("session-{id}.json"),
            _ => format!("session-{id}.{time}.json"),
        };
        let path = directory.join(name);
        let cannot = || format!("cannot write {}", path.display());
        // Neither an earlier report nor what a link leads to is written over.
        match File::create_new(&path) {
            Ok(mut file) => return file.write_all(&text).with_context(cannot),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error).with_context(cannot),
        }
    }
    anyhow::bail!("{} is full of reports of session {id}", directory.display())
}

/// Most of a command line that the log has.
const SHOWN: usize = 200;

/// A client as a source of events.
struct Client {
    stream: Stream,
    decoder: FrameDecoder,
    credit: CreditGrant,
    state: Arc<State>,
    wants_report: bool,
    /// Becomes the first event.
    info: Option<SessionInfo>,
    idle_limit: Duration,
    heard: Instant,
    told: Instant,
    bytes: Vec<u8>,
}

impl Source for Client {
    fn pull(&mut self, timeout: Duration, take: &mut dyn FnMut(Event<'_>)) -> Result<(), String> {
        if let Some(info) = self.info.take() {
            take(Event::Session(info));
            return Ok(());
        }
        let credit = self.receive(timeout, take)?;
        if credit > 0 {
            self.send(&Message::Credit(credit))
                .map_err(|e| e.to_string())?;
        }
        if self.wants_report && self.told.elapsed() >= PROGRESS_INTERVAL {
            self.told = Instant::now();
            let counters = self.state.snapshot();
            let progress = Progress {
                instructions: counters.instructions,
                cycles: counters.cycles,
                records: counters.records,
            };
            self.send(&Message::Progress(progress))
                .map_err(|e| e.to_string())?;
        }
        Ok(())
    }

    fn stop(&mut self) {
        // A client that is gone shows in the next pull.
        let _ = self.send(&Message::Stop("the daemon is ending".to_owned()));
    }
}

impl Client {
    /// Reads at most once, takes at most one message; returns the credit to grant.
    fn receive(
        &mut self,
        timeout: Duration,
        take: &mut dyn FnMut(Event<'_>),
    ) -> Result<u32, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        if let Some(frame) = self.decoder.next_frame().map_err(|e| text(&e))? {
            let opened = frame.open().map_err(|e| text(&e))?;
            let credit = match opened.message().map_err(|e| text(&e))? {
                Message::Batch(batch) => {
                    let at = |problem: Problem| opened.error(problem).to_string();
                    self.credit.receive(batch.sequence()).map_err(at)?;
                    for event in batch.events() {
                        take(event.map_err(at)?);
                    }
                    self.credit.done()
                }
                Message::End { reason, batches } => {
                    let at = |problem: Problem| opened.error(problem).to_string();
                    self.credit.end(batches).map_err(at)?;
                    take(Event::End(reason));
                    0
                }
                Message::Failure(message) => return Err(format!("the client gave up: {message}")),
                other => {
                    let problem = Problem::Unexpected {
                        found: other.name(),
                        expected: "Batch or End",
                    };
                    return Err(opened.error(problem).to_string());
                }
            };
            // Time that the simulation took does not count as the client's silence.
            self.heard = Instant::now();
            return Ok(credit);
        }
        self.read(timeout)?;
        Ok(0)
    }

    fn read(&mut self, timeout: Duration) -> Result<(), String> {
        self.stream
            .set_timeouts(Some(timeout), Some(WRITE_PATIENCE))
            .map_err(|error| error.to_string())?;
        match std::io::Read::read(&mut self.stream, self.decoder.space()) {
            Ok(0) => {
                self.decoder.finish().map_err(|error| error.to_string())?;
                Err("the client closed the connection before the end of its trace".to_owned())
            }
            Ok(n) => {
                self.decoder.filled(n);
                Ok(())
            }
            Err(error) => match error.kind() {
                ErrorKind::Interrupted => Ok(()),
                ErrorKind::WouldBlock | ErrorKind::TimedOut
                    if self.heard.elapsed() < self.idle_limit =>
                {
                    Ok(())
                }
                ErrorKind::WouldBlock | ErrorKind::TimedOut => Err(format!(
                    "the client sent no whole message for {} s",
                    self.idle_limit.as_secs()
                )),
                _ => Err(format!("the connection failed: {error}")),
            },
        }
    }

    fn send(&mut self, message: &Message<'_>) -> std::io::Result<()> {
        self.bytes.clear();
        encode(message, &mut self.bytes);
        self.stream.write_all(&self.bytes)
    }

    fn send_report(&mut self, report: &Report) -> std::io::Result<()> {
        let text = serde_json::to_vec(report)?;
        for part in report_parts(&text) {
            self.send(&Message::ReportPart(part))?;
        }
        Ok(())
    }
}
