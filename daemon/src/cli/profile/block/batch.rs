//! `mcad profile block --batch`: one hex block a line in, one result line out, in the same order.
//!
//! A line is written as soon as it is measured, so an interrupted batch loses nothing: `--resume`
//! reads what is there, checks that it answers this input, and goes on behind it.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, IsTerminal, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use mcad_profile::block::{Measured, Notion, Profiler};

use super::super::super::block::batch::{Chunks, MAX_LINE, echo, first_field, one_field};
use super::super::super::block::hex;
use super::super::super::input;
use super::super::machine::BlockArgs;

/// From where and to where.
pub(super) struct Place<'a> {
    pub(super) input: &'a Path,
    pub(super) output: Option<&'a Path>,
    pub(super) resume: bool,
    pub(super) quiet: bool,
}

/// Measures all lines that have no answer yet.
///
/// # Errors
/// When input, output or the measuring process fail; lines never do.
pub(super) fn run(
    place: &Place<'_>,
    machine: &BlockArgs,
    notion: impl Fn(&[u8]) -> Notion,
) -> anyhow::Result<ExitCode> {
    let (mut output, answered) = open(place)?;
    let total = match place.quiet {
        true => None,
        false => lines_of(place.input)?,
    };
    let mut profiler = machine.profiler()?;
    let mut tally = Tally::start(place.quiet, total);
    let mut chunks = Chunks::new(input::open(place.input)?);
    let mut skip = answered.into_iter();
    for line in chunks.by_ref().flatten() {
        tally.lines += 1;
        let mut text = Vec::new();
        let field = line.as_deref().map(first_field);
        echo(field.unwrap_or(b""), &mut text);
        if let Some(there) = skip.next() {
            if there != text {
                bail!(
                    "line {} of {} answers another block; without --resume it is written anew",
                    tally.lines,
                    shown(place.output)
                );
            }
            continue;
        }
        let result = match field {
            Some(field) => one(&mut profiler, field, &notion)
                .with_context(|| format!("cannot measure line {}", tally.lines))?,
            None => Err(("input", format!("the line has more than {MAX_LINE} bytes"))),
        };
        match &result {
            Ok(m) => writeln!(text, ",{:.4},{:.4}", m.cycles, m.spread)?,
            Err((_, reason)) => writeln!(text, ",ERR,{}", one_field(reason))?,
        }
        output
            .write_all(&text)
            .and_then(|()| output.flush())
            .with_context(|| format!("cannot write to {}", shown(place.output)))?;
        tally.count(result.map_err(|(class, _)| class));
    }
    if let Some(error) = chunks.failed.take() {
        let name = place.input.display();
        return Err(error)
            .with_context(|| format!("cannot read {name} behind line {}", tally.lines));
    }
    if skip.next().is_some() {
        bail!("{} has more lines than the input", shown(place.output));
    }
    if !place.quiet {
        tally.write(&profiler, &mut io::stderr().lock())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn one(
    profiler: &mut Profiler,
    field: &[u8],
    notion: &impl Fn(&[u8]) -> Notion,
) -> anyhow::Result<Result<Measured, (&'static str, String)>> {
    let bytes = match hex::decode(field) {
        Ok(bytes) => bytes,
        Err(error) => return Ok(Err(("input", error.to_string()))),
    };
    let result = profiler.measure(&bytes, notion(&bytes))?;
    Ok(result.map_err(|reject| (reject.class(), reject.to_string())))
}

fn shown(path: Option<&Path>) -> String {
    path.map_or_else(|| "stdout".to_owned(), |path| path.display().to_string())
}

/// First fields of the lines that are there.
type Answered = Vec<Vec<u8>>;

/// Opens the output; with `--resume`, the first fields of the lines that it has, and the writing
/// goes on behind the last complete one.
fn open(place: &Place<'_>) -> anyhow::Result<(Box<dyn Write>, Answered)> {
    let Some(path) = place.output else {
        return Ok((Box::new(io::stdout()), Vec::new()));
    };
    let name = path.display();
    if !place.resume || !path.exists() {
        let file = File::create(path).with_context(|| format!("cannot create {name}"))?;
        return Ok((Box::new(file), Vec::new()));
    }
    let failed = || format!("cannot go on with {name}");
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .with_context(failed)?;
    let mut answered = Vec::new();
    let mut complete = 0;
    let mut reader = BufReader::new(&mut file);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = reader.read_until(b'\n', &mut line).with_context(failed)?;
        if line.last() != Some(&b'\n') {
            break;
        }
        complete += read as u64;
        answered.push(first_field(&line).to_vec());
    }
    // A line that was cut off is measured again.
    file.set_len(complete).with_context(failed)?;
    file.seek(SeekFrom::Start(complete)).with_context(failed)?;
    Ok((Box::new(file), answered))
}

/// How many lines there will be; unknown for a stream.
fn lines_of(path: &Path) -> anyhow::Result<Option<u64>> {
    if !path.is_file() {
        return Ok(None);
    }
    let lines = Chunks::new(input::open(path)?).map(|chunk| chunk.len() as u64);
    Ok(Some(lines.sum()))
}

/// Counts by reason, with the rate.
struct Tally {
    bar: Option<ProgressBar>,
    started: Instant,
    lines: u64,
    measured: u64,
    rejected: BTreeMap<&'static str, u64>,
    spreads: Vec<f64>,
    drifted: u64,
    rounds: u64,
}

impl Tally {
    fn start(quiet: bool, total: Option<u64>) -> Self {
        let bar = (!quiet && io::stderr().is_terminal()).then(|| {
            let target = ProgressDrawTarget::stderr_with_hz(4);
            let bar = ProgressBar::with_draw_target(total, target);
            let template = match total {
                Some(_) => "{bar:30} {pos} of {len} blocks, {per_sec}, {eta} left",
                None => "{spinner} {pos} blocks, {per_sec}",
            };
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            bar
        });
        Self {
            bar,
            started: Instant::now(),
            lines: 0,
            measured: 0,
            rejected: BTreeMap::new(),
            spreads: Vec::new(),
            drifted: 0,
            rounds: 0,
        }
    }

    fn count(&mut self, result: Result<Measured, &'static str>) {
        match result {
            Ok(measured) => {
                self.measured += 1;
                self.spreads
                    .push(measured.spread / measured.cycles.max(1e-9));
                self.rounds += measured.rounds as u64;
                self.drifted += measured.drifted as u64;
            }
            Err(class) => *self.rejected.entry(class).or_default() += 1,
        }
        if let Some(bar) = &self.bar {
            bar.set_position(self.lines);
        }
    }

    fn write(mut self, profiler: &Profiler, out: &mut dyn Write) -> io::Result<()> {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        let rejected: u64 = self.rejected.values().sum();
        let done = self.measured + rejected;
        let seconds = self.started.elapsed().as_secs_f64().max(1e-9);
        let share = |n: u64| 100.0 * n as f64 / done.max(1) as f64;
        writeln!(
            out,
            "{done} blocks in {seconds:.1} s: {:.0} a second, cycles by {}",
            done as f64 / seconds,
            profiler.source()
        )?;
        let spread = mcad_profile::clock::Quartiles::of(&mut self.spreads);
        writeln!(
            out,
            "  measured {:>8}  {:.1} %, spread {:.2} % (quartiles {:.2} to {:.2}), {:.1} % of rounds repeated for drift of the clock",
            self.measured,
            share(self.measured),
            100.0 * spread.median,
            100.0 * spread.low,
            100.0 * spread.high,
            100.0 * self.drifted as f64 / (self.drifted + self.rounds).max(1) as f64
        )?;
        for (class, count) in &self.rejected {
            writeln!(out, "  {class:<11} {count:>5}  {:.1} %", share(*count))?;
        }
        Ok(())
    }
}
