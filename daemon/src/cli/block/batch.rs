//! `mcad block --batch`: one hex block a line in, one result line out, in the same order.
//!
//! A result is `hex,cycles` or `hex,ERR,reason`; a reason holds neither commas nor line breaks.
//! Whatever a line holds, it gets exactly one result line and the batch goes on. Lines are handed
//! out in chunks of what has already been read, so that a peer that writes a line and waits gets
//! its answer.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, BufWriter, IsTerminal, Read, Write};
use std::num::NonZeroUsize;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use crossbeam_channel::bounded;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use mcad_core::block::{Block, Options, Simulator};
use mcad_isa::build::Builder;
use mcad_isa::machine::CpuModel;

use super::hex;

/// Lines handed to a worker at once, at most.
const CHUNK: usize = 256;
/// Longest line that is looked at, in bytes: more than the longest block needs.
pub(in crate::cli) const MAX_LINE: usize = 1 << 20;
/// Bytes read at once.
const READ: usize = 1 << 16;
/// Longest part of a line that is echoed when it is no block.
const ECHOED: usize = 200;

/// What a batch did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Lines read and written.
    pub(super) lines: u64,
    /// Lines answered with `ERR`.
    pub(super) errors: u64,
}

/// One line of input; `None` when it was too long to keep.
pub(in crate::cli) type Line = Option<Vec<u8>>;

/// Runs a batch from `input` to `output` with `jobs` threads.
///
/// # Errors
/// When input or output fails; lines never do.
pub(super) fn run(
    model: &Arc<CpuModel>,
    options: Options,
    input: Box<dyn Read + Send>,
    output: impl Write + Send,
    jobs: NonZeroUsize,
    name: &str,
) -> anyhow::Result<Counts> {
    quiet_panics();
    let progress = Progress::start();
    let mut output = BufWriter::new(output);
    let mut counts = Counts::default();
    let mut write = |answers: &[u8], done: Counts| -> anyhow::Result<()> {
        output.write_all(answers).context("cannot write results")?;
        output.flush().context("cannot write results")?;
        counts.lines += done.lines;
        counts.errors += done.errors;
        progress.show(counts.lines);
        Ok(())
    };
    let mut chunks = Chunks::new(input);
    if jobs.get() == 1 {
        let mut worker = Worker::new(model, options);
        for chunk in chunks.by_ref() {
            let (answers, done) = worker.answer(&chunk);
            write(&answers, done)?;
        }
    } else {
        in_parallel(model, options, &mut chunks, jobs, &mut write)?;
    }
    match chunks.failed.take() {
        Some(error) => {
            Err(error).with_context(|| format!("cannot read {name} behind line {}", counts.lines))
        }
        None => Ok(counts),
    }
}

fn in_parallel(
    model: &Arc<CpuModel>,
    options: Options,
    chunks: &mut Chunks,
    jobs: NonZeroUsize,
    write: &mut impl FnMut(&[u8], Counts) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let jobs = jobs.get();
    std::thread::scope(|scope| {
        let (to_workers, work) = bounded::<(u64, Vec<Line>)>(2 * jobs);
        let (to_writer, answers) = bounded::<(u64, Vec<u8>, Counts)>(2 * jobs);
        for _ in 0..jobs {
            let (work, to_writer) = (work.clone(), to_writer.clone());
            scope.spawn(move || {
                let mut worker = Worker::new(model, options);
                for (number, chunk) in work {
                    let (text, done) = worker.answer(&chunk);
                    if to_writer.send((number, text, done)).is_err() {
                        return;
                    }
                }
            });
        }
        drop((work, to_writer));
        scope.spawn(move || {
            for (number, chunk) in (0u64..).zip(&mut *chunks) {
                if to_workers.send((number, chunk)).is_err() {
                    return;
                }
            }
        });
        let mut next = 0;
        let mut early = BTreeMap::new();
        for (number, text, done) in answers {
            early.insert(number, (text, done));
            while let Some((text, done)) = early.remove(&next) {
                write(&text, done)?;
                next += 1;
            }
        }
        Ok(())
    })
}

/// Cuts the input into chunks of lines.
pub(in crate::cli) struct Chunks {
    input: Box<dyn Read + Send>,
    /// Read and not yet handed out.
    buffer: Vec<u8>,
    /// Handed out so far of `buffer`.
    at: usize,
    /// The rest of a line that was too long is still to come.
    skipping: bool,
    ended: bool,
    pub(in crate::cli) failed: Option<io::Error>,
}

