//! `mcad view`: shows a JSON report, a recorded timeline or a trace in one of the formats.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::builder::{PossibleValue, PossibleValuesParser};
use mcad_proto::trace::FILE_MAGIC;
use mcad_report::Report;
use mcad_viewers::timeline::read::Reader;
use mcad_viewers::timeline::{MAGIC, chrome, konata, terminal};
use mcad_viewers::{Style, View, views};

use super::analysis::AnalysisArgs;
use super::destination::Destination;
use super::launch::{Launch, status, tell};
use super::output::{page, style_of};
use super::timeline::{for_page, temporary};
use super::{replay, report_file};
use crate::files::path_of;

/// Formats of timelines besides `text`.
const TIMELINE_FORMATS: [(&str, &str); 2] = [
    (
        "chrome",
        "a timeline as trace events for Perfetto and chrome://tracing",
    ),
    ("konata", "a timeline as Konata's pipeline log"),
];

/// Options of `mcad view`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A timeline is recorded with `mcad-run --timeline FILE` or `mcad replay TRACE \
                  --timeline FILE` and is shown as text, chrome or konata; a report as any of the \
                  others. A trace is replayed with the default options and shown in every format."
)]
pub(super) struct Args {
    /// JSON report, timeline or trace; - reads stdin
    file: PathBuf,
    /// How to show it
    #[arg(long, default_value = "text", value_parser = formats())]
    format: String,
    /// Show only this thread of a timeline, as text or konata; the first one otherwise as text
    #[arg(long, value_name = "N")]
    thread: Option<u32>,
    /// Timeline for the page of a report (--format html)
    #[arg(long, value_name = "FILE")]
    timeline: Option<PathBuf>,
    /// Most cycles that the text of a timeline shows
    #[arg(long, value_name = "N", default_value_t = 1000)]
    max_cycles: u64,
    /// Functions that a report's text lists
    #[arg(long, value_name = "N", default_value_t = 12)]
    functions: usize,
    /// Write to FILE instead of stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

fn formats() -> PossibleValuesParser {
    let reports = views()
        .iter()
        .map(|view| PossibleValue::new(view.name()).help(view.description()));
    let timelines = TIMELINE_FORMATS
        .iter()
        .map(|(name, help)| PossibleValue::new(*name).help(*help));
    PossibleValuesParser::new(reports.chain(timelines))
}

/// Shows a report, a timeline or a trace.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let name = args.file.display();
    let mut input = open(&args.file)?;
    let begin = input
        .fill_buf()
        .with_context(|| format!("cannot read {name}"))?;
    if args.timeline.is_some() && args.format != "html" {
        bail!("--timeline belongs to --format html; `mcad view TIMELINE` shows a timeline alone");
    }
    if begin.starts_with(&FILE_MAGIC) {
        return trace(args, input);
    }
    if begin.starts_with(MAGIC) {
        let again = || match args.file.as_os_str() == "-" {
            true => Ok(None),
            false => open(&args.file).map(Some),
        };
        return timeline_of(args, input, &again);
    }
    let report = report_file::read_from(input, &name.to_string())?;
    show(args, &report, None)?;
    Ok(ExitCode::SUCCESS)
}

/// Shows a report; a page has the timeline that the options name, or `recorded`.
fn show(args: &Args, report: &Report, recorded: Option<&File>) -> anyhow::Result<()> {
    let name = args.file.display();
    if args.thread.is_some() {
        bail!("--thread is for timelines, and {name} is none");
    }
    if args.format == "html" {
        let named = args.timeline.as_deref().map(|path| {
            File::open(path).with_context(|| format!("cannot open {}", path.display()))
        });
        let named = named.transpose()?;
        let page = page(report, named.as_ref().or(recorded))?;
        return to_output(args, &mut |style, out| {
            page.write(report, style, out).map_err(Into::into)
        });
    }
    let Some(view) = mcad_viewers::view(&args.format) else {
        bail!(
            "{name} is a report, and the format '{}' needs a timeline: record one with `mcad \
             replay TRACE --timeline FILE` or `mcad-run --timeline FILE`",
            args.format
        );
    };
    to_output(args, &mut |style, out| {
        View::write(view, report, style, out).map_err(Into::into)
    })
}

/// Replays a trace with the default options and shows what comes of it.
fn trace(args: &Args, mut input: impl Read) -> anyhow::Result<ExitCode> {
    // The broker reads files, so what comes through a pipe is stored first.
    let mut stored = None;
    if args.file.as_os_str() == "-" {
        let mut file =
            tempfile::tempfile().context("cannot make a temporary file for the trace")?;
        io::copy(&mut input, &mut file).context("cannot store the trace from stdin")?;
        stored = Some((path_of(&file), file));
    }
    let path = stored
        .as_ref()
        .map_or(args.file.as_path(), |(path, _)| path);
    let (mut source, _) = replay::open(path)?;
    let analysis = AnalysisArgs::default().resolve(source.arch())?;
    let of_uops = TIMELINE_FORMATS
        .iter()
        .any(|(name, _)| *name == args.format);
    let timeline = match args.format.as_str() {
        "html" if args.timeline.is_none() => for_page(&analysis)?,
        _ if of_uops => Some(temporary("all".parse()?)?),
        _ => None,
    };
    let launch = Launch {
        analysis: Some(analysis),
        record: None,
        timeline,
        source_name: format!("replay {}", args.file.display()),
        quiet: false,
        beside: false,
    };
    let outcome = launch.run(&mut source, None);
    let whole = tell(&outcome);
    let recorded = outcome.timeline.as_ref().and_then(|t| t.as_ref().ok());
    match (&outcome.report, recorded) {
        (_, Some(mut file)) if of_uops => {
            file.rewind().context("cannot read the timeline back")?;
            let again = || {
                let mut file = file.try_clone()?;
                file.rewind()?;
                Ok(Some(file))
            };
            timeline_of(args, file, &again)?;
        }
        (Some(report), recorded) => show(args, report, recorded)?,
        (None, _) => bail!("the trace gives no report"),
    }
    Ok(status(&outcome, whole))
}

fn open(path: &Path) -> anyhow::Result<BufReader<Box<dyn Read>>> {
    let input: Box<dyn Read> = if path.as_os_str() == "-" {
        Box::new(io::stdin().lock())
    } else {
        let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        Box::new(file)
    };
    Ok(BufReader::with_capacity(1 << 16, input))
}

/// Shows a timeline; `again` opens it from its beginning, if that can be done.
fn timeline_of<R: Read>(
    args: &Args,
    input: impl Read,
    again: &dyn Fn() -> anyhow::Result<Option<R>>,
) -> anyhow::Result<ExitCode> {
    let name = args.file.display().to_string();
    let mut reader = Reader::new(input).with_context(|| name.clone())?;
    let mut left = Left::default();
    to_output(args, &mut |style, out| {
        match args.format.as_str() {
            "chrome" if args.thread.is_some() => {
                bail!("--thread is for text and konata; chrome has a process for each thread")
            }
            "chrome" => {
                chrome::write(&mut reader, out)?;
            }
            "konata" => left = konata(args, &mut reader, again, out)?,
            "text" => {
                let drawn = terminal::write(&mut reader, style, args.thread, args.max_cycles, out)?;
                left = Left::of(
                    args,
                    drawn.thread,
                    drawn.records + drawn.beyond,
                    drawn.others,
                )?;
                left.beyond = drawn.beyond;
            }
            other => bail!(
                "{name} is a timeline, which is shown as text, chrome or konata; '{other}' needs \
                 a report"
            ),
        }
        Ok(())
    })
    .with_context(|| format!("cannot show {name}"))?;
    left.tell();
    Ok(ExitCode::SUCCESS)
}

/// All threads one after the other, or the one asked for. A stream can be read only once, so that
/// of stdin there is only the first.
fn konata<R: Read>(
    args: &Args,
    reader: &mut Reader<impl Read>,
    again: &dyn Fn() -> anyhow::Result<Option<R>>,
    out: &mut dyn Write,
) -> anyhow::Result<Left> {
    let mut log = konata::Log::new(out)?;
    let first = log.thread(reader, args.thread)?;
    if args.thread.is_some() {
        return Left::of(args, first.thread, first.records, first.others);
    }
    for thread in &first.others {
        let Some(input) = again()? else {
            return Left::of(args, first.thread, first.records, first.others);
        };
        log.thread(&mut Reader::new(input)?, Some(*thread))?;
    }
    Ok(Left::default())
}

/// What of a timeline is not shown.
#[derive(Default)]
struct Left {
    /// The thread that is shown.
    thread: u32,
    others: BTreeSet<u32>,
    beyond: u64,
}

impl Left {
    /// Fails where the thread that was asked for is not there.
    fn of(
        args: &Args,
        thread: Option<u32>,
        records: u64,
        others: BTreeSet<u32>,
    ) -> anyhow::Result<Self> {
        if let Some(wanted) = args.thread.filter(|_| records == 0) {
            bail!("no thread {wanted}; it has {}", list(&others));
        }
        Ok(Self {
            thread: thread.unwrap_or(0),
            others: if args.thread.is_none() {
                others
            } else {
                BTreeSet::new()
            },
            beyond: 0,
        })
    }

    fn tell(&self) {
        if !self.others.is_empty() {
            crate::say!(
                "mcad: thread {} is shown; --thread N shows another of {}",
                self.thread,
                list(&self.others)
            );
        }
        if self.beyond > 0 {
            crate::say!(
                "mcad: {} instructions beyond --max-cycles are not shown",
                self.beyond
            );
        }
    }
}

/// The first threads of many.
fn list(threads: &BTreeSet<u32>) -> String {
    const SHOWN: usize = 16;
    let mut names: Vec<String> = threads.iter().take(SHOWN).map(u32::to_string).collect();
    match threads.len() {
        0 => names.push("no instructions".to_owned()),
        n if n > SHOWN => names.push(format!("… ({n} in all)")),
        _ => {}
    }
    names.join(", ")
}

fn to_output(
    args: &Args,
    write: &mut dyn FnMut(Style, &mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let output = Destination::open(args.output.as_deref().unwrap_or(Path::new("-")))?;
    let style = match output.is_stdout() {
        true => style_of(&io::stdout()),
        false => Style::plain(),
    };
    output.write(|out| write(style.with_functions(args.functions), out))
}
