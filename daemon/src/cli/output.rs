//! Where reports go: the summary to stderr or a file, JSON to a file or stdout.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Seek, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use mcad_report::Report;
use mcad_viewers::html::{Excerpt, Html};
use mcad_viewers::timeline::read::Reader;
use mcad_viewers::{Style, View, escape::escape, json::Json, text::Text};

use super::destination::{self, Destination};

/// Output options, as parsed.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct OutputArgs {
    /// Write the JSON report to FILE; - is stdout
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a page for the browser to FILE (- is stdout, as for every output), with a timeline around the hottest block, for which
    /// the first CPU model runs twice, or of the --window that is recorded
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the summary to FILE instead of stderr
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Functions that the summary lists
    #[arg(long, value_name = "N", default_value_t = 12)]
    functions: usize,
    /// Show neither progress nor, unless -o is given, the summary
    #[arg(short, long)]
    pub(super) quiet: bool,
    /// Fail if an instruction is unknown to a CPU model
    #[arg(long)]
    strict: bool,
}

impl OutputArgs {
    /// Whether a page is asked for.
    pub(super) fn page(&self) -> bool {
        self.html.is_some()
    }

    /// Opens all places before a long run starts; `others` are the run's other outputs.
    ///
    /// # Errors
    /// Names the place that cannot be written, or that is to take two outputs.
    pub(super) fn open<'a>(
        &'a self,
        others: impl IntoIterator<Item = &'a Path>,
    ) -> anyhow::Result<Outputs> {
        let own = self.json.iter().chain(&self.html).chain(&self.output);
        destination::all_different(own.map(PathBuf::as_path).chain(others))?;
        let open = |path: &Option<PathBuf>| path.as_deref().map(Destination::open).transpose();
        Ok(Outputs {
            text: open(&self.output)?,
            json: open(&self.json)?,
            html: open(&self.html)?,
            quiet: self.quiet,
            strict: self.strict,
            functions: self.functions,
        })
    }
}

/// The places of a report, opened.
#[derive(Debug, Default)]
pub(super) struct Outputs {
    text: Option<Destination>,
    json: Option<Destination>,
    html: Option<Destination>,
    quiet: bool,
    strict: bool,
    functions: usize,
}

impl Outputs {
    /// Whether any of them is stdout.
    pub(super) fn takes_stdout(&self) -> bool {
        let all = [&self.text, &self.json, &self.html];
        all.into_iter().flatten().any(Destination::is_stdout)
    }

    /// Writes the report to all places asked for; `timeline` is the page's. One that fails is told
    /// and keeps nothing from the others.
    ///
    /// # Errors
    /// When a place could not be written, or `--strict` is violated.
    pub(super) fn write(self, report: &Report, timeline: Option<&File>) -> anyhow::Result<()> {
        let mut result = Ok(());
        let mut done = |written: anyhow::Result<()>| {
            if let Err(error) = written
                && !super::nobody_reads(&error)
                && let Err(before) = std::mem::replace(&mut result, Err(error))
            {
                super::tell(&before);
            }
        };
        let nothing = report.trace.instructions == 0 && !report.program.complete;
        match self.text {
            // A table of zeros would look like a result.
            None if nothing && !self.strict => {
                crate::say!(
                    "mcad: nothing was analysed: {}",
                    escape(&incomplete(report))
                );
            }
            Some(place) => {
                let style = match place.is_stdout() {
                    true => style_of(&io::stdout()).with_functions(self.functions),
                    false => Style::plain().with_functions(self.functions),
                };
                done(place.write(|out| Text.write(report, style, out)));
            }
            None if !self.quiet => {
                let mut stderr = BufWriter::new(io::stderr().lock());
                // Nobody asked for it to be kept, so one that nobody can read is no failure.
                let style = style_of(&io::stderr()).with_functions(self.functions);
                let _ = Text.write(report, style, &mut stderr);
                let _ = stderr.flush();
            }
            None if !report.program.complete && !self.strict => {
                crate::say!("mcad: {}", escape(&incomplete(report)));
            }
            None => {}
        }
        if let Some(place) = self.json {
            done(place.write(|out| Json.write(report, Style::plain(), out)));
        }
        if let Some(place) = self.html {
            done(
                page(report, timeline)
                    .and_then(|page| place.write(|out| page.write(report, Style::plain(), out))),
            );
        }
        if self.strict {
            done(strict(report));
        }
        result
    }
}

/// The page of a report with what a recorded file has.
///
/// # Errors
/// When the timeline cannot be read back.
pub(super) fn page(report: &Report, timeline: Option<&File>) -> anyhow::Result<Html> {
    let Some(mut file) = timeline else {
        return Ok(Html::default());
    };
    file.rewind().context("cannot read the timeline back")?;
    let mut reader = Reader::new(file).context("the timeline")?;
    let timeline = Excerpt::read(&mut reader, report).context("the timeline")?;
    Ok(Html::with(timeline))
}

fn strict(report: &Report) -> anyhow::Result<()> {
    if !report.program.complete {
        anyhow::bail!("--strict: {}", incomplete(report));
    }
    let unknown = &report.unknown_instructions;
    if unknown.count > 0 {
        let worst = unknown.forms.first();
        anyhow::bail!(
            "--strict: {} executed instructions are unknown, most often {}",
            unknown.count,
            worst.map_or("(no form)", |form| form.form.as_str())
        );
    }
    Ok(())
}

/// What is missing of a run or trace that is not complete, in a line.
pub(super) fn incomplete(report: &Report) -> String {
    let lost = report.trace.lost_records;
    let why = match report.trace.why_lost().first() {
        Some(reason) => reason,
        None => report.program.end.as_str(),
    };
    match lost {
        0 => format!("the trace is not complete: {why}"),
        _ => format!("{lost} or more records are missing: {why}"),
    }
}

/// The layout for a stream: the terminal's, or plain.
pub fn style_of(stream: &impl IsTerminal) -> Style {
    if !stream.is_terminal() {
        return Style::plain();
    }
    let variable = |name| std::env::var(name).ok();
    let width = terminal_width().unwrap_or(mcad_viewers::style::DEFAULT_WIDTH);
    Style::terminal(
        width,
        variable("NO_COLOR").as_deref(),
        variable("TERM").as_deref(),
    )
}

fn terminal_width() -> Option<usize> {
    let streams = [
        rustix::termios::tcgetwinsize(io::stderr()),
        rustix::termios::tcgetwinsize(io::stdout()),
    ];
    let width = streams
        .into_iter()
        .flatten()
        .map(|size| size.ws_col)
        .find(|width| *width > 0)?;
    Some(width.into())
}