impl Iterator for Chunks {
    type Item = Vec<Line>;

    fn next(&mut self) -> Option<Vec<Line>> {
        let mut chunk = Vec::new();
        // Reads until there is a line; then only what has already been read is taken.
        while chunk.is_empty() && !(self.ended && self.at == self.buffer.len()) {
            while chunk.len() < CHUNK
                && let Some(line) = self.line()
            {
                chunk.extend(line);
            }
            if chunk.is_empty() && !self.ended {
                self.read();
            }
        }
        (!chunk.is_empty()).then_some(chunk)
    }
}

impl Chunks {
    pub(in crate::cli) fn new(input: Box<dyn Read + Send>) -> Self {
        Self {
            input,
            buffer: Vec::new(),
            at: 0,
            skipping: false,
            ended: false,
            failed: None,
        }
    }

    fn read(&mut self) {
        self.buffer.drain(..self.at);
        self.at = 0;
        let before = self.buffer.len();
        self.buffer.resize(before + READ, 0);
        let read = loop {
            match self.input.read(&mut self.buffer[before..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        let read = read.unwrap_or_else(|error| {
            self.failed = Some(error);
            0
        });
        self.buffer.truncate(before + read);
        self.ended = read == 0;
    }

    /// The next line that is completely in the buffer; `Some(None)`: a piece that is no line of
    /// its own was dropped.
    fn line(&mut self) -> Option<Option<Line>> {
        let rest = &self.buffer[self.at..];
        let (line, used) = match rest.iter().position(|b| *b == b'\n') {
            Some(end) => (&rest[..end], end + 1),
            None if rest.is_empty() => return None,
            None if self.ended => (rest, rest.len()),
            None if rest.len() > MAX_LINE => {
                self.at = self.buffer.len();
                let first = !std::mem::replace(&mut self.skipping, true);
                return Some(first.then_some(None));
            }
            None => return None,
        };
        self.at += used;
        if std::mem::take(&mut self.skipping) {
            return Some(None);
        }
        Some(Some((line.len() <= MAX_LINE).then(|| line.to_vec())))
    }
}

/// Answers lines, one after the other.
struct Worker {
    builder: Builder,
    simulator: Simulator,
    options: Options,
}

impl Worker {
    fn new(model: &Arc<CpuModel>, options: Options) -> Self {
        Self {
            builder: Builder::new(model),
            simulator: Simulator::new(model),
            options,
        }
    }

    fn answer(&mut self, chunk: &[Line]) -> (Vec<u8>, Counts) {
        let mut text = Vec::with_capacity(chunk.len() * 64);
        let mut counts = Counts::default();
        for line in chunk {
            counts.lines += 1;
            let field = line.as_deref().map(first_field);
            let result = match field {
                Some(field) => self.cycles(field),
                None => Err(format!("the line has more than {MAX_LINE} bytes")),
            };
            echo(field.unwrap_or(b""), &mut text);
            // Writing to memory does not fail.
            let _ = match result {
                Ok(cycles) => writeln!(text, ",{cycles:.4}"),
                Err(reason) => {
                    counts.errors += 1;
                    writeln!(text, ",ERR,{}", one_field(&reason))
                }
            };
        }
        (text, counts)
    }

    fn cycles(&mut self, field: &[u8]) -> Result<f64, String> {
        let bytes = hex::decode(field).map_err(|e| e.to_string())?;
        let simulator = &mut self.simulator;
        let (builder, options) = (&mut self.builder, self.options);
        let guarded = panic::catch_unwind(AssertUnwindSafe(|| {
            let block = Block::made(builder, &bytes)?;
            Ok::<f64, mcad_core::block::BlockError>(simulator.predict(&block, options).cycles)
        }));
        match guarded {
            Ok(result) => result.map_err(|e| e.to_string()),
            Err(_) => {
                // What the panic left half done is thrown away.
                *self = Self::new(&Arc::clone(self.builder.model()), options);
                let what = PANIC.with(RefCell::take);
                Err(format!("internal error: {what}"))
            }
        }
    }
}

thread_local! {
    /// What the last panic on this thread said.
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Panics become results; they must not be printed between other output.
fn quiet_panics() {
    panic::set_hook(Box::new(|info| {
        let place = info
            .location()
            .map_or_else(String::new, ToString::to_string);
        let payload = info.payload();
        let what = match (
            payload.downcast_ref::<&str>(),
            payload.downcast_ref::<String>(),
        ) {
            (Some(text), _) => text,
            (None, Some(text)) => text.as_str(),
            (None, None) => "panic",
        };
        PANIC.with(|last| *last.borrow_mut() = format!("{what} at {place}"));
    }));
}

/// The block of a line.
pub(in crate::cli) fn first_field(line: &[u8]) -> &[u8] {
    let end = line.iter().position(|b| *b == b',').unwrap_or(line.len());
    line[..end].trim_ascii()
}

/// The block as it was written; what could break the result's format is replaced.
pub(in crate::cli) fn echo(field: &[u8], out: &mut Vec<u8>) {
    let shown = match hex::decode(field) {
        Ok(_) => field,
        Err(_) => &field[..field.len().min(ECHOED)],
    };
    out.extend(shown.iter().map(|b| {
        if (b.is_ascii_graphic() && *b != b'"') || *b == b' ' {
            *b
        } else {
            b'?'
        }
    }));
}

/// A reason without what separates fields and lines.
pub(in crate::cli) fn one_field(reason: &str) -> String {
    reason
        .chars()
        .map(|c| match c {
            ',' => ';',
            '"' => '\'',
            c if c.is_control() => ' ',
            c => c,
        })
        .collect()
}

/// A line on stderr with the number of blocks and their rate; only on a terminal.
struct Progress {
    bar: Option<ProgressBar>,
    started: Instant,
}

impl Progress {
    fn start() -> Self {
        let bar = io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(4));
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
                bar.set_style(style);
            }
            bar
        });
        Self {
            bar,
            started: Instant::now(),
        }
    }

