//! Progress on stderr: instructions so far and their rate. On a terminal it is a line that changes,
//! but never where a traced program may use the same terminal: its prompts and screens stay as they
//! are. Where stderr is no terminal it is a line a minute.

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use mcad_viewers::layout::grouped;

use crate::session::{Snapshot, State};

/// How often the line changes.
const INTERVAL: Duration = Duration::from_millis(250);

/// How often a line is written where none can change.
const TELLING: Duration = Duration::from_secs(60);

/// A progress line that lives until it is dropped.
pub(super) struct Progress {
    shown: Option<(mpsc::Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    /// Shows a session's counters, unless `quiet`; `beside`: a program runs at the same time, with
    /// the same stdin, stdout and stderr.
    pub(super) fn start(state: &Arc<State>, quiet: bool, beside: bool) -> Self {
        let terminal = io::stderr().is_terminal();
        let shared = beside && (io::stdin().is_terminal() || io::stdout().is_terminal());
        if quiet || (terminal && shared) {
            return Self { shown: None };
        }
        let show = if terminal { draw } else { tell };
        let state = Arc::clone(state);
        let (stop, stopped) = mpsc::channel();
        let thread = thread::Builder::new()
            .name("progress".to_owned())
            .spawn(move || show(&state, &stopped));
        Self {
            // Without a thread there is no line; nothing else is lost.
            shown: thread.ok().map(|thread| (stop, thread)),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.shown.take() {
            drop(stop);
            // A drawing thread that panicked has already said so.
            let _ = thread.join();
        }
    }
}

/// A line a minute.
fn tell(state: &State, stopped: &mpsc::Receiver<()>) {
    let mut before = 0;
    while stopped.recv_timeout(TELLING) == Err(RecvTimeoutError::Timeout) {
        let snapshot = state.snapshot();
        let rate = (snapshot.instructions - before) as f64 / TELLING.as_secs_f64();
        before = snapshot.instructions;
        crate::say!("mcad: {}", message(&snapshot, rate));
    }
}

fn draw(state: &State, stopped: &mpsc::Receiver<()>) {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
        bar.set_style(style);
    }
    let started = Instant::now();
    let mut before = (started, 0);
    while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
        let now = Instant::now();
        let snapshot = state.snapshot();
        let seconds = now.duration_since(before.0).as_secs_f64();
        let rate = (snapshot.instructions - before.1) as f64 / seconds.max(1e-9);
        before = (now, snapshot.instructions);
        bar.set_message(message(&snapshot, rate));
        bar.tick();
    }
    bar.finish_and_clear();
}

fn message(snapshot: &Snapshot, rate: f64) -> String {
    format!(
        "{} instructions, {:.1} M/s, IPC {:.2}",
        grouped(snapshot.instructions),
        rate / 1e6,
        snapshot.instructions as f64 / snapshot.cycles.max(1) as f64,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_how_much_and_how_fast() {
        let snapshot = Snapshot {
            instructions: 2_000_000,
            cycles: 1_000_000,
            ..Snapshot::default()
        };
        assert_eq!(
            message(&snapshot, 12_340_000.0),
            "2,000,000 instructions, 12.3 M/s, IPC 2.00"
        );
        assert!(message(&Snapshot::default(), 0.0).contains("IPC 0.00"));
    }
}
