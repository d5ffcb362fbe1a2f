//! The protocol's messages: JSON texts, each with a zero byte after it.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

/// How long an answer may take; machines that run tests are busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// An event of a page.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) session: String,
    pub(crate) method: String,
    pub(crate) params: Value,
}

/// Both directions.
#[derive(Debug)]
pub(crate) struct Pipe {
    to: ChildStdin,
    from: Receiver<Value>,
    last: u64,
    events: VecDeque<Event>,
}

impl Pipe {
    pub(crate) fn new(to: ChildStdin, from: ChildStdout) -> Self {
        let (sender, receiver) = channel();
        thread::spawn(move || {
            let mut from = BufReader::new(from);
            let mut bytes = Vec::new();
            while from.read_until(0, &mut bytes).is_ok_and(|read| read > 0) {
                bytes.pop();
                let message = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
                if sender.send(message).is_err() {
                    break;
                }
                bytes.clear();
            }
        });
        Self {
            to,
            from: receiver,
            last: 0,
            events: VecDeque::new(),
        }
    }

    /// Calls a method, of a page if a session is given, and waits for its result.
    pub(crate) fn call(
        &mut self,
        session: Option<&str>,
        method: &str,
        params: Value,
    ) -> Result<Value> {
        self.last += 1;
        let id = self.last;
        let mut message = json!({"id": id, "method": method, "params": params});
        if let Some(session) = session {
            message["sessionId"] = session.into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.to
            .write_all(&bytes)
            .with_context(|| format!("{method}: the browser is gone"))?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut message = self.receive(deadline, method)?;
            if message["id"] == id {
                if let Some(error) = message.get("error") {
                    bail!("{method}: {error}");
                }
                return Ok(message["result"].take());
            }
            self.keep(message);
        }
    }

    /// The next event of a session.
    pub(crate) fn event(&mut self, session: &str, waiting_for: &str) -> Result<Event> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(event) = self.known_event(session) {
                return Ok(event);
            }
            let message = self.receive(deadline, waiting_for)?;
            self.keep(message);
        }
    }

    /// The next event of a session that has come already.
    pub(crate) fn known_event(&mut self, session: &str) -> Option<Event> {
        let place = self.events.iter().position(|e| e.session == session)?;
        self.events.remove(place)
    }

    fn receive(&mut self, deadline: Instant, waiting_for: &str) -> Result<Value> {
        let left = deadline.saturating_duration_since(Instant::now());
        let message = self.from.recv_timeout(left);
        message.with_context(|| format!("{waiting_for}: no answer from the browser"))
    }

    fn keep(&mut self, mut message: Value) {
        if let (Some(session), Some(method)) =
            (message["sessionId"].as_str(), message["method"].as_str())
        {
            let (session, method) = (session.to_owned(), method.to_owned());
            self.events.push_back(Event {
                session,
                method,
                params: message["params"].take(),
            });
        }
    }
}