    fn show(&self, lines: u64) {
        if let Some(bar) = &self.bar {
            let seconds = self.started.elapsed().as_secs_f64().max(1e-9);
            bar.set_message(format!(
                "{lines} blocks, {:.0} a second",
                lines as f64 / seconds
            ));
            bar.tick();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(input: &[u8], jobs: usize) -> (Vec<String>, Counts) {
        let model = mcad_isa::machine::cpu("skl").unwrap();
        let mut out = Vec::new();
        let counts = run(
            &model,
            Options::default(),
            Box::new(io::Cursor::new(input.to_vec())),
            &mut out,
            NonZeroUsize::new(jobs).unwrap(),
            "test",
        )
        .unwrap();
        let text = String::from_utf8(out).unwrap();
        (text.lines().map(str::to_owned).collect(), counts)
    }

    #[test]
    fn every_line_gets_one_answer_in_order() {
        let mut input = Vec::new();
        for n in 0..1000 {
            // n additions to rax in a chain: n cycles.
            input.extend("4801d8".repeat(n % 7 + 1).as_bytes());
            input.extend(b",0.0,more\n");
        }
        for jobs in [1, 3] {
            let (lines, counts) = answers(&input, jobs);
            assert_eq!((counts.lines, counts.errors), (1000, 0));
            for (n, line) in lines.iter().enumerate() {
                let (hex, cycles) = line.split_once(',').unwrap();
                assert_eq!(hex, "4801d8".repeat(n % 7 + 1));
                assert_eq!(cycles.parse::<f64>().unwrap(), (n % 7 + 1) as f64);
            }
        }
    }

    #[test]
    fn bad_lines_are_answered_and_do_not_stop_the_batch() {
        let long = "90".repeat(MAX_LINE);
        let input = format!("\n4\nzz\n06\n \"a\u{e9}b,1\n{long}\n90\r\n4801d8");
        let (lines, counts) = answers(input.as_bytes(), 1);
        assert_eq!((counts.lines, counts.errors), (8, 6));
        for line in &lines[..6] {
            assert_eq!(line.split(',').count(), 3, "{line}");
            assert_eq!(line.split(',').nth(1), Some("ERR"), "{line}");
        }
        assert!(lines[6].starts_with("90,0.25"), "{}", lines[6]);
        assert_eq!(lines[7], "4801d8,1.0000");
    }
}
